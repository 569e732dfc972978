"""Results of the benchmark: rows of figures, their file, and comparisons of two results."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isclose
from pathlib import Path
from typing import Any, Final

from wane.core.errors import FormatError, WaneError
from wane.lab.best_budget import frontier
from wane.lab.columns import Column
from wane_research.bench.figures import Figures, total
from wane_research.bench.running import BASELINE, PRICED, PRICES, Cell, Subject
from wane_research.bench.sources import Source

FORMAT: Final = 1
TOLERANCE: Final = 1e-9  # largest relative difference of two equal sums of fractions; counts must be the same

COLUMNS: Final = (
    Column("view", "tokens", "mean tokens of a request, with system prompt and tools; it says nothing of the largest"),
    Column(
        "ratio",
        "ratio",
        "dollars for all model calls, relative to never evicting; without fetching again, and as if the agent worked "
        "the same whatever it saw",
        "less",
    ),
    Column(
        "rewrites",
        "count",
        "requests that did not begin with the whole one before, so that the provider's cache missed from there; not "
        "how much was behind that point, which is in the cost",
        "less",
    ),
    Column(
        "recall",
        "share",
        "share still in view of the names and paths that calls used and that had occurred before; a range where a "
        "summary has no text; needs without a name do not count",
        "more",
    ),
    Column(
        "grounding",
        "share",
        "share of the edits of files read before whose latest read was in view unchanged; not whether an older read "
        "would have done",
        "more",
    ),
    Column(
        "faults",
        "count",
        "calls made again whose earlier result was no longer in view; only calls that were made again anyway",
        "less",
    ),
    Column(
        "evidence",
        "share",
        "ctxkernel's evidence recall: the share of the names in a call, not said by the user, that the view held, as "
        "the mean over calls; an order or a number without a name does not count",
        "more",
    ),
    Column(
        "words",
        "share",
        "share of the user's tokens so far that the view held byte for byte, as the mean over calls; what a summary "
        "says of them does not count",
        "more",
    ),
    Column("lowest", "share", "the lowest such share at any call of any recording", "more"),
)
"""The columns of a result, each with what it leaves out."""


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy at a budget over all recordings."""

    strategy: str
    budget: int | None  # tokens that a view might hold; None for BASELINE
    figures: Figures

    @property
    def name(self) -> str:
        return self.strategy if self.budget is None else f"{self.strategy} at {self.budget:,}"


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, and who measured them with what."""

    author: str  # who ran it, as they call themselves; empty if nobody said
    date: str  # the day
    versions: Mapping[str, str]  # of Wane, of the code that the figures depend on (a digest), and of libraries
    python: str  # version of Python
    recordings: tuple[Mapping[str, Any], ...]  # name, source, licence, digest, calls and tokens of each recording
    rows: tuple[Row, ...]  # BASELINE first, then by budget, in the order of strategies

    @property
    def baseline(self) -> Figures:
        return next(row.figures for row in self.rows if row.strategy == BASELINE)

    @property
    def budgets(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.budget for row in self.rows if row.budget is not None))

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that evict, in the order of rows."""
        return tuple(dict.fromkeys(row.strategy for row in self.rows if row.strategy != BASELINE))

    @property
    def frontier(self) -> list[Row]:
        """Rows that no other row beats at cost and recall, cheapest first; of a range of recall, the lower end."""
        return frontier(self.rows, lambda row: row.figures.cost, lambda row: row.figures.recall)

    def values(self, row: Row) -> dict[str, float]:
        figures, cost = row.figures, self.baseline.cost
        return {
            "view": figures.view,
            "ratio": figures.cost / cost if cost else 0.0,
            "rewrites": figures.rewrites,
            "recall": figures.recall,
            "grounding": figures.grounding,
            "faults": figures.faults,
            "evidence": figures.evidence_recall,
            "words": figures.words_share,
            "lowest": figures.words_lowest,
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "benchmark": "wane lab bench",
            "format": FORMAT,
            "author": self.author,
            "date": self.date,
            "versions": dict(self.versions),
            "python": self.python,
            "prices": {"model": PRICES.name, "copied": PRICED},
            "recordings": [dict(recording) for recording in self.recordings],
            "rows": [asdict(row) for row in self.rows],
        }


def make_result(
    sources: Sequence[Source],
    subjects: Sequence[Subject],
    cells: Mapping[Cell, Figures],
    used: Mapping[str, str],
    author: str,
    date: str,
) -> Result:
    by_row: dict[tuple[str, int], list[Figures]] = {}
    for cell, figures in cells.items():
        by_row.setdefault((cell.strategy, cell.budget), []).append(figures)
    rows = [Row(strategy, budget or None, total(figures)) for (strategy, budget), figures in by_row.items()]
    recordings = [(source, recording) for source in sources for recording in source.recordings]
    described: list[dict[str, Any]] = []
    for (source, recording), subject in zip(recordings, subjects, strict=True):
        entry: dict[str, Any] = {"name": recording.name, "source": source.repository, "licence": source.licence}
        entry["sha256"] = recording.sha256
        entry["calls"] = len(subject.studied.recording.session.own_calls)
        entry["tokens"] = sum(item.tokens for item in subject.studied.subject.material.own_items)
        described.append(entry)
    return Result(author, date, used, platform.python_version(), tuple(described), tuple(rows))


def at_view(result: Result, strategy: str, view: float) -> dict[str, float] | None:
    """Return a strategy's columns at a mean view, interpolated between the two budgets whose views lie around it.

    None if the view is outside those of all budgets. The lowest share is not a mean, so it is left out.

    `view`: mean tokens of a request.
    """
    points = sorted((result.values(row) for row in result.rows if row.strategy == strategy), key=lambda at: at["view"])
    for low, high in pairwise(points):
        if low["view"] <= view <= high["view"] and low["view"] < high["view"]:
            part = (view - low["view"]) / (high["view"] - low["view"])
            return {name: low[name] + part * (high[name] - low[name]) for name in low if name != "lowest"}
    return None


def read_result(path: Path) -> Result:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WaneError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(f"{path} is not JSON: {error}") from error
    try:
        if not isinstance(data, dict) or data.get("benchmark") != "wane lab bench":
            raise FormatError("it is not a result of wane lab bench")
        if data["format"] != FORMAT:
            raise FormatError(f"its format is {data['format']!r:.20}; this version reads {FORMAT}")
        if data["prices"] != {"model": PRICES.name, "copied": PRICED}:
            raise FormatError(f"its prices are not those of {PRICES.name}, copied on {PRICED}")
        rows = [Row(row["strategy"], row["budget"], Figures.read_from(row["figures"])) for row in data["rows"]]
        if not any(row.strategy == BASELINE for row in rows):
            raise FormatError(f"it has no row of {BASELINE}")
        author, date, used = data["author"], data["date"], data["versions"]
        if not isinstance(used, dict) or not isinstance(author, str) or not isinstance(date, str):
            raise FormatError("author or date is not text, or versions is not a table")
        return Result(author, date, used, data["python"], tuple(data["recordings"]), tuple(rows))
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a complete result: {error!r}") from error
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def differences(expected: Result, measured: Result) -> Iterator[str]:
    """Yield a sentence for each figure of the rows measured that differs from the expected one, or has none."""
    rows = {(row.strategy, row.budget): row for row in expected.rows}
    for row in measured.rows:
        other = rows.get((row.strategy, row.budget))
        if other is None:
            yield f"{row.name}: the result has no such row"
            continue
        expected_figures = asdict(other.figures)
        for name, value in asdict(row.figures).items():
            expected_value = expected_figures[name]
            tolerance = TOLERANCE if isinstance(value, float) else 0.0
            if not isclose(value, expected_value, rel_tol=tolerance):
                yield f"{row.name}: {name} is {value:,}; the result has {expected_value:,}"


def changed_versions(expected: Result, measured: Result) -> Iterator[str]:
    """Yield a sentence for each version that differs, among those that both results depend on."""
    for name in measured.versions.keys() & expected.versions.keys():
        if measured.versions[name] != expected.versions[name]:
            yield f"{name} is {measured.versions[name]} here, and was {expected.versions[name]} for the result"

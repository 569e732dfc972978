"""The columns of comparisons: one table of them for the terminal, pages, JSON and `docs/lab/replay.md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from wane.words import HEADINGS

Unit = Literal["usd", "ratio", "tokens", "share", "count", "decimal", "ms"]

_SUFFIXES: Final[Mapping[Unit, str]] = {"usd": "_usd", "tokens": "_tokens", "ms": "_ms"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: with underscores and its unit, its key in JSON; `wane.words` may have another heading for it.
        unit: how to format it.
        help: its meaning, in one line.
        better: whether less or more is better; empty if neither is.
    """

    name: str
    unit: Unit
    help: str
    better: Literal["less", "more", ""] = ""

    @property
    def key(self) -> str:
        """Its key in the JSON of `wane replay` and `wane sweep`."""
        name = self.name.replace(" ", "_").replace("/", "_per_")
        return f"{name}{_SUFFIXES.get(self.unit, '')}"

    @property
    def title(self) -> str:
        """Its heading."""
        return HEADINGS.get(self.name, self.name)


COLUMNS: Final = (
    Column("cost", "usd", "of all model calls with prefix caching, the strategy's own included"),
    Column(
        "ratio",
        "ratio",
        "that cost relative to never evicting, even beyond the window; fetching again is in neither",
    ),
    Column("again", "usd", "what fetching evicted content again would cost on top"),
    Column("total", "usd", "cost and fetching again together; what is best is told by this", "less"),
    Column("view", "tokens", "mean tokens of a request"),
    Column("peak", "tokens", "tokens of the largest request"),
    Column(
        "recall",
        "share",
        "share still in view of the names and paths that calls used and that had occurred before; a range where a "
        "summary may have held more",
        "more",
    ),
    Column(
        "grounding",
        "share",
        "share of the edits of files read before whose latest read was still in view",
        "more",
    ),
    Column("turns", "share", "share of the user's turns that every view held unchanged", "more"),
    Column(
        "breaks",
        "share",
        "share of the requests that did not continue the one before, so that the cache missed",
    ),
    Column("over", "count", "requests over the budget that was set", "less"),
    Column("cached", "share", "share of the input tokens that the provider's cache served"),
    Column("fetches", "count", "times that evicted content would have to be fetched again", "less"),
    Column("fetched", "tokens", "tokens that these fetches would bring", "less"),
    Column("repeats", "count", "calls that had been made before, of the same tool with the same arguments"),
    Column("faults", "count", "such calls whose earlier result was no longer in view", "less"),
    Column("passes", "count", "times that something was evicted"),
    Column("own calls", "count", "model calls that the strategy itself made, to summarise", "less"),
    Column("broken pairs", "count", "tool calls shown without their result, or the reverse, over all requests", "less"),
    Column("own time", "ms", "milliseconds per call that the strategy itself took"),
)
"""The columns of a comparison; `columns_of` picks some by name."""

SWEPT: Final = (
    Column("of last", "ratio", "cost relative to the same strategy at its largest budget"),
    Column("fetches/100", "decimal", "such fetches in 100 model calls, each one more call to wait for", "less"),
)
"""The further columns of a sweep."""


def columns_of(*names: str) -> list[Column]:
    """Return columns by name, in that order."""
    columns = {column.name: column for column in (*COLUMNS, *SWEPT)}
    return [columns[name] for name in names]


def columns_dict() -> list[dict[str, Any]]:
    """Return the columns of a comparison as JSON-able data."""
    return [asdict(column) | {"key": column.key, "title": column.title} for column in COLUMNS]


def notes(columns: Iterable[Column]) -> str:
    """Return the meaning of columns, as text."""
    return " ".join(f"{column.title}: {column.help}." for column in columns)

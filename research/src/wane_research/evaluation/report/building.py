"""Reads the results of runs and puts a report together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wane.journal.codec import encode
from wane_research.evaluation.report.marking import MarkingEffect, marking_effects
from wane_research.evaluation.report.paper import BUDGET, MARGIN, MODEL, PUBLISHED, Published
from wane_research.evaluation.report.rows import UNGRADED, Row, row_of, table_of
from wane_research.evaluation.report.sessions import View, sessions_of
from wane_research.evaluation.report.words import Limits, cannot_show
from wane_research.evaluation.results import Arm, Run, RunResults, find, read
from wane_research.evaluation.statistics import chance, within_variance


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of the paper, with the difference that chance alone may make.

    Attributes:
        published: the row.
        chance: the distance within which two equal arms of its size land in 95 of 100 cases, by the spread of the
            trials of this benchmark here; None if there is no spread.
    """

    published: Published
    chance: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report shows.

    Attributes:
        rows: the arms, by benchmark and model; isolated ones ahead of the single sessions that are compared with them.
        runs: the headers of all runs.
        views: the view over the calls of single sessions.
        marking: arms that differ only in who marks episodes, compared.
        paper: the paper's rows.
        cannot: the limits of these data.
        remarks: incomplete or ignored data, in sentences.
    """

    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    views: tuple[View, ...]
    marking: tuple[MarkingEffect, ...]
    paper: tuple[PaperRow, ...]
    cannot: tuple[Limits, ...]
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-able data."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "runs": [encode(run) for run in self.runs],
            "views": [view.to_dict() for view in self.views],
            "marking": [effect.to_dict() for effect in self.marking],
            "paper": {
                "model": MODEL,
                "budget": BUDGET,
                "margin": MARGIN,
                "rows": [{**asdict(row.published), "chance": row.chance} for row in self.paper],
            },
            "cannot_show": [asdict(limits) for limits in self.cannot],
            "remarks": list(self.remarks),
        }


def report(places: Iterable[Path]) -> Report:
    """Return the report of all runs in some folders.

    Args:
        places: folders, or files of results.

    Raises:
        OSError: if a file cannot be read.
        ResultsError: if a place holds no results, or a file is damaged or of another version.
    """
    all_runs = [read(path) for path in find(places)]
    remarks = [run.remark for run in all_runs if run.remark]
    remarks += [_empty(run) for run in all_runs if not any(trial.counts for trial in run.trials)]
    distinct = _distinct(all_runs, remarks)
    arms: dict[Arm, list[RunResults]] = {}
    for results in distinct:
        if any(trial.counts for trial in results.trials):
            arms.setdefault(results.run.arm, []).append(results)
    rows: list[Row] = []
    views: list[View] = []
    for arm in sorted(arms, key=_sort_key):
        runs = arms[arm]
        sessions = sessions_of(runs)
        remarks += sessions.remarks
        views += sessions.views
        baseline = _baseline(arm, arms)
        rows.append(row_of(arm, runs, arms[baseline] if baseline else [], sessions.annotations))
        remarks += _incomplete(rows[-1], runs)
    return Report(
        rows=tuple(rows),
        runs=tuple(results.run for results in distinct),
        views=tuple(views),
        marking=marking_effects({row.arm: arms[row.arm] for row in rows}),
        paper=tuple(PaperRow(row, _chance(row, arms)) for row in PUBLISHED),
        cannot=tuple(cannot_show(rows)),
        remarks=tuple(remarks),
    )


def _sort_key(arm: Arm) -> tuple[str, str, str, str, int, str]:
    return (arm.benchmark, arm.model, arm.protocol, arm.strategy, arm.budget or 0, arm.annotate or "")


def _distinct(runs: Sequence[RunResults], remarks: list[str]) -> list[RunResults]:
    """The runs, in order; of several files of the same run, only the one with the most trials."""
    best: dict[tuple[Arm, int], RunResults] = {}
    for run in runs:
        key = (run.run.arm, run.run.run)
        earlier = best.get(key)
        if earlier is not None:
            remarks.append(f"{run.path} and {earlier.path} hold the same run; the one with more trials counts")
        if earlier is None or len(run.trials) > len(earlier.trials):
            best[key] = run
    return sorted(best.values(), key=lambda run: (_sort_key(run.run.arm), run.run.run))


def _baseline(arm: Arm, arms: Iterable[Arm]) -> Arm | None:
    """The isolated sessions to compare an arm with: of its strategy and budget if possible, else of `none`."""
    if arm.protocol == "isolated":
        return None
    alike = [
        candidate
        for candidate in arms
        if candidate.protocol == "isolated" and (candidate.benchmark, candidate.model) == (arm.benchmark, arm.model)
    ]
    same = [candidate for candidate in alike if replace(candidate, protocol=arm.protocol) == arm]
    return min(same or [candidate for candidate in alike if candidate.strategy == "none"], key=_sort_key, default=None)


def _empty(results: RunResults) -> str:
    """Say why a run is in no table."""
    causes = Counter(trial.ended_by or UNGRADED for trial in results.trials)
    named = ", ".join(f"{cause} {number:,}" for cause, number in causes.items())
    return f"{results.path}: no trial counts: {named}" if causes else f"{results.path}: no trial yet"


def _incomplete(row: Row, runs: Sequence[RunResults]) -> list[str]:
    arm, remarks = row.arm, []
    name = f"{arm.benchmark}, {arm.model}, {arm.strategy_text}, {arm.protocol}"
    if row.missing:
        remarks.append(f"{name}: planned trials without a result: {row.missing:,}; the score is of the others.")
    if ungraded := row.errors.get(UNGRADED):
        remarks.append(
            f"{name}: {ungraded:,} trials ended without an error and were not graded; they do not count until "
            '"wane eval grade" takes in the verdicts of a grader.'
        )
    if causes := {cause: number for cause, number in row.uncounted.items() if cause != UNGRADED}:
        named = ", ".join(f"{cause} {number:,}" for cause, number in causes.items())
        remarks.append(f"{name}: in no score: {named}.")
    if row.waited >= 1:
        remarks.append(
            f"{name}: {row.waited:,.0f} seconds were lost to a provider that failed; no task's time has them."
        )
    partly: dict[str, list[str]] = {}
    for what, total in row.took.items():
        if total.exact is None and not total.unknown:
            partly.setdefault(f"{total.known_trials:,} of {total.of:,} trials", []).append(what.replace("_", " "))
    remarks += [f"{name}: known of {trials} alone: {', '.join(whats)}." for trials, whats in partly.items()]
    if len({frozenset(run.run.order) for run in runs}) > 1:
        remarks.append(f"{name}: its runs have different tasks; the score is the mean over all of them.")
    if len({run.run.margin for run in runs}) > 1:
        remarks.append(f"{name}: its runs set different margins; the smallest counts.")
    if len({run.run.new_environment for run in runs}) > 1:
        remarks.append(f"{name}: its runs told the model of a new environment in different words.")
    if row.compared and row.compared.difference.tasks < row.score.tasks:
        shared = row.compared.difference.tasks
        remarks.append(f"{name}: only {shared:,} of its {row.score.tasks:,} tasks were tried in isolation too.")
    return remarks


def _chance(row: Published, arms: dict[Arm, list[RunResults]]) -> float | None:
    spreads = [
        spread
        for arm, runs in arms.items()
        if arm.benchmark == row.benchmark and (spread := within_variance(table_of(runs))) is not None
    ]
    if not spreads or row.tasks is None:
        return None
    return chance(max(spreads), row.tasks, row.runs)

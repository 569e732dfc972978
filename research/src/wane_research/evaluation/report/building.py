"""Reads the results of runs and their journals, and puts a report together."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from wane.core.errors import WaneError
from wane.journal import ConfigRecord
from wane.journal import read as read_journal
from wane.journal.codec import encode
from wane.lab.counting import count
from wane.lab.readers import read_file
from wane.lab.recorded_session import RecordedSession
from wane_research.annotations import Annotations, annotations_of
from wane_research.evaluation.report.marking import MarkingEffect, marking_effects
from wane_research.evaluation.report.rows import UNGRADED, Limits, Row, cannot_show, row_of, table_of
from wane_research.evaluation.results import Arm, Run, RunResults, find, read
from wane_research.evaluation.running.journals import journals_in
from wane_research.evaluation.statistics import chance, within_variance


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the paper."""

    benchmark: str  # its name, as results here name it
    title: str  # its name, as people write it
    tasks: int | None  # number of tasks; None if the paper does not give it
    runs: int  # runs of each arm
    single: float  # score of one session through all tasks
    isolated: float  # score of a session per task


MODEL: Final = "GPT-5.4"
BUDGET: Final = 80_000
MARGIN: Final = 0.03  # the paper speaks of differences of at most three points

PUBLISHED: Final = (
    Published("terminal-bench-2.0", "Terminal-Bench 2.0", 89, 5, 0.6825, 0.6840),
    Published("swe-bench-lite", "SWE-bench Lite", 50, 3, 0.43, 0.40),
    Published("recovery-bench", "Recovery-Bench", None, 3, 0.668, 0.6975),
    Published("longcli-bench", "LongCLI-Bench", 20, 3, 0.20, 0.20),
)
"""All rows. The paper has neither variances nor the scores of single runs."""


@dataclass(frozen=True, slots=True)
class View:
    """The size of the view over the calls of a session."""

    arm: Arm
    run: int
    tokens: tuple[int, ...]  # by model call, the tokens of its request, as the provider reported them
    passes: tuple[int, ...]  # numbers of the model calls, from 0, before which something was evicted

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self.arm), "run": self.run, "tokens": list(self.tokens), "passes": list(self.passes)}


def _read_journals(runs: Sequence[RunResults], views: list[View], remarks: list[str]) -> Annotations | None:
    """Read the journals of an arm's runs, and return how the agent marked its work; None without a journal.

    Appends the views of sessions through several tasks to `views`, and problems to `remarks`.
    """
    total: Annotations | None = None
    lowered: list[int] = []
    for run in runs:
        for path in _journals(run):
            try:
                sessions = read_file(path)
                lowest = _lowest_budget(path)
            except (WaneError, OSError) as error:
                remarks.append(f"A journal could not be read: {error}")
                continue
            budget = run.run.arm.budget
            if budget is not None and lowest is not None and lowest < budget:
                lowered.append(lowest)
            for session in sessions:
                total = (total or Annotations()) + annotations_of(count(session))
                view = _view(run, session)
                if run.run.arm.protocol == "single" and view.tokens:
                    views.append(view)
    if lowered:
        remarks.append(
            f"{_name(runs[0].run.arm)}: the provider refused views of its budget, so it was lowered, to "
            f"{min(lowered):,} tokens at the lowest (sessions: {len(lowered):,})."
        )
    return total


def _journals(run: RunResults) -> list[Path]:
    """Return the journals of a run; of a single session only the last, which holds the earlier tasks too."""
    named = [trial for trial in run.trials if trial.journal]
    folder = run.path.parent
    if run.run.arm.protocol == "single":
        named = named[-1:]
    paths: list[Path] = []
    for trial in named:
        inside: tuple[Path, ...] = ()
        if trial.steps and trial.directory:
            # In isolated sessions, each step of a task has a session of its own.
            inside = journals_in(folder / trial.directory)
        paths += inside or [folder / trial.journal]
    return list(dict.fromkeys(paths))


def _lowest_budget(journal: Path) -> int | None:
    budgets = [record.budget for record in read_journal(journal).records if isinstance(record, ConfigRecord)]
    return min(budgets, default=None)


def _view(run: RunResults, session: RecordedSession) -> View:
    reported = [call for call in session.calls if call.usage is not None and call.usage.total_input]
    firsts = [call.first for call in reported]
    tokens = tuple(call.usage.total_input for call in reported if call.usage is not None)
    positions = [eviction.position for eviction in session.evictions]
    positions += [compaction.position for compaction in session.compactions]
    # A pass runs ahead of the call that comes next.
    calls = {bisect_left(firsts, position) for position in positions}
    return View(run.run.arm, run.run.run, tokens, tuple(sorted(call for call in calls if call < len(firsts))))


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of the paper, with the difference that chance alone may make."""

    published: Published  # the row
    # How far apart two equal arms of its size land in 95 of 100 cases, by the spread of this benchmark's trials here;
    # None if the spread is unknown
    chance: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report shows."""

    rows: tuple[Row, ...]  # the arms, by benchmark and model; isolated ones before single ones
    runs: tuple[Run, ...]  # the headers of all runs
    views: tuple[View, ...]  # the view over the calls of single sessions
    marking: tuple[MarkingEffect, ...]  # arms that differ only in who marks episodes, compared
    paper: tuple[PaperRow, ...]  # the paper's rows
    cannot: tuple[Limits, ...]  # the limits of these data
    remarks: tuple[str, ...]  # incomplete or ignored data, in sentences

    def to_dict(self) -> dict[str, Any]:
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
    """Return the report of all runs in some folders or files of results."""
    all_runs = [read(path) for path in find(places)]
    remarks = [run.remark for run in all_runs if run.remark]
    remarks += [_empty(run) for run in all_runs if not _counts(run)]
    distinct = _distinct(all_runs, remarks)
    arms: dict[Arm, list[RunResults]] = {}
    for results in distinct:
        if _counts(results):
            arms.setdefault(results.run.arm, []).append(results)
    rows: list[Row] = []
    views: list[View] = []
    for arm in sorted(arms, key=_sort_key):
        runs = arms[arm]
        annotations, baseline = _read_journals(runs, views, remarks), _baseline(arm, arms)
        rows.append(row_of(arm, runs, arms[baseline] if baseline else [], annotations))
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


def _counts(results: RunResults) -> bool:
    return any(trial.counts for trial in results.trials)


def _name(arm: Arm) -> str:
    return f"{arm.benchmark}, {arm.model}, {arm.strategy_text}, {arm.protocol}"


def _sort_key(arm: Arm) -> tuple[str, str, str, str, int, str]:
    return (arm.benchmark, arm.model, arm.protocol, arm.strategy, arm.budget or 0, arm.annotate or "")


def _distinct(runs: Sequence[RunResults], remarks: list[str]) -> list[RunResults]:
    """Return the runs, in order; of several files of the same run, only the one with the most trials."""
    best: dict[tuple[Arm, int], RunResults] = {}
    for run in runs:
        key = (run.run.arm, run.run.run)
        earlier = best.get(key)
        if earlier is not None:
            remarks.append(f"{run.path} and {earlier.path} hold the same run; the one with more trials counts")
        if earlier is None or len(run.trials) > len(earlier.trials):
            best[key] = run
    return sorted(best.values(), key=lambda run: (_sort_key(run.run.arm), run.run.run))


def _baseline(arm: Arm, arms: Collection[Arm]) -> Arm | None:
    """Return the isolated sessions to compare an arm with: of its strategy and budget, or else of `none`."""
    if arm.protocol == "isolated":
        return None
    same = replace(arm, protocol="isolated")
    if same in arms:
        return same
    alike = [other for other in arms if (other.benchmark, other.model) == (arm.benchmark, arm.model)]
    alike = [other for other in alike if (other.protocol, other.strategy) == ("isolated", "none")]
    return min(alike, key=_sort_key, default=None)


def _empty(results: RunResults) -> str:
    causes = Counter(trial.ended_by or UNGRADED for trial in results.trials)
    named = ", ".join(f"{cause} {number:,}" for cause, number in causes.items())
    return f"{results.path}: no trial counts: {named}" if causes else f"{results.path}: no trial yet"


def _incomplete(row: Row, runs: Sequence[RunResults]) -> list[str]:
    remarks: list[str] = []
    name = _name(row.arm)
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
            f"{name}: {row.waited:,.0f} seconds were lost to a provider that failed; they are not in any task's time."
        )
    partly: dict[str, list[str]] = {}
    for what, total in row.took.items():
        if total.exact is None and not total.unknown:
            partly.setdefault(f"{total.known_trials:,} of {total.of:,} trials", []).append(what.replace("_", " "))
    remarks += [f"{name}: known only for {trials}: {', '.join(whats)}." for trials, whats in partly.items()]
    if len({frozenset(run.run.order) for run in runs}) > 1:
        remarks.append(f"{name}: its runs have different tasks; the score is the mean over all of them.")
    if len({run.run.margin for run in runs}) > 1:
        remarks.append(f"{name}: its runs set different margins; the smallest counts.")
    if len({run.run.new_environment for run in runs}) > 1:
        remarks.append(f"{name}: its runs told the model of a new environment in different words.")
    if row.compared and row.compared.difference.tasks < row.score.tasks:
        shared = row.compared.difference.tasks
        remarks.append(f"{name}: only {shared:,} of its {row.score.tasks:,} tasks were also tried in isolation.")
    return remarks


def _chance(row: Published, arms: dict[Arm, list[RunResults]]) -> float | None:
    spreads = [within_variance(table_of(runs)) for arm, runs in arms.items() if arm.benchmark == row.benchmark]
    known = [spread for spread in spreads if spread is not None]
    if not known or row.tasks is None:
        return None
    return chance(max(known), row.tasks, row.runs)

"""The rows of the report: an arm each, with its scores, its usage, and what its data cannot show, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from statistics import fmean
from typing import Any, Final

from wane_research.annotations import Annotations
from wane_research.evaluation.results import Arm, ContextFigures, RunResults, Total, Trial
from wane_research.evaluation.statistics import (
    Difference,
    Drift,
    Interval,
    Score,
    Table,
    Verdict,
    bootstrap,
    detectable,
    difference,
    drift,
    pass_all,
    pass_at,
    score,
    wilson,
)

WINDOW: Final = 10  # positions that a point of the plot over positions spans
EDGE: Final = 0.1  # scores this close to 0 or 1 get Wilson's interval, which stays within these bounds


_SAME: Final = 1e-9  # shares this close are the same

UNGRADED: Final = "not graded"
"""The kind of a trial without an error that has no reward, such as one of SWE-bench before its grader ran."""

TOKENS: Final = ("model_calls", "input_tokens", "cached_tokens", "output_tokens")
"""Figures of usage in a report, besides the cost."""

CONTEXT: Final = tuple(field.name for field in fields(ContextFigures))  # figures of the context, and of the work

WORK: Final = ("explored_first", "repeated", "unended")
"""Those of the work, which a report shows where they are compared."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An arm compared with another."""

    to: Arm  # the other arm
    difference: Difference  # this arm's score minus the other's
    drawn: Interval | None  # its 95 % bootstrap interval, over tasks and the runs of each; None with one task
    uncounted: tuple[float, float]  # the shares of this arm's and of the other's planned trials that do not count

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None if the arms differ in the share of trials that do not count.

        What does not count is seldom a fair sample: the rest of an arm may be the easier tasks.
        """
        own, baseline = self.uncounted
        return self.difference.verdict if abs(own - baseline) < _SAME else None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of positions in a session."""

    first: int
    last: int
    score: float  # mean score from position `first` to `last`
    other: float | None  # mean score of the same tasks in the arm that this one is compared with; None without one
    trials: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a task of several steps."""

    task: str
    step: str  # the step's name
    reward: float  # its mean reward, from 0 to 1; a step that was not graded counts 0
    trials: int  # number of trials that have the step


@dataclass(frozen=True, slots=True)
class Row:
    """An arm and all that is known about it."""

    arm: Arm
    margin: float  # differences below this count as none
    score: Score  # its score with its errors, over the trials that count
    benchmark_tasks: int | None  # all that the benchmark has, chosen or not; None if not known
    interval: Interval | None  # of 95 % for the score, over draws of tasks; None if unknown, as for one task
    missing: int  # number of trials that its runs plan and do not have
    uncounted: Mapping[str, int]  # trials in no score, by what ended them, or not graded without an error
    compared: Compared | None  # its comparison with isolated sessions; None if it is one of them, or there are none
    drift: Drift | None  # how the score changes with the position; None if every run has the same order
    windows: tuple[Window, ...]  # the score by position
    steps: tuple[Step, ...]  # the steps of tasks that have several, in order
    passed: Mapping[int, tuple[float, float]]  # by k, how likely one of k tries, and all of them, solve a task
    errors: Mapping[str, int]  # all trials that ended in an error or were not graded, likewise
    exceptions: Mapping[str, int]  # the same, by name
    took: Mapping[str, Total]  # by name: those of `TOKENS`, `cost` in dollars, and those of `CONTEXT`
    abandoned: Total  # dollars of trials that were stopped and tried again
    seconds: float | None  # mean that the agent worked, over trials of which it is known; None if there are none
    timed: int  # number of these trials
    waited: float  # seconds that the trials lost to a provider that failed, as far as they are known
    annotations: Annotations | None  # how the agent marked its work; None without journals

    @property
    def tasks_text(self) -> str:
        """The number of tried tasks, with the number of all tasks if some were not tried: `23 of 89`."""
        all_tasks = self.benchmark_tasks or 0
        return f"{self.score.tasks:,} of {all_tasks:,}" if self.score.tasks < all_tasks else f"{self.score.tasks:,}"

    @property
    def cost(self) -> Total:
        """Dollars of all trials, including abandoned ones."""
        return self.took["cost"] + self.abandoned

    def per_run(self, total: Total) -> Total:
        """Return the mean of a run: a lower bound if a trial's figure is not known, or planned trials are missing."""
        return Total(total.at_least / self.score.runs, total.known_trials, total.of + self.missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON-able data: shares from 0 to 1, dollars, tokens and seconds."""
        by_task, by_run, sinking = self.score.by_task, self.score.by_run, self.drift
        return {
            **asdict(self.arm),
            "tasks": self.score.tasks,
            "benchmark_tasks": self.benchmark_tasks,
            "runs": self.score.runs,
            "trials": self.score.trials,
            "missing": self.missing,
            "not_counted": dict(self.uncounted),
            "score": self.score.value,
            "se_by_task": by_task and by_task.se,
            "se_by_run": by_run and by_run.se,
            "se_naive": self.score.naive,
            "ci95": _ends(self.interval),
            # Runs that came out the same do not show that all would.
            "ci95_by_run": _ends(by_run.interval(self.score.value) if by_run and by_run.se else None),
            "pass_at": {str(k): any_passed for k, (any_passed, _) in self.passed.items()},
            "pass_all": {str(k): all_passed for k, (_, all_passed) in self.passed.items()},
            "difference": self.compared and _compared_dict(self.compared),
            "drift_per_10": sinking and sinking.slope,
            "drift_ci95": _ends(sinking.error.interval(sinking.slope) if sinking and sinking.error else None),
            "windows": [asdict(window) for window in self.windows],
            "steps": [asdict(step) for step in self.steps],
            "errors": dict(self.errors),
            "exceptions": dict(self.exceptions),
            **self._took_dict(),
            "seconds_per_task": self.seconds,
            "timed_trials": self.timed,
            "waited_seconds": self.waited,
            "annotations": self.annotations and self.annotations.to_dict(),
        }

    def _took_dict(self) -> dict[str, Any]:
        """The figures of usage and context: null unless known of every trial; beside them what is known at least."""
        named = {"cost_usd" if name == "cost" else name: total for name, total in self.took.items()}
        named |= {"abandoned_cost_usd": self.abandoned, "cost_per_run_usd": self.per_run(self.cost)}
        return {
            **{name: total.exact for name, total in named.items()},
            "at_least": {name: None if total.unknown else total.at_least for name, total in named.items()},
            "known_trials": {name: total.known_trials for name, total in self.took.items()},
        }


def row_of(
    arm: Arm, runs: Sequence[RunResults], baseline: Sequence[RunResults], annotations: Annotations | None
) -> Row:
    """Return the row of an arm.

    `runs`: its runs, with at least one trial that counts.
    `baseline`: the runs that it is compared with; may be empty.
    `annotations`: how its agent marked its work, if known.
    """
    trials = [trial for run in runs for trial in run.trials]
    tried = [trial for trial in trials if trial.counts]
    table, baseline_table = table_of(runs), table_of(baseline)
    total = score(table)
    margin = min(run.run.margin for run in runs)
    seconds = [trial.seconds for trial in trials if trial.seconds is not None]
    return Row(
        arm=arm,
        margin=margin,
        score=total,
        benchmark_tasks=max((run.run.benchmark_tasks or 0 for run in runs), default=0) or None,
        interval=_interval(total, table),
        missing=sum(len(run.missing) for run in runs),
        uncounted=Counter(_why_not(trial) for trial in trials if not trial.counts),
        compared=_compared(table, baseline_table, runs, baseline, margin),
        drift=drift(table, table_of(runs, lambda trial: trial.position)),
        windows=tuple(_windows(tried, baseline_table)),
        steps=tuple(_steps(tried)),
        passed=_passed(table),
        errors=Counter(filter(None, map(_why_not, trials))),
        exceptions=Counter(trial.error for trial in trials if trial.error),
        took=_took(arm, trials),
        abandoned=Total.cost(trial.usage for run in runs for trial in run.abandoned),
        seconds=fmean(seconds) if seconds else None,
        timed=len(seconds),
        waited=sum(trial.waited or 0.0 for trial in trials),
        annotations=annotations,
    )


def _why_not(trial: Trial) -> str:
    if trial.reward is None and not trial.error:
        return UNGRADED
    return trial.ended_by or ""


def _took(arm: Arm, trials: Sequence[Trial]) -> dict[str, Total]:
    values_by_name: dict[str, list[int | None]] = {
        name: [getattr(trial.usage, name) for trial in trials] for name in TOKENS
    }
    values_by_name |= {name: [getattr(trial.context, name, None) for trial in trials] for name in CONTEXT}
    if arm.budget is None:
        values_by_name["over_budget"] = [None] * len(trials)
    took = {}
    for name, values in values_by_name.items():
        reported = [value for value in values if value is not None]
        partly = sum(trial.usage.unreported > 0 for trial in trials) if name in TOKENS[1:] else 0
        took[name] = Total(
            max(reported, default=0) if name == "peak_view" else sum(reported), len(reported) - partly, len(values)
        )
    return took | {"cost": Total.cost(trial.usage for trial in trials)}


def table_of(runs: Sequence[RunResults], of: Callable[[Trial], float] = lambda trial: trial.score) -> Table:
    """Return the scores of some runs, or another figure of their trials that count, by task and run."""
    table: dict[str, dict[int, float]] = {}
    for run in runs:
        for trial in filter(attrgetter("counts"), run.trials):
            table.setdefault(trial.task, {})[trial.run] = of(trial)
    return table


def _interval(score: Score, table: Table) -> Interval | None:
    """The interval of a score. Near 0 and 1 it is Wilson's, for which all trials of a task count as one.

    So it is where all tasks have the same score, from which Student's would have no width: no other scores from 0 to 1
    of that mean vary more than Wilson's interval allows.
    """
    if score.by_task is None:
        return None
    edge = not EDGE <= score.value <= 1 - EDGE
    if not score.by_task.se or (edge and all(value in (0, 1) for row in table.values() for value in row.values())):
        return wilson(score.value * score.tasks, score.tasks)
    ends = score.by_task.interval(score.value)
    return Interval(max(0.0, ends.low), min(1.0, ends.high))


def _compared(
    table: Table, baseline_table: Table, runs: Sequence[RunResults], baseline: Sequence[RunResults], margin: float
) -> Compared | None:
    apart = difference(table, baseline_table, margin) if baseline_table else None
    if apart is None:
        return None
    drawn = bootstrap(table, baseline_table) if apart.tasks > 1 else None
    return Compared(baseline[0].run.arm, apart, drawn, (_uncounted(runs), _uncounted(baseline)))


def _uncounted(runs: Sequence[RunResults]) -> float:
    """The share of the planned trials that do not count, from 0 to 1."""
    tried = sum(trial.counts for run in runs for trial in run.trials)
    return 1 - tried / sum(len(run.run.order) for run in runs)


def _windows(trials: Sequence[Trial], baseline: Table) -> list[Window]:
    by_window: dict[int, list[Trial]] = {}
    for trial in trials:
        by_window.setdefault((trial.position - 1) // WINDOW, []).append(trial)
    windows = []
    for number, inside in sorted(by_window.items()):
        isolated = [fmean(baseline[trial.task].values()) for trial in inside if trial.task in baseline]
        last = max(trial.position for trial in inside)
        mean = fmean(trial.score for trial in inside)
        against = fmean(isolated) if len(isolated) == len(inside) else None
        windows.append(Window(WINDOW * number + 1, last, mean, against, len(inside)))
    return windows


def _steps(trials: Sequence[Trial]) -> Iterator[Step]:
    rewards: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        for step in trial.steps:
            rewards.setdefault((trial.task, step.name), []).append(step.reward or 0.0)
    for (task, name), values in rewards.items():
        yield Step(task, name, fmean(values), len(values))


def _passed(table: Table) -> dict[int, tuple[float, float]]:
    passed = {}
    for k in range(1, min(len(row) for row in table.values()) + 1):
        any_passed, all_passed = pass_at(table, k), pass_all(table, k)
        if any_passed is not None and all_passed is not None:
            passed[k] = (any_passed, all_passed)
    return passed


def _compared_dict(compared: Compared) -> dict[str, Any]:
    apart = compared.difference
    errors = [error for error in (apart.by_task, apart.by_run) if error is not None]
    return {
        "to": asdict(compared.to),
        "value": apart.value,
        "tasks": apart.tasks,
        "se_paired": apart.by_task and apart.by_task.se,
        "se_by_run": apart.by_run and apart.by_run.se,
        "se_unpaired": apart.unpaired,
        "ci95": _ends(apart.interval(0.95)),
        "ci90": _ends(apart.interval(0.9)),
        "ci95_bootstrap": _ends(compared.drawn),
        "margin": apart.margin,
        "verdict": compared.verdict,
        "not_counted": list(compared.uncounted),
        "detectable": max(map(detectable, errors), default=None),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


VERDICTS: dict[Verdict, str] = {
    "equivalent": "equal within the margin",
    "better": "better",
    "worse": "worse",
    "not worse": "not worse by more than the margin",
    "undecided": "undecided",
}
"""The verdicts in a few words."""


def verdict_of(compared: Compared) -> str:
    own, isolated = compared.uncounted
    if compared.verdict is None:
        return f"none: {100 * own:.1f} % not counted, and {100 * isolated:.1f} % in isolation"
    return f"{VERDICTS[compared.verdict]} (±{points(compared.difference.margin)})"


def points(share: float) -> str:
    return f"{100 * share:.1f}"


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit of the data about some arms."""

    of: str  # the arms, in words
    text: str  # a few sentences


def cannot_show(rows: Sequence[Row]) -> Iterator[Limits]:
    """Yield the limits of the data: first those of all arms of a protocol, then those of single arms."""
    by_arm = {
        row.arm: [*_of_score(row), *(_of_difference(row, row.compared) if row.compared else ()), *_of_drift(row)]
        for row in rows
    }
    for protocol in ("isolated", "single"):
        alike = {arm: sentences for arm, sentences in by_arm.items() if arm.protocol == protocol}
        if len(alike) > 1:
            first = next(iter(alike.values()))
            common = [text for text in first if all(text in sentences for sentences in alike.values())]
            for sentences in alike.values():
                sentences[:] = [text for text in sentences if text not in common]
            if common:
                yield Limits(f"All arms, {protocol}", " ".join(common))
    for arm, sentences in by_arm.items():
        budget = "no budget" if arm.budget is None else f"{arm.budget:,} tokens"
        if sentences:
            yield Limits(
                f"{arm.benchmark}, {arm.model}, {arm.strategy_text} at {budget}, {arm.protocol}", " ".join(sentences)
            )


def _of_score(row: Row) -> Iterator[str]:
    score = row.score
    if score.tasks < (row.benchmark_tasks or 0):
        yield f"The score is of {row.tasks_text} tasks of the benchmark, and not of the whole benchmark."
    if score.by_run is None:
        yield "With one run, it is not known how far runs lie apart."
    elif (again := score.by_run.interval(score.value)).width:
        yield f"For these tasks, run again, the score is known to ±{points(again.width / 2)} points."
    if score.by_task is None:
        yield "With one task, nothing is known of others."
    elif row.interval is not None:
        yield f"For other tasks of this kind, the score is known to ±{points(row.interval.width / 2)} points."


def _of_difference(row: Row, compared: Compared) -> Iterator[str]:
    apart = compared.difference
    wide = apart.interval()
    if wide is None:
        yield "The difference to isolated sessions has no error that could be told."
        return
    errors = [error for error in (apart.by_task, apart.by_run) if error is not None]
    yield (
        f"With n = {row.score.runs}, differences to isolated sessions under {points(wide.width / 2)} points cannot be "
        f"told from chance, and a true difference of {points(max(map(detectable, errors)))} points is found in four of "
        "five such experiments."
    )
    if (narrow := apart.interval(0.9)) is not None and narrow.width / 2 >= apart.margin:
        yield f"At a margin of {points(apart.margin)} points, even equal arms could not be shown equal by so few runs."
    if apart.by_run is None:
        yield "Trials of one session depend on each other, which one run cannot show: the error is rather too small."


def _of_drift(row: Row) -> Iterator[str]:
    if row.arm.protocol != "single" or row.score.tasks < 2:
        return
    if row.drift is None:
        same = "One run has one order" if row.score.runs == 1 else "Every run has the same order"
        yield f"{same}, so a loss towards the end cannot be told from hard tasks there."
    elif row.drift.error is not None:
        half = row.drift.error.interval(0).width / 2
        yield f"A drift of less than {points(half)} points in ten tasks cannot be told from chance."

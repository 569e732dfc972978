"""The rows of the report: an arm each, with its scores, its usage, and what its data cannot show, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
    difference,
    drift,
    pass_all,
    pass_at,
    score,
    wilson,
)

WINDOW: Final = 10  # positions for each point of the plot over positions
EDGE: Final = 0.1  # scores this close to 0 or 1 get Wilson's interval, which stays within these bounds

_SAME: Final = 1e-9  # largest difference of two equal shares

UNGRADED: Final = "not graded"
"""The kind of a trial without an error or a reward, such as one of SWE-bench before its grader ran."""

TOKENS: Final = ("model_calls", "input_tokens", "cached_tokens", "output_tokens")
"""Figures of usage in a report, except the cost."""

CONTEXT: Final = tuple(field.name for field in fields(ContextFigures))  # figures of the context and of the work

WORK: Final = ("explored_first", "repeated", "unended")
"""The figures of the work, which a report shows only in comparisons."""


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

        Trials that do not count are seldom a fair sample: the others may be the easier tasks.
        """
        own, baseline = self.uncounted
        return self.difference.verdict if abs(own - baseline) < _SAME else None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of positions in a session."""

    first: int
    last: int
    score: float  # mean score from position `first` to `last`
    other: float | None  # mean score of the same tasks in the arm compared with; None without one
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
    margin: float  # smaller differences count as none
    score: Score  # the score with its errors, over the trials that count
    benchmark_tasks: int | None  # number of all tasks of the benchmark, chosen or not; None if unknown
    interval: Interval | None  # the score's 95 % interval, with tasks as the sample; None if unknown, as for one task
    missing: int  # number of planned trials without a result
    uncounted: Mapping[str, int]  # trials that do not count, by the kind of error that ended them, or `UNGRADED`
    compared: Compared | None  # its comparison with isolated sessions; None if it is isolated, or there are none
    drift: Drift | None  # how the score changes with the position; None if every run has the same order
    windows: tuple[Window, ...]  # the score by position
    steps: tuple[Step, ...]  # the steps of tasks that have several, in order
    passed: Mapping[int, tuple[float, float]]  # by k, how likely one of k tries, and all of them, solve a task
    errors: Mapping[str, int]  # all trials that ended in an error or were not graded, by the same kinds
    exceptions: Mapping[str, int]  # the same, by the error's name
    took: Mapping[str, Total]  # by name, the figures of `TOKENS`, `cost` in dollars, and the figures of `CONTEXT`
    abandoned: Total  # dollars of trials that were stopped and tried again
    seconds: float | None  # mean working time of the agent, over the trials with a known one; None without any
    timed: int  # number of these trials
    waited: float  # seconds lost to a provider that failed, as far as they are known
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
        """Return the mean of a run: a lower bound if a trial's figure is unknown, or planned trials are missing."""
        return Total(total.at_least / self.score.runs, total.known_trials, total.of + self.missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON-able data: shares from 0 to 1, dollars, tokens and seconds."""
        by_task, by_run, drift = self.score.by_task, self.score.by_run, self.drift
        by_run_interval = drift_interval = None
        # Runs with the same score do not show that all would have it.
        if by_run and by_run.se:
            by_run_interval = by_run.interval(self.score.value)
        if drift and drift.error:
            drift_interval = drift.error.interval(drift.slope)
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
            "ci95_by_run": _ends(by_run_interval),
            "pass_at": {str(k): any_passed for k, (any_passed, _) in self.passed.items()},
            "pass_all": {str(k): all_passed for k, (_, all_passed) in self.passed.items()},
            "difference": self.compared and _compared_dict(self.compared),
            "drift_per_10": drift and drift.slope,
            "drift_ci95": _ends(drift_interval),
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
        """Return the figures of usage and context: None unless known of every trial; `at_least` has lower bounds."""
        totals = dict(self.took)
        totals["cost_usd"] = totals.pop("cost")
        totals["abandoned_cost_usd"] = self.abandoned
        totals["cost_per_run_usd"] = self.per_run(self.cost)
        exact: dict[str, float | None] = {}
        at_least: dict[str, float | None] = {}
        for name, total in totals.items():
            exact[name] = total.exact
            at_least[name] = None if total.unknown else total.at_least
        known_trials = {name: total.known_trials for name, total in self.took.items()}
        return {**exact, "at_least": at_least, "known_trials": known_trials}


def row_of(
    arm: Arm, runs: Sequence[RunResults], baseline: Sequence[RunResults], annotations: Annotations | None
) -> Row:
    """Return the row of an arm.

    `runs`: its runs, with at least one trial that counts.
    `baseline`: the runs to compare with; may be empty.
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
        benchmark_tasks=max(run.run.benchmark_tasks or 0 for run in runs) or None,
        interval=_interval(total, table),
        missing=sum(len(run.missing) for run in runs),
        uncounted=Counter(_why_not(trial) for trial in trials if not trial.counts),
        compared=_compare_runs(table, baseline_table, runs, baseline, margin),
        drift=drift(table, table_of(runs, lambda trial: trial.position)),
        windows=tuple(_windows(tried, baseline_table)),
        steps=tuple(_steps(tried)),
        passed=_pass_rates(table),
        errors=Counter(_why_not(trial) for trial in trials if _why_not(trial)),
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
    partly_reported = sum(trial.usage.unreported > 0 for trial in trials)
    took: dict[str, Total] = {}
    for name in TOKENS:
        known = _known_values([getattr(trial.usage, name) for trial in trials])
        partly = 0 if name == "model_calls" else partly_reported
        took[name] = Total(sum(known), len(known) - partly, len(trials))
    for name in CONTEXT:
        known = _known_values([getattr(trial.context, name, None) for trial in trials])
        if name == "over_budget" and arm.budget is None:
            known = []
        whole = max(known, default=0) if name == "peak_view" else sum(known)
        took[name] = Total(whole, len(known), len(trials))
    return took | {"cost": Total.cost(trial.usage for trial in trials)}


def _known_values(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def table_of(runs: Sequence[RunResults], of: Callable[[Trial], float] = lambda trial: trial.score) -> Table:
    """Return the scores of the trials that count, or another figure of them, by task and run."""
    table: dict[str, dict[int, float]] = {}
    for run in runs:
        for trial in run.trials:
            if trial.counts:
                table.setdefault(trial.task, {})[trial.run] = of(trial)
    return table


def _interval(score: Score, table: Table) -> Interval | None:
    """Return the interval of a score. Near 0 and 1 it is Wilson's, for which all trials of a task count as one.

    It is also Wilson's if all tasks have the same score, as Student's would have no width. No other scores from 0 to 1
    of that mean vary more than Wilson's interval allows.
    """
    if score.by_task is None:
        return None
    edge = not EDGE <= score.value <= 1 - EDGE
    binary = all(set(row.values()) <= {0, 1} for row in table.values())
    if not score.by_task.se or (edge and binary):
        return wilson(score.value * score.tasks, score.tasks)
    ends = score.by_task.interval(score.value)
    return Interval(max(0.0, ends.low), min(1.0, ends.high))


def _compare_runs(
    table: Table, baseline_table: Table, runs: Sequence[RunResults], baseline: Sequence[RunResults], margin: float
) -> Compared | None:
    apart = difference(table, baseline_table, margin) if baseline_table else None
    if apart is None:
        return None
    drawn = bootstrap(table, baseline_table) if apart.tasks > 1 else None
    return Compared(baseline[0].run.arm, apart, drawn, (_uncounted_share(runs), _uncounted_share(baseline)))


def _uncounted_share(runs: Sequence[RunResults]) -> float:
    """Return the share of the planned trials that do not count."""
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


def _pass_rates(table: Table) -> dict[int, tuple[float, float]]:
    passed = {}
    for k in range(1, min(len(row) for row in table.values()) + 1):
        any_passed, all_passed = pass_at(table, k), pass_all(table, k)
        if any_passed is not None and all_passed is not None:
            passed[k] = (any_passed, all_passed)
    return passed


def _compared_dict(compared: Compared) -> dict[str, Any]:
    apart = compared.difference
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
        "detectable": apart.detectable(),
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
    by_arm: dict[Arm, list[str]] = {}
    for row in rows:
        sentences = by_arm[row.arm] = [*_of_score(row)]
        if row.compared:
            sentences += _of_difference(row, row.compared)
        sentences += _of_drift(row)
    for protocol in ("isolated", "single"):
        alike = [sentences for arm, sentences in by_arm.items() if arm.protocol == protocol]
        if len(alike) > 1:
            shared = set(alike[0]).intersection(*alike)
            common = [text for text in alike[0] if text in shared]
            for sentences in alike:
                sentences[:] = [text for text in sentences if text not in shared]
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
        yield f"The score is of {row.tasks_text} tasks of the benchmark, not of the whole benchmark."
    if score.by_run is None:
        yield "With one run, it is not known how far runs lie apart."
    elif score.by_run.se:
        half = score.by_run.interval(score.value).width / 2
        yield f"For these tasks, run again, the score is known to ±{points(half)} points."
    if score.by_task is None:
        yield "With one task, nothing is known about other tasks."
    elif row.interval is not None:
        yield f"For other tasks of this kind, the score is known to ±{points(row.interval.width / 2)} points."


def _of_difference(row: Row, compared: Compared) -> Iterator[str]:
    apart = compared.difference
    wide, narrow, least = apart.interval(), apart.interval(0.9), apart.detectable()
    if wide is None or narrow is None or least is None:
        yield "The error of the difference to isolated sessions is not known."
        return
    yield (
        f"With n = {row.score.runs}, differences to isolated sessions under {points(wide.width / 2)} points cannot be "
        f"told from chance, and a true difference of {points(least)} points is found in four of five such experiments."
    )
    if narrow.width / 2 >= apart.margin:
        yield f"At a margin of {points(apart.margin)} points, so few runs could not show even equal arms equal."
    if apart.by_run is None:
        yield "Trials of one session depend on each other, which one run cannot show: the error is probably too small."


def _of_drift(row: Row) -> Iterator[str]:
    if row.arm.protocol != "single" or row.score.tasks < 2:
        return
    if row.drift is None:
        same = "One run has one order" if row.score.runs == 1 else "Every run has the same order"
        yield f"{same}, so a loss towards the end cannot be told from hard tasks there."
    elif row.drift.error is not None:
        half = row.drift.error.interval(0).width / 2
        yield f"A drift of less than {points(half)} points in ten tasks cannot be told from chance."

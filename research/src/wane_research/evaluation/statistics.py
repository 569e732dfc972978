"""Statistics of scores over tasks and runs, with the limits of an experiment.

Scores are in a table of tasks and runs. The score of an arm is the mean over tasks of the mean over runs. It has two
errors, which answer two questions:

- *Other tasks of this kind too?* Tasks are the sample. The standard error is clustered by task (Miller, "Adding Error
  Bars to Evals", arXiv 2411.00640): trials of one task do not count as independent.
- *These very tasks, again?* Runs are the sample. The standard error is that of the runs' means. In one session over all
  tasks, trials of a run depend on each other, and only this error includes that.

All functions are pure: randomness comes from a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, hypot, sqrt
from statistics import NormalDist, fmean, stdev, variance
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Table: TypeAlias = Mapping[str, Mapping[int, float]]
"""Scores from 0 to 1, by task and run. A trial may be missing, but each task has at least one."""

Floats: TypeAlias = NDArray[np.float64]

Verdict: TypeAlias = Literal["equivalent", "better", "worse", "not worse", "undecided"]

LEVEL: Final = 0.95  # level of the intervals, unless told otherwise
_RESAMPLES: Final = 2_000  # samples that a bootstrap draws
_POWER: Final = 0.8


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Whether all of it lies within a distance of 0."""
        return -margin < self.low and self.high < margin

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Error:
    """A standard error, with the degrees of freedom that an interval from it has."""

    se: float
    df: float

    def interval(self, value: float, level: float = LEVEL) -> Interval:
        half = t_quantile((1 + level) / 2, self.df) * self.se
        return Interval(value - half, value + half)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an arm."""

    value: float  # mean over tasks of the mean over runs
    by_task: Error | None  # its error with tasks as the sample; None with one task
    by_run: Error | None  # its error with runs as the sample; None with one run
    naive: float | None  # its standard error if all trials were independent, for comparison; None with one trial
    tasks: int
    runs: int
    trials: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two arms' scores on the tasks that both tried."""

    value: float  # the first's score minus the second's
    # Its error with tasks as the sample, paired by task, and at least 1 / (tasks + 2); None with one task
    by_task: Error | None
    # Its error with runs as the sample; None if an arm has one run. With one task it is at least 1 / (runs + 2), by the
    # arm with fewer runs.
    by_run: Error | None
    unpaired: float | None  # its standard error without pairing by task, for comparison; None with one task
    tasks: int  # number of tasks that both tried
    margin: float  # smaller differences count as none

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the wider of the intervals by task and by run; None if there is neither.

        Each ignores something. The interval by task ignores that trials of a run depend on each other; the interval by
        run ignores that other tasks could have been drawn.
        """
        intervals = [error.interval(self.value, level) for error in self.errors]
        return max(intervals, key=lambda interval: interval.width, default=None)

    def detectable(self, level: float = LEVEL) -> float | None:
        """Return the smallest true difference that such an experiment finds in four of five cases; None if unknown."""
        return max((detectable(error, level) for error in self.errors), default=None)

    @property
    def errors(self) -> list[Error]:
        return [error for error in (self.by_task, self.by_run) if error is not None]

    @property
    def verdict(self) -> Verdict:
        """Two one-sided tests at 5 % for equivalence; then the 95 % interval for a difference.

        `equivalent`: the 90 % interval lies within the margin. `better`, `worse`: the 95 % interval excludes 0. `not
        worse`: the 90 % interval lies above the margin's lower end.
        """
        narrow, wide = self.interval(0.9), self.interval(0.95)
        if narrow is None or wide is None:
            return "undecided"
        if narrow.within(self.margin):
            return "equivalent"
        if wide.low > 0:
            return "better"
        if wide.high < 0:
            return "worse"
        return "not worse" if narrow.low > -self.margin else "undecided"


@dataclass(frozen=True, slots=True)
class Drift:
    """How the score changes with the position in a run, tasks held fixed."""

    slope: float  # change of the score for ten positions
    error: Error | None  # its error; None if unknown, as when nothing deviates from the slope


def score(table: Table) -> Score:
    if not table:
        raise ValueError("there are no scores")
    means = _means(table)
    value = fmean(means.values())
    every = [value for row in table.values() for value in row.values()]
    runs = {run for row in table.values() for run in row}
    return Score(
        value=value,
        by_task=_of_sample(list(means.values())),
        by_run=_by_run(table, means),
        naive=stdev(every) / sqrt(len(every)) if len(every) > 1 else None,
        tasks=len(table),
        runs=len(runs),
        trials=len(every),
    )


def difference(first: Table, second: Table, margin: float) -> Difference | None:
    """Return the difference of the first arm's score to the second's; None if they have no task in common.

    `margin`: smaller differences count as none. Set it before the first trial.
    """
    tasks = [task for task in first if task in second]
    if not tasks:
        return None
    first_score = score({task: first[task] for task in tasks})
    second_score = score({task: second[task] for task in tasks})
    apart = [fmean(first[task].values()) - fmean(second[task].values()) for task in tasks]
    unpaired = None
    if first_score.by_task and second_score.by_task:
        unpaired = hypot(first_score.by_task.se, second_score.by_task.se)
    by_run = _welch(first_score.by_run, second_score.by_run)
    if len(tasks) == 1:
        # Otherwise two runs with the same result would give a difference without any error.
        by_run = _at_least(by_run, 1 / (min(first_score.runs, second_score.runs) + 2))
    return Difference(
        value=fmean(apart),
        by_task=_at_least(_of_sample(apart), 1 / (len(tasks) + 2)),
        by_run=by_run,
        unpaired=unpaired,
        tasks=len(tasks),
        margin=margin,
    )


def bootstrap(first: Table, second: Table, *, seed: int = 0) -> Interval:
    """Return the percentile interval of a difference paired by task, by resampling tasks and the runs of each."""
    random = np.random.default_rng(seed)
    tasks = [task for task in first if task in second]
    drawn = random.integers(len(tasks), size=(_RESAMPLES, len(tasks)))
    first_means = _redrawn([list(first[task].values()) for task in tasks], drawn, random).mean(axis=1)
    second_means = _redrawn([list(second[task].values()) for task in tasks], drawn, random).mean(axis=1)
    low, high = np.quantile(first_means - second_means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def wilson(passed: float, trials: float) -> Interval:
    """Return Wilson's interval of a share, which stays within 0 and 1 and has a width even at these ends.

    `trials`: number of trials; of dependent trials, the equivalent number of independent ones.
    """
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    share = passed / trials
    middle = share + z * z / (2 * trials)
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def pass_at(table: Table, k: int) -> float | None:
    """Return pass@k: how likely a task is solved by at least one of k tries (Chen 2021); None with fewer than k runs.

    Only the full score solves a task.
    """
    if not _has_runs(table, k):
        return None
    return fmean(1 - _all_of(len(row), len(row) - _count_solved(row), k) for row in table.values())


def pass_all(table: Table, k: int) -> float | None:
    """Return pass^k: how likely a task is solved by all of k tries (Yao 2024); None with fewer than k runs."""
    if not _has_runs(table, k):
        return None
    return fmean(_all_of(len(row), _count_solved(row), k) for row in table.values())


def drift(table: Table, positions: Table) -> Drift | None:
    """Return the change of the score with the position, from differences within tasks.

    A task is compared with itself at other positions, so that hard tasks at the end are not mistaken for a loss. This
    needs runs of different orders: None if no task was at two positions.

    `table`: the scores.
    `positions`: by task and run, the task's position in the run's order.
    """
    points: list[tuple[str, int, float, float]] = []
    for task, row in table.items():
        mean_position = fmean(positions[task][run] for run in row)
        mean = fmean(row.values())
        points += [(task, run, positions[task][run] - mean_position, value - mean) for run, value in row.items()]
    spread = sum(x * x for _, _, x, _ in points)
    if not spread:
        return None
    slope = sum(x * y for _, _, x, y in points) / spread
    leftover = [(task, run, x * (y - slope * x)) for task, run, x, y in points]
    by_task: dict[str, float] = {}
    by_run: dict[int, float] = {}
    for task, run, residual in leftover:
        by_task[task] = by_task.get(task, 0.0) + residual
        by_run[run] = by_run.get(run, 0.0) + residual
    errors = [_sandwich(list(sums.values()), spread) for sums in (by_task, by_run)]
    positive = [error for error in errors if error is not None and error.se > 0]
    widest = max(positive, key=lambda error: error.interval(0).width, default=None)
    return Drift(10 * slope, None if widest is None else Error(10 * widest.se, widest.df))


def within_variance(table: Table) -> float | None:
    """Return the variance of a trial's score around its task's mean, averaged over tasks; None with one run each."""
    variances = [variance(row.values()) for row in table.values() if len(row) > 1]
    return fmean(variances) if variances else None


def chance(spread: float, tasks: int, runs: int) -> float:
    """Return the largest difference that chance alone makes between two equal arms, in 95 of 100 cases.

    `spread`: variance of a trial's score around its task's mean, as of `within_variance`.
    `runs`: runs of each arm.
    """
    return NormalDist().inv_cdf((1 + LEVEL) / 2) * sqrt(2 * spread / runs / tasks)


def equivalence_margin(spread: float, tasks: int, runs: int) -> float | None:
    """Return the least margin within which `Difference.verdict` shows equal arms equal in four of five experiments.

    None for one task and one run, which have no interval.

    `spread`: variance of a trial's score around its task's mean, as of `within_variance`.
    `runs`: runs of each arm.
    """
    if tasks == 1 and runs == 1:
        return None
    random, share = np.random.default_rng(0), spread / runs / tasks

    def sample_variances(df: int, value: float) -> Floats:
        """Variances as estimated from samples with `df` degrees of freedom."""
        return value * random.chisquare(df, _RESAMPLES) / df

    # The verdict takes the wider of the intervals by task and by run, whose errors are estimates themselves.
    widest = np.zeros(_RESAMPLES)
    if tasks > 1:
        by_task = np.maximum(np.sqrt(sample_variances(tasks - 1, 2 * share)), 1 / (tasks + 2))
        widest = t_quantile(0.95, tasks - 1) * by_task
    if runs > 1:
        first_variance, second_variance = sample_variances(runs - 1, share), sample_variances(runs - 1, share)
        by_run = np.sqrt(first_variance + second_variance)
        if tasks == 1:
            by_run = np.maximum(by_run, 1 / (runs + 2))
        # The degrees of freedom of Welch and Satterthwaite, as in `_welch`; never less than those of an arm.
        squares = np.maximum(first_variance**2 + second_variance**2, np.finfo(float).tiny)
        df = np.maximum(runs - 1, (runs - 1) * (first_variance + second_variance) ** 2 / squares)
        widest = np.maximum(widest, stdtrit(df, 0.95) * by_run)
    reach = np.abs(random.normal(0, sqrt(2 * share), _RESAMPLES)) + widest
    return float(np.quantile(reach, _POWER))


def detectable(error: Error, level: float = LEVEL) -> float:
    """Return the smallest true difference that an experiment of this error finds in four of five cases."""
    return (t_quantile((1 + level) / 2, error.df) + t_quantile(_POWER, error.df)) * error.se


def t_quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t with `df` degrees of freedom, which need not be whole."""
    return float(stdtrit(df, share))


def _means(table: Table) -> dict[str, float]:
    return {task: fmean(row.values()) for task, row in table.items()}


def _of_sample(values: Sequence[float]) -> Error | None:
    if len(values) < 2:
        return None
    return Error(stdev(values) / sqrt(len(values)), len(values) - 1)


def _by_run(table: Table, means: Mapping[str, float]) -> Error | None:
    """The error of the runs' means, each as a deviation from its tasks' mean scores, because a run may lack a task."""
    apart: dict[int, list[float]] = {}
    for task, row in table.items():
        for run, value in row.items():
            apart.setdefault(run, []).append(value - means[task])
    return _of_sample([fmean(values) for values in apart.values()])


def _at_least(error: Error | None, least: float) -> Error | None:
    """Return the error, raised to a least value such as 1 / (tasks + 2). It is 0 if the arms agree on every task.

    That value is the error of no difference with half a task added to each of a pair's four outcomes (Agresti and Min
    2005). The runs of one task are such pairs too.
    """
    return error and Error(max(error.se, least), error.df)


def _welch(first: Error | None, second: Error | None) -> Error | None:
    """The error of a difference of two independent samples, with the degrees of freedom of Welch and Satterthwaite."""
    if first is None or second is None:
        return None
    first_variance, second_variance = first.se**2, second.se**2
    below = first_variance**2 / first.df + second_variance**2 / second.df
    return Error(
        sqrt(first_variance + second_variance),
        (first_variance + second_variance) ** 2 / below if below else first.df + second.df,
    )


def _sandwich(sums: Sequence[float], spread: float) -> Error | None:
    """The error of a slope whose residuals are independent only between clusters."""
    count = len(sums)
    if count < 2:
        return None
    return Error(sqrt(count / (count - 1) * sum(total * total for total in sums)) / spread, count - 1)


def _redrawn(rows: Sequence[Sequence[float]], drawn: NDArray[np.int64], random: np.random.Generator) -> Floats:
    """Return the mean of each drawn task over a resample of its runs; `drawn` has the tasks of each sample."""
    counts = np.array([len(row) for row in rows])
    padded = np.zeros((len(rows), counts.max()))
    for task, row in enumerate(rows):
        padded[task, : len(row)] = row
    total: Floats = np.zeros(drawn.shape)
    for run in range(counts.max()):
        total += np.where(run < counts[drawn], padded[drawn, random.integers(counts[drawn])], 0.0)
    means: Floats = total / counts[drawn]
    return means


def _has_runs(table: Table, k: int) -> bool:
    return k >= 1 and all(len(row) >= k for row in table.values())


def _count_solved(row: Mapping[int, float]) -> int:
    return sum(value >= 1 for value in row.values())


def _all_of(n: int, good: int, k: int) -> float:
    """The probability that k of n, drawn without replacement, are all good."""
    return comb(good, k) / comb(n, k)

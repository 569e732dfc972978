"""The statistics: on small tables by hand, against SciPy and the matrices of a regression, and on real trials."""

from __future__ import annotations

from math import comb, sqrt
from random import Random
from statistics import fmean

import numpy
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from research.tests.evaluation.trials import needs_trials, tables

from wane_research.evaluation.statistics import (
    Difference,
    Error,
    Table,
    bootstrap,
    chance,
    detectable,
    difference,
    drift,
    pass_all,
    pass_at,
    score,
    wilson,
)


def table(*rows: tuple[float, ...]) -> Table:
    return {f"task-{n}": dict(enumerate(row, start=1)) for n, row in enumerate(rows)}


def draw_table(seed: int, lift: float = 0.0, tasks: int = 60, runs: int = 5) -> Table:
    """Trials that pass by the rate of their task, from 0 to 1, and a little more often."""
    random = Random(seed)
    rows: list[tuple[float, ...]] = []
    for task in range(tasks):
        rate = min(1.0, task / tasks + lift)
        rows.append(tuple(float(random.random() < rate) for _ in range(runs)))
    return table(*rows)


def average_runs(scores: Table) -> Table:
    """One run, with the mean of each task."""
    return {task: {1: fmean(row.values())} for task, row in scores.items()}


def by_run(scores: Table) -> list[float]:
    """The mean of each run."""
    return list(numpy.mean([list(row.values()) for row in scores.values()], axis=0))


def se(error: Error | None) -> float:
    assert error is not None
    return error.se


@given(st.integers(1, 300), st.data())
def test_wilson(trials: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, trials))
    theirs = scipy.stats.binomtest(passed, trials).proportion_ci(method="wilson")
    ours = wilson(passed, trials)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_errors_by_hand() -> None:
    found = score(table((1, 1), (1, 0), (0, 0)))
    assert (found.value, found.tasks, found.runs, found.trials) == (0.5, 3, 2, 6)
    # Clustered by task: sqrt(sum over tasks of (sum of distances)^2 * C/(C-1)) / N.
    assert se(found.by_task) == pytest.approx(sqrt((1 + 0 + 1) * 3 / 2) / 6)
    # Run means are 2/3 and 1/3; a missing trial does not move the error by run as an easy task would.
    assert se(found.by_run) == pytest.approx(1 / 6)
    assert se(score({**table((1, 1), (1, 1)), "task-2": {1: 0.0}}).by_run) == 0
    assert score(table((1, 0))).by_task is None
    assert score(table((1,), (0,))).by_run is None
    with pytest.raises(ValueError, match="no scores"):
        score({})


def test_errors_and_intervals_are_those_of_scipy() -> None:
    first, second = draw_table(1, 0.1), draw_table(2)
    ours = [fmean(row.values()) for row in first.values()]
    theirs = [fmean(row.values()) for row in second.values()]
    assert se(score(first).by_task) == pytest.approx(scipy.stats.sem(ours))
    found = difference(first, second, margin=0.03)
    assert found is not None
    assert found.by_task is not None
    paired = scipy.stats.ttest_rel(ours, theirs)
    for level in (0.9, 0.95):
        known = paired.confidence_interval(level)
        mine = found.by_task.interval(found.value, level)
        assert (mine.low, mine.high) == pytest.approx((known.low, known.high))
    # Two one-sided tests at 5 % say what the 90 % interval says.
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    for margin in (0.01, 0.05, 0.08, 0.11, 0.2):
        low = scipy.stats.ttest_1samp(differences, -margin, alternative="greater")
        high = scipy.stats.ttest_1samp(differences, margin, alternative="less")
        inside = found.by_task.interval(found.value, 0.9).within(margin)
        assert inside == (max(low.pvalue, high.pvalue) < 0.05)
    our_runs, their_runs = by_run(first), by_run(second)
    known = scipy.stats.ttest_ind(our_runs, their_runs, equal_var=False)
    assert found.by_run is not None
    assert found.by_run.df == pytest.approx(known.df)
    assert found.value / found.by_run.se == pytest.approx(known.statistic)


def test_the_bootstrap_repeats_itself_and_is_that_of_scipy() -> None:
    scores, nothing = draw_table(3), table(*[(0.0,)] * 60)
    means = average_runs(scores)
    first = bootstrap(means, nothing, seed=5)
    assert first == bootstrap(means, nothing, seed=5) != bootstrap(means, nothing, seed=6)
    known = scipy.stats.bootstrap(
        ([row[1] for row in means.values()],),
        numpy.mean,
        method="percentile",
        n_resamples=20_000,
        rng=numpy.random.default_rng(0),
    ).confidence_interval
    # Ten times as many samples. Scores move in steps of one trial of 300.
    assert (first.low, first.high) == pytest.approx((known.low, known.high), abs=2.1 / 300)
    # Drawing runs again adds the noise of the runs to that of the tasks.
    assert bootstrap(scores, nothing, seed=5).width > first.width


def test_a_difference_is_of_the_tasks_that_both_tried() -> None:
    first = {**table((1, 1), (1, 0)), "alone": {1: 0.0}}
    found = difference(first, table((0, 0), (1, 0)), margin=0.03)
    assert found is not None
    assert (found.tasks, found.value) == (2, 0.5)
    assert difference({"a": {1: 1.0}}, {"b": {1: 1.0}}, 0.03) is None


def test_few_tasks_that_come_out_the_same_do_not_show_that_arms_are_equal() -> None:
    few, many = (table(*[(1,)] * count) for count in (20, 89))
    found, equal = difference(few, few, margin=0.03), difference(many, many, margin=0.03)
    assert found is not None
    assert equal is not None
    assert se(found.by_task) == pytest.approx(1 / 22)
    assert (found.verdict, equal.verdict) == ("undecided", "equivalent")


SURE, WIDE = Error(0.001, 88), Error(0.05, 4)


@pytest.mark.parametrize(
    ("value", "by_task", "by_run", "verdict"),
    [
        (0.0, Error(0.01, 88), None, "equivalent"),
        (-0.019, Error(0.01, 88), None, "undecided"),
        (-0.05, Error(0.01, 88), None, "worse"),
        (0.05, Error(0.01, 88), None, "better"),
        (0.03, Error(0.02, 88), None, "not worse"),
        # A difference that is sure and too small to matter is no difference.
        (0.01, SURE, None, "equivalent"),
        # The wider interval counts.
        (0.0, SURE, WIDE, "undecided"),
        (0.0, None, None, "undecided"),
    ],
)
def test_verdicts(value: float, by_task: Error | None, by_run: Error | None, verdict: str) -> None:
    assert Difference(value, by_task, by_run, None, 89, 0.03).verdict == verdict


def test_pass_at_k_and_all_of_k() -> None:
    """By listing every choice of two of four tries."""
    three, none = (1, 1, 1, 0), (0, 0, 0, 0)
    assert pass_at(table(three), 2) == 1
    assert pass_all(table(three), 2) == pytest.approx(comb(3, 2) / comb(4, 2))
    assert pass_at(table(three, none), 2) == 0.5
    assert pass_at(table((1, 0, 0, 0)), 2) == pytest.approx(0.5)
    assert pass_at(table(three), 5) is None
    assert pass_at(table((0.5, 0.5)), 1) == 0, "half of the steps is not the task"


def test_drift_is_the_regression_with_a_constant_for_each_task() -> None:
    """So hard tasks at the end are not mistaken for it."""
    random = Random(8)
    tasks, runs = 12, 3
    orders = [random.sample(range(tasks), tasks) for _ in range(runs)]
    positions: dict[str, dict[int, float]] = {}
    scores: dict[str, dict[int, float]] = {}
    for n in range(tasks):
        positions[f"t{n}"] = {run: float(order.index(n)) for run, order in enumerate(orders)}
        scores[f"t{n}"] = {run: float(random.random() < 0.5) for run in range(runs)}
    places = [(n, run) for n in range(tasks) for run in range(runs)]
    design = numpy.zeros((len(places), tasks + 1))
    for line, (n, run) in enumerate(places):
        design[line, n] = 1
        design[line, tasks] = positions[f"t{n}"][run]
    values = numpy.array([scores[f"t{n}"][run] for n, run in places])
    fitted, *_ = numpy.linalg.lstsq(design, values, rcond=None)
    found = drift(scores, positions)
    assert found is not None
    assert found.slope == pytest.approx(10 * fitted[tasks])
    # The error of a cluster-robust regression, by its matrices; the wider one of both kinds of cluster.
    bread = numpy.linalg.inv(design.T @ design)
    left = values - design @ fitted
    errors = []
    for names in numpy.array(places).T:
        groups = sorted(set(names))
        meat = numpy.zeros((tasks + 1, tasks + 1))
        for group in groups:
            part = design[names == group].T @ left[names == group]
            meat += numpy.outer(part, part)
        whole = bread @ meat @ bread * len(groups) / (len(groups) - 1)
        errors.append(Error(10 * sqrt(whole[tasks, tasks]), len(groups) - 1))
    assert se(found.error) == pytest.approx(max(errors, key=lambda error: error.interval(0).width).se)
    # One order for all runs cannot show any.
    same = {f"t{n}": dict.fromkeys(range(3), float(n)) for n in range(5)}
    assert drift({task: dict.fromkeys(range(3), 0.5) for task in same}, same) is None


def test_what_can_be_found_is_more_than_what_chance_makes() -> None:
    assert detectable(Error(0.01, 10_001)) == pytest.approx(0.01 * (1.95996 + 0.84162), rel=1e-4)


@needs_trials
def test_pairing_by_task_is_what_makes_a_difference_of_real_trials_visible() -> None:
    first, second = tables()["tmax-27b"], tables()["Qwen3.6-27B"]
    found, back = difference(first, second, margin=0.03), difference(second, first, margin=0.03)
    assert found is not None
    assert back is not None
    known = (found.value, se(found.by_task), found.unpaired or 0, se(score(second).by_task), score(second).naive or 0)
    assert [round(100 * value, 2) for value in known] == [3.15, 2.30, 6.54, 4.54, 2.32]
    assert (found.verdict, back.verdict) == ("not worse", "undecided")


@needs_trials
@pytest.mark.parametrize(("runs", "known"), [(1, 6.7), (5, 3.1), (10, 2.2)])
def test_equal_arms_land_as_far_apart_as_simulated(runs: int, known: float) -> None:
    """The reference simulated one agent twice, by its rates of success."""
    rates = [fmean(row.values()) for row in tables()["Qwen3.6-27B"].values()]
    spread = fmean(rate * (1 - rate) for rate in rates)
    # What was simulated moves in steps of a trial.
    assert 100 * chance(spread, 89, runs) == pytest.approx(known, abs=100 / 89 / runs)


@pytest.mark.full
def test_equal_arms_are_told_apart_as_rarely_as_the_level_says() -> None:
    """One agent twice, 400 times: the interval by run misses 0 in about 5 % of the cases."""
    missed, told = 0, 0
    for number in range(400):
        found = difference(draw_table(2 * number), draw_table(2 * number + 1), margin=0.03)
        assert found is not None
        assert found.by_run is not None
        apart = found.by_run.interval(found.value)
        missed += not apart.low <= 0 <= apart.high
        told += found.verdict in ("better", "worse")
    assert 8 <= missed <= 36
    # The wider of two intervals errs less often than either.
    assert told <= missed

"""The statistics against SciPy, and a regression against its matrices."""

from __future__ import annotations

from math import sqrt
from random import Random
from statistics import fmean

import numpy
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from research.tests.evaluation.trials import needs_trials, tables

from wane_research.evaluation.statistics import Error, bootstrap, difference, drift, score, wilson


@given(st.integers(1, 300), st.data())
def test_wilson(trials: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, trials))
    theirs = scipy.stats.binomtest(passed, trials).proportion_ci(method="wilson")
    ours = wilson(passed, trials)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@needs_trials
def test_errors_and_intervals() -> None:
    first, second = tables()["tmax-9b"], tables()["Qwen3.5-9B"]
    ours = [fmean(first[task].values()) for task in first]
    theirs = [fmean(second[task].values()) for task in first]
    assert score(first).by_task.se == pytest.approx(scipy.stats.sem(ours))
    found = difference(first, second, margin=0.03)
    assert found is not None
    assert found.by_task is not None
    paired = scipy.stats.ttest_rel(ours, theirs)
    for level in (0.9, 0.95):
        known = paired.confidence_interval(level)
        mine = found.by_task.interval(found.value, level)
        assert (mine.low, mine.high) == pytest.approx((known.low, known.high))
    # Two one-sided tests at 5 % say what the 90 % interval says.
    for margin in (0.01, 0.05, 0.08, 0.11, 0.2):
        differences = [a - b for a, b in zip(ours, theirs, strict=True)]
        low = scipy.stats.ttest_1samp(differences, -margin, alternative="greater")
        high = scipy.stats.ttest_1samp(differences, margin, alternative="less")
        inside = found.by_task.interval(found.value, 0.9).within(margin)
        assert inside == (max(low.pvalue, high.pvalue) < 0.05)


@needs_trials
def test_the_difference_of_runs() -> None:
    first, second = tables()["tmax-9b"], tables()["Qwen3.5-9B"]
    ours, theirs = ([fmean(row[run] for row in it.values()) for run in range(1, 6)] for it in (first, second))
    known = scipy.stats.ttest_ind(ours, theirs, equal_var=False)
    found = difference(first, second, margin=0.03)
    assert found is not None
    assert found.by_run is not None
    assert found.by_run.df == pytest.approx(known.df)
    assert found.value / found.by_run.se == pytest.approx(known.statistic)


@needs_trials
def test_the_bootstrap() -> None:
    means = {task: fmean(row.values()) for task, row in tables()["tmax-9b"].items()}
    known = scipy.stats.bootstrap(
        (list(means.values()),), numpy.mean, method="percentile", n_resamples=20_000, rng=numpy.random.default_rng(0)
    ).confidence_interval
    found = bootstrap({task: {1: mean} for task, mean in means.items()}, {task: {1: 0.0} for task in means})
    # Ten times as many samples. Scores move in steps of one trial of 445.
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=2.1 / 445)


def test_drift_is_the_regression_with_a_constant_for_each_task() -> None:
    random = Random(8)
    tasks, runs = 12, 3
    orders = [random.sample(range(tasks), tasks) for _ in range(runs)]
    positions = {f"t{n}": {run: float(orders[run].index(n)) for run in range(runs)} for n in range(tasks)}
    scores = {task: {run: float(random.random() < 0.5) for run in row} for task, row in positions.items()}
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
    # The error of a cluster-robust regression, by its matrices, for both kinds of cluster.
    bread = numpy.linalg.inv(design.T @ design)
    left = values - design @ fitted
    widths = {}
    for kind, names in (("task", [n for n, _ in places]), ("run", [run for _, run in places])):
        groups = sorted(set(names))
        meat = sum(
            (
                numpy.outer(part, part)
                for part in (
                    design[[name == group for name in names]].T @ left[[name == group for name in names]]
                    for group in groups
                )
            ),
            numpy.zeros((tasks + 1, tasks + 1)),
        )
        whole = bread @ meat @ bread * len(groups) / (len(groups) - 1)
        error = Error(10 * sqrt(whole[tasks, tasks]), len(groups) - 1)
        widths[kind] = (error.interval(0).width, error)
    assert found.error is not None
    assert found.error.se == pytest.approx(max(widths.values(), key=lambda it: it[0])[1].se)

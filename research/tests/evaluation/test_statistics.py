"""The statistics: on small tables by hand, on real trials against known figures, and against SciPy."""

from __future__ import annotations

from math import comb, sqrt
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.tests.evaluation.trials import needs_trials, tables

from wane_research.evaluation.statistics import (
    Difference,
    Error,
    Interval,
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
    within_variance,
)


def table(*rows: tuple[float, ...]) -> Table:
    return {f"task-{n}": dict(enumerate(row, start=1)) for n, row in enumerate(rows)}


def averaged(scores: Table) -> Table:
    """One run, with the mean of each task."""
    return {task: {1: fmean(row.values())} for task, row in scores.items()}


def points(value: float | None) -> float:
    assert value is not None
    return round(100 * value, 2)


def se(error: Error | None) -> float:
    assert error is not None
    return error.se


@needs_trials
def test_the_real_trials_have_the_known_errors() -> None:
    found = score(tables()["Qwen3.6-27B"])
    assert (found.tasks, found.runs, found.trials) == (89, 5, 445)
    assert points(found.value) == 39.55
    assert points(found.naive) == 2.32
    assert points(se(found.by_task)) == 4.54
    assert points(se(found.by_run)) == 1.09


@needs_trials
def test_pairing_by_task_is_what_makes_a_difference_visible() -> None:
    found = difference(tables()["tmax-27b"], tables()["Qwen3.6-27B"], margin=0.03)
    assert found is not None
    assert points(found.value) == 3.15
    assert points(se(found.by_task)) == 2.30
    assert points(found.unpaired) == 6.54
    assert found.verdict == "not worse"
    back = difference(tables()["Qwen3.6-27B"], tables()["tmax-27b"], margin=0.03)
    assert back is not None
    assert back.verdict == "undecided"
    # The reference drew its samples with another generator: -1.12 to 7.87. One trial of 445 is 0.22.
    # It drew tasks alone, as a table with a single run of each task does.
    drawn = bootstrap(averaged(tables()["tmax-27b"]), averaged(tables()["Qwen3.6-27B"]))
    assert 100 * drawn.low == pytest.approx(-1.12, abs=0.23)
    assert 100 * drawn.high == pytest.approx(7.87, abs=0.23)


@needs_trials
@pytest.mark.parametrize(("runs", "known"), [(1, 6.7), (3, 4.1), (5, 3.1), (10, 2.2)])
def test_equal_arms_land_as_far_apart_as_simulated(runs: int, known: float) -> None:
    """The reference simulated one agent twice, by its rates of success."""
    rates = [fmean(row.values()) for row in tables()["Qwen3.6-27B"].values()]
    spread = fmean(rate * (1 - rate) for rate in rates)
    # What was simulated moves in steps of a trial.
    assert 100 * chance(spread, 89, runs) == pytest.approx(known, abs=100 / 89 / runs)


@needs_trials
def test_rates_of_few_runs_hide_some_of_the_variance() -> None:
    real = tables()["Qwen3.6-27B"]
    rates = [fmean(row.values()) for row in real.values()]
    assert within_variance(real) == pytest.approx(fmean(rate * (1 - rate) for rate in rates) * 5 / 4)


@pytest.mark.full
@needs_trials
def test_equal_arms_are_told_apart_as_rarely_as_the_level_says() -> None:
    """One agent twice, 400 times: the interval by run misses 0 in about 5 % of the cases."""
    random = Random(1)
    rates = {task: fmean(row.values()) for task, row in tables()["Qwen3.6-27B"].items()}

    def arm() -> Table:
        return {task: {run: float(random.random() < rate) for run in range(5)} for task, rate in rates.items()}

    missed, told = 0, 0
    for _ in range(400):
        found = difference(arm(), arm(), margin=0.03)
        assert found is not None
        assert found.by_run is not None
        apart = found.by_run.interval(found.value)
        missed += not apart.low <= 0 <= apart.high
        told += found.verdict in ("better", "worse")
    assert 8 <= missed <= 36
    # The wider of two intervals errs less often than either.
    assert told <= missed


def test_errors_by_hand() -> None:
    found = score(table((1, 1), (1, 0), (0, 0)))
    assert found.value == 0.5
    # Clustered by task: sqrt(sum over tasks of (sum of distances)^2 * C/(C-1)) / N.
    assert se(found.by_task) == pytest.approx(sqrt((1 + 0 + 1) * 3 / 2) / 6)
    # Run means are 2/3 and 1/3.
    assert se(found.by_run) == pytest.approx(1 / 6)


def test_a_missing_trial_does_not_move_the_error_by_run_as_an_easy_task_would() -> None:
    whole = table((1, 1), (1, 1), (0, 0))
    ragged = {**whole, "task-2": {1: 0.0}}
    assert se(score(whole).by_run) == se(score(ragged).by_run) == 0


def test_one_task_or_one_run_has_no_error() -> None:
    assert score(table((1, 0))).by_task is None
    assert score(table((1,), (0,))).by_run is None
    with pytest.raises(ValueError, match="no scores"):
        score({})


def test_a_difference_is_of_the_tasks_that_both_tried() -> None:
    first = {**table((1, 1), (1, 0)), "alone": {1: 0.0}}
    found = difference(first, table((0, 0), (1, 0)), margin=0.03)
    assert found is not None
    assert found.tasks == 2
    assert found.value == 0.5
    assert difference({"a": {1: 1.0}}, {"b": {1: 1.0}}, 0.03) is None


def test_few_tasks_that_come_out_the_same_do_not_show_that_arms_are_equal() -> None:
    few, many = (table(*[(1,)] * count) for count in (20, 89))
    found = difference(few, few, margin=0.03)
    assert found is not None
    assert se(found.by_task) == pytest.approx(1 / 22)
    assert found.verdict == "undecided"
    found = difference(many, many, margin=0.03)
    assert found is not None
    assert found.verdict == "equivalent"


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.0, 0.01, "equivalent"),
        (-0.019, 0.01, "undecided"),
        (-0.05, 0.01, "worse"),
        (0.05, 0.01, "better"),
        (0.03, 0.02, "not worse"),
        (0.0, 0.05, "undecided"),
        # A difference that is sure and too small to matter is no difference.
        (0.01, 0.001, "equivalent"),
    ],
)
def test_verdicts(value: float, error: float, verdict: str) -> None:
    found = Difference(value, Error(error, 88), None, None, 89, 0.03)
    assert found.verdict == verdict


def test_the_verdict_takes_the_wider_interval() -> None:
    narrow, wide = Error(0.001, 88), Error(0.05, 4)
    assert Difference(0.0, narrow, None, None, 89, 0.03).verdict == "equivalent"
    assert Difference(0.0, narrow, wide, None, 89, 0.03).verdict == "undecided"
    assert Difference(0.0, None, None, None, 1, 0.03).verdict == "undecided"


def test_the_bootstrap_repeats_itself_and_agrees_with_the_error() -> None:
    random = Random(3)
    rows = [tuple(float(random.random() < rate) for _ in range(5)) for rate in [n / 60 for n in range(60)]]
    found = score(table(*rows))
    nothing = table(*[(0.0,)] * 60)
    first = bootstrap(averaged(table(*rows)), nothing, seed=5)
    assert first == bootstrap(averaged(table(*rows)), nothing, seed=5)
    assert first != bootstrap(averaged(table(*rows)), nothing, seed=6)
    assert first.width == pytest.approx(2 * 1.96 * se(found.by_task), rel=0.08)
    both = bootstrap(table(*rows), nothing, seed=5)
    # Drawing runs again adds the noise of the runs to that of the tasks.
    assert both.width > first.width


def test_pass_at_k_and_all_of_k() -> None:
    """By listing every choice of two of four tries."""
    three, none = (1, 1, 1, 0), (0, 0, 0, 0)
    assert pass_at(table(three), 2) == 1
    assert pass_all(table(three), 2) == pytest.approx(comb(3, 2) / comb(4, 2))
    assert pass_at(table(three, none), 2) == 0.5
    assert pass_at(table((1, 0, 0, 0)), 2) == pytest.approx(0.5)
    assert pass_at(table(three), 5) is None
    assert pass_at(table((0.5, 0.5)), 1) == 0, "half of the steps is not the task"


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=2, max_size=8))
def test_pass_figures_stand_around_the_score(rows: list[list[float]]) -> None:
    found = table(*map(tuple, rows))
    one = pass_at(found, 1)
    assert one == pytest.approx(score(found).value) == pytest.approx(pass_all(found, 1))
    several, every = pass_at(found, 3), pass_all(found, 3)
    assert one is not None
    assert several is not None
    assert every is not None
    assert every <= one + 1e-12
    assert one <= several + 1e-12


def test_drift_is_found_and_hard_tasks_at_the_end_are_not_mistaken_for_it() -> None:
    tasks, runs = 40, 4
    orders = [Random(run).sample(range(tasks), tasks) for run in range(runs)]
    positions = {f"t{task}": {run: orders[run].index(task) + 1.0 for run in range(runs)} for task in range(tasks)}
    hard = {task: {run: 1.0 - int(task[1:]) / tasks for run in row} for task, row in positions.items()}
    flat = drift(hard, positions)
    assert flat is not None
    assert flat.slope == pytest.approx(0)
    sinking = {
        task: {run: hard[task][run] - 0.002 * place for run, place in row.items()} for task, row in positions.items()
    }
    found = drift(sinking, positions)
    assert found is not None
    assert found.slope == pytest.approx(-0.02)


def test_one_order_for_all_runs_cannot_show_drift() -> None:
    positions = {f"t{n}": {run: float(n) for run in range(3)} for n in range(5)}
    assert drift({task: dict.fromkeys(row, 0.5) for task, row in positions.items()}, positions) is None


def test_what_can_be_found_is_more_than_what_chance_makes() -> None:
    assert detectable(Error(0.01, 10_001)) == pytest.approx(0.01 * (1.95996 + 0.84162), rel=1e-4)


def test_wilson_has_a_width_at_the_ends() -> None:
    assert wilson(0, 20).low == pytest.approx(0)
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=1e-4)
    assert wilson(20, 20) == Interval(pytest.approx(0.8389, abs=1e-4), 1.0)

"""What marking does to the model: arms that differ only in who marks episodes, compared task by task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any, Final, TypeAlias

from wane_research.evaluation.results import Arm, RunResults, Trial
from wane_research.evaluation.statistics import LEVEL, Interval, Table, detectable, difference

MEASURES: Final[Mapping[str, Callable[[Trial], float | None]]] = {
    "score": lambda trial: trial.score,
    "model calls": lambda trial: trial.usage.model_calls,
    "exploring calls before the first change": lambda trial: trial.context.explored_first if trial.context else None,
    "repeated reads": lambda trial: trial.context.repeated if trial.context else None,
    "episodes without end": lambda trial: trial.context.unended if trial.context else None,
}
"""The measures, by name: a figure of each trial; None where it is not known."""

Tables: TypeAlias = Mapping[str, Table]  # by measure, the figures of an arm's trials


@dataclass(frozen=True, slots=True)
class MarkingEffect:
    """One measure of an arm against the same with another marker."""

    arm: Arm
    to: Arm  # the arm that it is compared with: the one whose model marks, if there is one
    measure: str  # name of the measure
    tasks: int  # number of tasks in which it is known of both
    value: float  # its mean over these tasks
    other: float  # the mean of the other arm
    # Of `value - other`, paired by task; None if nothing is known of it, such as with one task. All intervals of a
    # report hold together at 95 %.
    interval: Interval | None
    detectable: float | None  # the least true difference that is found in four of five such experiments; None likewise

    @property
    def told_apart(self) -> bool:
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "told_apart": self.told_apart}


def marking_effects(arms: Mapping[Arm, Sequence[RunResults]]) -> tuple[MarkingEffect, ...]:
    """Return all measures of all arms that have a counterpart with another marker.

    `arms`: the runs of each arm.
    """
    pairs = list(_pairs(arms))
    tables = {arm: _tables(arms[arm]) for pair in pairs for arm in pair}
    known = [
        (arm, to, measure)
        for arm, to in pairs
        for measure in MEASURES
        if set(tables[arm][measure]) & set(tables[to][measure])
    ]
    # So many intervals are looked at that some would exclude 0 by chance (Bonferroni).
    level = 1 - (1 - LEVEL) / max(1, len(known))
    return tuple(_effect(arm, to, measure, tables, level) for arm, to, measure in known)


def _pairs(arms: Mapping[Arm, object]) -> Iterator[tuple[Arm, Arm]]:
    alike: dict[Arm, list[Arm]] = {}
    for arm in arms:
        alike.setdefault(replace(arm, annotate=None), []).append(arm)
    for group in alike.values():
        first = min(group, key=lambda arm: arm.annotate not in (None, "model"))
        yield from ((arm, first) for arm in group if arm is not first)


def _tables(runs: Sequence[RunResults]) -> Tables:
    tables: dict[str, dict[str, dict[int, float]]] = {measure: {} for measure in MEASURES}
    for run in runs:
        for trial in filter(attrgetter("counts"), run.trials):
            for measure, of in MEASURES.items():
                if (value := of(trial)) is not None:
                    tables[measure].setdefault(trial.task, {})[trial.run] = value
    return tables


def _effect(arm: Arm, to: Arm, measure: str, tables: Mapping[Arm, Tables], level: float) -> MarkingEffect:
    first, second = tables[arm][measure], tables[to][measure]
    tasks = [task for task in first if task in second]
    value, other = _mean(first, tasks), _mean(second, tasks)
    # The least error of a difference is meant for scores, whose unit is 1; that of a count is its mean, if larger.
    unit = max(1.0, (value + other) / 2)
    apart = difference(_in_units(first, unit), _in_units(second, unit), 0.0)
    assert apart is not None
    errors = [error for error in (apart.by_task, apart.by_run) if error is not None]
    interval = apart.interval(level)
    least = max((detectable(error, level) for error in errors), default=None)
    return MarkingEffect(
        arm=arm,
        to=to,
        measure=measure,
        tasks=len(tasks),
        value=value,
        other=other,
        interval=interval and Interval(interval.low * unit, interval.high * unit),
        detectable=None if least is None else least * unit,
    )


def _in_units(table: Table, unit: float) -> Table:
    return {task: {run: value / unit for run, value in row.items()} for task, row in table.items()}


def _mean(table: Table, tasks: Sequence[str]) -> float:
    return fmean(fmean(table[task].values()) for task in tasks)

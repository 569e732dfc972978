"""The effect of marking on the model: compares arms that differ only in who marks episodes, task by task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Final, TypeAlias

from wane_research.evaluation.results import Arm, RunResults, Trial
from wane_research.evaluation.statistics import LEVEL, Interval, Table, difference

MEASURES: Final[Mapping[str, Callable[[Trial], float | None]]] = {
    "score": lambda trial: trial.score,
    "model calls": lambda trial: trial.usage.model_calls,
    "exploring calls before the first change": lambda trial: trial.context.explored_first if trial.context else None,
    "repeated reads": lambda trial: trial.context.repeated if trial.context else None,
    "episodes without end": lambda trial: trial.context.unended if trial.context else None,
}
"""The measures, by name: a figure of each trial; None if unknown."""

Tables: TypeAlias = Mapping[str, Table]  # by measure, the figures of an arm's trials


@dataclass(frozen=True, slots=True)
class MarkingEffect:
    """One measure of an arm and of its counterpart with another marker."""

    arm: Arm
    to: Arm  # the counterpart: the arm whose model marks, if there is one
    measure: str  # name of the measure
    tasks: int  # number of tasks with a known figure in both arms
    value: float  # the measure's mean over these tasks
    other: float  # the counterpart's mean
    # Of `value - other`, paired by task; None if unknown, as with one task. All intervals of a report hold together at
    # 95 %.
    interval: Interval | None
    detectable: float | None  # the least true difference found in four of five such experiments; None if unknown

    @property
    def told_apart(self) -> bool:
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "told_apart": self.told_apart}


def marking_effects(arms: Mapping[Arm, Sequence[RunResults]]) -> tuple[MarkingEffect, ...]:
    """Return all measures of all arms that have a counterpart with another marker."""
    pairs = list(_pairs(arms))
    tables = {arm: _tables(arms[arm]) for pair in pairs for arm in pair}
    known: list[tuple[Arm, Arm, str]] = []
    for arm, to in pairs:
        known += [(arm, to, measure) for measure in MEASURES if tables[arm][measure].keys() & tables[to][measure]]
    # With this many intervals, some would exclude 0 by chance (Bonferroni).
    level = 1 - (1 - LEVEL) / max(1, len(known))
    return tuple(_effect(arm, to, measure, tables, level) for arm, to, measure in known)


def _pairs(arms: Mapping[Arm, object]) -> Iterator[tuple[Arm, Arm]]:
    alike: dict[Arm, list[Arm]] = {}
    for arm in arms:
        alike.setdefault(replace(arm, annotate=None), []).append(arm)
    for group in alike.values():
        to = next((arm for arm in group if arm.annotate in (None, "model")), group[0])
        for arm in group:
            if arm is not to:
                yield arm, to


def _tables(runs: Sequence[RunResults]) -> Tables:
    tables: dict[str, dict[str, dict[int, float]]] = {measure: {} for measure in MEASURES}
    for run in runs:
        for trial in run.trials:
            for measure, of in MEASURES.items():
                value = of(trial)
                if trial.counts and value is not None:
                    tables[measure].setdefault(trial.task, {})[trial.run] = value
    return tables


def _effect(arm: Arm, to: Arm, measure: str, tables: Mapping[Arm, Tables], level: float) -> MarkingEffect:
    first, second = tables[arm][measure], tables[to][measure]
    tasks = [task for task in first if task in second]
    value, other = _mean(first, tasks), _mean(second, tasks)
    # `difference` sets a least error for scores, whose unit is 1. The unit of a count is its mean, if that is larger.
    unit = max(1.0, (value + other) / 2)
    apart = difference(_in_units(first, unit), _in_units(second, unit), 0.0)
    assert apart is not None
    interval = apart.interval(level)
    least = apart.detectable(level)
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
    scaled: dict[str, dict[int, float]] = {}
    for task, row in table.items():
        scaled[task] = {run: value / unit for run, value in row.items()}
    return scaled


def _mean(table: Table, tasks: Sequence[str]) -> float:
    return fmean(fmean(table[task].values()) for task in tasks)

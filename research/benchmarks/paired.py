"""Compares ways to evict, session by session at the same mean view.

A way is replayed at several low waters with proportional guards. Its figures are interpolated between them at the mean
view of the base. An interval is that of the difference of means, by a bootstrap over sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise, product
from random import Random
from statistics import mean
from typing import TypeVar

from wane import Policy
from wane.core.policy import GUARD
from wane.lab.replaying.jobs import Job, Processes
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Subject

W = TypeVar("W", bound=Hashable)

LOW_WATERS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75)
TARGETS = (0.45, 0.5, 0.55)  # low waters of the base, at whose mean views others are compared

DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one session."""

    view: float  # mean tokens of a request
    grounding: float  # edit grounding
    recall: float  # reference recall
    dollars: float  # the cost
    over: float  # requests over the budget

    @classmethod
    def of(cls, totals: Totals) -> Figures:
        loss = totals.loss
        return cls(totals.mean_view, loss.edit_grounding, loss.reference_recall, totals.dollars, totals.over_budget)

    @classmethod
    def average_of(cls, several: Sequence[Figures], weights: Sequence[float] | None = None) -> Figures:
        shares = weights or [1 / len(several)] * len(several)
        columns = zip(*map(astuple, several), strict=True)
        return cls(*(sumprod(shares, column) for column in columns))


def sumprod(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(first, second, strict=True))


def policies() -> dict[float, Policy]:
    """Return the policies of a curve by low water; at the default's low water, the default without an index."""
    default = Policy(index_share=0)
    share = GUARD / default.low_water
    return {low: replace(default, low_water=low, guard=share * low) for low in LOW_WATERS}


Curve = dict[float, Figures]  # figures of one session by low water


def curves_of(
    subjects: Sequence[Subject], ways: Mapping[W, Callable[[int, Policy], Sequence[Job]]]
) -> dict[W, list[Curve]]:
    """Return the curve of each session, by way, from the replays of a session under a policy."""
    jobs: list[Job] = []
    keys: list[tuple[W, int, float]] = []
    for way, make in ways.items():
        for number, (low, policy) in product(range(len(subjects)), policies().items()):
            for job in make(number, policy):
                jobs.append(replace(job, label=str(len(jobs))))
                keys.append((way, number, low))
    results = {int(job.label): Figures.of(result.totals) for job, result in Processes().run(subjects, jobs)}
    figures: dict[tuple[W, int, float], list[Figures]] = {}
    for number, key in enumerate(keys):
        figures.setdefault(key, []).append(results[number])
    curves: dict[W, list[Curve]] = {}
    for way in ways:
        curves[way] = [{} for _ in subjects]
    for (way, number, low), drawn in figures.items():
        curves[way][number][low] = Figures.average_of(drawn)
    return curves


def at_views(curve: Curve, base: Curve) -> Figures:
    """Return the figures of a way at the mean views of the base."""
    return Figures.average_of([_at_view(curve, base[low].view) for low in TARGETS])


def gap(curve: Curve, base: Curve) -> float:
    """Return by how many tokens at most the curve misses a mean view of the base; its nearest end is taken there."""
    views = [point.view for point in curve.values()]
    wanted = [base[low].view for low in TARGETS]
    return max(0, min(views) - min(wanted), max(wanted) - max(views))


def _at_view(curve: Curve, view: float) -> Figures:
    points = sorted(curve.values(), key=lambda point: point.view)
    if view <= points[0].view:
        return points[0]
    for low, high in pairwise(points):
        if view <= high.view:
            share = (view - low.view) / (high.view - low.view)
            return Figures.average_of([low, high], [1 - share, share])
    return points[-1]


def interval(
    one: Sequence[Figures], other: Sequence[Figures], figure: Callable[[Figures], float]
) -> tuple[float, float, float]:
    """Return the mean difference of a figure over sessions, and its 95 % interval."""
    differences = [figure(first) - figure(second) for first, second in zip(one, other, strict=True)]
    random = Random(0)
    drawn = sorted(mean(random.choices(differences, k=len(differences))) for _ in range(DRAWS))
    return mean(differences), drawn[DRAWS // 40], drawn[-1 - DRAWS // 40]


def points(difference: tuple[float, float, float]) -> str:
    """Return a difference of shares in points, with its interval."""
    middle, low, high = (100 * value for value in difference)
    return f"{middle:+.1f} ({low:+.1f} to {high:+.1f})"

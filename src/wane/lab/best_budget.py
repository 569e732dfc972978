"""Chooses among budgets and policies that were tried: one way for `wane sweep` and `wane tune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any, Final, Protocol, TypeVar

from wane.budgets import AutoBudget
from wane.core import DEFAULT_BUDGET
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.verdict import capital
from wane.money import dollars

NEAR: Final = 1.02
"""Policies that cost up to this many times the cheapest count as equally cheap; the one that keeps more is better."""

GAIN: Final = 0.002
"""Differences of the kept share up to this one count as none: a policy must keep more to justify another departure."""

CLOSE: Final = 0.005
"""Differences of cost up to this share count as none."""


class Tried(Protocol):
    """A budget with a policy, and what sessions cost and kept with both."""

    @property
    def budget(self) -> int | None:
        """Tokens; None for a strategy that has no budget."""

    @property
    def departures(self) -> Mapping[str, Any]:
        """Fields of the policy that differ from the defaults, with their values."""

    @property
    def totals(self) -> Totals:
        """Figures over all sessions."""


_Point = TypeVar("_Point")
_Tried = TypeVar("_Tried", bound=Tried)


def frontier(
    points: Sequence[_Point], cost: Callable[[_Point], float], value: Callable[[_Point], float]
) -> list[_Point]:
    """Return the points that no other point beats, cheapest first.

    A point beats another if it is as cheap and worth more, or cheaper and worth as much. Of equal points only the first
    is returned.
    """
    best: list[_Point] = []
    for point in sorted(points, key=lambda point: (cost(point), -value(point))):
        if not best or value(point) > value(best[-1]):
            best.append(point)
    return best


def knee(points: Sequence[_Point], cost: Callable[[_Point], float], value: Callable[[_Point], float]) -> _Point:
    """Return the point of a frontier, cheapest first, that lies farthest above the line between its ends.

    Up to that point, spending more gives much more; beyond it, hardly any more. Cost and value are scaled to 0..1
    between the ends, so that their units do not matter. A frontier of two points has no knee; the cheaper point is
    returned.
    """
    first, last = points[0], points[-1]
    width, height = cost(last) - cost(first), value(last) - value(first)
    if width <= 0 or height <= 0:
        return first
    return max(points, key=lambda point: (value(point) - value(first)) / height - (cost(point) - cost(first)) / width)


def begin(tried: Sequence[_Tried], advised: AutoBudget | None) -> _Tried:
    """Return where a choice begins: at the budget `auto`, or without one at the knee of cost against the kept share."""
    if advised is not None:
        return choose([trial for trial in tried if trial.budget == advised.tokens])
    # Of equals, the one nearest to the defaults comes first.
    near = sorted(tried, key=lambda trial: (abs((trial.budget or 0) - DEFAULT_BUDGET), len(trial.departures)))
    best = frontier(near, lambda trial: trial.totals.full_cost, lambda trial: trial.totals.kept)
    return knee(best, lambda trial: trial.totals.full_cost, lambda trial: trial.totals.kept)


def choose(tried: Sequence[_Tried]) -> _Tried:
    """Return what keeps most among those about as cheap as the cheapest; all have one budget.

    A policy that departs further from the defaults must keep enough more to justify it.
    """
    limit = NEAR * min(trial.totals.full_cost for trial in tried)
    cheap = [trial for trial in tried if trial.totals.full_cost <= limit]
    return max(cheap, key=lambda trial: (trial.totals.kept - GAIN * len(trial.departures), -trial.totals.full_cost))


def unbeaten(chosen: _Tried, tried: Sequence[_Tried]) -> _Tried:
    """Return the choice, or what is better than it and is beaten by nothing else.

    Each step gains more in cost or kept share than it may lose in the other, so the steps end.
    """

    def rank(trial: _Tried) -> tuple[float, int]:
        value = trial.totals.kept / GAIN - log(max(trial.totals.full_cost, 0.01)) / CLOSE
        return value, -len(trial.departures)

    while better := [trial for trial in tried if beats(trial.totals, chosen.totals)]:
        chosen = max(better, key=rank)
    return chosen


def beats(totals: Totals, rival: Totals) -> bool:
    """Return whether figures are better than others in cost or kept share, and not worse in either.

    Differences up to CLOSE and GAIN count as none.
    """
    cost, share = totals.full_cost, totals.kept
    as_good = cost <= (1 + CLOSE) * rival.full_cost and share >= rival.kept - GAIN
    return as_good and (cost < (1 - CLOSE) * rival.full_cost or share > rival.kept + GAIN)


def differences(totals: Totals, rival: Totals) -> tuple[str, str]:
    """Return in words how cost and kept share differ from those of a rival, such as `$0.08 less`, `0.4 points more`."""
    extra, gain = totals.full_cost - rival.full_cost, totals.kept - rival.kept
    cost = keeps = "about as much"
    if abs(extra) > CLOSE * rival.full_cost:
        cost = f"{dollars(abs(extra))} {'more' if extra > 0 else 'less'}"
    if abs(gain) > GAIN:
        keeps = f"{abs(100 * gain):.1f} points {'more' if gain > 0 else 'less'}"
    return cost, keeps


def explain_budget(chosen: _Tried, advised: AutoBudget, tried: Sequence[_Tried]) -> str:
    """Return a sentence on a choice that began at the budget `auto`, which is among what was tried."""
    auto = capital(str(advised))
    if chosen.budget == advised.tokens:
        return f"{auto}; no other budget that was tried is better."
    there = [trial for trial in tried if trial.budget == advised.tokens]
    alike = [trial for trial in there if trial.departures == chosen.departures]
    cost, keeps = differences(chosen.totals, choose(alike or there).totals)
    return f"{auto}; here {chosen.budget:,} was better: it costs {cost} and keeps {keeps}."


def explain_knee(chosen: _Tried, tried: Sequence[_Tried]) -> str:
    """Return a sentence on a choice that began at the knee: what it would cost to keep most."""
    most = max(tried, key=lambda trial: (trial.totals.kept, -trial.totals.full_cost))
    if most.totals.kept <= chosen.totals.kept:
        return "No other that was tried keeps more."
    cost, keeps = differences(most.totals, chosen.totals)
    return f"{most.budget:,} costs {cost} and keeps {keeps}."

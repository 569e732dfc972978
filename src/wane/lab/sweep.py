"""Sweeps budgets: cost and loss of each strategy at each budget (the paper's section 6.4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from wane.core import parse_budget
from wane.core.errors import ConfigError
from wane.lab.replay_figures import Totals
from wane.lab.replaying.compare import BASELINE, Progress, baselines_of, prices_of, run_each, total
from wane.lab.replaying.jobs import JobEngine
from wane.lab.replaying.studying import Studied
from wane.lab.verdict import OURS, Baselines
from wane.strategies.strategy import StrategySettings

STEPS: Final = 5
"""Default number of budgets in a range."""

MOST_STEPS: Final = 100
"""Largest number of budgets in a range."""

_T = TypeVar("_T")

_RANGE: Final = re.compile(r"(.+?)\.\.(.+)")


@dataclass(frozen=True, slots=True)
class Point:
    """A strategy at one budget over all sessions; without a budget if the strategy ignores it."""

    strategy: str
    budget: int | None
    totals: Totals

    @property
    def recall(self) -> float:
        """Reference recall, the value of a point."""
        return self.totals.loss.reference_recall


@dataclass(frozen=True, slots=True)
class Sweep:
    """Strategies over the same sessions at several budgets, ascending.

    Attributes:
        names: the strategies asked for.
        points: by strategy in the order of `names`, then by budget, ascending.
        baseline: the figures of BASELINE.
        baselines: what the sessions cost without Wane.
    """

    budgets: tuple[int, ...]
    names: tuple[str, ...]
    studied: tuple[Studied, ...]
    points: tuple[Point, ...]
    baseline: Totals
    baselines: Baselines

    def of(self, name: str) -> tuple[Point, ...]:
        """Return the points of a strategy, ascending by budget."""
        return tuple(point for point in self.points if point.strategy == name)

    @property
    def frontier(self) -> tuple[Point, ...]:
        """Points that no other point beats at cost, with fetching again, and recall, cheapest first."""
        return tuple(frontier(self.points, lambda point: point.totals.full_cost, lambda point: point.recall))

    @property
    def balance(self) -> Point | None:
        """Wane's point beyond which spending more hardly keeps more; None if Wane was not among the strategies."""
        own = frontier(self.of(OURS), lambda point: point.totals.full_cost, lambda point: point.recall)
        return knee(own, lambda point: point.totals.full_cost, lambda point: point.recall) if own else None

    def figures(self, point: Point) -> dict[str, Any]:
        """Return a point's figures by column, as JSON-able data."""
        totals = point.totals
        largest = self.of(point.strategy)[-1].totals.dollars
        return totals.to_dict(self.baseline) | {
            "of_last": totals.dollars / largest if largest else None,  # as section 6.4 compares it
            "fetches_per_100": 100 * totals.loss.reread.results / max(1, totals.calls),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        best = self.frontier
        points: list[dict[str, Any]] = []
        for point in self.points:
            named = {"strategy": point.strategy, "budget": point.budget}
            points.append({**named, **self.figures(point), "on_frontier": point in best})
        return {
            "budgets": list(self.budgets),
            **prices_of(self.studied),
            "sessions": [prepared.to_dict() for prepared in self.studied],
            "points": points,
            "frontier": [{"strategy": point.strategy, "budget": point.budget} for point in best],
        }


def frontier(points: Sequence[_T], cost: Callable[[_T], float], value: Callable[[_T], float]) -> list[_T]:
    """Return the points that no other point beats, cheapest first.

    A point beats another if it is as cheap and worth more, or cheaper and worth as much. Of equal points only the first
    is returned.
    """
    best: list[_T] = []
    for point in sorted(points, key=lambda point: (cost(point), -value(point))):
        if not best or value(point) > value(best[-1]):
            best.append(point)
    return best


def knee(points: Sequence[_T], cost: Callable[[_T], float], value: Callable[[_T], float]) -> _T:
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


def sweep(
    studied: Sequence[Studied],
    names: Sequence[str],
    budgets: Sequence[int],
    settings: StrategySettings,
    engine: JobEngine,
    progress: Progress | None = None,
) -> Sweep:
    """Replay sessions under strategies at several budgets, and once under BASELINE, which has no budget.

    Raises:
        ConfigError: without a budget, or for settings that cannot work.
        MissingExtraError: for a strategy whose extra is not installed.
    """
    if not budgets:
        raise ConfigError("there is no budget to try; write a range such as 30k..150k, or a list such as 50k,80k")
    order = sorted(set(budgets))
    cells = [(BASELINE, order[-1])]
    for name in names:
        if name != BASELINE:
            cells += [(name, budget) for budget in order]
    strategies = [(name, replace(settings, budget=budget)) for name, budget in cells]
    unevicted, *replays = run_each(engine, studied, strategies, progress)
    baseline, figures = total(unevicted), map(total, replays)
    points = [Point(*cell, totals) for cell, totals in zip(cells[1:], figures, strict=True)]
    if BASELINE in names:
        # It has no budget to exceed.
        points.insert(0, Point(BASELINE, None, replace(baseline, over=Counter())))
    points.sort(key=lambda point: (names.index(point.strategy), point.budget or 0))
    return Sweep(tuple(order), tuple(names), tuple(studied), tuple(points), baseline, baselines_of(studied, unevicted))


def parse_budgets(text: str, steps: int | None = None, *, window: int | None = None) -> tuple[int, ...]:
    """Return the budgets in a text, ascending.

    Args:
        text: a range such as `30k..150k`, or a list such as `50k,80k,120k`.
        steps: number of budgets in a range, its ends included; STEPS if None.
        window: tokens of which a percentage is a share; None if the window is not known, or not one.

    Raises:
        ConfigError: for text in another form, a budget that is named twice, a range that does not ascend, or an
            impossible number of steps.
    """
    ends = _RANGE.fullmatch(text.strip())
    if not ends:
        if steps is not None:
            raise ConfigError(f"a number of steps needs a range such as 30k..150k, not {text!r}")
        budgets = [parse_budget(word, window=window) for word in text.split(",") if word.strip()]
        if not budgets:
            raise ConfigError("no budget is named; write a range, 30k..150k, or a list, 50k,80k,120k")
        for budget in budgets:
            if budgets.count(budget) > 1:
                raise ConfigError(f"{text!r} names the budget {budget:,} twice; name each budget once")
        return tuple(sorted(budgets))
    low, high = (parse_budget(end, window=window) for end in ends.groups())
    count = STEPS if steps is None else steps
    if not 2 <= count <= MOST_STEPS:
        raise ConfigError(f"the number of steps is {count}; it must be from 2 to {MOST_STEPS}")
    if low >= high:
        raise ConfigError(f"the range {text!r} does not ascend; write the smaller budget first, as in 30k..150k")
    if high - low < count - 1:
        raise ConfigError(f"the range {text!r} does not hold {count} budgets; give fewer --steps")
    exact = [low + (high - low) * at / (count - 1) for at in range(count)]
    # Rounded to thousands, unless that makes budgets equal.
    grain = 1000 if high - low >= 2000 * (count - 1) else 1
    return tuple(sorted({low, high, *(round(budget / grain) * grain for budget in exact[1:-1])}))

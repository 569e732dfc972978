"""Sweeps budgets: cost and loss of each strategy at each budget (the paper's section 6.4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.budgets import AutoBudget
from wane.core import parse_budget
from wane.core.errors import ConfigError
from wane.core.policy import MAX_BUDGET
from wane.lab.best_budget import begin, explain_budget, explain_knee, frontier, unbeaten
from wane.lab.replaying.compare import BASELINE, Progress, baselines_of, prices_of, run_each, total
from wane.lab.replaying.jobs import JobEngine
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.verdict import OURS, Baselines
from wane.strategies.strategy import StrategySettings

STEPS: Final = 5
"""Default number of budgets in a range."""

MOST_STEPS: Final = 100
"""Largest number of budgets in a range."""

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

    @property
    def departures(self) -> Mapping[str, Any]:
        """Fields of the policy that differ from the defaults: none, a sweep tries budgets alone."""
        return {}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Strategies over the same sessions at several budgets, ascending.

    Attributes:
        names: the strategies asked for.
        points: by strategy in the order of `names`, then by budget, ascending.
        baseline: the figures of BASELINE.
        baselines: what the sessions cost without Wane.
        advised: the budget `auto`, at which the recommendation begins; None if budgets were given.
        weighed: the budgets among which it is chosen; empty for all.
    """

    budgets: tuple[int, ...]
    names: tuple[str, ...]
    studied: tuple[Studied, ...]
    points: tuple[Point, ...]
    baseline: Totals
    baselines: Baselines
    advised: AutoBudget | None = None
    weighed: Collection[int] = ()

    def of(self, name: str) -> tuple[Point, ...]:
        """Return the points of a strategy, ascending by budget."""
        return tuple(point for point in self.points if point.strategy == name)

    @property
    def frontier(self) -> tuple[Point, ...]:
        """Points that no other point beats at cost, with fetching again, and recall, cheapest first."""
        return tuple(frontier(self.points, lambda point: point.totals.full_cost, lambda point: point.recall))

    @property
    def recommended(self) -> Point | None:
        """Wane's point that `wane tune` would recommend of these; None if Wane was not among the strategies."""
        own = self._weighed
        return unbeaten(begin(own, self.advised), own) if own else None

    @property
    def reason(self) -> str:
        """Why it is recommended, in sentences; empty if nothing is."""
        chosen = self.recommended
        if chosen is None:
            return ""
        if self.advised is not None:
            why = explain_budget(chosen, self.advised, self._weighed)
        else:
            why = explain_knee(chosen, self._weighed)
        return f"{why} wane tune tries other budgets and policies, too, so that it may recommend another one."

    @property
    def _weighed(self) -> list[Point]:
        return [point for point in self.of(OURS) if not self.weighed or point.budget in self.weighed]

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
        best, chosen = self.frontier, self.recommended
        points: list[dict[str, Any]] = []
        for point in self.points:
            named = {"strategy": point.strategy, "budget": point.budget}
            points.append({**named, **self.figures(point), "on_frontier": point in best})
        return {
            "budgets": list(self.budgets),
            **prices_of(self.studied),
            "sessions": [prepared.to_dict() for prepared in self.studied],
            "points": points,
            "recommended": None if chosen is None else chosen.budget,
            "reason": self.reason,
            "frontier": [{"strategy": point.strategy, "budget": point.budget} for point in best],
        }


def sweep(
    studied: Sequence[Studied],
    names: Sequence[str],
    budgets: Sequence[int],
    settings: StrategySettings,
    engine: JobEngine,
    progress: Progress | None = None,
    advised: AutoBudget | None = None,
    weighed: Collection[int] = (),
) -> Sweep:
    """Replay sessions under strategies at several budgets, and once under BASELINE, which has no budget.

    Args:
        studied: the sessions.
        names: the strategies.
        budgets: the budgets to try.
        settings: further settings of the replays.
        engine: does the replays.
        progress: called after each replay.
        advised: the budget at which the recommendation begins, tried as well; see `wane.lab.advice`.
        weighed: the budgets among which it is chosen; empty for all.

    Raises:
        ConfigError: without a budget, or for settings that cannot work.
        MissingExtraError: for a strategy whose extra is not installed.
    """
    if not budgets and advised is None:
        raise ConfigError("there is no budget to try; write a range such as 30k..150k, or a list such as 50k,80k")
    order = sorted({*budgets} if advised is None else {*budgets, advised.tokens})
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
    without = baselines_of(studied, unevicted)
    return Sweep(
        tuple(order), tuple(names), tuple(studied), tuple(points), baseline, without, advised, frozenset(weighed)
    )


def check_budgets(text: str, steps: int | None = None) -> None:
    """Refuse what `parse_budgets` refuses whatever the window is: before files that may be long are read.

    Raises:
        ConfigError: as `parse_budgets` does.
    """
    is_range, shares = _RANGE.fullmatch(text.strip()), text.count("%")
    if not is_range or shares != 1:  # else the window decides which end is larger
        parse_budgets(text, steps, window=MAX_BUDGET)


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

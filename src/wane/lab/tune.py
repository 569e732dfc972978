"""A budget and a policy for one user's work: what was tried, what is best, and what the rest would have cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any, Final, get_args

from wane.core import DEFAULT_BUDGET, Policy
from wane.core.errors import ConfigError
from wane.core.policy import Order
from wane.lab.figures import Totals
from wane.lab.frontier import frontier, knee
from wane.lab.replaying.compare import BASELINE, Progress, jobs_for, price_dict, run_all, total
from wane.lab.replaying.engine import Engine
from wane.lab.replaying.gathering import Studied
from wane.lab.replaying.replay import Pricing
from wane.strategies.base import Settings

BUDGETS: Final = (40_000, 60_000, 80_000, 100_000, 120_000, 160_000)
"""Budgets that are tried unless others are given."""

DEPTHS: Final[Mapping[str, tuple[Any, ...]]] = {"low_water": (0.85, 0.7, 0.55, 0.4, 0.3)}
"""Settings of the policy that are tried at every budget: with it, they decide how much goes at a time."""

KNOBS: Final[Mapping[str, tuple[Any, ...]]] = {
    "order": get_args(Order),
    "by_level": (False, True),
    "guard": (None, 0.0, 0.15, 0.45),
    "evict_when_cold": (False, True),
}
"""Settings that are tried at the budget and depth that were chosen: with them, a policy decides what goes. The
one place to enter a further field of Policy, with the values to try."""

RIVALS: Final = ("truncate", "compact", "clear-tools", "paper")
"""Strategies that the choice is told against, at its budget."""

_NEAR: Final = 1.02
"""Up to this much of the cheapest cost, policies count as equally cheap, and the one that keeps more is better."""

_GAIN: Final = 0.002
"""What a policy must keep more, as a share, to be worth another departure from the defaults."""

_OURS: Final = "cwl"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A budget and a policy, with what they came to over all sessions.

    Attributes:
        budget: tokens that a view might hold.
        policy: the policy.
        totals: the figures.
    """

    budget: int
    policy: Policy
    totals: Totals

    @property
    def cost(self) -> float:
        """Dollars, those for fetching again what was needed and gone included."""
        return full_cost(self.totals)

    @property
    def kept(self) -> float:
        """How much of what later work needed was in view, from 0 to 1: see `kept_of`."""
        return kept_of(self.totals)

    @property
    def departures(self) -> dict[str, Any]:
        """Fields of the policy that are not as by default."""
        return departures(self.policy)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something else that was tried, to be told against the choice.

    Attributes:
        what: what differs, such as `budget` or `low_water`, or `strategy`.
        value: what it is then.
        totals: the figures.
    """

    what: str
    value: Any
    totals: Totals


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is recommended for some sessions, and why.

    Attributes:
        pricing: prices and cache rules.
        studied: the sessions.
        chosen: the budget and the policy that are recommended.
        candidates: all that were tried.
        frontier: of those of the first round (budgets and depths) the ones that no other beats, the cheapest first.
        alternatives: what the reasons tell the choice against.
        baseline: the figures of BASELINE.
    """

    pricing: Pricing
    studied: tuple[Studied, ...]
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    alternatives: tuple[Alternative, ...]
    baseline: Totals

    @property
    def unfilled(self) -> bool:
        """Whether nothing was evicted at any budget that was tried, so that none is better than another."""
        return all(it.totals.passes == 0 for it in self.candidates)

    def config(self) -> str:
        """Return the choice as lines for the agent's settings (`.wane.toml` or `config.toml`)."""
        changed = self.chosen.departures
        lines = [f"budget = {self.chosen.budget}", *(f"{name} = {_toml(value)}" for name, value in changed.items())]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            **price_dict(self.pricing),
            "sessions": [it.to_dict() for it in self.studied],
            "recommended": self._candidate(self.chosen),
            "unfilled": self.unfilled,
            "config": self.config(),
            "frontier": [self._candidate(it) for it in self.frontier],
            "alternatives": [
                {"what": it.what, "value": it.value, **self._against(it.totals), **it.totals.to_dict(self.baseline)}
                for it in self.alternatives
            ],
            "candidates": [self._candidate(it) for it in self.candidates],
            "none": self.baseline.to_dict(self.baseline),
        }

    def _candidate(self, it: Candidate) -> dict[str, Any]:
        measures = {"cost_with_rereads_usd": it.cost, "kept": it.kept}
        return {"budget": it.budget, "policy": asdict(it.policy), **measures, **it.totals.to_dict(self.baseline)}

    def _against(self, totals: Totals) -> dict[str, float]:
        chosen = self.chosen
        return {
            "cost_with_rereads_usd": full_cost(totals),
            "kept": kept_of(totals),
            "costs_more_usd": full_cost(totals) - chosen.cost,
            "keeps_more": kept_of(totals) - chosen.kept,
        }


def tune(
    studied: Sequence[Studied],
    settings: Settings,
    pricing: Pricing,
    engine: Engine,
    budgets: Iterable[int] = BUDGETS,
    progress: Progress | None = None,
) -> Tuning:
    """Try budgets and policies over sessions, and recommend one of each.

    First budgets are tried with DEPTHS, and the knee of the frontier of cost (fetching again priced in) against what
    was kept is taken; then, there, KNOBS: of what is about as cheap as the cheapest, the policy that keeps most. That
    policy is tried at the other budgets too, and other strategies at its budget, to tell it against them. The same
    sessions and prices give the same answer.

    Args:
        studied: the sessions.
        settings: what the strategy is made with, budget and policy aside.
        pricing: prices and cache rules.
        engine: does the replays.
        budgets: the budgets to try.
        progress: called after each replay.

    Raises:
        ConfigError: if there is no budget to try.
    """
    order = sorted(set(budgets))
    if not order:
        raise ConfigError("there is no budget to try; write a range such as 30k..150k, or a list such as 50k,80k")
    trial = _Trial(studied, settings, pricing, engine, progress, _jobs_in_all(order))
    first = trial.candidates([(budget, policy) for budget in order for policy in grid(DEPTHS)])
    # Of what comes to the same, what is nearest to the defaults.
    first.sort(key=lambda it: (abs(it.budget - DEFAULT_BUDGET), len(it.departures)))
    best = frontier(first, lambda it: it.cost, lambda it: it.kept)
    corner = knee(best, lambda it: it.cost, lambda it: it.kept)
    second = trial.candidates([(corner.budget, policy) for policy in grid(KNOBS, corner.policy)])
    chosen = choose([corner, *second])
    third = trial.candidates([(budget, chosen.policy) for budget in order])
    rivals = trial.rivals(chosen.budget)
    baseline = rivals.pop(BASELINE)
    every = {(it.budget, it.policy): it for it in [*first, *second, *third]}
    candidates = tuple(sorted(every.values(), key=lambda it: it.budget))
    alternatives = [*_neighbours(chosen, candidates), *(Alternative("strategy", *it) for it in rivals.items())]
    return Tuning(pricing, tuple(studied), chosen, candidates, tuple(best), tuple(alternatives), baseline)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Return, of policies at one budget, the one that keeps most of those that are about as cheap as the cheapest.

    One that departs further from the defaults must keep enough more to be worth it.
    """
    limit = _NEAR * min(it.cost for it in candidates)
    cheap = [it for it in candidates if it.cost <= limit]
    return max(cheap, key=lambda it: (it.kept - _GAIN * len(it.departures), -it.cost))


def grid(values: Mapping[str, Sequence[Any]], base: Policy | None = None) -> list[Policy]:
    """Return every policy that has one of the values in each of these fields, and is else like `base`.

    The value that `base` has in a field is among those that are tried.
    """
    start = base or Policy()
    tried = [dict.fromkeys([*choices, getattr(start, name)]) for name, choices in values.items()]
    return [replace(start, **dict(zip(values, chosen, strict=True))) for chosen in product(*tried)]


def departures(policy: Policy) -> dict[str, Any]:
    """Return the fields of a policy that are not as by default, with their values."""
    default = Policy()
    found = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {name: value for name, value in found.items() if value != getattr(default, name)}


def full_cost(totals: Totals) -> float:
    """Return dollars, those for fetching again what was needed and gone included."""
    return totals.dollars + totals.reread_cost


def kept_of(totals: Totals) -> float:
    """Return the mean of reference recall and edit grounding: how much of what later work needed was in view."""
    return (totals.loss.reference_recall + totals.loss.edit_grounding) / 2


class _Trial:
    """Replays as they are asked for, with progress over all of them."""

    def __init__(
        self,
        studied: Sequence[Studied],
        settings: Settings,
        pricing: Pricing,
        engine: Engine,
        progress: Progress | None,
        jobs: int,
    ) -> None:
        self._studied, self._settings, self._pricing, self._engine = studied, settings, pricing, engine
        self._progress, self._jobs, self._done = progress, jobs * len(studied), 0
        self._known: dict[tuple[int, Policy], Candidate] = {}

    def candidates(self, cells: Sequence[tuple[int, Policy]]) -> list[Candidate]:
        fresh = list(dict.fromkeys(cell for cell in cells if cell not in self._known))
        settings = [replace(self._settings, budget=budget, policy=policy, low_water=None) for budget, policy in fresh]
        found = self._run([(_OURS, it) for it in settings])
        self._known.update((cell, Candidate(*cell, totals)) for cell, totals in zip(fresh, found, strict=True))
        return [self._known[cell] for cell in cells]

    def rivals(self, budget: int) -> dict[str, Totals]:
        names = (BASELINE, *RIVALS)
        settings = replace(self._settings, budget=budget)
        return dict(zip(names, self._run([(name, settings) for name in names]), strict=True))

    def _run(self, cells: Sequence[tuple[str, Settings]]) -> list[Totals]:
        jobs = [job for name, settings in cells for job in jobs_for(self._studied, name, settings, self._pricing)]
        before, size = self._done, len(self._studied)

        def told(done: int, _: int) -> None:
            if self._progress:
                self._progress(before + done, self._jobs)

        replays = run_all(self._engine, self._studied, jobs, told)
        self._done += len(jobs)
        return [total(replays[at * size : (at + 1) * size]) for at in range(len(cells))]


def _jobs_in_all(budgets: Sequence[int]) -> int:
    """How many replays of one session there will be, if the policy that is chosen departs from the defaults."""
    return len(budgets) * len(grid(DEPTHS)) + len(grid(KNOBS)) - 1 + len(budgets) - 1 + len(RIVALS) + 1


def _neighbours(chosen: Candidate, candidates: Sequence[Candidate]) -> list[Alternative]:
    """What was tried that differs from the choice in one thing; of what comes to the same, the first."""
    found = [
        Alternative("budget", it.budget, it.totals)
        for it in candidates
        if it.policy == chosen.policy and it.budget != chosen.budget
    ]
    for name in (*DEPTHS, *KNOBS):
        seen: set[tuple[float, float]] = set()
        for it in candidates:
            alone = it.budget == chosen.budget and _differs_in(it.policy, chosen.policy) == {name}
            if alone and (it.cost, it.kept) not in seen:
                seen.add((it.cost, it.kept))
                found.append(Alternative(name, getattr(it.policy, name), it.totals))
    return found


def _differs_in(one: Policy, other: Policy) -> set[str]:
    return {field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)}


def _toml(value: Any) -> str:
    # What a policy holds is written alike in both.
    return json.dumps(value)

"""Tunes budget and policy to one user's work: tries candidates, chooses the best, and compares it with the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from math import log
from typing import Any, Final, Literal, get_args

from wane.core import DEFAULT_BUDGET, Policy
from wane.core.errors import ConfigError
from wane.core.policy import Order
from wane.lab.figures import Totals
from wane.lab.replaying.compare import BASELINE, Progress, prices_of, run_each, total
from wane.lab.replaying.engine import Engine
from wane.lab.replaying.replay import Replay
from wane.lab.replaying.studying import Studied
from wane.lab.room import TightSession, tight_sessions
from wane.lab.sweep import frontier
from wane.lab.verdict import OURS, Baselines, to_dict, verdict
from wane.strategies.base import Settings

BUDGETS: Final = (40_000, 60_000, 80_000, 100_000, 120_000, 160_000)
"""The default budgets to try."""

DEPTHS: Final[Mapping[str, tuple[Any, ...]]] = {"low_water": (0.85, 0.7, 0.55, 0.4, 0.3)}
"""Fields of the policy that are tried at every budget: together they decide how much a pass evicts."""

KNOBS: Final[Mapping[str, tuple[Any, ...]]] = {
    "order": get_args(Order),
    "guard": (None, 0.0, 0.15, 0.45),
    "evict_when_cold": (False, True),
}
"""Fields of the policy that are tried at the chosen budget and depth: they decide which content a pass evicts. To tune
a further field, enter it here with the values to try."""

RIVALS: Final = ("truncate", "compact", "clear-tools", "paper")
"""Strategies that the choice is compared with, at its budget."""

_NEAR: Final = 1.02
"""Policies that cost up to this factor of the cheapest count as equally cheap; the one that keeps more is better."""

GAIN: Final = 0.002
"""Differences of the kept share up to this one count as none: a policy must keep more to justify another departure."""

CLOSE: Final = 0.005
"""Differences of cost up to this share count as none."""

_CENT: Final = 0.01

_ROUNDS: Final = 3
"""How often the chosen policy is tried at all budgets, if each time another one turns out better."""

Edge = Literal["lowest", "highest"]
"""Which end of the values that were tried."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A budget and a policy, with their figures over all sessions.

    Attributes:
        budget: tokens that a view may hold.
        policy: the policy.
        totals: the figures.
    """

    budget: int
    policy: Policy
    totals: Totals

    @property
    def cost(self) -> float:
        """Dollars, with those for fetching evicted content again."""
        return self.totals.full_cost

    @property
    def kept(self) -> float:
        """Share of the content needed later that was in view, from 0 to 1; see `kept_of`."""
        return kept_of(self.totals)

    @property
    def departures(self) -> dict[str, Any]:
        """Fields of the policy that differ from the defaults, with their values."""
        return departures(self.policy)


@dataclass(frozen=True, slots=True)
class Alternative:
    """An alternative to compare the choice with.

    Attributes:
        what: the field that differs, such as `budget` or `low_water`, or `strategy`.
        value: its value.
        totals: the figures.
    """

    what: str
    value: Any
    totals: Totals


@dataclass(frozen=True, slots=True)
class Tuning:
    """The recommendation for some sessions, and its reasons.

    Attributes:
        studied: the sessions.
        chosen: the recommended budget and policy.
        candidates: all candidates.
        frontier: candidates that no other beats, cheapest first.
        alternatives: the alternatives to compare the choice with.
        baseline: the figures of BASELINE.
        baselines: what the sessions cost without Wane.
        tight: the sessions for which the recommended budget leaves too little room.
    """

    studied: tuple[Studied, ...]
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    alternatives: tuple[Alternative, ...]
    baseline: Totals
    baselines: Baselines
    tight: tuple[TightSession, ...] = ()

    @property
    def cheapest(self) -> bool:
        """Whether nothing that was tried is cheaper."""
        return self.chosen.cost <= (1 + CLOSE) * self.frontier[0].cost

    @property
    def default(self) -> Candidate | None:
        """The defaults, if they were tried."""
        return next((it for it in self.candidates if (it.budget, it.policy) == (DEFAULT_BUDGET, Policy())), None)

    @property
    def unfilled(self) -> bool:
        """Whether nothing was evicted at any budget, so that none is better than another."""
        return all(it.totals.passes == 0 for it in self.candidates)

    @property
    def edges(self) -> dict[str, Edge]:
        """The settings that the choice took from the edge of the tried values; better ones may lie beyond it."""
        tried = {
            "budget": {it.budget for it in self.candidates},
            **{name: {getattr(it.policy, name) for it in self.candidates} for name in DEPTHS},
        }
        values = {"budget": self.chosen.budget, **{name: getattr(self.chosen.policy, name) for name in DEPTHS}}
        found: dict[str, Edge] = {}
        for name, value in values.items():
            if len(tried[name]) > 1 and value in (min(tried[name]), max(tried[name])):
                found[name] = "lowest" if value == min(tried[name]) else "highest"
        return found

    def config(self) -> str:
        """Return the choice as lines for the agent's settings (`.wane.toml` or `config.toml`)."""
        # JSON writes a policy's values as TOML does.
        changed = {"budget": self.chosen.budget, **self.chosen.departures}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in changed.items())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            **prices_of(self.studied),
            "sessions": [it.to_dict() for it in self.studied],
            "recommended": self._candidate(self.chosen),
            "unfilled": self.unfilled,
            "edges": self.edges,
            "config": self.config(),
            "frontier": [self._candidate(it) for it in self.frontier],
            "alternatives": [
                {"what": it.what, "value": it.value, **self._against(it.totals), **it.totals.to_dict(self.baseline)}
                for it in self.alternatives
            ],
            "candidates": [self._candidate(it) for it in self.candidates],
            "none": self.baseline.to_dict(self.baseline),
            **to_dict(self.baselines, self.baseline),
            "verdict": verdict(self.baselines, self.chosen.totals, f"{OURS} so tuned"),
            "tight": [it.to_dict() for it in self.tight],
        }

    def _candidate(self, it: Candidate) -> dict[str, Any]:
        measures = {"cost_and_again_usd": it.cost, "kept": it.kept}
        return {"budget": it.budget, "policy": asdict(it.policy), **measures, **it.totals.to_dict(self.baseline)}

    def _against(self, totals: Totals) -> dict[str, float]:
        chosen = self.chosen
        return {
            "cost_and_again_usd": totals.full_cost,
            "kept": kept_of(totals),
            "costs_more_usd": totals.full_cost - chosen.cost,
            "keeps_more": kept_of(totals) - chosen.kept,
        }


def tune(
    studied: Sequence[Studied],
    settings: Settings,
    engine: Engine,
    budgets: Iterable[int] = BUDGETS,
    progress: Progress | None = None,
) -> Tuning:
    """Try budgets and policies on sessions, and recommend one of each.

    The first round tries budgets with DEPTHS and takes the knee of the frontier of cost (with fetching again) against
    the kept share. The second tries KNOBS there, and takes the policy that keeps most of those about as cheap as the
    cheapest. To compare the choice, that policy is also tried at the other budgets, and other strategies at its budget.
    If anything that was tried is better than the choice, it is taken instead. The same sessions and prices give the
    same answer.

    Args:
        studied: the sessions.
        settings: settings of the strategy; their budget and policy are ignored.
        engine: does the replays.
        budgets: the budgets to try.
        progress: called after each replay.

    Raises:
        ConfigError: without a budget to try.
    """
    order = sorted(set(budgets))
    if not order:
        raise ConfigError("there is no budget to try; write a range such as 30k..150k, or a list such as 50k,80k")
    # Replays of one session, if the chosen policy departs from the defaults.
    jobs = len(order) * len(grid(DEPTHS)) + len(grid(KNOBS)) - 1 + _ROUNDS * (len(order) - 1) + len(RIVALS) + 1
    trial = _Trial(studied, settings, engine, progress, jobs)
    first = trial.candidates([(budget, policy) for budget in order for policy in grid(DEPTHS)])
    # Of equals, the one nearest to the defaults comes first.
    first.sort(key=lambda it: (abs(it.budget - DEFAULT_BUDGET), len(it.departures)))
    best = frontier(first, lambda it: it.cost, lambda it: it.kept)
    corner = knee(best)
    second = trial.candidates([(corner.budget, policy) for policy in grid(KNOBS, corner.policy)])
    chosen = choose([corner, *second])
    for _ in range(_ROUNDS):
        trial.candidates([(budget, chosen.policy) for budget in order])
        candidates = trial.tried
        if (chosen := unbeaten(before := chosen, candidates)).policy == before.policy:
            break
    rivals = trial.rivals(chosen.budget)
    unevicted = rivals.pop(BASELINE)
    pairs = zip(studied, unevicted, strict=True)
    baselines = sum((Baselines.of(it.subject.material, it.pricing, replay) for it, replay in pairs), Baselines())
    strategies = [Alternative("strategy", name, total(replays)) for name, replays in rivals.items()]
    return Tuning(
        tuple(studied),
        chosen,
        candidates,
        tuple(frontier(candidates, lambda it: it.cost, lambda it: it.kept)),
        (*_neighbours(chosen, candidates), *strategies),
        total(unevicted),
        baselines,
        tuple(tight_sessions(studied, replace(settings, budget=chosen.budget, policy=chosen.policy), engine)),
    )


def knee(points: Sequence[Candidate]) -> Candidate:
    """Return the point of a frontier that lies farthest above the line between its ends.

    Up to that point, spending more keeps much more; beyond it, hardly any more. Cost and kept share are scaled to 0..1
    between the ends, so that their units do not matter. A frontier of two points has no knee; the cheaper point is
    returned.

    Args:
        points: a frontier, cheapest first; at least one point.
    """
    first, last = points[0], points[-1]
    width, height = last.cost - first.cost, last.kept - first.kept
    if width <= 0 or height <= 0:
        return first
    return max(points, key=lambda it: (it.kept - first.kept) / height - (it.cost - first.cost) / width)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Return the policy that keeps most among those about as cheap as the cheapest; all have one budget.

    A policy that departs further from the defaults must keep enough more to justify it.
    """
    limit = _NEAR * min(it.cost for it in candidates)
    cheap = [it for it in candidates if it.cost <= limit]
    return max(cheap, key=lambda it: (it.kept - GAIN * len(it.departures), -it.cost))


def unbeaten(chosen: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return the choice, or what of all that was tried is better than it, until nothing is.

    Each step gains more in cost or kept share than it may lose in the other, so the steps end.
    """
    while better := [it for it in candidates if beats(it.totals, chosen.totals)]:
        chosen = max(better, key=lambda it: (it.kept / GAIN - log(max(it.cost, _CENT)) / CLOSE, -len(it.departures)))
    return chosen


def beats(one: Totals, other: Totals) -> bool:
    """Return whether figures are better than others: clearly in cost or kept share, and not clearly worse in either."""
    cost, kept = one.full_cost, kept_of(one)
    as_good = cost <= (1 + CLOSE) * other.full_cost and kept >= kept_of(other) - GAIN
    return as_good and (cost < (1 - CLOSE) * other.full_cost or kept > kept_of(other) + GAIN)


def grid(values: Mapping[str, Sequence[Any]], base: Policy | None = None) -> list[Policy]:
    """Return every policy with one of the values in each of these fields, otherwise like `base`.

    The value that `base` has in a field is tried as well.
    """
    start = base or Policy()
    tried = [dict.fromkeys([*choices, getattr(start, name)]) for name, choices in values.items()]
    return [replace(start, **dict(zip(values, chosen, strict=True))) for chosen in product(*tried)]


def departures(policy: Policy) -> dict[str, Any]:
    """Return the fields of a policy that differ from the defaults, with their values."""
    default = Policy()
    found = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {name: value for name, value in found.items() if value != getattr(default, name)}


def kept_of(totals: Totals) -> float:
    """Return the mean of reference recall and edit grounding: the share of content needed later that was in view."""
    return (totals.loss.reference_recall + totals.loss.edit_grounding) / 2


class _Trial:
    """Runs replays on request, and reports progress over all of them."""

    def __init__(
        self,
        studied: Sequence[Studied],
        settings: Settings,
        engine: Engine,
        progress: Progress | None,
        jobs: int,
    ) -> None:
        self._studied, self._settings, self._engine = studied, settings, engine
        self._progress, self._jobs, self._done = progress, jobs * len(studied), 0
        self._known: dict[tuple[int, Policy], Candidate] = {}

    def candidates(self, cells: Sequence[tuple[int, Policy]]) -> list[Candidate]:
        fresh = list(dict.fromkeys(cell for cell in cells if cell not in self._known))
        settings = [replace(self._settings, budget=budget, policy=policy, low_water=None) for budget, policy in fresh]
        found = self._run([(OURS, it) for it in settings])
        self._known.update((cell, Candidate(*cell, total(replays))) for cell, replays in zip(fresh, found, strict=True))
        return [self._known[cell] for cell in cells]

    @property
    def tried(self) -> tuple[Candidate, ...]:
        """All candidates so far, in order of their budgets."""
        return tuple(sorted(self._known.values(), key=lambda it: (it.budget, len(it.departures))))

    def rivals(self, budget: int) -> dict[str, tuple[Replay, ...]]:
        names = (BASELINE, *RIVALS)
        settings = replace(self._settings, budget=budget)
        return dict(zip(names, self._run([(name, settings) for name in names]), strict=True))

    def _run(self, cells: Sequence[tuple[str, Settings]]) -> list[tuple[Replay, ...]]:
        before = self._done

        def told(done: int, _: int) -> None:
            if self._progress:
                self._progress(before + done, self._jobs)

        found = run_each(self._engine, self._studied, cells, told)
        self._done += len(cells) * len(self._studied)
        return found


def _neighbours(chosen: Candidate, candidates: Sequence[Candidate]) -> list[Alternative]:
    """Return the candidates that differ from the choice in one setting; of equals, the first."""
    found = [
        Alternative("budget", it.budget, it.totals)
        for it in candidates
        if it.policy == chosen.policy and it.budget != chosen.budget
    ]
    for name in (*DEPTHS, *KNOBS):
        seen: set[tuple[float, float]] = set()
        for it in candidates:
            like = replace(chosen.policy, **{name: getattr(it.policy, name)})
            alone = it.budget == chosen.budget and it.policy == like != chosen.policy
            if alone and (it.cost, it.kept) not in seen:
                seen.add((it.cost, it.kept))
                found.append(Alternative(name, getattr(it.policy, name), it.totals))
    return found

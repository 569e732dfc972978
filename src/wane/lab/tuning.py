"""Tunes budget and policy to one user's work: tries candidates, chooses one, and compares it with the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from typing import Any, Final, Literal, get_args

from wane.budgets import AutoBudget
from wane.core import DEFAULT_BUDGET, Policy
from wane.core.errors import ConfigError
from wane.core.policy import Order
from wane.lab.best_budget import CLOSE, begin, choose, frontier, unbeaten
from wane.lab.replaying.compare import BASELINE, Progress, baselines_of, prices_of, run_each, total
from wane.lab.replaying.jobs import JobEngine
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Replay
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.tight_sessions import TightSession, tight_sessions
from wane.lab.replaying.verdict import OURS, Baselines, to_dict, verdict
from wane.strategies.strategy import StrategySettings
from wane.words import name_strategy

BUDGETS: Final = (40_000, 60_000, 80_000, 100_000, 120_000, 160_000)
"""The default budgets to try."""

DEPTHS: Final[Mapping[str, tuple[Any, ...]]] = {"low_water": (0.7, 0.55, 0.4, 0.3, 0.2)}
"""Fields of the policy that are tried at every budget: together they decide how much a pass evicts."""

KNOBS: Final[Mapping[str, tuple[Any, ...]]] = {
    "order": get_args(Order),
    "guard": (None, 0.0, 0.15, 0.45),
    "evict_when_cold": (False, True),
}
"""Fields of the policy that are tried at the chosen budget and depth: they decide which content a pass evicts. To tune
another field, add it here with the values to try."""

RIVALS: Final = ("truncate", "compact", "clear-tools", "fold", "paper")
"""Strategies that the choice is compared with, at its budget."""

_ROUNDS: Final = 3
"""How often a chosen policy is tried at all budgets, if each time another one turns out to be better."""

Edge = Literal["lowest", "highest"]
"""An end of the values that were tried."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A budget and a policy, with their figures over all sessions."""

    budget: int
    policy: Policy
    totals: Totals

    @property
    def cost(self) -> float:
        """Dollars, with those for fetching evicted content again."""
        return self.totals.full_cost

    @property
    def kept(self) -> float:
        """Share of the content needed later that was in view, from 0 to 1."""
        return self.totals.kept

    def setting(self, name: str) -> Any:
        """Return the budget, or a field of the policy."""
        return self.budget if name == "budget" else getattr(self.policy, name)

    @property
    def departures(self) -> dict[str, Any]:
        """Fields of the policy that differ from the defaults, with their values."""
        default = Policy()
        values = {knob.name: getattr(self.policy, knob.name) for knob in fields(default)}
        return {name: value for name, value in values.items() if value != getattr(default, name)}


@dataclass(frozen=True, slots=True)
class Alternative:
    """An alternative to the choice: the field that differs, or `budget` or `strategy`; its value and figures."""

    what: str
    value: Any
    totals: Totals


@dataclass(frozen=True, slots=True)
class Tuning:
    """The recommendation for some sessions, and its reasons.

    Attributes:
        frontier: candidates that no other beats, cheapest first.
        alternatives: the alternatives to compare the choice with.
        baseline: the figures of BASELINE.
        baselines: what the sessions cost without Wane.
        tight: the sessions for which the recommended budget leaves too little room.
        advised: the budget `auto`, at which the search began; None if it was among given budgets.
    """

    studied: tuple[Studied, ...]
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    alternatives: tuple[Alternative, ...]
    baseline: Totals
    baselines: Baselines
    tight: tuple[TightSession, ...] = ()
    advised: AutoBudget | None = None

    @property
    def rivals(self) -> list[Alternative]:
        """Other strategies, at the budget of the choice."""
        return [alternative for alternative in self.alternatives if alternative.what == "strategy"]

    @property
    def cheapest(self) -> bool:
        """Whether nothing that was tried is cheaper."""
        return self.chosen.cost <= (1 + CLOSE) * self.frontier[0].cost

    @property
    def default(self) -> Candidate | None:
        """The defaults, if they were tried."""
        tried = {(candidate.budget, candidate.policy): candidate for candidate in self.candidates}
        return tried.get((DEFAULT_BUDGET, Policy()))

    @property
    def unfilled(self) -> bool:
        """Whether nothing was evicted at any budget, so that no budget is better than another."""
        return all(candidate.totals.passes == 0 for candidate in self.candidates)

    @property
    def edges(self) -> dict[str, Edge]:
        """The settings for which the choice has the lowest or highest tried value; a better one may lie beyond it."""
        edges: dict[str, Edge] = {}
        # Around the advised budget, the lowest one that was tried is the lowest that leaves room.
        for name in DEPTHS if self.advised else ("budget", *DEPTHS):
            value = self.chosen.setting(name)
            tried = {candidate.setting(name) for candidate in self.candidates}
            if len(tried) > 1 and value in (min(tried), max(tried)):
                edges[name] = "lowest" if value == min(tried) else "highest"
        return edges

    def config(self) -> str:
        """Return the choice as lines for the agent's settings (`.wane.toml` or `config.toml`); none if `unfilled`."""
        if self.unfilled:
            return ""
        # JSON writes a policy's values as TOML does.
        changed = {"budget": self.chosen.budget, **self.chosen.departures}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in changed.items())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            **prices_of(self.studied),
            "sessions": [prepared.to_dict() for prepared in self.studied],
            "recommended": self._candidate(self.chosen),
            "advised": None if self.advised is None else asdict(self.advised),
            "unfilled": self.unfilled,
            "edges": self.edges,
            "config": self.config(),
            "frontier": [self._candidate(candidate) for candidate in self.frontier],
            "alternatives": [self._alternative(alternative) for alternative in self.alternatives],
            "candidates": [self._candidate(candidate) for candidate in self.candidates],
            "none": self.baseline.to_dict(self.baseline),
            **to_dict(self.baselines, self.baseline),
            "verdict": verdict(self.baselines, self.chosen.totals, f"{name_strategy(OURS)} so tuned"),
            "tight": [session.to_dict() for session in self.tight],
        }

    def _candidate(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "budget": candidate.budget,
            "policy": asdict(candidate.policy),
            "cost_and_again_usd": candidate.cost,
            "kept": candidate.kept,
            **candidate.totals.to_dict(self.baseline),
        }

    def _alternative(self, alternative: Alternative) -> dict[str, Any]:
        totals = alternative.totals
        return {
            "what": alternative.what,
            "value": alternative.value,
            "cost_and_again_usd": totals.full_cost,
            "kept": totals.kept,
            "costs_more_usd": totals.full_cost - self.chosen.cost,
            "keeps_more": totals.kept - self.chosen.kept,
            **totals.to_dict(self.baseline),
        }


def tune(
    studied: Sequence[Studied],
    settings: StrategySettings,
    engine: JobEngine,
    budgets: Iterable[int] = BUDGETS,
    progress: Progress | None = None,
    advised: AutoBudget | None = None,
) -> Tuning:
    """Try budgets and policies on sessions, and recommend one of each; budget and policy of the settings are ignored.

    The first round tries budgets with DEPTHS. It takes the advised budget with the policy that keeps most among the
    cheapest there, or without one the knee of the frontier of cost (with fetching again) against the kept share. The
    second tries KNOBS there, and among the policies about as cheap as the cheapest takes the one that keeps most. That
    policy is also tried at the other budgets, and other strategies at its budget. If anything tried is better than the
    choice, it is taken instead. The same sessions and prices give the same answer.

    Args:
        studied: the sessions.
        settings: further settings of the replays.
        engine: does the replays.
        budgets: budgets to try, besides the advised one.
        progress: called after each replay.
        advised: the budget at which to begin; see `wane.lab.advice`.

    Raises:
        ConfigError: without a budget to try.
    """
    order = sorted({*budgets} if advised is None else {*budgets, advised.tokens})
    if not order:
        raise ConfigError("there is no budget to try; write a range such as 30k..150k, or a list such as 50k,80k")
    # Replays of one session, if the chosen policy departs from the defaults.
    jobs = len(order) * len(grid(DEPTHS)) + len(grid(KNOBS)) - 1 + _ROUNDS * (len(order) - 1) + len(RIVALS) + 1
    trial = _Trial(studied, settings, engine, progress, jobs * len(studied))
    first = trial.candidates([(budget, policy) for budget in order for policy in grid(DEPTHS)])
    corner = begin(first, advised)
    second = trial.candidates([(corner.budget, policy) for policy in grid(KNOBS, corner.policy)])
    chosen = choose([corner, *second])
    for _ in range(_ROUNDS):
        policy = chosen.policy
        trial.candidates([(budget, policy) for budget in order])
        candidates = trial.tried
        chosen = unbeaten(chosen, candidates)
        if chosen.policy == policy:
            break
    at_budget = replace(settings, budget=chosen.budget)
    unevicted, *rivals = trial.run([(name, at_budget) for name in (BASELINE, *RIVALS)])
    strategies = [Alternative("strategy", name, total(rival)) for name, rival in zip(RIVALS, rivals, strict=True)]
    return Tuning(
        tuple(studied),
        chosen,
        candidates,
        tuple(frontier(candidates, lambda candidate: candidate.cost, lambda candidate: candidate.kept)),
        (*_neighbours(chosen, candidates), *strategies),
        total(unevicted),
        baselines_of(studied, unevicted),
        tuple(tight_sessions(studied, replace(at_budget, policy=chosen.policy), engine)),
        advised,
    )


def grid(values: Mapping[str, Sequence[Any]], base: Policy | None = None) -> list[Policy]:
    """Return all policies with one of the values in each of these fields, and otherwise like `base`.

    The value that `base` has in a field is one of them.
    """
    start = base or Policy()
    tried = [dict.fromkeys([*choices, getattr(start, name)]) for name, choices in values.items()]
    return [replace(start, **dict(zip(values, chosen, strict=True))) for chosen in product(*tried)]


@dataclass(slots=True)
class _Trial:
    """Runs replays on request, and reports progress over all `jobs`."""

    studied: Sequence[Studied]
    settings: StrategySettings
    engine: JobEngine
    progress: Progress | None
    jobs: int
    done: int = 0
    known: dict[tuple[int, Policy], Candidate] = field(default_factory=dict)

    def candidates(self, cells: Sequence[tuple[int, Policy]]) -> list[Candidate]:
        fresh: dict[tuple[int, Policy], tuple[str, StrategySettings]] = {}
        for budget, policy in cells:
            if (budget, policy) not in self.known:
                settings = replace(self.settings, budget=budget, policy=policy, low_water=None)
                fresh[budget, policy] = (OURS, settings)
        for cell, replays in zip(fresh, self.run(list(fresh.values())), strict=True):
            self.known[cell] = Candidate(*cell, total(replays))
        return [self.known[cell] for cell in cells]

    @property
    def tried(self) -> tuple[Candidate, ...]:
        """All candidates so far, in order of their budgets."""
        return tuple(sorted(self.known.values(), key=lambda candidate: (candidate.budget, len(candidate.departures))))

    def run(self, cells: Sequence[tuple[str, StrategySettings]]) -> list[tuple[Replay, ...]]:
        before = self.done

        def on_replay(done: int, _: int) -> None:
            if self.progress:
                self.progress(before + done, self.jobs)

        replays = run_each(self.engine, self.studied, cells, on_replay)
        self.done += len(cells) * len(self.studied)
        return replays


def _neighbours(chosen: Candidate, candidates: Sequence[Candidate]) -> list[Alternative]:
    """Return the candidates that differ from the choice in one setting; of equals, the first."""
    budgets = [candidate for candidate in candidates if candidate.policy == chosen.policy and candidate is not chosen]
    alternatives = [Alternative("budget", candidate.budget, candidate.totals) for candidate in budgets]
    others = [candidate for candidate in candidates if candidate.budget == chosen.budget]
    for name in (*DEPTHS, *KNOBS):
        listed: set[tuple[float, float]] = set()
        for candidate in others:
            value = candidate.setting(name)
            differs_here_only = candidate.policy == replace(chosen.policy, **{name: value}) != chosen.policy
            if differs_here_only and (candidate.cost, candidate.kept) not in listed:
                listed.add((candidate.cost, candidate.kept))
                alternatives.append(Alternative(name, value, candidate.totals))
    return alternatives

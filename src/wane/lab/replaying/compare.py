"""Compares strategies: each over the same sessions, at one budget and one price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.core.errors import ConfigError
from wane.lab.replaying.jobs import Job, JobEngine
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Replay
from wane.lab.replaying.studying import Studied, budgets_told
from wane.lab.replaying.tight_sessions import TightSession, tight_sessions
from wane.lab.replaying.verdict import NOTABLE, OURS, Baselines, to_dict, verdict, with_room
from wane.money import dollars
from wane.strategies.registry import STRATEGY_NAMES, get_strategy, peer_names, usable_peers
from wane.strategies.strategy import StrategySettings
from wane.words import name_strategy

BASELINE: Final = "none"
"""The strategy that never evicts; its cost is 1.0."""

GROUPS: Final[Mapping[str, Callable[[], tuple[str, ...]]]] = {"all": lambda: STRATEGY_NAMES, "peers": usable_peers}
"""Names that stand for several strategies: all of Wane's, and those that other distributions add."""

Progress = Callable[[int, int], None]
"""Called with the number of replays done, and the number of all replays."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Strategies over the same sessions.

    Attributes:
        budget: tokens that a view might hold.
        names: the strategies asked for.
        studied: the sessions.
        replays: by strategy, the replay of each session, in order; always includes BASELINE.
        tight: the sessions for which the budget leaves OURS too little room; empty if OURS was not asked for.
    """

    budget: int
    names: tuple[str, ...]
    studied: tuple[Studied, ...]
    replays: Mapping[str, tuple[Replay, ...]]
    tight: tuple[TightSession, ...] = ()

    def totals(self, name: str) -> Totals:
        """Return the figures of a strategy over all sessions."""
        return total(self.replays[name])

    def baselines(self, session: int | None = None) -> Baselines:
        """Return what one session, or all, cost without Wane."""
        picked = _slice(session)
        return baselines_of(self.studied[picked], self.replays[BASELINE][picked])

    def verdict(self) -> str:
        """Return a sentence, without its period, on what eviction would have saved; empty if no strategy evicts.

        It is about OURS, or else the cheapest strategy; if another one would have cost less, it says so.
        """
        costs = self._costs()
        if not costs:
            return ""
        name = OURS if OURS in costs else min(costs, key=costs.__getitem__)
        totals = self.totals(name)
        budget = with_room(budgets_told(self.budget, self.studied), totals.raised_to)
        text = verdict(self.baselines(), totals, f"{name_strategy(name)} at {budget}")
        return "; ".join(filter(None, (text, self.cheaper())))

    def cheaper(self) -> str:
        """Return a clause on the cheapest strategy, if that would have cost less than OURS; else an empty text."""
        costs = self._costs()
        if OURS not in costs:
            return ""
        cheapest = min(costs, key=costs.__getitem__)
        if costs[cheapest] >= NOTABLE * costs[OURS]:
            return ""
        limit = ", held to the budget," if self.totals(OURS).raised else ""
        return cheaper_clause(f"{name_strategy(cheapest)}{limit}", costs[cheapest], self.totals(cheapest))

    def _costs(self) -> dict[str, float]:
        """Return what each strategy that evicts would have cost, of the calls that the baseline covers."""
        before = self.baselines().lowest()
        costs: dict[str, float] = {}
        for name in self.names:
            if name != BASELINE:
                totals = self.totals(name)
                costs[name] = before.with_wane(totals)[0] if before else totals.full_cost
        return costs

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data: the figures over all sessions and of each session."""
        return {
            "budget": self.budget,
            **prices_of(self.studied),
            "sessions": [prepared.to_dict() | self._figures(n) for n, prepared in enumerate(self.studied)],
            **self._figures(),
            "verdict": self.verdict(),
            "tight": [session.to_dict() for session in self.tight],
        }

    def _figures(self, session: int | None = None) -> dict[str, Any]:
        picked = _slice(session)
        baseline = total(self.replays[BASELINE][picked])
        rows = [{"name": name, **total(self.replays[name][picked]).to_dict(baseline)} for name in self.names]
        return {**to_dict(self.baselines(session), baseline), "strategies": rows}


def _slice(session: int | None) -> slice:
    return slice(None) if session is None else slice(session, session + 1)


def compare(
    studied: Sequence[Studied],
    names: Sequence[str],
    settings: StrategySettings,
    engine: JobEngine,
    *,
    trace: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Replay sessions under strategies; BASELINE is added for the ratio.

    Args:
        studied: the sessions.
        names: the strategies.
        settings: settings of the strategies; overhead, annotation and prices come from each session.
        engine: does the replays.
        trace: whether to record what left the view, and when.
        progress: called after each replay.

    Raises:
        ConfigError: for an unknown strategy, or settings that cannot work.
        ExtensionError: for a strategy of a library that is not installed.
    """
    every = list(dict.fromkeys([*names, BASELINE]))
    replays = run_each(engine, studied, [(name, settings) for name in every], progress, trace=trace)
    tight = tight_sessions(studied, settings, engine) if OURS in names else []
    return Comparison(
        settings.budget, tuple(names), tuple(studied), dict(zip(every, replays, strict=True)), tuple(tight)
    )


def parse_strategies(text: str) -> tuple[str, ...]:
    """Return the strategies named in a text such as `all,peers` or `cwl,truncate`, in the order of reports.

    Raises:
        ConfigError: for an unknown name; it lists the known ones. Also for a strategy that is named twice.
        ExtensionError: for a strategy of a library that is not installed.
    """
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not words:
        raise ConfigError(f"no strategy is named; write {', '.join(GROUPS)}, or names separated by commas")
    names: set[str] = set()
    for word in words:
        for name in GROUPS[word]() if word in GROUPS else [word]:
            if name in names:
                raise ConfigError(f"{text!r} names the strategy {name} twice; name each once, alone or in a group")
            names.add(name)
    for name in sorted(names):
        # Refuses an unknown or missing strategy before anything is read.
        get_strategy(name, StrategySettings())
    return tuple(name for name in (*STRATEGY_NAMES, *peer_names()) if name in names)


def run_each(
    engine: JobEngine,
    studied: Sequence[Studied],
    strategies: Sequence[tuple[str, StrategySettings]],
    progress: Progress | None,
    *,
    trace: bool = False,
) -> list[tuple[Replay, ...]]:
    """Replay all sessions under each of some strategies with their settings, and return the replays of each."""
    jobs: list[Job] = []
    for name, settings in strategies:
        for number, prepared in enumerate(studied):
            jobs.append(Job(number, name, prepared.under(settings), prepared.pricing, trace))
    replays = run_all(engine, studied, jobs, progress)
    sessions = len(studied)
    return [tuple(replays[at * sessions : (at + 1) * sessions]) for at in range(len(strategies))]


def run_all(
    engine: JobEngine, studied: Sequence[Studied], jobs: Sequence[Job], progress: Progress | None = None
) -> list[Replay]:
    """Run jobs, and return their results in the order of the jobs."""
    subjects = [prepared.subject for prepared in studied]
    # The longest first, so that none of them starts when the others are nearly done.
    order = sorted(range(len(jobs)), key=lambda at: -len(subjects[jobs[at].subject].material.session.calls))
    done: dict[int, Replay] = {}
    with closing(engine.run(subjects, [replace(jobs[at], label=str(at)) for at in order])) as results:
        for job, replay in results:
            done[int(job.label)] = replay
            if progress:
                progress(len(done), len(jobs))
    return [done[at] for at in range(len(jobs))]


def cheaper_clause(label: str, cost: float, totals: Totals) -> str:
    """Return a clause on a strategy that would have cost less: its dollars, and the user's turns that it lost."""
    text, loss = f"{label} would have cost {dollars(cost)}", totals.loss
    if loss.user_turns_lost:
        text += f" and lost {loss.user_turns_lost:,} of the user's {loss.user_turns:,} turns"
    return text


def baselines_of(studied: Iterable[Studied], unevicted: Iterable[Replay]) -> Baselines:
    """Return what sessions cost without Wane, given their replays under BASELINE."""
    baselines = Baselines()
    for prepared, replay in zip(studied, unevicted, strict=True):
        baselines += Baselines.of(prepared.subject.material, prepared.pricing, replay)
    return baselines


def total(replays: Iterable[Replay]) -> Totals:
    """Return the figures of several sessions as one."""
    return sum((replay.totals for replay in replays), Totals())


def prices_of(studied: Iterable[Studied]) -> dict[str, Any]:
    """Return prices and cache rules of sessions as JSON-able data; without values if they differ."""
    pricings = {prepared.pricing for prepared in studied}
    if len(pricings) != 1:
        return {"price": None, "price_model": None, "cache": None}
    pricing = pricings.pop()
    prices, rules = pricing.prices, pricing.rules
    return {
        "price": prices.name,
        "price_model": f"{prices.provider}:{prices.model}",
        "cache": {
            "rules": rules.name,
            "lifetime_seconds": rules.lifetime,
            "minimum_tokens": rules.minimum,
            "hour": pricing.hour,
            "note": rules.note,
        },
    }

"""What a recorded session would have been with another strategy, or had nothing been evicted: for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wane.account import Account
from wane.journal import ConfigRecord, Record, model_calls, settings_after
from wane.lab.replaying.jobs import InProcess, Job
from wane.lab.replaying.strategy_replay import Pricing, Replay
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.tight_sessions import tight_lines, tight_sessions
from wane.strategies.registry import traits
from wane.strategies.strategy import StrategySettings

Fact = tuple[str, str]
"""A label and its figure."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The replays of a session, for comparison with the recording.

    Attributes:
        replay: the replay under `cwl`, with its trace; under `none` for a session that Wane itself managed.
        baseline: the replay under `none`.
        pricing: prices and cache rules of both.
        tight: a warning if the budget leaves the session too little room; else empty.
    """

    replay: Replay
    baseline: Replay
    pricing: Pricing
    tight: str = ""


def simulate_sessions(studied: Sequence[Studied], budget: int) -> list[Simulated]:
    """Replay sessions under `cwl`, or under `none` if Wane managed them already."""
    simulated = []
    for prepared in studied:
        settings = prepared.under(StrategySettings(budget=budget))
        baseline = replay = Job(0, "none", settings, prepared.pricing, trace=True).run(prepared.subject)
        passes = prepared.recording.session.evictions
        if prepared.recording.session.managed:
            # A session that Wane managed has its own budget, and what it kept is recorded.
            own = replace(settings, budget=(passes and passes[-1].budget) or settings.budget)
            tight = tight_sessions([prepared], own, None)
        else:
            replay = Job(0, "cwl", settings, prepared.pricing, trace=True).run(prepared.subject)
            tight = tight_sessions([prepared], settings, InProcess())
        simulated.append(Simulated(replay, baseline, prepared.pricing, "".join(tight_lines(tight, 1))))
    return simulated


def budget_and_facts(records: Sequence[Record]) -> tuple[int | None, list[Fact]]:
    """Return what else a journal records: the last budget, None for no budget, and figures."""
    budget, facts = None, []
    if any(isinstance(record, ConfigRecord) for record in records):
        settings = settings_after(records)
        facts.append(("Budget", f"{settings.budget:,} tokens"))
        if traits(settings.strategy).bounded:
            budget = settings.budget
    if models := list(dict.fromkeys(call.model for call in model_calls(records) if call.model)):
        facts.append(("Model", ", ".join(models)))
    account = Account.of(records)
    if account.calls:
        facts.append(("Cost", account.describe()))
    return budget, facts

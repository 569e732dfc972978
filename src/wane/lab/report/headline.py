"""The head of a page: figures, and the cost of a session with and without Wane, compared as `verdict.py` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wane.core import Kind
from wane.lab.counting import Material
from wane.lab.loss import Index, Loss, LossTotals
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.recorded import RecordedViews
from wane.lab.replaying.spent import RECORDED, left_out
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.verdict import Baselines, capital, in_view, needs, prices_used, verdict, with_room
from wane.lab.report.simulating import Fact, Simulated
from wane.money import dollars, share
from wane.savings import described_effect


def facts_of(material: Material) -> list[Fact]:
    """Return the figures of a recorded session."""
    session = material.session
    calls = len(session.own_calls)
    usages = [call.usage for call in session.own_calls if call.usage]
    total = sum(usage.total_input for usage in usages)
    facts = [
        ("Model calls", f"{calls:,}"),
        ("User turns", f"{len(session.user_turns):,}"),
        ("History", f"{sum(item.tokens for item in material.items):,} tokens"),
    ]
    if notices := sum(item.tokens for item in material.items if item.kind is Kind.NOTICE):
        facts.append(("Notices", f"{notices:,} tokens"))
    if total:
        largest = max(usage.total_input for usage in usages)
        cached = sum(usage.cache_read for usage in usages) / total
        facts += [
            ("Largest request", f"{largest:,} tokens"),
            ("Input", f"{total:,} tokens, {cached:.0%} from the cache{_of(len(usages), calls)}"),
        ]
    if outputs := [usage.output for usage in usages if usage.output is not None]:
        facts.append(("Output", f"{sum(outputs):,} tokens{_of(len(outputs), calls)}"))
    if session.evictions:
        facts.append(("Passes", f"{len(session.evictions):,}"))
    if session.compactions:
        facts.append(("Compactions", f"{len(session.compactions):,}"))
    if missing := left_out(len(session.abandoned), session.unread):
        facts.append(("Left out", missing))
    return facts


def _of(covered: int, calls: int) -> str:
    """Return how many calls a figure covers, in words; empty if all."""
    return "" if covered == calls else f", of {covered:,} of {calls:,} calls"


def facts_of_all(studied: Sequence[Studied]) -> list[Fact]:
    """Return the figures of several sessions that were replayed, and the prices of the replays."""
    every: list[dict[str, Any]] = [prepared.to_dict() for prepared in studied]
    name = every[0]["title"] or every[0]["name"] if len(every) == 1 else f"{len(every):,} sessions"
    marks = {figures["annotation"] for figures in every}
    episodes = "partly inferred" if "inferred" in marks else "as they were marked"
    if marks == {"inferred"}:
        episodes = "inferred"
    return [
        ("Session" if len(every) == 1 else "Sessions", name),
        ("Model calls", f"{sum(figures['model_calls'] for figures in every):,}"),
        ("History", f"{sum(figures['tokens'] for figures in every):,} tokens"),
        ("Pieces of work", episodes),
        ("Prices", prices_used((prepared.recording.session, prepared.pricing) for prepared in studied)),
        ("Cache rules", ", ".join(dict.fromkeys(prepared.pricing.rules.name for prepared in studied))),
    ]


@dataclass(frozen=True, slots=True)
class Headline:
    """A headline, and the figures behind it."""

    text: str
    detail: str


def headline_of(material: Material, simulated: Simulated) -> Headline:
    """Return the headline of a session."""
    baselines = Baselines.of(material, simulated.pricing, simulated.baseline)
    totals = simulated.replay.totals
    budget = with_room(f"{simulated.replay.budget:,} tokens", totals.raised_to)
    prices = prices_used([(material.session, simulated.pricing)])
    details = [f"{capital(baselines.describe())}. By prices of {prices}."]
    if material.session.managed:
        text = _of_managed(material, baselines, simulated.pricing)
    elif totals.passes:
        text = f"{verdict(baselines, totals, f'Wane at {budget}')}. {in_view(totals)}"
        details.append(needs(totals))
    else:
        text = f"This session fits into {budget}: Wane would have evicted nothing"
        if not baselines.recorded.account.known:
            details = []
    details.append(simulated.tight)
    return Headline(text, " ".join(filter(None, details)))


def _of_managed(material: Material, baselines: Baselines, pricing: Pricing) -> str:
    """Return the headline of a session that Wane managed: its cost, and what Wane changed of it."""
    recorded = baselines.recorded
    passes = len(material.session.evictions)
    ran = {0: "no pass", 1: "one pass"}.get(passes, f"{passes:,} passes")
    in_view = _in_view(material)
    if not recorded.spent.known:
        return f"Wane ran {ran}; no usage with a known price was recorded. {in_view}"
    bound = "" if recorded.complete else "at least "
    effect = described_effect(money_of(material, pricing)) or "that is what it would have cost without Wane"
    return f"Wane ran {ran}, {bound}{dollars(recorded.paid)} {RECORDED}; {effect}. {in_view}"


def recorded_loss(material: Material) -> LossTotals:
    """Return what the views of a session lost as they were recorded."""
    session, kinds = material.session, material.kinds
    views, loss = RecordedViews(session, kinds), Loss(Index(session, [item.tokens for item in material.items]))
    for number, call in enumerate(session.calls):
        loss.observe(number, views.of(call))
    return loss.totals()


def _in_view(material: Material) -> str:
    """Return how much of what later calls needed was in the views that Wane gave them."""
    totals = recorded_loss(material)
    if not totals.uses:
        return "No later call used a name from before."
    recall = f"{share(totals.reference_recall)} of the {totals.uses:,} earlier names that calls used were in view"
    return f"{recall}; fetching again is part of the recorded cost."

"""The head of a page: figures, and the cost of a session with and without Wane.

A headline claims only what the figures say: `wane.lab.verdict` says what is compared with what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wane.core import Kind
from wane.lab.counting import Material
from wane.lab.loss import Index, Loss
from wane.lab.replaying.recorded import RecordedViews
from wane.lab.replaying.replay import Pricing, Replay
from wane.lab.replaying.spent import RECORDED, Recorded
from wane.lab.replaying.studying import Studied
from wane.lab.verdict import NOTABLE, Baselines, capital, in_view, needs, prices_used, verdict
from wane.money import dollars, share

Fact = tuple[str, str]
"""A label and its figure."""


def facts_of(material: Material) -> list[Fact]:
    """Return the figures of a recorded session."""
    session = material.session
    calls = len(session.own_calls)
    usages = [call.usage for call in session.own_calls if call.usage]
    cached, total = sum(usage.cache_read for usage in usages), sum(usage.total_input for usage in usages)
    facts = [
        ("Model calls", f"{calls:,}"),
        ("User turns", f"{len(session.user_turns):,}"),
        ("History", f"{sum(item.tokens for item in material.items):,} tokens"),
    ]
    if notices := sum(item.tokens for item in material.items if item.kind is Kind.NOTICE):
        facts.append(("Notices", f"{notices:,} tokens"))
    if total:
        largest = max(usage.total_input for usage in usages)
        facts += [
            ("Largest request", f"{largest:,} tokens"),
            ("Input", f"{total:,} tokens, {cached / total:.0%} from the cache{_of(len(usages), calls)}"),
        ]
    if outputs := [usage.output for usage in usages if usage.output is not None]:
        facts.append(("Output", f"{sum(outputs):,} tokens{_of(len(outputs), calls)}"))
    if session.evictions:
        facts.append(("Passes", f"{len(session.evictions):,}"))
    if session.compactions:
        facts.append(("Compactions", f"{len(session.compactions):,}"))
    if left_out := Recorded(abandoned=session.abandoned, unread=session.unread).left_out:
        facts.append(("Left out", left_out))
    return facts


def _of(covered: int, calls: int) -> str:
    """Return how many calls a figure covers, if not all."""
    return "" if covered == calls else f", of {covered:,} of {calls:,} calls"


def facts_of_all(studied: Sequence[Studied]) -> list[Fact]:
    """Return the figures of several sessions that were replayed, and the prices of the replays."""
    every: list[dict[str, Any]] = [prepared.to_dict() for prepared in studied]
    name = every[0]["name"] if len(every) == 1 else f"{len(every):,} sessions"
    calls, tokens = sum(figures["model_calls"] for figures in every), sum(figures["tokens"] for figures in every)
    marks = {figures["annotation"] for figures in every}
    episodes = "partly inferred" if "inferred" in marks else "as they were marked"
    if marks == {"inferred"}:
        episodes = "inferred"
    return [
        ("Session" if len(every) == 1 else "Sessions", name),
        ("Model calls", f"{calls:,}"),
        ("History", f"{tokens:,} tokens"),
        ("Episodes", episodes),
        ("Prices", prices_used((prepared.recording.session, prepared.pricing) for prepared in studied)),
        ("Cache rules", ", ".join(dict.fromkeys(prepared.pricing.rules.name for prepared in studied))),
    ]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The replays of a session, for comparison with the recording.

    Attributes:
        replay: the replay under `cwl`, with its trace; under `none` for a session that Wane itself managed.
        baseline: the replay under `none`.
        pricing: prices and cache rules of both.
        tight: what is said of the budget if it leaves the session too little room; else empty.
    """

    replay: Replay
    baseline: Replay
    pricing: Pricing
    tight: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """A headline."""

    text: str
    detail: str


def headline_of(material: Material, simulated: Simulated) -> Headline:
    """Return the headline of a session."""
    text, details = _text_and_details(material, simulated)
    return Headline(text, " ".join(filter(None, (*details, simulated.tight))))


def _text_and_details(material: Material, simulated: Simulated) -> tuple[str, tuple[str, ...]]:
    baselines = Baselines.of(material, simulated.pricing, simulated.baseline)
    prices = f"By prices of {prices_used([(material.session, simulated.pricing)])}."
    detail = f"{capital(baselines.describe())}. {prices}"
    if material.session.evictions:
        return _of_managed(material, baselines), (detail,)
    totals, budget = simulated.replay.totals, f"{simulated.replay.budget:,} tokens"
    if not totals.passes:
        text = f"This session fits into {budget}: Wane would have evicted nothing"
        return text, ((detail,) if baselines.recorded.account.priced else ())
    return f"{verdict(baselines, totals, f'Wane at {budget}')}. {in_view(totals)}", (detail, needs(totals))


def _of_managed(material: Material, baselines: Baselines) -> str:
    """Return the headline of a session that Wane managed: its cost, and the cost without Wane."""
    recorded = baselines.recorded
    passes = len(material.session.evictions)
    ran = "one pass" if passes == 1 else f"{passes:,} passes"
    in_view = _in_view(material)
    if not recorded.complete or not baselines.possible:
        account = recorded.account
        spent = f"at least {dollars(account.at_least)}" if account.priced and not recorded.complete else account.brief
        cost = f", {spent} {RECORDED}" if account.priced else "; its usage is not recorded whole"
        return f"Wane ran {ran}{cost}. {in_view}"
    before, after = baselines.unevicted, recorded.account.at_least
    sides = f"{dollars(before)} if nothing is evicted, simulated → {dollars(after)} {RECORDED}, with {ran}"
    if after >= NOTABLE * before:
        return f"No saving here: {sides}. {in_view}"
    return f"{sides}: {share(1 - after / before)} less. {in_view}"


def _in_view(material: Material) -> str:
    """Return how much of what later calls needed was in the views that Wane gave them."""
    session, kinds = material.session, material.kinds
    views, loss = RecordedViews(session, kinds), Loss(Index(session, [item.tokens for item in material.items]))
    for number, call in enumerate(session.calls):
        loss.observe(number, views.of(call))
    totals = loss.totals()
    if not totals.uses:
        return "No later call used a name from before."
    recall = f"{share(totals.reference_recall)} of the {totals.uses:,} earlier names that calls used were in view"
    return f"{recall}; fetching again is part of the recorded cost."

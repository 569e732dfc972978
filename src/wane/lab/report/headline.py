"""The head of a page: figures, and the cost of a session with and without Wane.

A headline claims only what the figures say. The recorded cost is that of the recorded usage; all others are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.core import Kind
from wane.lab.counting import Material
from wane.lab.replaying.replay import Pricing, Replay
from wane.lab.replaying.studying import Studied
from wane.lab.session import RecordedSession
from wane.money import dollars, share
from wane.prices import CacheUse

Fact = tuple[str, str]
"""A label and its figure."""


def facts_of(material: Material) -> list[Fact]:
    """Return the figures of a recorded session."""
    session = material.session
    usages = [call.usage for call in session.calls if call.usage]
    read, whole = sum(it.cache_read for it in usages), sum(it.total_input for it in usages)
    facts = [
        ("Model calls", f"{len(session.calls):,}"),
        ("User turns", f"{len(session.user_turns):,}"),
        ("History", f"{sum(item.tokens for item in material.items):,} tokens"),
    ]
    if notices := sum(item.tokens for item in material.items if item.kind is Kind.NOTICE):
        facts.append(("Notices", f"{notices:,} tokens"))
    if whole:
        largest = max(it.total_input for it in usages)
        facts += [
            ("Largest request", f"{largest:,} tokens"),
            ("Input", f"{whole:,} tokens, {read / whole:.0%} from the cache"),
        ]
    if outputs := [it.output for it in usages if it.output is not None]:
        facts.append(("Output", f"{sum(outputs):,} tokens"))
    if session.evictions:
        facts.append(("Passes", f"{len(session.evictions):,}"))
    if session.compactions:
        facts.append(("Compactions", f"{len(session.compactions):,}"))
    return facts


def facts_of_all(studied: Sequence[Studied]) -> list[Fact]:
    """Return the figures of several sessions that were replayed, and the prices of the replays."""
    every: list[dict[str, Any]] = [it.to_dict() for it in studied]
    name = every[0]["name"] if len(every) == 1 else f"{len(every):,} sessions"
    calls, tokens = sum(it["model_calls"] for it in every), sum(it["tokens"] for it in every)
    prices = [it.pricing.prices for it in studied]
    inferred = sum(it["annotation"] == "inferred" for it in every)
    episodes = "inferred" if inferred == len(every) else "the agent's own" if not inferred else "partly inferred"
    return [
        ("Session" if len(every) == 1 else "Sessions", name),
        ("Model calls", f"{calls:,}"),
        ("History", f"{tokens:,} tokens"),
        ("Episodes", episodes),
        ("Prices", ", ".join(dict.fromkeys(f"{it.provider}:{it.model}" for it in prices))),
        ("Cache rules", ", ".join(dict.fromkeys(it.pricing.rules.name for it in studied))),
    ]


_SAVES: Final = 0.99
"""Share of the cost below which there is a saving to speak of."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The replays of a session, for comparison with the recording.

    Attributes:
        replay: the replay under `cwl`, with its trace; under `none` for a session that Wane itself managed.
        baseline: the replay under `none`.
        pricing: prices and cache rules of both.
    """

    replay: Replay
    baseline: Replay
    pricing: Pricing


@dataclass(frozen=True, slots=True)
class Headline:
    """A headline.

    Attributes:
        text: the result.
        detail: the figures behind it, and remarks.
    """

    text: str
    detail: str


def headline_of(material: Material, simulated: Simulated) -> Headline:
    """Return the headline of a session."""
    spent = recorded_cost(material, simulated.pricing)
    prices = f"prices of {simulated.pricing.prices.name}"
    if material.session.evictions:
        return _of_managed(material, simulated, spent, prices)
    totals = simulated.replay.totals
    budget = f"{simulated.replay.budget:,} tokens"
    if not totals.passes:
        cost = f"It cost {dollars(spent)}, by {prices}." if spent is not None else ""
        return Headline(f"This session fits into {budget}: Wane would have evicted nothing", cost)
    after = totals.dollars + totals.reread_cost
    # A recorded session may have missed the cache more often than a simulated one, and may have been compacted. The
    # cheaper of the two is compared with Wane.
    without = [(simulated.baseline.totals.dollars, "if nothing is evicted, simulated")]
    if spent is not None:
        summaries = ", without the calls that wrote its summaries" if material.session.compactions else ""
        without.append((spent, f"as recorded{summaries}"))
    before, _ = min(without)
    recall = share(totals.loss.reference_recall)
    detail = (
        f"{'; '.join(f'{dollars(cost)} {how}' for cost, how in without)}; {dollars(after)} with Wane at {budget}, "
        f"simulated, {dollars(totals.reread_cost)} of it for fetching evicted content again. By {prices}. {recall} of "
        "the names that later calls used were still in view."
    )
    if after >= _SAVES * before:
        return Headline(f"No saving here: {dollars(before)} → {dollars(after)}", detail)
    kept = totals.loss.user_turns and not totals.loss.user_turns_lost
    return Headline(f"{dollars(before)} → {dollars(after)}{', nothing you said was lost' if kept else ''}", detail)


def recorded_cost(material: Material, pricing: Pricing) -> float | None:
    """Return the dollars that a session cost by its recorded usage; None if that of a call is missing."""
    total = 0.0
    for call, counted in zip(material.session.calls, material.output_tokens, strict=True):
        usage = call.usage
        if usage is None or not usage.total_input:
            return None
        if pricing.rules.charges_writes:
            use = CacheUse(usage.cache_read, usage.cache_write, usage.input)
        else:
            use = CacheUse(usage.cache_read, 0, usage.input + usage.cache_write)
        output = counted if usage.output is None else usage.output
        # A request mostly writes all of its new input for an hour, or none of it.
        total += pricing.prices.cost(use, output, hour=2 * usage.cache_write_hour > usage.cache_write).total
    return total


def _of_managed(material: Material, simulated: Simulated, spent: float | None, prices: str) -> Headline:
    """Return the headline of a session that Wane managed: its cost, and the cost without Wane."""
    session, before = material.session, simulated.baseline.totals.dollars
    passes = len(session.evictions)
    if spent is None:
        ran = "one pass" if passes == 1 else f"{passes:,} passes"
        return Headline(f"Wane ran {ran}", "Its usage is not recorded whole, so its cost is not known.")
    detail = f"{dollars(before)} if nothing had been evicted, simulated; {dollars(spent)} as recorded. By {prices}."
    if spent >= _SAVES * before:
        return Headline(f"No saving here: {dollars(before)} → {dollars(spent)}", detail)
    kept = ", nothing you said was lost" if session.user_turns and not _lost_turns(session) else ""
    return Headline(f"{dollars(before)} → {dollars(spent)}{kept}", detail)


def _lost_turns(session: RecordedSession) -> bool:
    removed = {index for eviction in session.evictions for index in eviction.removed}
    return bool(session.compactions) or any(session.parts[index].kind is Kind.USER for index in removed)

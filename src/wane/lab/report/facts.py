"""The figures at the head of a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wane.core import Kind
from wane.lab.counting import Material
from wane.lab.replaying.compare import Comparison
from wane.lab.replaying.gathering import Studied
from wane.lab.replaying.replay import Pricing
from wane.lab.sweep import Sweep

Fact = tuple[str, str]
"""A label and its figure."""


def facts_of_comparison(comparison: Comparison) -> list[Fact]:
    """Return the head of a comparison."""
    return [("Budget", f"{comparison.budget:,} tokens"), *_common(comparison.studied, comparison.pricing)]


def facts_of_sweep(sweep: Sweep) -> list[Fact]:
    """Return the head of a sweep."""
    budgets = ", ".join(f"{budget:,}" for budget in sweep.budgets)
    return [("Budgets", budgets), *_common(sweep.studied, sweep.pricing)]


def facts_of(material: Material) -> list[Fact]:
    """Return the head of a recorded session."""
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


def _common(studied: Iterable[Studied], pricing: Pricing) -> list[Fact]:
    studied = list(studied)
    every: list[dict[str, Any]] = [it.to_dict() for it in studied]
    priced = [it.pricing or pricing for it in studied]
    name = every[0]["name"] if len(every) == 1 else f"{len(every):,} sessions"
    calls, tokens = sum(it["model_calls"] for it in every), sum(it["tokens"] for it in every)
    inferred = sum(it["annotation"] == "inferred" for it in every)
    episodes = "inferred" if inferred == len(every) else "the agent's own" if not inferred else "partly inferred"
    return [
        ("Session" if len(every) == 1 else "Sessions", name),
        ("Model calls", f"{calls:,}"),
        ("History", f"{tokens:,} tokens"),
        ("Episodes", episodes),
        ("Prices", ", ".join(dict.fromkeys(f"{it.prices.provider}:{it.prices.model}" for it in priced))),
        ("Cache rules", ", ".join(dict.fromkeys(it.rules.name for it in priced))),
    ]

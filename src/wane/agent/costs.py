"""What model calls cost, by the price list that `genai-prices` ships; no network is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from wane.core import parse_budget
from wane.journal import Record, UsageRecord, model_calls

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens and cost of some model calls.

    Attributes:
        calls: number of calls.
        input_tokens: input tokens, including those read from or written to a cache.
        output_tokens: output tokens.
        cache_read_tokens: input tokens read from the provider's cache.
        cache_write_tokens: input tokens written to it.
        cost: dollars; None if the price of any call is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = 0.0

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """Return the totals of a recorded session."""
        totals = cls()
        for record in model_calls(records):
            totals = totals.plus(record)
        return totals

    def plus(self, record: UsageRecord) -> Self:
        """Return the totals with one more call."""
        known = self.cost is not None and record.cost is not None
        return type(self)(
            self.calls + 1,
            self.input_tokens + record.input_tokens,
            self.output_tokens + record.output_tokens,
            self.cache_read_tokens + record.cache_read_tokens,
            self.cache_write_tokens + record.cache_write_tokens,
            (self.cost or 0.0) + (record.cost or 0.0) if known else None,
        )

    def minus(self, earlier: Totals) -> Self:
        """Return the totals of the calls after `earlier`."""
        known = self.cost is not None and earlier.cost is not None
        return type(self)(
            self.calls - earlier.calls,
            self.input_tokens - earlier.input_tokens,
            self.output_tokens - earlier.output_tokens,
            self.cache_read_tokens - earlier.cache_read_tokens,
            self.cache_write_tokens - earlier.cache_write_tokens,
            (self.cost or 0.0) - (earlier.cost or 0.0) if known else None,
        )


def price(usage: RequestUsage, model: str) -> float | None:
    """Return what a call cost in dollars, by the provider's report or else the price list; None if neither says.

    Args:
        usage: the provider's report.
        model: the model as `provider:model`.
    """
    from genai_prices import calc_price

    if usage.cost is not None:
        return float(usage.cost)
    # A model's name may have a colon too, such as one of Bedrock.
    provider, _, name = model.partition(":") if ":" in model else ("", "", model)
    try:
        return float(calc_price(usage, name, provider_id=provider or None).total_price)
    except (LookupError, ValueError):
        return None


def usage_record(usage: RequestUsage, model: str, *, items: int, input_tokens: int) -> UsageRecord:
    """Return the record of a model call.

    Args:
        usage: the provider's report.
        model: the model as `provider:model`.
        items: number of items in the history at the call.
        input_tokens: tokens of its request.
    """
    return UsageRecord(
        items=items,
        input_tokens=input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost=price(usage, model),
        model=model,
    )


def budget_tokens(budget: str | int, model: Model) -> int:
    """Return a budget in tokens; a percentage is one of the model's context window, by the price list.

    Raises:
        ConfigError: if the budget is malformed, or a percentage of an unknown window.
    """
    return parse_budget(budget, window=model.context_window)

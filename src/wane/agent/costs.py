"""What the agent records of a model call, and its budget in tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wane.core import parse_budget
from wane.journal import UsageRecord
from wane.prices import TokenUsage, cost_of

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage


def usage_record(usage: RequestUsage, model: str, *, items: int, input_tokens: int) -> UsageRecord:
    """Return the record of a model call; its cost is what the provider says, or else the price list.

    Args:
        usage: the provider's report.
        model: the model as `provider:model`.
        items: number of items in the history at the call.
        input_tokens: tokens of its request; 0 if the provider did not report them.
    """
    reported = TokenUsage(input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if usage.cost is not None:
        cost: float | None = float(usage.cost)
    else:
        cost = cost_of(reported, model) if input_tokens else None
    return UsageRecord(
        items=items,
        input_tokens=input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost=cost,
        model=model,
    )


def budget_tokens(budget: str | int, model: Model) -> int:
    """Return a budget in tokens; a percentage is one of the model's context window, by the price list.

    Raises:
        ConfigError: if the budget is malformed, or a percentage of an unknown window.
    """
    return parse_budget(budget, window=model.context_window)

"""The samplings that one request took, as Anthropic's usage tells them apart.

A compaction, an advisor and each pass of a loop over Anthropic's own tools have an entry in `iterations`. LiteLLM hands
these on in OpenAI's usage, beside counts that add them all up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wane.formats.answers import request_iteration
from wane.formats.fields import objects_in
from wane.prices import TokenUsage
from wane.proxy.wire.reply import count


def usage_of_iterations(usage: Mapping[str, Any], tier: str) -> TokenUsage | None:
    """Return the usage of all samplings, each with its model; None if the request took one, or it is not told.

    Args:
        usage: the usage, as JSON data.
        tier: how the request was served.
    """
    iterations = objects_in(usage.get("iterations"))
    if [iteration.get("type") for iteration in iterations] in ([], ["message"]):
        return None
    models = [str(iteration.get("model") or "") for iteration in iterations]
    counted = [replace(anthropic_counts(iteration), tier=tier) for iteration in iterations]
    first = replace(anthropic_counts(request_iteration(iterations)), tier=tier)
    return TokenUsage.total(list(zip(models, counted, strict=True)), first)


def anthropic_counts(usage: object) -> TokenUsage:
    """Return the tokens of a usage of Anthropic's, or of an iteration, whose `input_tokens` exclude cached ones."""
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    total, output = count(usage, "input_tokens") + read + write, count(usage, "output_tokens")
    hour = count(usage, "cache_creation", "ephemeral_1h_input_tokens")
    return TokenUsage(total, output, read, write, min(hour, write))

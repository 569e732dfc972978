"""What a whole answer says of the size of its request, where its usage is a sum.

A provider that runs tools of its own reads a request several times, once for each pass, and reports what all passes
read. That is what they cost, but no window ever held it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.formats.fields import objects_in
from wane.formats.vocabulary import as_data

_INPUTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_PASSES: Final = ("message", "fallback_message")

HOSTED: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Items of OpenAI's Responses for tools that OpenAI runs, with their results in them."""


def request_tokens(answer: object, reported: int) -> int:
    """Return the tokens of the request that an answer is for; 0 if they are not known.

    Args:
        answer: what the host has of it: the whole answer, as data or an object of the provider's SDK, or its message.
        reported: the tokens that the host took from its usage; 0 for none.
    """
    # Google's SDK joins the answers of several requests by default, and adds up their counts.
    initial = getattr(answer, "initial_prompt_token_count", None)
    if isinstance(initial, int) and reported:
        return min(initial, reported)
    if not isinstance(data := as_data(answer), Mapping):
        return reported
    usage = data.get("usage")
    iterations = objects_in(usage.get("iterations")) if isinstance(usage, Mapping) else []
    if len(iterations) > 1:
        first = request_iteration(iterations)
        return sum(_count(first or {}, name) for name in _INPUTS)
    # Anthropic's answer without iterations, and OpenAI's: how often the request was read is not told.
    is_sum = any(_is_served(block) for name in ("content", "output") for block in objects_in(data.get(name)))
    return 0 if is_sum else reported


def request_iteration(iterations: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the iteration of Anthropic's usage that read the request as it was sent, or as it was compacted.

    The last `message` entry would count what the answer holds so far once more. A model that declined counts in tokens
    of its own, so it must be the one that answered.
    """
    kinds = [iteration.get("type") for iteration in iterations]
    start = len(kinds) - kinds[::-1].index("compaction") if "compaction" in kinds else 0
    passes = [iteration for iteration in iterations[start:] if iteration.get("type") in _PASSES]
    return next((entry for entry in passes if entry.get("model") == passes[-1].get("model")), None)


def _is_served(block: Mapping[str, Any]) -> bool:
    kind = str(block.get("type"))
    return kind in HOSTED or (kind.endswith("_tool_result") and kind != "tool_result")


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0

"""What a provider's whole answer says besides its message: why it stopped, and how large its request was.

A stop reason says whether the model's turn is over, or the answer none at all. The types of the SDKs have the reasons:
anthropic 2.14.0, openai 3.57.0, google-genai 3.6.1. A message alone does not have one; its form then says what can be
said: a call without a result is open.

The usage of an answer can be a sum. A provider that runs tools of its own reads a request several times, once for each
pass, and reports what all passes read. That is what they cost, but no window ever held it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from wane.core.errors import FormatError
from wane.formats.fields import objects_in
from wane.formats.vocabulary import as_data


class Ending(StrEnum):
    """What an answer's end means for the program that asked.

    `OVER` ends the model's turn: it said what it wanted, or was cut off, or refused. `CALLS` waits for results.
    `CONTINUES` is no end: the provider goes on once it is sent the answer back. `VOID` is no answer.
    """

    OVER = "over"
    CALLS = "calls"
    CONTINUES = "continues"
    VOID = "void"


ANTHROPIC_REASONS: Final[Mapping[str, Ending]] = {
    "end_turn": Ending.OVER,
    "max_tokens": Ending.OVER,
    "stop_sequence": Ending.OVER,
    "tool_use": Ending.CALLS,
    # A loop of Anthropic's own tools was interrupted: the answer is sent back as it is.
    "pause_turn": Ending.CONTINUES,
    # Nothing was sampled behind the `compaction` block.
    "compaction": Ending.CONTINUES,
    "refusal": Ending.OVER,
    "model_context_window_exceeded": Ending.OVER,
}
"""`stop_reason` of Anthropic's Messages, beta included."""

CHAT_REASONS: Final[Mapping[str, Ending]] = {
    "stop": Ending.OVER,
    "length": Ending.OVER,
    "tool_calls": Ending.CALLS,
    "function_call": Ending.CALLS,
    "content_filter": Ending.OVER,
    "error": Ending.VOID,  # OpenRouter
}
"""`finish_reason` of Chat Completions."""

RESPONSES_REASONS: Final[Mapping[str, Ending]] = {
    "completed": Ending.OVER,
    "max_output_tokens": Ending.OVER,
    "max_messages": Ending.OVER,
    "content_filter": Ending.OVER,
    # Over a WebSocket, more input of the user stopped it; the next response takes that up.
    "steered": Ending.CONTINUES,
    "failed": Ending.VOID,
    "cancelled": Ending.VOID,
    # Of a response in the background, before it is complete.
    "queued": Ending.VOID,
    "in_progress": Ending.VOID,
}
"""`status` of OpenAI's Responses and, of an incomplete one, `incomplete_details.reason`."""

GEMINI_REASONS: Final[Mapping[str, Ending]] = {
    "FINISH_REASON_UNSPECIFIED": Ending.OVER,
    "STOP": Ending.OVER,
    "MAX_TOKENS": Ending.OVER,
    "SAFETY": Ending.OVER,
    "RECITATION": Ending.OVER,
    "LANGUAGE": Ending.OVER,
    "OTHER": Ending.OVER,
    "BLOCKLIST": Ending.OVER,
    "PROHIBITED_CONTENT": Ending.OVER,
    "SPII": Ending.OVER,
    "IMAGE_SAFETY": Ending.OVER,
    "IMAGE_PROHIBITED_CONTENT": Ending.OVER,
    "IMAGE_OTHER": Ending.OVER,
    "NO_IMAGE": Ending.OVER,
    "IMAGE_RECITATION": Ending.OVER,
    "ESCALATION": Ending.OVER,
    "PUP_LIMITED_DISABLED": Ending.OVER,
    "MODEL_ARMOR": Ending.OVER,
    # The loop of Gemini's own tools was interrupted.
    "TOO_MANY_TOOL_CALLS": Ending.CONTINUES,
    # The same request must be sent again with the token of this answer; Google's SDK does so by itself and joins the
    # pieces. What came so far is only a piece.
    "CONTINUATION": Ending.VOID,
    "MALFORMED_FUNCTION_CALL": Ending.VOID,
    "UNEXPECTED_TOOL_CALL": Ending.VOID,
    "MALFORMED_RESPONSE": Ending.VOID,
    "MISSING_THOUGHT_SIGNATURE": Ending.VOID,
}
"""`finishReason` of Gemini's candidates."""

_ALWAYS_VOID: Final = frozenset({"CONTINUATION", "queued", "in_progress"})
"""Reasons for which even an answer with content must not enter a history."""

_ADVICE: Final = {
    "CONTINUATION": "Send the same request with its `continuation_token`, and append what the pieces make",
    "queued": "Wait for it, and append the completed response",
    "in_progress": "Wait for it, and append the completed response",
}

_INPUTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_PASSES: Final = ("message", "fallback_message")

HOSTED: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Items of OpenAI's Responses for tools that OpenAI runs, with their results in them."""


def stop_reason(answer: object) -> tuple[str, Ending | None]:
    """Return the stop reason of a whole answer, and what it means; no reason for a message alone.

    Args:
        answer: an answer of a provider, as JSON data or as an object of its SDK.

    Returns:
        The reason, empty for none, and its meaning; None for a reason that the tables do not have.
    """
    if reason := _word(answer, "stop_reason"):
        return reason, ANTHROPIC_REASONS.get(reason)
    choice = _only(answer, "choices") or answer
    if reason := _word(choice, "finish_reason"):
        reasons = GEMINI_REASONS if reason.isupper() else CHAT_REASONS
        return reason, reasons.get(reason)
    candidate = _only(answer, "candidates") or answer
    if reason := _word(candidate, "finishReason") or _word(candidate, "finish_reason"):
        return reason, GEMINI_REASONS.get(reason.upper())
    if isinstance(_field(answer, "output"), Sequence) and not _field(answer, "type"):
        reason = _word(answer, "status")
        reason = _word(_field(answer, "incomplete_details"), "reason") or reason
        return reason, RESPONSES_REASONS.get(reason)
    return "", None


def check_reason(reason: str, ending: Ending | None, *, empty: bool) -> None:
    """Refuse an answer that its stop reason calls none.

    Args:
        reason: the reason.
        ending: what it means.
        empty: whether the answer holds nothing. What a failed one holds besides is taken.

    Raises:
        FormatError: for such an answer; it says what to do.
    """
    if ending is Ending.VOID and (empty or reason in _ALWAYS_VOID):
        advice = _ADVICE.get(reason, "Make the same request again")
        raise FormatError(f"the answer stopped with {reason!r}, so there is nothing to append. {advice}")


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


def _field(owner: object, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def _word(owner: object, name: str) -> str:
    value = _field(owner, name)
    value = getattr(value, "value", value)  # Google's SDK has an enumeration
    return value if isinstance(value, str) else ""


def _only(owner: object, name: str) -> object:
    entries = _field(owner, name)
    return entries[0] if isinstance(entries, Sequence) and len(entries) == 1 else None


def _is_served(block: Mapping[str, Any]) -> bool:
    kind = str(block.get("type"))
    return kind in HOSTED or kind.endswith("_tool_result")


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0

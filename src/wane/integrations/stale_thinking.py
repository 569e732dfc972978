"""Claude models that bind each thinking block to the conversation before it.

Whatever leaves the view breaks that bond for the blocks behind it. Where Anthropic enforces it, Pydantic AI sends the
refused request again with `drop_block`, and asks for the drop at once from then on, as long as the messages that it
sends hold a response which records one. An eviction must not take that record away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse

_RECORD: Final = "input_transformations"


def carry_drop_record(messages: list[ModelMessage], history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages of a request, with the history's latest record of dropped thinking on their last response.

    They are the same if there is no such record, or if they hold it themselves. It is not sent to any model.

    Args:
        messages: the request's messages.
        history: all of the run's history.
    """
    if len(messages) == len(history) or _record(messages) is not None:
        return messages
    record = _record(history)
    if record is None:
        return messages
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, ModelResponse):
            details = {**(message.provider_details or {}), _RECORD: record}
            return [*messages[:position], replace(message, provider_details=details), *messages[position + 1 :]]
    return messages


def _record(messages: Sequence[ModelMessage]) -> list[Any] | None:
    for message in reversed(messages):
        if isinstance(message, ModelResponse) and message.provider_details:
            record = message.provider_details.get(_RECORD)
            if isinstance(record, list) and any(map(_is_drop, _dicts(record))):
                return record
    return None


def _dicts(entries: list[Any]) -> Iterable[dict[str, Any]]:
    return (entry for entry in entries if isinstance(entry, dict))


def _is_drop(entry: dict[str, Any]) -> bool:
    return entry.get("type") == "thinking_dropped" and entry.get("reason") == "prefix_binding_mismatch"

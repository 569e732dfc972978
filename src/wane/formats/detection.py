"""Recognises JSON data: the format of messages.

A format is told by features that only one has; plain turns of text look alike in most. The lines of an agent's session
file are not messages: `wane.lab.readers` recognises and reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from wane.formats.fields import type_name
from wane.formats.gemini import KNOWN_ROLES
from wane.formats.openai_responses import is_known

_CHAT_KEYS: Final = ("tool_calls", "tool_call_id", "reasoning_content", "function_call")
_ANTHROPIC_BLOCKS: Final = frozenset(
    {
        "compaction",
        "container_upload",
        "document",
        "fallback",
        "image",
        "mcp_tool_listing",
        "redacted_thinking",
        "search_result",
        "thinking",
    }
)
_PYDANTIC_AI: Final = "pydantic_ai.messages"
"""The module of that library's own messages, which need not be JSON data."""
_KEYS_SHOWN: Final = 5
_RESPONSES_PARTS: Final = frozenset({"input_text", "input_image", "input_file", "output_text"})


def telling_format(data: object) -> str | None:
    """Return the name of the only format that data can have; None if several fit, or none.

    Args:
        data: a list of messages, or a request body that holds one.
    """
    if isinstance(data, dict):
        if "contents" in data:
            return "gemini"
        if "messages" not in data:
            return "openai_responses" if isinstance(data.get("input"), str | list) and "type" not in data else None
        if "system" in data or "anthropic_version" in data:
            return "anthropic"
        data = data["messages"]
    messages = data if isinstance(data, list) else []
    # One message tells the format. If others do not fit, the format's `load` says which one is wrong, and why.
    return next(filter(None, map(_of_message, messages)), None)


_JSON: Final = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
}
"""Names of JSON values in messages to people."""


def shape(data: object) -> str:
    """Return a description of data in no known format, for the person who gave it."""
    return f"a list that begins with {_value_kind(data[0])}" if isinstance(data, list) and data else _value_kind(data)


def _value_kind(value: object) -> str:
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if not isinstance(value, dict):
        return _JSON.get(type(value), f"a value of type {type_name(value)}")
    kind = f" of type {value['type']!r:.40}" if isinstance(value.get("type"), str) else ""
    keys = ", ".join(f"{key!r:.40}" for key in list(value)[:_KEYS_SHOWN])
    return f"an object{kind} with the keys {keys}{', …' * (len(value) > _KEYS_SHOWN)}" if value else "an empty object"


def _of_message(message: object) -> str | None:
    if type(message).__module__ == _PYDANTIC_AI:
        return "pydantic_ai"
    if not isinstance(message, dict):
        return None
    if "parts" in message and "kind" in message:
        return "pydantic_ai"
    if _is_content(message):
        return "gemini"
    if message.get("role") == "tool" or any(key in message for key in _CHAT_KEYS):
        return "openai"
    if (block := _of_content(message.get("content"))) is not None:
        return block
    if isinstance(message.get("items"), list) or _is_item(message):
        return "openai_responses"
    return None


def _is_content(message: dict[str, Any]) -> bool:
    """Whether it is one of Gemini's. Other programs' messages with `parts` have parts with a type."""
    parts = message.get("parts")
    if not isinstance(parts, list) or message.get("role", "user") not in KNOWN_ROLES:
        return False
    return all(isinstance(part, dict) and "type" not in part for part in parts)


def _is_item(message: dict[str, Any]) -> bool:
    # Messages of other formats have no type, except Anthropic's answers, which have a model too. Objects that are not
    # messages, such as lines of a session file, may have a type.
    return (is_known(message) and "model" not in message) or message.get("phase") is not None


def _of_content(content: object) -> str | None:
    blocks: Iterable[Any] = content if isinstance(content, list) else ()
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            continue
        if kind in _ANTHROPIC_BLOCKS or kind.endswith(("tool_use", "tool_result")):
            return "anthropic"
        if kind in _RESPONSES_PARTS:
            return "openai_responses"
    return None


_RECORDED: Final = frozenset(
    {"cwd", "data", "id", "instructions", "leafUuid", "payload", "sessionId", "uuid", "version"}
)


def is_recorded(values: Sequence[object]) -> bool:
    """Return whether data begins as a session file of an agent does, whose lines are not messages.

    Args:
        values: the JSON values of the file.
    """
    first = values[0] if values else None
    if not isinstance(first, dict) or "role" in first or _is_item(first):
        return False
    kind = first.get("type", first.get("kind", ""))
    return isinstance(kind, str) and not _RECORDED.isdisjoint(first) and _is_content(first) is False

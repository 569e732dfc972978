"""Recognises JSON data: the format of messages, and the agent of a session file.

A format is told by features that only one has; plain turns of text look alike in most. A session file's lines are not
messages: `wane.lab.readers` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wane.formats.gemini import KNOWN_ROLES
from wane.formats.openai_responses import is_known
from wane.formats.values import type_name

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


LOOKED_AT: Final = 30
"""Number of lines at the beginning of a file that are looked at."""

# Tuples, because the values looked up in them may be any JSON, which need not be hashable.
_CLAUDE_CODE: Final = ("system", "attachment", "progress", "queue-operation")
_CODEX: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_PI_ROLES: Final = ("toolResult", "bashExecution")
_COPILOT: Final = ("session.", "user.", "assistant.", "hook.", "tool.", "system.")
_NOTHING: Final[Mapping[str, Any]] = {}


def recording_agent(values: Sequence[object]) -> str | None:
    """Return the name of the agent whose session file has such lines; None if no agent is known to write them.

    Args:
        values: JSON values, one per line; only the first ones are looked at.
    """
    head = values[:LOOKED_AT]
    return next((agent for agent, (_, recognises) in RECORDINGS.items() if recognises(head)), None)


def is_journal(head: Sequence[object]) -> bool:
    """Whether the first JSON value of a file is the header of one of Wane's journals."""
    first = _mapping(head[0]) if head else _NOTHING
    return first.get("kind") == "session" and isinstance(first.get("version"), int)


def is_pi(head: Sequence[object]) -> bool:
    """Whether the first JSON values of a file are a header or messages of pi."""
    first = _mapping(head[0]) if head else _NOTHING
    if first.get("type") == "session" and "id" in first and "cwd" in first:
        return True
    messages = [_mapping(line.get("message")) for line in map(_mapping, head) if line.get("parentId")]
    return any(message.get("role") in _PI_ROLES for message in messages)


def is_codex(head: Sequence[object]) -> bool:
    """Whether the first JSON values of a file are lines of a Codex rollout, in today's form or the first one."""
    lines = [_mapping(value) for value in head]
    if any(line.get("type") in _CODEX and isinstance(line.get("payload"), dict) for line in lines):
        return True
    first = lines[0] if lines else _NOTHING
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def is_claude_code(head: Sequence[object]) -> bool:
    """Whether the first JSON values of a file are lines of a Claude Code transcript."""
    return any(is_claude_code_line(_mapping(value)) for value in head)


def is_claude_code_line(line: Mapping[str, Any]) -> bool:
    """Whether a JSON object is recognisably a line of a Claude Code transcript."""
    kind = line.get("type")
    if kind in ("user", "assistant"):
        return isinstance(line.get("message"), dict) and ("uuid" in line or "sessionId" in line)
    if kind in ("file-history-snapshot", "summary"):
        return "messageId" in line or "leafUuid" in line
    return kind in _CLAUDE_CODE and "sessionId" in line


def is_copilot(head: Sequence[object]) -> bool:
    """Whether the first JSON values of a file are events of GitHub Copilot CLI."""
    return any(
        isinstance(line.get("data"), dict) and "parentId" in line and str(line.get("type")).startswith(_COPILOT)
        for line in map(_mapping, head)
    )


RECORDINGS: Final = {
    "Wane": ("journal", is_journal),
    "pi": ("pi", is_pi),
    "Codex": ("codex", is_codex),
    "Claude Code": ("claude-code", is_claude_code),
    "GitHub Copilot CLI": ("copilot-cli", is_copilot),
}
"""By agent that writes one record per line: its reader in `wane.lab.readers`, and how to recognise its files."""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING

"""Recognises session files of agents by their lines. These are not messages; `wane.lab.readers` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
    return next((agent for agent, recognises in _RECORDINGS.items() if recognises(head)), None)


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


_RECORDINGS: Final = {
    "Wane": is_journal,
    "pi": is_pi,
    "Codex": is_codex,
    "Claude Code": is_claude_code,
    "GitHub Copilot CLI": is_copilot,
}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING

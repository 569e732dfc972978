"""Formats that look like others but hold too little to read: they are refused by name, with what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wane.core.errors import FormatError
from wane.lab.readers.building.values import items, mapping, text


def refuse_unread(head: Sequence[object]) -> None:
    """Refuse a file whose first JSON values are of a format that Wane does not read.

    Raises:
        FormatError: if they are; it says what the format lacks.
    """
    lines = [mapping(value) for value in head]
    for recognises, why in _UNREAD:
        if any(map(recognises, lines)):
            raise FormatError(why)


def _is_cursor(line: Mapping[str, Any]) -> bool:
    return line.keys() <= {"role", "message"} and "content" in mapping(line.get("message"))


def _is_droid(line: Mapping[str, Any]) -> bool:
    if "session_id" not in line:
        return False
    return (line.get("type") == "tool_call" and "toolName" in line) or (
        line.get("type") == "message" and "text" in line and "role" in line
    )


def _is_old_cline(message: Mapping[str, Any]) -> bool:
    """Whether it is a message of Cline's extension before it had tools of the API: a result, as a user's words."""
    texts = [text(mapping(block).get("text")) for block in items(message.get("content"))]
    return message.get("role") == "user" and any(_RESULT_IN_WORDS.match(words) for words in texts)


def _is_clines_screen(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") in ("say", "ask") and isinstance(entry.get("ts"), int) and text(entry["type"]) in entry


_RESULT_IN_WORDS: Final = re.compile(r"\[\w+(?: for .*)?\] Result:")
_CLINE: Final = (
    "it is a task of an earlier extension of Cline, or of one like it, which Wane does not read: results stand in it as"
    " words of the user, and the usage of calls in another file. Wane reads sessions of Cline's CLI (.messages.json)"
)
_CURSOR: Final = (
    "it is a transcript of Cursor, which Wane does not read: it holds neither the results of tools nor the usage of"
    " calls, so that nothing can be said about what was in view or what it cost"
)
_DROID: Final = (
    "it is the output of Droid with --output-format stream-json, which Wane does not read: it holds no usage of calls"
)
_UNREAD: Final[tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...]] = (
    (_is_cursor, _CURSOR),
    (_is_droid, _DROID),
    (_is_old_cline, _CLINE),
    (_is_clines_screen, _CLINE),
)

"""JSON documents of one value or several, such as one per line; of a broken document the complete entries are read.

A chat may be a list of messages, a request body that holds one, a message per line, or a line of many chats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wane.core.errors import FormatError
from wane.formats.openai_responses import is_model_made
from wane.lab.readers.building.json_lines import Problems, placed_reason, reason

Value = tuple[int | None, object]
"""A JSON value with its line; None for a document without lines of its own."""

_JSONError = ValueError | RecursionError
_LISTS: Final = re.compile(r'"(messages|contents|input|steps)"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")


def json_values(path: Path, problems: Problems) -> list[Value]:
    """Return the JSON values of a file: a single one, or several that follow each other, such as one per line.

    A list that breaks off gives the entries before the damage.

    Raises:
        OSError: if the file cannot be read.
        FormatError: if it holds no JSON.
    """
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(line, "holds bytes that are not UTF-8; they were read as U+FFFD", "bytes that are not UTF-8")
        text = raw.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise FormatError("it is empty")
    try:
        return [(None, json.loads(text))]
    except json.JSONDecodeError as error:
        row, stop, unexpected = _in_a_row(text)
        if row and stop == len(text):
            return row
        if by_lines := _by_lines(text, problems):
            return by_lines
        if len(row) < 2:
            return _whole_part(text, error, problems)
        _add_broken(text.count("\n", 0, stop) + 1, unexpected, len(row), problems)
        return row
    except RecursionError:
        raise FormatError("it is nested too deeply") from None
    except ValueError:
        # Python does not read whole numbers of thousands of digits.
        raise FormatError("it holds a number of too many digits") from None


def _in_a_row(text: str) -> tuple[list[Value], int, _JSONError]:
    """Return values that follow each other, each with its first line; where they end, and why no other follows.

    The list is empty unless all of them are lists or objects.
    """
    entries, stop, error = _entries(text, 0)
    line = 1
    counted_to = 0
    values: list[Value] = []
    for start, value in entries:
        if not isinstance(value, dict | list):
            return [], stop, error
        line += text.count("\n", counted_to, start)
        counted_to = start
        values.append((line, value))
    return values, stop, error


def _by_lines(text: str, problems: Problems) -> list[Value]:
    """Return the values of a file with one per line; none if its first line is not a list or object."""
    values: list[Value] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if not values:
                return []
            problems.add(number, f"not JSON ({reason(error)}): {line[:40]!r}", "not JSON", unread=True)
            continue
        if not values and not isinstance(value, dict | list):
            return []
        values.append((number, value))
    return values


def _whole_part(text: str, error: json.JSONDecodeError, problems: Problems) -> list[Value]:
    """Return a list, or an object that holds one, up to where it breaks off."""
    start = len(text) - len(text.lstrip())
    wrapping = None if text.startswith("[", start) else _LISTS.search(text)
    entries: list[object] = []
    if wrapping or text.startswith("[", start):
        positioned, _, _ = _entries(text, wrapping.end() if wrapping else start + 1)
        entries = [entry for _, entry in positioned]
    if not entries:
        if "\0" in text or text.startswith("\ufffd", error.pos):
            raise FormatError("it is not text in UTF-8") from None
        raise FormatError(f"it is not JSON: {placed_reason(error)}") from None
    _add_broken(error.lineno, error, len(entries), problems)
    return [(None, {wrapping[1]: entries} if wrapping else entries)]


def _add_broken(line: int, error: _JSONError, count: int, problems: Problems) -> None:
    what = f"broken JSON ({reason(error)}) after {count} complete entries; the rest was left out"
    problems.add(line, what, "broken", unread=True)


def _entries(text: str, position: int) -> tuple[list[tuple[int, object]], int, _JSONError]:
    """Return the values from a position on, each with its own; where they end, and why no other follows."""
    decoder = json.JSONDecoder()
    entries: list[tuple[int, object]] = []
    while True:
        between = _BETWEEN.match(text, position)
        position = between.end() if between else position
        try:
            entry, stop = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            return entries, position, error
        entries.append((position, entry))
        position = stop


@dataclass(frozen=True, slots=True)
class RecordedChat:
    """The messages of a chat as JSON values with lines, and the object that held them, such as a request body."""

    messages: list[Value]
    body: Mapping[str, Any] = field(default_factory=dict)

    def has_message(self, is_message: Callable[[object], bool]) -> bool:
        """Return whether any of its values is a message."""
        return any(is_message(value) for _, value in self.messages)


def is_model_message(message: Mapping[str, Any]) -> bool:
    """Return whether a model wrote a message, given as JSON data in any format."""
    if isinstance(items := message.get("items"), list):
        return bool(items) and is_model_made(items[0])
    return message.get("role") in ("assistant", "model") or message.get("kind") == "response"


def chats(values: Sequence[Value], is_message: Callable[[object], bool]) -> list[RecordedChat]:
    """Return the chats of a file's values; a chat has at least one message."""
    candidates: list[RecordedChat] = []
    loose: list[Value] = []
    for line, value in values:
        nested = _unwrap_chats(line, value)
        candidates += nested
        if not nested:
            loose.append((line, value))
    if not candidates:  # beside whole chats, single values are something else
        candidates = [RecordedChat(loose)]
    return [chat for chat in candidates if chat.has_message(is_message)]


def _unwrap_chats(line: int | None, value: object) -> list[RecordedChat]:
    """Return the chats in a value; none if it can only be a message itself."""
    if isinstance(value, list):
        chats: list[RecordedChat] = []
        for entry in value:
            chats += _unwrap_chats(line, entry)
        return chats or [RecordedChat([(line, entry) for entry in value])]
    if not isinstance(value, dict):
        return []
    entries = value.get("messages", value.get("contents"))
    if entries is None and "type" not in value:  # an item of OpenAI Responses may have an input, too, but has a type
        entries = value.get("input")
        if isinstance(entries, str):
            entries = [{"role": "user", "content": entries}]
    if not isinstance(entries, list):
        return []
    return [RecordedChat([(line, entry) for entry in entries], value)]

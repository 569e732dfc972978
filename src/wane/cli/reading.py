"""Messages from a file or standard input: JSON, JSONL, or a session that Wane saved."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wane.cli.failure import InputError

STDIN: Final = "-"
"""The name by which standard input is given instead of a file."""

_SPACE: Final = re.compile(r"\s*")
_SESSION_HEADER: Final = b'{"kind":"session",'


@dataclass(frozen=True, slots=True)
class Messages:
    """What a file held.

    Attributes:
        data: JSON data, as a format's `load` takes it.
        format: name of the messages' format where the file tells it, else None.
    """

    data: Any
    format: str | None = None


def read_messages(name: str) -> Messages:
    """Read messages from a file, or from standard input if it is called `-`.

    A file holds a JSON list of messages, a request body with `messages`, one JSON message a line, or
    is a session that Wane saved.

    Raises:
        InputError: if it cannot be read, or is not JSON in UTF-8.
        JournalError: if it is a session that cannot be read.
    """
    raw = _read_bytes(name)
    if raw.startswith(_SESSION_HEADER) and name != STDIN:
        return _from_session(Path(name))
    return Messages(_parse(_decode(raw, name), name))


def _read_bytes(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read {_shown(name)}: {why or error}") from None


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{_shown(name)} is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}, line {line}"
        ) from None


def _parse(text: str, name: str) -> Any:
    """One JSON value, or as a list those that follow one another, such as a line each."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            what = error.msg.removesuffix(" at")
            where = f"line {error.lineno}, column {error.colno}"
            raise InputError(f"{_shown(name)} is not JSON: {what} at {where}") from None
        except RecursionError:
            line = text.count("\n", 0, position) + 1
            raise InputError(f"{_shown(name)} is nested too deeply, in the value that begins at line {line}") from None
        except ValueError:
            # The one other thing that the decoder refuses: Python reads no whole number of some thousands of digits.
            line = text.count("\n", 0, position) + 1
            raise InputError(
                f"{_shown(name)} holds a number of too many digits, in the value that begins at line {line}"
            ) from None
        values.append(value)
        position = _skip_space(text, position)
    if not values:
        raise InputError(f"{_shown(name)} is empty; expected a JSON list of messages, or one message a line")
    alone = len(values) == 1 and (isinstance(values[0], list) or _is_body(values[0]))
    return values[0] if alone else values


def _is_body(value: object) -> bool:
    # An item of OpenAI Responses may have an input, too, but has a type.
    return isinstance(value, dict) and ("messages" in value or ("input" in value and "type" not in value))


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _from_session(path: Path) -> Messages:
    from wane.journal import MessageRecord, read

    found = read(path)
    data = [record.message for record in found.records if isinstance(record, MessageRecord)]
    return Messages(data, found.header.format)


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else name

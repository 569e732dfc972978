"""Reads values of recorded JSON as the type that they should have; anything else counts as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from wane.fast_json import fast_dumps
from wane.formats.fields import raw_text
from wane.journal.titles import HEADING_MARKS
from wane.lab.recorded_session import CallUsage, ModelCall

_MILLISECONDS_FROM: Final = 1e11  # as seconds this would be in the year 5138
_TOO_MANY: Final = 10**15  # tokens, seconds or milliseconds; no sound recording has so many
_TITLE: Final = 80  # characters
_NOTHING: Final[Mapping[str, Any]] = {}

_PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Types of values whose text in JSON is the same for all encoders: not so a number with a fraction."""


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else _NOTHING


def items(value: object) -> list[Any]:
    """Return a JSON list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the entries of a JSON list as objects, see `mapping`; an empty list for anything else."""
    return [mapping(entry) for entry in items(value)]


def drop_latest(calls: list[ModelCall], usage: CallUsage | None) -> None:
    """Drop the latest call with a usage, if there is one: a client recorded it twice. Earlier ones are other calls."""
    for position in reversed(range(len(calls))):
        if calls[position].usage == usage:
            del calls[position]
            return


def decode_json(value: object) -> object:
    """Return the value of a string of JSON; None for anything else."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return None


def text(value: object) -> str:
    """Return a string; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def write_arguments(arguments: object) -> str:
    """Return what a model wrote as the arguments of a call; see `wane.formats.fields.raw_text`.

    Raises:
        FormatError: if they are nested too deeply.
    """
    # Most are an object of a few texts. Of these orjson makes the same text in a quarter of the time.
    if fast_dumps is not None and type(arguments) is dict and _PLAIN.issuperset(map(type, arguments.values())):
        with suppress(TypeError, UnicodeDecodeError):  # half a surrogate pair, or a number of too many digits
            return fast_dumps(arguments).decode()
    return raw_text(arguments)


def count(value: object) -> int | None:
    """Return a number of tokens; None for anything else."""
    if type(value) is int:  # a bool is of another type
        # Compared, not converted: a whole number may be too long for a float.
        return value if 0 <= value < _TOO_MANY else None
    return int(value) if isinstance(value, float) and 0 <= value < _TOO_MANY else None


def amount(value: object) -> float | None:
    """Return dollars; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _TOO_MANY else None


def usage_of(
    input_tokens: object,
    *,
    read: object = None,
    written: object = None,
    hour: object = None,
    output: object = None,
    reasoning: object = None,
    apart: bool = False,
) -> CallUsage | None:
    """Return the usage of a model call from recorded figures; None if there was no input.

    Args:
        input_tokens: input tokens.
        read: those read from the cache.
        written: those written to it.
        hour: those of `written` with a lifetime of an hour.
        output: output tokens; None if the recording holds no reliable figure.
        reasoning: reasoning tokens that are not in `output`.
        apart: whether `read` and `written` are not in `input_tokens`.
    """
    total, cached, stored = count(input_tokens) or 0, count(read) or 0, count(written) or 0
    generated = count(output)
    if apart:
        total += cached + stored
    if not total:
        return None
    cached = min(cached, total)
    stored = min(stored, total - cached)
    if reasoning and generated is not None:
        generated += count(reasoning) or 0
    within_hour = min(count(hour) or 0, stored) if hour else 0
    return CallUsage(total - cached - stored, cached, stored, generated, within_hour)


def seconds(value: object) -> float | None:
    """Return a time in seconds since 1970 UTC; None for anything else.

    Args:
        value: an ISO 8601 string, in UTC if it names no zone, or a number of seconds or milliseconds since 1970.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _TOO_MANY:
        return None
    return value / 1000 if value >= _MILLISECONDS_FROM else float(value)


def sound(string: str) -> str:
    """Return text with U+FFFD for each lone surrogate.

    Some tools cut their output within a character, and no request, report or terminal can carry half of one.
    """
    if string.isascii():
        return string
    try:
        string.encode("utf-32-le")  # the quickest encoding that refuses one
    except UnicodeEncodeError:
        return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return string


def first_words(string: str) -> str:
    """Return the beginning of a text, on one line, as a title."""
    words = " ".join(HEADING_MARKS.sub("", string[: 20 * _TITLE]).split())
    return words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"

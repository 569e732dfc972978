"""Helpers of the formats: JSON text, required fields, and estimates of encrypted content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from wane.core.errors import FormatError

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_CHARACTERS_PER_TOKEN: Final = 4
_T = TypeVar("_T")


def compact(value: object) -> str:
    """Return a value as compact JSON text, as a provider shows it to the model.

    Raises:
        FormatError: if it is not JSON data, or is nested too deeply.
    """
    try:
        return _ENCODE(value)
    except RecursionError:
        raise FormatError("it is nested too deeply to be written as JSON") from None
    except (TypeError, ValueError) as error:
        raise FormatError(f"it is not JSON data: {error}") from None


def raw_text(value: object) -> str:
    """Return what a model wrote: text as it is, even malformed JSON; an object as JSON text; empty for None."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact(value)


def shown_text(value: object) -> str:
    """Return text as it is, and anything else as JSON text in the spelling of Python's frameworks; empty for None."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def string(owner: Mapping[str, Any], key: str) -> str:
    """Return a field that must hold text.

    Raises:
        FormatError: if it does not hold text, or the text is empty.
    """
    value = owner.get(key)
    if not isinstance(value, str) or not value:
        raise FormatError(f"{key} must be a string that is not empty, found {value!r}")
    return value


def sealed_tokens(seal: object, overhead: int) -> int:
    """Return an estimate of the tokens of encrypted content; 0 if it is not text.

    Args:
        seal: the encrypted content, in base64.
        overhead: number of characters that even empty content has.
    """
    return max(0, len(seal) - overhead) * 3 // 4 // _CHARACTERS_PER_TOKEN if isinstance(seal, str) else 0


def type_name(value: object) -> str:
    """Return the name of a value's type, for messages."""
    return type(value).__name__


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects of a list; none if it is no list."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, dict)]


def expect_list(data: object, what: str) -> list[Any]:
    """Return data that must be a list.

    Raises:
        FormatError: if it is not one; it says what was expected.
    """
    if not isinstance(data, list):
        raise FormatError(f"expected a list of {what}, found {type_name(data)}")
    return data


def messages_in(data: object) -> object:
    """Return the messages of a request body; other data is returned as it is."""
    return data["messages"] if isinstance(data, dict) and "messages" in data else data


def check_each(messages: Iterable[_T], take: Callable[[_T], object]) -> None:
    """Check that every message can be taken apart.

    Raises:
        FormatError: if one cannot; it names the first such message.
    """
    for number, message in enumerate(messages):
        try:
            take(message)
        except FormatError as error:
            raise FormatError(f"message {number}: {error}") from None

"""JSON by orjson, with the standard library for the inputs that orjson refuses."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from wane.fast_json import orjson

# orjson reads integers of more than 64 bits as floats, which would change what a client sends.
_LONG_NUMBER: Final = re.compile(rb"[:,\[]\s*-?\d{19}")
# A faster test first: without 19 digits in a row there is no such integer.
_DIGITS: Final = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
_LONG: Final = b"0" * 19
_SLICE: Final = 1 << 20  # bytes scanned at a time


def loads(data: bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: if it is not valid JSON.
    """
    if not _has_long_number(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            # It may hold a lone surrogate, which orjson refuses. If not, the standard library reports the error.
            pass
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def dumps(data: object, *, canonical: bool = False) -> bytes:
    """Return data as JSON in UTF-8, without spaces.

    Args:
        data: JSON data.
        canonical: whether to sort keys, so that equal data gives equal bytes.

    Raises:
        ValueError: if it is not JSON data.
    """
    try:
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS if canonical else None)
    except TypeError:
        try:
            return json.dumps(data, separators=(",", ":"), sort_keys=canonical).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not JSON data: {error}") from error


def _has_long_number(data: bytes) -> bool:
    if len(data) <= _SLICE:  # most are the small events of a stream
        return _LONG in data.translate(_DIGITS) and _LONG_NUMBER.search(data) is not None
    slices = (data[at : at + _SLICE + len(_LONG) - 1] for at in range(0, len(data), _SLICE))
    if not any(_LONG in piece.translate(_DIGITS) for piece in slices):
        return False
    return _LONG_NUMBER.search(data) is not None

"""JSON at the speed of orjson, and with the standard library's leniency where orjson has none."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

# orjson reads a whole number of more than 64 bits as a float, which would change what a client sends.
_LONG_NUMBER: Final = re.compile(rb"[:,\[]\s*-?\d{19}")
# Where there are not as many digits in a row, which is seen much faster, there is none.
_DIGITS: Final = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
_LONG: Final = b"0" * 19
_SLICE: Final = 1 << 20  # bytes that are looked at in one go


def loads(data: bytes) -> Any:
    """Return what JSON text says.

    Raises:
        ValueError: if it is no JSON.
    """
    if not _has_long_number(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            # It may hold a lone surrogate, which orjson refuses. If not, the standard library says what is wrong.
            pass
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def canonical(data: object) -> bytes:
    """Return data as JSON that is the same for equal data, whatever the order of its keys.

    Raises:
        ValueError: if it is no JSON data.
    """
    try:
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        try:
            return json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no JSON data: {error}") from error


def dumps(data: object) -> bytes:
    """Return data as JSON in UTF-8, without spaces.

    Raises:
        ValueError: if it is no JSON data.
    """
    try:
        return orjson.dumps(data)
    except TypeError:
        try:
            return json.dumps(data, separators=(",", ":")).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no JSON data: {error}") from error


def _has_long_number(data: bytes) -> bool:
    slices = (data[at : at + _SLICE + len(_LONG) - 1] for at in range(0, len(data), _SLICE))
    if not any(_LONG in piece.translate(_DIGITS) for piece in slices):
        return False
    return _LONG_NUMBER.search(data) is not None

"""JSON at the speed of orjson, and with the standard library's leniency where orjson has none."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

# orjson reads a whole number of more than 64 bits as a float, which would change what a client sends.
_LONG_NUMBER: Final = re.compile(rb"[:,\[]\s*-?\d{19}")



def loads(data: bytes) -> Any:
    """Return what JSON text says.

    Raises:
        ValueError: if it is no JSON.
    """
    if not _LONG_NUMBER.search(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            # It may hold a lone surrogate, which orjson refuses. If not, the standard library says what is wrong.
            pass
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


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

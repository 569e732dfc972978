"""orjson, with the extras that bring it: all of Wane imports it from here, as its loading must not be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from wane.interrupts import hold_interrupts

__all__ = ["fast_dumps", "fast_loads", "orjson"]

fast_loads: Callable[[bytes], Any] | None = None
"""Parses JSON; None without orjson, which is then no name of this module either."""
fast_dumps: Callable[[object], bytes] | None = None
"""Writes JSON; None without orjson."""

with hold_interrupts(), suppress(ImportError):
    import orjson

    fast_loads, fast_dumps = orjson.loads, orjson.dumps

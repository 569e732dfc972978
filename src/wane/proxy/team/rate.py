"""Requests a minute of a member: a bucket that all processes of a store take from.

The bucket holds as many requests as the limit allows a minute, and fills again evenly. A store has only the time at
which it is full (the generic cell rate algorithm).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from wane.proxy.store.base import Store

RATES: Final = "rate"
"""Kind of the documents with a member's bucket each."""

_MINUTE: Final = 60.0
_LEAST: Final = 1e-6  # seconds worth waiting


async def wait_before(store: Store, name: str, requests: int, clock: Callable[[], float] = time.time) -> int:
    """Take a request from a bucket; return the whole seconds to wait if it is empty, and 0 if the request may go.

    Args:
        store: the store.
        name: the member's name.
        requests: requests a minute.
        clock: returns seconds since 1970.

    Raises:
        StoreError: if the store cannot be reached.
    """
    interval = _MINUTE / requests
    wait = 0.0

    def taken(document: str | None) -> str | None:
        nonlocal wait
        now = clock()
        # A clock that was ahead must not close the bucket for longer than it takes to fill.
        full_at = min(max(_seconds(document), now), now + _MINUTE)
        wait = full_at + interval - _MINUTE - now
        return document if wait > _LEAST else repr(full_at + interval)

    await store.change_document(RATES, name, taken, "the number of requests")
    return math.ceil(wait) if wait > _LEAST else 0


def _seconds(document: str | None) -> float:
    try:
        return float(document or 0)
    except ValueError:
        return 0.0

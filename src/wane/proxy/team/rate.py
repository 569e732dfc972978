"""Requests a minute of a member: a bucket that all processes of a store take from.

The bucket holds as many requests as the limit allows a minute, and fills again evenly. A store has only the time at
which it is full (the generic cell rate algorithm).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from wane.proxy.store.base import Store, StoreError

RATES: Final = "rate"
"""Kind of the documents with a member's bucket each."""

_MINUTE: Final = 60.0
_TRIES: Final = 100


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
    for _ in range(_TRIES):
        document, now = await store.document(RATES, name), clock()
        # A clock that was ahead must not close the bucket for longer than it takes to fill.
        full_at = min(max(_seconds(document), now), now + _MINUTE)
        wait = full_at + interval - _MINUTE - now
        if wait > 1e-6:
            return math.ceil(wait)
        if await store.replace_document(RATES, name, document, repr(full_at + interval)):
            return 0
    raise StoreError("other processes keep changing the number of requests")


def _seconds(document: str | None) -> float:
    try:
        return float(document or 0)
    except ValueError:
        return 0.0

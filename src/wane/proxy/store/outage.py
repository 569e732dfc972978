"""Outages of a database: only one step at a time waits for it, not each step of each request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wane.proxy.store.base import StoreError

_SLOW: Final = 0.5
"""Seconds after which a failure counts as slow. A fast one, such as a refused connection, may be retried at once."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a database.

    Attributes:
        limit: seconds that a step may take, including connecting.
        pause: seconds without any further step after that; more than the limit.
    """

    limit: float = 3.0
    pause: float = 4.0


TIMEOUTS: Final = Timeouts()


class Outage:
    """A circuit breaker for a database.

    After a slow failure every step fails at once, with the same reason, until the pause is over. Then one step tries
    again while the others keep failing, so that an outage delays only one step at a time.

    Args:
        pause: seconds of the pause.
        clock: returns monotonic seconds.
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._reason = ""
        self._until = 0.0

    def started(self) -> float:
        """Note that a step starts; return the time, for `failed`.

        Raises:
            StoreError: during a pause.
        """
        now = self._clock()
        if self._reason:
            if now < self._until:
                raise StoreError(f"{self._reason}; it is not asked again within {self._pause:g} seconds")
            self._until = now + self._pause
        return now

    def failed(self, error: StoreError, started: float) -> None:
        """Note that the database could not be reached by a step that started at this time."""
        now = self._clock()
        if now - started < _SLOW:
            self.answered()
        else:
            self._reason, self._until = str(error), now + self._pause

    def answered(self) -> None:
        """Note that the database answered, even with an error."""
        self._reason = ""

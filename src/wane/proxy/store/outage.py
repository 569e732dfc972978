"""Outages: how long a database is waited for, and that it is waited for once, not by every step of every request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wane.proxy.store.base import StoreError

_WAITED: Final = 0.5
"""Seconds from which on a failure was waited for. A refused connection is not: it may as well be tried again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a database is waited for.

    Attributes:
        limit: seconds after which a step without an answer is given up, connecting included.
        pause: seconds for which nothing more is asked after that; more than the limit.
    """

    limit: float = 3.0
    pause: float = 4.0


PATIENCE: Final = Patience()


class Outage:
    """Whether a database that kept somebody waiting in vain is to be asked again already.

    While it is not, every step fails at once, for the reason of the first. After the pause one step asks again, and
    the others go on failing until that one has its answer, so that an outage holds up one step at a time.

    Args:
        pause: seconds for which nothing is asked.
        clock: seconds that only ever grow.
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._reason = ""
        self._until = 0.0

    def asking(self) -> float:
        """Say that a step is about to ask; return when, for `failed`.

        Raises:
            StoreError: if it is not to ask.
        """
        now = self._clock()
        if self._reason:
            if now < self._until:
                raise StoreError(f"{self._reason}; it was not asked again within {self._pause:g} seconds of that")
            self._until = now + self._pause
        return now

    def failed(self, error: StoreError, asked: float) -> None:
        """Say that the database could not be reached by a step that asked at some time."""
        now = self._clock()
        if now - asked < _WAITED:
            self.over()
        else:
            self._reason, self._until = str(error), now + self._pause

    def over(self) -> None:
        """Say that the database answered, be it with an error."""
        self._reason = ""

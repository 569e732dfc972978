"""A line in the log for each request, without anything that was said in it."""

from __future__ import annotations

import logging
import time
from typing import Final

from wane.proxy.server.traffic import Exchange
from wane.proxy.sessions.base import Facts

ACCESS: Final = logging.getLogger("wane.proxy.access")
"""Where the lines go, at level INFO."""


class Line:
    """The line of one request.

    Attributes:
        what: method and path.
        facts: what its view is like; None if it is not managed.
        rounds: how often the provider's model was asked.
    """

    __slots__ = ("_begun", "facts", "rounds", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.facts: Facts | None = None
        self.rounds = 0
        self._begun = time.perf_counter()

    def write(self, status: int, exchange: Exchange) -> None:
        """Write it.

        Args:
            status: what the client got; 0 for nothing.
            exchange: knows how it ended.
        """
        if not ACCESS.isEnabledFor(logging.INFO):
            return
        took = (time.perf_counter() - self._begun) * 1000
        parts = [self.what, str(status or "-")]
        if (facts := self.facts) is not None:
            parts.append(f"{facts.session} view {facts.view}/{facts.budget} evicted {facts.evicted}")
            parts.append(f"rounds {self.rounds}")
        ACCESS.info("%s %s %.0f ms", " ".join(parts), exchange.outcome, took)

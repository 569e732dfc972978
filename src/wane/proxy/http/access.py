"""The access log: one line for each request, without any of its content."""

from __future__ import annotations

import logging
import time
from typing import Final

from wane.proxy.server.traffic import Exchange
from wane.proxy.sessions.base import Facts

ACCESS: Final = logging.getLogger("wane.proxy.access")
"""The logger of these lines, at level INFO."""


class AccessLine:
    """The log line of one request.

    Attributes:
        what: method and path.
        facts: facts about its view; None if it is not managed.
        rounds: number of requests sent to the provider's model.
    """

    __slots__ = ("_started", "facts", "rounds", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.facts: Facts | None = None
        self.rounds = 0
        self._started = time.perf_counter()

    def write(self, status: int, exchange: Exchange) -> None:
        """Write the line.

        Args:
            status: the HTTP status that the client got; 0 for none.
            exchange: the request's counters, with its outcome.
        """
        if not ACCESS.isEnabledFor(logging.INFO):
            return
        took = (time.perf_counter() - self._started) * 1000
        parts = [self.what, str(status or "-")]
        if (facts := self.facts) is not None:
            parts.append(f"{facts.session} view {facts.view}/{facts.budget} evicted {facts.evicted}")
            parts.append(f"rounds {self.rounds}")
        ACCESS.info("%s %s %.0f ms", " ".join(parts), exchange.outcome, took)

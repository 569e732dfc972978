"""How long a turn waits for a provider that fails, and the turn's own time, which stands still meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import uniform
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wane.agent.faults import Fault

FIRST_WAIT: Final = 0.5
"""Seconds before the second try."""

LONGEST_WAIT: Final = 60.0
"""Seconds between two tries, unless the provider asks for more."""

PATIENCE: Final = 300.0
"""Seconds that an outage may last if nothing else is said."""

FIRST_CONTACT: Final = 10.0
"""Seconds to wait for a server that has never been reached, as its address may be wrong, if nothing else is said."""

OUTAGES: Final = 4
"""A task waits for the provider at most this many times as long as one outage may last."""

SILENCE: Final = 600.0
"""Seconds after which a call fails if nothing more comes of its answer, even if the connection is kept alive."""

_STALLED: Final = 2.0
"""Seconds after which an answer that has begun counts as stalled."""

_STEP: Final = 0.1
"""Seconds between looks at whether the user has stopped the turn."""


class Patience:
    """The clock of a session's turns.

    Args:
        longest: seconds that one outage of the provider may last; None for the defaults.
        limit: seconds that a turn may work; None for no limit. A call that fails and the wait after it do not count,
            so a call to which the provider says nothing, or nothing more, is waited for.
        out_of_time: called when the limit is reached.

    Attributes:
        lost: seconds of the turn that calls which failed and waits took.
        tries: number of failed calls in a row.
    """

    def __init__(self, longest: float | None, limit: float | None, out_of_time: Callable[[], None]) -> None:
        self._longest = longest
        self._reached = False
        self.limit = limit
        self._out_of_time = out_of_time
        self._timer: asyncio.TimerHandle | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a turn, whose clock is not running yet."""
        self.end()
        self.lost = 0.0
        self.tries = 0
        self._worked = 0.0
        self._running_since: float | None = None
        self._called_at: float | None = None
        self._heard_at: float | None = None
        self._overdue = False
        self._failing_since = 0.0

    def run(self) -> None:
        """Let the clock run."""
        self._running_since = _now()
        if self.limit is not None:
            remaining = max(0.0, self.limit - self._worked)
            self._timer = asyncio.get_running_loop().call_later(remaining, self._due)

    def end(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def called(self) -> None:
        """Note that a model call begins."""
        self._called_at, self._heard_at = _now(), None

    @property
    def calling(self) -> bool:
        """Whether a model call is not answered yet."""
        return self._called_at is not None

    def heard(self) -> None:
        """Note that the provider says something."""
        self._heard_at = _now()
        if self._overdue:
            self._overdue = False
            self._out_of_time()

    def _due(self) -> None:
        if self.calling and (self._heard_at is None or _now() - self._heard_at > _STALLED):
            self._overdue = True  # what comes next tells whose time it was
        else:
            self._out_of_time()

    def answered(self) -> None:
        """Note that it has been answered."""
        self._called_at = None
        self._reached = True
        self.tries = 0
        self.heard()

    def failed(self, fault: Fault) -> float | None:
        """Stop the clock where the failed call began, and return the seconds to wait; None to give up."""
        self.end()
        now = _now()
        began = now if self._called_at is None else self._called_at
        if self._running_since is not None:
            self._worked += began - self._running_since
        self._running_since = self._called_at = None
        self._overdue = False
        self.lost += now - began
        if not self.tries:
            self._failing_since = now
        self.tries += 1
        wait = pause(self.tries, fault)
        self._reached = self._reached or not fault.unreached
        longest = self._longest
        if longest is None:
            longest = PATIENCE if self._reached else FIRST_CONTACT
        lasts, in_all = now - self._failing_since + wait, self.lost + wait
        return None if lasts > longest or in_all > OUTAGES * longest else wait

    async def wait(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Wait, unless the turn is stopped meanwhile."""
        begun = _now()
        while not stopped() and (remaining := begun + seconds - _now()) > 0:
            await asyncio.sleep(min(remaining, _STEP))
        self.lost += _now() - begun


def _now() -> float:
    """The time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()


def pause(tries: int, fault: Fault) -> float:
    """Return the seconds to wait before the next try: growing, with jitter, and at least what the provider asks for.

    Args:
        tries: number of failed tries in a row, from 1.
        fault: why the last one failed.
    """
    grown = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 10)) * uniform(0.5, 1)  # noqa: S311 - not a secret
    demanded = fault.retry_after or 0.0
    return max(grown, demanded + uniform(0, min(1.0, demanded)))  # noqa: S311

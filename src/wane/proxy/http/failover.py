"""A second upstream, which answers while the first one is down."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from wane.proxy.head import KEY_HEADERS, Headers, RefusedError
from wane.proxy.http.upstream import STOPPED, Upstream, UpstreamResponse
from wane.proxy.traffic import RequestCounters

_LOGGER: Final = logging.getLogger("wane.proxy")

ANSWERED_BY: Final = b"x-wane-upstream"
"""Header of an answer by the second upstream, with its address."""

REST: Final = 30.0
"""Seconds for which an upstream that is down is not asked; then one request tries it again."""

_PAUSE: Final = 1.0  # seconds before an error of the first upstream is tried once more
_DOWN: Final = (502, 503, 504, 529)  # statuses of an upstream that is down or overloaded

_FAILED: Final = (500, *_DOWN)
"""Statuses with which another upstream is asked. A 500 may be about this request, so it is the request's alone."""

_KEY_IN_QUERY: Final = re.compile(rb"(?<=[?&]key=)[^&]*")  # a key of Gemini's API in a query


class Failover:
    """Two upstreams for the same requests: they go to the first one, and to the second while the first is down.

    The second gets `key` in place of the client's and in the client's form; without one, the client's.
    """

    def __init__(
        self,
        first: Upstream,
        second: Upstream,
        key: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: float = _PAUSE,
    ) -> None:
        self.second = second
        self._first, self._key, self._clock, self._pause = first, key, clock, pause
        self._down_until: float | None = None

    @property
    def down(self) -> bool:
        """Whether the first upstream was down when it was last asked."""
        return self._down_until is not None

    async def send(
        self, counters: RequestCounters, target: bytes, sent: Headers, content: bytes
    ) -> UpstreamResponse | None:
        """Send a request to the first upstream; return None if the second one is to be asked, as by `send_second`.

        Raises:
            RefusedError: if the proxy is stopped.
        """
        now = self._clock()
        if self._down_until is not None:
            if now < self._down_until:
                counters.fell_back("down")
                return None
            # This request tries; others go to the second until it is known.
            self._down_until = now + REST
        why, kind = "", ""
        for number in range(2):
            try:
                answer = await self._first.send(counters, "POST", target, sent, content)
            except RefusedError as error:
                if error.message == STOPPED:
                    raise
                why, kind = error.message, "timeout" if error.status == 504 else "connect"
                self._mark_down(why)
                break
            if answer.status not in _FAILED:
                if self.down:
                    _LOGGER.warning("%s answers again", self._first.url)
                self._down_until = None
                return answer
            why = kind = str(answer.status)
            # The last attempt's status decides: an upstream that is down says so again.
            await answer.close()
            if not number:
                await asyncio.sleep(self._pause)
            elif answer.status in _DOWN:
                self._mark_down(f"HTTP {why}")
        counters.fell_back(kind)
        _LOGGER.info("%s: %s is asked instead of %s: %s", counters.what, self.second.url, self._first.url, why)
        return None

    async def send_second(
        self, counters: RequestCounters, target: bytes, sent: Headers, content: bytes
    ) -> UpstreamResponse:
        """Send a request to the second upstream; its answer names it in a header.

        Raises:
            RefusedError: if it cannot be reached either.
        """
        if counters.outcome == "unreachable":
            counters.outcome = "passed"  # whatever became of the request at the first one
        changed = {b"host": self.second.host}
        if (key := self._key) is not None:
            changed |= {name: form % key.encode() for name, form in KEY_HEADERS.items()}
            target = _KEY_IN_QUERY.sub(lambda _: quote(key, safe="").encode(), target)
        headers = [(name, changed.get(name, value)) for name, value in sent]
        try:
            answer = await self.second.send(counters, "POST", target, headers, content)
        except RefusedError as error:
            if error.message != STOPPED:
                error.message += f"; it was asked because {self._first.url} had failed"
            raise
        answer.headers.append((ANSWERED_BY, str(self.second.url).encode()))
        return answer

    def _mark_down(self, why: str) -> None:
        if not self.down:
            _LOGGER.warning("%s is down, so %s is asked: %s", self._first.url, self.second.url, why)
        self._down_until = self._clock() + REST

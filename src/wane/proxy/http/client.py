"""The client's side of one request: its body, its reply, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from wane.proxy.http.faults import ClientGoneError, RefusedError
from wane.proxy.http.headers import Headers
from wane.proxy.server.settings import Timeouts
from wane.proxy.server.traffic import Exchange

Event = dict[str, Any]
"""An ASGI event."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Client:
    """One request of a client, over ASGI. Of one task, which is cancelled when the client goes away.

    Args:
        receive: gives the request's events.
        send: takes the reply's.
        timeouts: how long to wait for the client.
        exchange: counts bytes.

    Attributes:
        gone: whether it went away before the end.
        status: of its reply; 0 before that has begun.
        ended: whether it has its reply.
    """

    __slots__ = ("_exchange", "_receive", "_send", "_task", "_timeouts", "_watcher", "ended", "gone", "status", "whole")

    def __init__(self, receive: Receive, send: Send, timeouts: Timeouts, exchange: Exchange) -> None:
        self.gone = self.ended = self.whole = False
        self.status = 0
        self._receive, self._send = receive, send
        self._timeouts, self._exchange = timeouts, exchange
        self._task: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None

    # The request's body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, and then watch the client.

        Raises:
            ClientGoneError: if it goes away before the end.
            RefusedError: if the next piece takes too long.
        """
        while not self.whole:
            try:
                async with asyncio.timeout(self._timeouts.body):
                    event: Event = await self._receive()
            except TimeoutError:
                raise RefusedError(408, "the request's body takes too long to come", close=True) from None
            if event["type"] != "http.request":
                raise ClientGoneError
            self.whole = not event.get("more_body", False)
            if piece := event.get("body", b""):
                self._exchange.received(len(piece))
                yield piece
        self.watch()

    def watch(self) -> None:
        """Have the task cancelled when the client goes away. Once its body is read, as nothing else may be."""
        if self._watcher is None:
            self._task = asyncio.current_task()
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # what is left of a body that was not wanted
        if not self.ended and self._task is not None:
            self.gone = True
            self._task.cancel()

    # The reply

    @property
    def started(self) -> bool:
        """Whether its reply has begun, so that the status is settled."""
        return self.status != 0

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the reply."""
        self.status = status
        await self._give({"type": "http.response.start", "status": status, "headers": headers})

    async def give(self, data: bytes) -> None:
        """Give a piece of the reply's body, at once. Waits while the client takes none.

        Raises:
            ClientGoneError: if it takes none for too long.
        """
        if data:
            self._exchange.sent(len(data))
            await self._give({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """End the reply, after a last piece."""
        self._exchange.sent(len(data))
        # The server says "disconnected" too when all was sent.
        self.ended = True
        await self._give({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Give a whole reply."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.end(body)

    async def _give(self, event: Event) -> None:
        try:
            async with asyncio.timeout(self._timeouts.client):
                await self._send(event)
        except TimeoutError:
            raise ClientGoneError from None

    def close(self) -> None:
        """Watch no more."""
        self.ended = True
        if self._watcher is not None:
            self._watcher.cancel()

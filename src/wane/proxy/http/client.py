"""The client's side of one request: its body, its reply, and whether it is still connected."""

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
    """One request of a client, over ASGI. Used by one task, which is cancelled when the client disconnects.

    Args:
        receive: receives the request's events.
        send: sends the reply's events.
        timeouts: how long to wait for the client.
        exchange: counts bytes.

    Attributes:
        gone: whether the client disconnected before the end.
        status: HTTP status of the reply; 0 before it starts.
        ended: whether the reply is complete.
        whole: whether the request's body is complete.
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
        """Yield the body as it arrives, then watch for a disconnect.

        Raises:
            ClientGoneError: if the client disconnects before the end.
            RefusedError: if the next piece takes too long.
        """
        while not self.whole:
            try:
                async with asyncio.timeout(self._timeouts.body):
                    event: Event = await self._receive()
            except TimeoutError:
                raise RefusedError(408, "the request's body takes too long to arrive", close=True) from None
            if event["type"] != "http.request":
                raise ClientGoneError
            self.whole = not event.get("more_body", False)
            if piece := event.get("body", b""):
                self._exchange.received(len(piece))
                yield piece
        self.watch()

    def watch(self) -> None:
        """Cancel the current task when the client disconnects. Call it once the body is read."""
        if self._watcher is None:
            self._task = asyncio.current_task()
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the rest of an unwanted body
        if not self.ended and self._task is not None:
            self.gone = True
            self._task.cancel()

    # The reply

    @property
    def started(self) -> bool:
        """Whether the reply has started, so that its status can no longer change."""
        return self.status != 0

    async def start(self, status: int, headers: Headers) -> None:
        """Start the reply."""
        self.status = status
        await self._send_event({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Send a piece of the reply's body at once. Waits while the client reads nothing.

        Raises:
            ClientGoneError: if it reads nothing for too long.
        """
        if data:
            self._exchange.sent(len(data))
            await self._send_event({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """End the reply with a last piece."""
        self._exchange.sent(len(data))
        # The server reports a disconnect after a complete reply too.
        self.ended = True
        await self._send_event({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole reply."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.end(body)

    async def _send_event(self, event: Event) -> None:
        try:
            async with asyncio.timeout(self._timeouts.client):
                await self._send(event)
        except TimeoutError:
            raise ClientGoneError from None

    def close(self) -> None:
        """Stop watching for a disconnect."""
        self.ended = True
        if self._watcher is not None:
            self._watcher.cancel()

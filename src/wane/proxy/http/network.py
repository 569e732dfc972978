"""The network below the HTTP client, by asyncio's transports alone: most of a stream's cost is reading small pieces."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from httpcore2 import (
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    ConnectTimeout,
    ReadError,
    ReadTimeout,
    WriteError,
    WriteTimeout,
)

_MOST_UNREAD: Final = 256 * 1024  # bytes of a connection above which no more are received until some are read
_SLICE: Final = 256 * 1024  # bytes written at once
_NEXT_ADDRESS: Final = 0.25  # seconds until a host's next address is tried too (RFC 8305)


class Network(AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - nobody asks for one
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - asyncio sets TCP_NODELAY, and no other is asked for
    ) -> AsyncNetworkStream:
        """Return a connection.

        Raises:
            ConnectError: if there is none.
            ConnectTimeout: if it takes too long.
        """
        loop = asyncio.get_running_loop()
        with _as_connect_errors():
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(_Stream, host, port, happy_eyeballs_delay=_NEXT_ADDRESS)
        return stream

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class _Stream(AsyncNetworkStream, asyncio.Protocol):
    """A connection. One task at a time reads, and one writes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._unread = bytearray()
        self._paused = self._full = self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        # Moving the deadline of a read is cheaper than a timer for each.
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > _MOST_UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended = True
        _wake(self._reader)
        return self.get_extra_info("ssl_object") is None  # an answer may begin before all of its request was sent

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        _wake(self._reader)
        _wake(self._writer)
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    # What the HTTP client calls

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._unread and not self._ended:
            self._reader = self._loop.create_future()
            if timeout is not None:
                self._expire_at(self._loop.time() + timeout)
            try:
                await self._reader
            finally:
                self._reader = None
        if not self._unread and self._error is not None:
            raise ReadError(self._error) from self._error
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._paused and len(self._unread) <= _MOST_UNREAD and not self._ended:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Given whole, what the kernel does not take at once would be copied each time that it takes a bit of it.
        for at in range(0, len(buffer), _SLICE):
            if self._transport.is_closing():
                raise WriteError("the connection is closed") from self._error
            self._transport.write(buffer[at : at + _SLICE])
            if self._full:
                self._writer = self._loop.create_future()
                try:
                    async with asyncio.timeout(timeout):
                        await self._writer
                except TimeoutError as error:
                    raise WriteTimeout from error
                finally:
                    self._writer = None
        if self._transport.is_closing():
            raise WriteError("the connection was closed") from self._error

    async def aclose(self) -> None:
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        try:
            with _as_connect_errors():
                async with asyncio.timeout(timeout):
                    self._transport = await self._loop.start_tls(
                        self._transport, self, ssl_context, server_hostname=server_hostname
                    )
        except BaseException:
            self._transport.abort()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            # The event loop has seen that an idle connection was closed. The pool asks this of each idle connection
            # for each request, so asking the kernel would cost a burst of requests a system call for each pair.
            return self._ended or bool(self._unread)
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))

    def _expire_at(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._reader is None or self._reader.done():
            return
        if self._loop.time() < self._deadline:
            self._expire_at(self._deadline)
        else:
            self._reader.set_exception(ReadTimeout())


@contextmanager
def _as_connect_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ConnectTimeout(error) from error
    except (OSError, ssl.SSLError) as error:
        raise ConnectError(error) from error


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

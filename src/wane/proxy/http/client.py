"""The client's side of a request: its connection, its body within limits of size and time, and its reply."""

from __future__ import annotations

import asyncio
import importlib
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from wane.proxy import jsons
from wane.proxy.head import Headers, RefusedError, RequestHead, every, first, tokens
from wane.proxy.sessions.bodies import LARGE
from wane.proxy.settings import MAX_BODY, ServerTimeouts
from wane.proxy.traffic import RequestCounters

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_NO_SIZE: Final = re.compile(rb"[0-9a-fA-F]{17}")
"""The beginning of a chunk's size that no client means; the parser would wait for the rest of its line."""

_AT_ONCE: Final = 0.001  # seconds after a write within which the next one belongs to it
_MOST_JOINED: Final = 64 * 1024  # bytes of writes that may wait for each other
_LINGER: Final = 2.0  # seconds for which a refused client may still send, so that it reads the answer
_GZIP: Final = 31  # zlib's number for it
_MEMBERS: Final = 12
"""The most members of a gzip body: each copies what follows it. Clients send one."""

_WINDOW: Final = 8 * 1024 * 1024  # bytes, the largest zstd window over HTTP (RFC 9659)


class ClientGoneError(Exception):
    """The client has disconnected, or no longer reads."""


class JoinedWrites:
    """A transport that joins what is written right after something else, before the event loop has turned.

    A provider's events often arrive several at once, and each write is a system call. What comes alone is written at
    once, so nothing waits for something that may not come.

    Args:
        transport: the transport that it stands for.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0
        self._written = float("-inf")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data, at once or with what follows it."""
        if not self._waiting:
            now = self._loop.time()
            if now - self._written > _AT_ONCE:
                self._written = now
                self._transport.write(data)
                return
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _MOST_JOINED:
            self._flush()

    def close(self) -> None:
        """Close the connection once all is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting, self._size, self._written = [], 0, self._loop.time()
            self._transport.write(data)


class TimedProtocol(H11Protocol):
    """The server's HTTP protocol, with time limits.

    Attributes:
        timeouts: the limits; a client that reads nothing of its reply for too long is disconnected.
        largest: bytes that a chunk of a request may have.
    """

    timeouts = ServerTimeouts()
    largest = MAX_BODY
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a new connection."""
        joined: Any = JoinedWrites(transport)
        super().connection_made(joined)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Stop the timer once the head is complete."""
        super().data_received(data)
        self._watch_head()

    def handle_events(self) -> None:
        """Refuse a chunk that is larger than a body may be; the parser would wait for all of it."""
        super().handle_events()
        chunk: int | None = getattr(self.conn._reader, "_bytes_in_chunk", None)
        if chunk is None or self.transport.is_closing():
            return
        unread = chunk == 0 and _NO_SIZE.match(self.conn.trailing_data[0])
        if chunk > self.largest or unread:
            self.send_400_response(f"A chunk of the request has over {self.largest:,} bytes.")

    def pause_writing(self) -> None:
        """Start the timer for a client that has to read more of its reply."""
        super().pause_writing()
        self._reading = self.loop.call_later(self.timeouts.client, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer of a client that has read more."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in (self._timer, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        waiting = self.conn.their_state is h11.IDLE
        if waiting and self._timer is None:
            self._timer = self.loop.call_later(self.timeouts.head, self.transport.close)
        elif not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(timeouts: ServerTimeouts, largest: int) -> type[TimedProtocol]:
    """Return the protocol with other limits; see `TimedProtocol`."""
    return type("Protocol", (TimedProtocol,), {"timeouts": timeouts, "largest": largest})


class Client:
    """One request of a client, over ASGI. Used by one task, which is cancelled when the client disconnects.

    Attributes:
        request: the head of the request.
        counters: the request's counters.
        timeouts: how long to wait for the client.
        gone: whether the client disconnected before the end.
        status: HTTP status of the reply; 0 before it starts.
        ended: whether the reply is complete.
        whole: whether the request's body is complete.
    """

    def __init__(
        self, receive: Receive, send: Send, timeouts: ServerTimeouts, request: RequestHead, counters: RequestCounters
    ) -> None:
        self._receive, self._send = receive, send
        self.timeouts, self.request, self.counters = timeouts, request, counters
        self.gone = self.ended = self.whole = False
        self.status = 0
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
                async with asyncio.timeout(self.timeouts.body):
                    event = await self._receive()
            except TimeoutError:
                raise RefusedError(408, "the request's body takes too long to arrive", close=True) from None
            if event["type"] != "http.request":
                raise ClientGoneError
            self.whole = not event.get("more_body", False)
            if piece := event.get("body", b""):
                self.counters.count_received(len(piece))
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
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Send a piece of the reply's body at once. Waits while the client reads nothing.

        Raises:
            ClientGoneError: if it reads nothing for too long.
        """
        if data:
            self.counters.count_sent(len(data))
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """End the reply with a last piece."""
        self.counters.count_sent(len(data))
        # The server reports a disconnect after a complete reply too.
        self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole reply."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        await self.end(body)

    def close(self) -> None:
        """Stop watching for a disconnect."""
        self.ended = True
        if self._watcher is not None:
            self._watcher.cancel()
            # Its cancellation has a traceback, which leads back here: the bodies would wait for the collector.
            self._watcher = self._task = None


async def read_body(client: Client, most: int) -> bytes:
    """Read a request's body, up to `most` bytes.

    Raises:
        RefusedError: if it is longer, or takes too long.
        ClientGoneError: if the client disconnects.
    """
    headers, seconds = client.request.headers, client.timeouts.body
    declared = first(headers, b"content-length")
    too_large = declared is not None and declared.isdigit() and int(declared) > most
    if not too_large:
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(seconds):
                async for piece in client.pieces():
                    size += len(piece)
                    if size > most:
                        break
                    pieces.append(piece)
        except TimeoutError:
            why = f"the request's body did not arrive within {seconds:g} seconds"
            raise RefusedError(408, why, close=True) from None
        if size <= most:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
    if not too_large or first(headers, b"expect") is None:
        # Read on for a moment: if the connection closed at once, the client would lose the answer.
        try:
            async with asyncio.timeout(_LINGER):
                async for _ in client.pieces():
                    pass
        except (TimeoutError, RefusedError):
            pass
    raise _too_large(most)


async def decode_body(body: bytes, headers: Headers, most: int) -> bytes:
    """Return a body without its content encoding.

    Args:
        body: the body as received.
        headers: the request's headers, which may name a content encoding.
        most: bytes that it may have decoded.

    Raises:
        ValueError: if it cannot be decoded; its message says why.
        RefusedError: if it is longer.
    """
    try:
        return await _decode_body(body, headers, most)
    except _UnknownEncodingError as error:
        raise ValueError(f"the body cannot be read: {error}") from error


async def dump_body(data: object, size: int) -> bytes:
    """Return data as JSON, written in a thread if it had many bytes (`size`) when it was received.

    Raises:
        ValueError: if it is not JSON data.
    """
    return await asyncio.to_thread(jsons.dumps, data) if size > LARGE else jsons.dumps(data)


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, f"the request's body has over {most:,} bytes, more than this proxy accepts", close=True)


class _UnknownEncodingError(Exception):
    """A body cannot be decoded: its encoding is unknown, or it is damaged."""


async def _decode_body(body: bytes, headers: Headers, most: int) -> bytes:
    names = [name for name in tokens(every(headers, b"content-encoding")) if name != b"identity"]
    if not names:
        return body
    if len(names) > 1 or names[0] not in _DECODERS:
        raise _UnknownEncodingError(f"its content encoding {b', '.join(sorted(names)).decode('latin-1')!r} is unknown")
    decode, name = _DECODERS[names[0]], names[0].decode()
    try:
        plain = await asyncio.to_thread(decode, body, most) if len(body) > LARGE // 16 else decode(body, most)
    except _UnknownEncodingError:
        raise
    except Exception as error:
        raise _UnknownEncodingError(f"it is not valid {name}") from error
    if len(plain) > most:
        raise _too_large(most)
    return plain


# Each decoder returns at most one byte more than is allowed, and takes no more memory than that.


def _deflate(body: bytes, most: int) -> bytes:
    # The standard says zlib's format, but some clients send raw deflate.
    try:
        return _inflate_body(body, most, 15)
    except zlib.error:
        return _inflate_body(body, most, -15)


def _inflate_body(body: bytes, most: int, form: int = _GZIP) -> bytes:
    plain = bytearray()
    for _ in range(_MEMBERS):
        decoder = zlib.decompressobj(form)
        plain += decoder.decompress(body, most + 1 - len(plain))
        if len(plain) > most:
            return bytes(plain)
        if not decoder.eof:
            raise _UnknownEncodingError("it is cut off")
        body = decoder.unused_data
        if not body or form != _GZIP:
            return bytes(plain)
    raise _UnknownEncodingError(f"it has more than {_MEMBERS} members")


def _zstd(body: bytes, most: int) -> bytes:
    decoder = _module("zstandard").ZstdDecompressor(max_window_size=_WINDOW)
    with decoder.stream_reader(body, read_across_frames=True) as reader:
        return bytes(reader.read(most + 1))


def _brotli(body: bytes, most: int) -> bytes:
    decoder = _module("brotli").Decompressor()
    plain = bytearray(decoder.process(body, output_buffer_limit=most + 1))
    while not decoder.is_finished() and len(plain) <= most:
        if decoder.can_accept_more_data():
            raise _UnknownEncodingError("it is cut off")
        plain += decoder.process(b"", output_buffer_limit=most + 1 - len(plain))
    return bytes(plain)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _UnknownEncodingError(f"the package {name}, which is needed to decode it, is not installed") from None


_DECODERS: Final[dict[bytes, Callable[[bytes, int], bytes]]] = {
    b"gzip": _inflate_body,
    b"x-gzip": _inflate_body,
    b"deflate": _deflate,
    b"zstd": _zstd,
    b"br": _brotli,
}

"""The provider: requests to one base URL, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.request import getproxies, proxy_bypass

import httpx2

from wane.core.errors import ConfigError
from wane.proxy.http.address import UpstreamUrl
from wane.proxy.http.faults import RefusedError
from wane.proxy.http.headers import Headers, first, to_client
from wane.proxy.server.settings import Timeouts

_KEPT: Final = 256
"""Idle connections that are kept to be used again."""

_IDLE: Final = 50.0
"""Seconds that they are kept: load balancers close them after a minute."""

_SLICE: Final = 256 * 1024
"""Bytes of a body that are written at once."""

_HIGHEST_STATUS: Final = 599

STOPPED: Final = "the proxy was stopped"
"""What a client is told whose request was still open then."""


class Body(httpx2.AsyncByteStream):
    """A request's body: one that is here, or one that is passed on as it comes."""

    def __init__(self, content: bytes | AsyncIterator[bytes] = b"") -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._content
        if not isinstance(content, bytes):
            async for piece in content:
                yield piece
        elif len(content) <= _SLICE:
            yield content
        else:
            # What is written has not to be copied again and again as the kernel takes it bit by bit.
            view = memoryview(content)
            for at in range(0, len(content), _SLICE):
                yield bytes(view[at : at + _SLICE])


class _Stoppable(httpx2.AsyncByteStream):
    """The body of an answer, which the proxy's end breaks off with an error that can be told."""

    def __init__(self, stream: httpx2.AsyncByteStream, upstream: Upstream) -> None:
        self._stream, self._upstream = stream, upstream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._stream)
        while True:
            with self._upstream.stoppable():
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class Answer:
    """A provider's answer, its body still to come. To be closed.

    Attributes:
        status: the HTTP status.
        headers: those that are for the client.
        begun: what has been read of its body ahead of `pieces`.
    """

    __slots__ = ("_broken", "_raw", "_response", "begun", "headers", "status")

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._response = response
        self._raw = aiter(response.stream)
        self._broken: httpx2.HTTPError | None = None
        self.status = response.status_code
        self.headers = to_client(response.headers.raw)
        self.begun = b""

    @property
    def ok(self) -> bool:
        """Whether the provider did what it was asked for."""
        return 200 <= self.status < 300

    @property
    def encoding(self) -> bytes:
        """The content encoding of its body; empty for none."""
        name = (first(self.headers, b"content-encoding") or b"").strip().lower()
        return b"" if name == b"identity" else name

    async def begin(self, most: int) -> bytes:
        """Read the body, or about as much of it as `most` bytes, ahead of `pieces`; return it."""
        try:
            while len(self.begun) < most:
                self.begun += await anext(self._raw)
        except StopAsyncIteration:
            pass
        except httpx2.HTTPError as error:
            self._broken = error
        return self.begun

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, no faster than it is taken.

        Raises:
            httpx2.HTTPError: if it breaks off, or does not come in time.
        """
        if self.begun:
            yield self.begun
        if self._broken is not None:
            raise self._broken
        async for piece in self._raw:
            yield piece

    def decoded(self) -> AsyncIterator[bytes]:
        """Yield the body without its content encoding, gzip or deflate; as `pieces` otherwise."""
        return self._response.aiter_bytes() if self.encoding in (b"gzip", b"deflate") else self.pieces()

    async def close(self) -> None:
        """Let go of the connection, which is closed if the body is not over."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Upstream:
    """The one provider.

    A transport instead of a client: redirects, cookies and default headers are the client's business.

    Args:
        url: its base URL.
        timeouts: how long to wait.

    Attributes:
        url: its base URL.
        stopped: whether nobody is to wait for it any more, so that a wait which is cancelled is refused.
    """

    def __init__(self, url: UpstreamUrl, timeouts: Timeouts) -> None:
        self.url = url
        self.stopped = False
        self._url = httpx2.URL(url.origin)
        self._host = url.netloc.encode()
        self._timeout = {
            "connect": timeouts.connect,
            "read": timeouts.read,
            "write": timeouts.write,
            "pool": timeouts.pool,
        }
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT, keepalive_expiry=_IDLE)
        try:
            self._transport = httpx2.AsyncHTTPTransport(limits=limits, proxy=_environment_proxy(url))
        except (ValueError, ImportError, OSError) as error:
            raise ConfigError(
                f"the proxy that the environment names for {url.origin} cannot be used: {error}"
            ) from None

    @property
    def host(self) -> bytes:
        """The value of `Host`."""
        return self._host

    async def send(self, method: str, target: bytes, headers: Headers, content: bytes | AsyncIterator[bytes]) -> Answer:
        """Send a request, and return the answer once its head is here.

        Args:
            method: the HTTP method.
            target: path and query, as the client sent them.
            headers: all headers, `Host` and the body's length among them.
            content: the body.

        Raises:
            httpx2.HTTPError: if the provider cannot be asked.
            RefusedError: if the proxy is stopped meanwhile, also while the answer's body is read.
        """
        extensions: dict[str, Any] = {"timeout": self._timeout, "target": self.url.target(target)}
        request = httpx2.Request(method, self._url, headers=headers, stream=Body(content), extensions=extensions)
        with self.stoppable():
            response = await self._transport.handle_async_request(request)
        if response.status_code > _HIGHEST_STATUS:
            await response.aclose()
            raise httpx2.RemoteProtocolError("no HTTP status")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Stoppable(response.stream, self)
        return Answer(response)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Refuse what is cancelled once the proxy is stopped: it is told to the client as other refusals are.

        Raises:
            RefusedError: then.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.stopped or task is None:
                raise
            task.uncancel()
            raise RefusedError(503, STOPPED, close=True) from None

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _environment_proxy(url: UpstreamUrl) -> str | None:
    """The proxy that the environment names for a provider; none for one on this machine."""
    if url.is_loopback or proxy_bypass(url.netloc):
        return None
    known = getproxies()
    found = known.get(url.scheme) or known.get("all")
    return None if not found else found if "://" in found else f"http://{found}"

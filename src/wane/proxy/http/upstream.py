"""The provider: requests to one base URL and nowhere else, and answers passed on byte by byte."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2

from wane.core.errors import ConfigError
from wane.proxy.head import LONGEST_HEAD, Headers, RefusedError, first, size, to_client, to_upstream
from wane.proxy.http.client import Client
from wane.proxy.http.network import Network
from wane.proxy.settings import ServerTimeouts, UpstreamUrl
from wane.proxy.traffic import RequestCounters, UpstreamFault

_KEPT: Final = 256  # idle connections kept for reuse
_IDLE: Final = 50.0  # seconds for which they are kept; load balancers close them after a minute
_UNSENT: Final = (httpcore2.PoolTimeout, httpcore2.ConnectTimeout, httpcore2.ConnectError, httpcore2.ProxyError)

HTTP_ERRORS: Final = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)
"""All that the HTTP client raises; its errors have no common base."""

# Why a request failed, the first that fits: for metrics, the HTTP status for the client, and the error for it. The text
# of the HTTP client's own error may hold headers, so it is not used.
_FAULTS: Final[tuple[tuple[type[Exception], UpstreamFault, int, str], ...]] = (
    (httpcore2.PoolTimeout, "timeout", 504, "no connection to {} was free in time"),
    (httpcore2.ConnectTimeout, "timeout", 504, "{} could not be reached in time"),
    (httpcore2.TimeoutException, "timeout", 504, "{} did not answer in time"),
    (httpcore2.ConnectError, "connect", 502, "{} could not be reached"),
    (httpcore2.ProxyError, "connect", 502, "{} could not be reached"),
    (httpcore2.LocalProtocolError, "malformed", 502, "the request could not be sent to {}: it is not valid HTTP"),
    (Exception, "reset", 502, "{} closed the connection before it answered"),
)

# zlib's numbers for a header of its own or of gzip, and for none, which some servers call deflate too.
_WITH_HEADER: Final = 47
_WITHOUT_HEADER: Final = -15

STOPPED: Final = "the proxy was stopped"
"""The error for clients whose requests were still open."""

# White space and byte order marks, which may precede either form.
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
# The beginnings of server-sent events.
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


class BrokenOffError(Exception):
    """A reply broke off after it had started; the connection must be closed without ending the reply."""


class BrokenBodyError(Exception):
    """An answer's body broke off, took too long, or is not in the encoding that its headers name.

    Attributes:
        late: whether it took too long.
        encoded: whether the encoding is wrong.
    """

    def __init__(self, *, late: bool = False, encoded: bool = False) -> None:
        super().__init__()
        self.late, self.encoded = late, encoded


class UpstreamResponse:
    """A provider's answer, with its body still to be read. Close it after use.

    Attributes:
        status: the HTTP status.
        headers: the headers for the client.
        read: what was read of the body ahead of `pieces`.
    """

    def __init__(self, response: httpcore2.Response, upstream: Upstream) -> None:
        self._response, self._upstream = response, upstream
        self._raw = self._read()
        self._broken: BrokenBodyError | None = None
        self.status = response.status
        self.headers = to_client(response.headers)
        self.read = b""

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def encoding(self) -> bytes:
        """The body's content encoding; empty for none."""
        name = (first(self.headers, b"content-encoding") or b"").strip().lower()
        return b"" if name == b"identity" else name

    async def peek(self, most: int) -> bytes:
        """Read the body, or about `most` bytes of it, ahead of `pieces`, and return it."""
        try:
            while len(self.read) < most:
                self.read += await anext(self._raw)
        except StopAsyncIteration:
            pass
        except BrokenBodyError as error:
            self._broken = error
        return self.read

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, no faster than it is read.

        Raises:
            BrokenBodyError: if it breaks off, or takes too long.
            RefusedError: if the proxy is stopped meanwhile.
        """
        if self.read:
            yield self.read
        if self._broken is not None:
            raise self._broken
        async for piece in self._raw:
            yield piece

    async def decode_pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as `pieces` does, decoded if its encoding is gzip or deflate.

        Raises:
            BrokenBodyError: as `pieces` does, and if it is not in that encoding.
            RefusedError: as `pieces` does.
        """
        is_packed = self.encoding in (b"gzip", b"deflate")
        unpacker: Any = None
        async for piece in self.pieces():
            if not is_packed:
                yield piece
                continue
            if unpacker is None:
                has_header = self.encoding == b"gzip" or piece[0] & 15 == zlib.DEFLATED
                unpacker = zlib.decompressobj(_WITH_HEADER if has_header else _WITHOUT_HEADER)
            try:
                unpacked = unpacker.decompress(piece)
            except zlib.error as error:
                raise BrokenBodyError(encoded=True) from error
            if unpacked:
                yield unpacked

    async def close(self) -> None:
        """Release the connection; it is closed if the body is not complete."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> AsyncIterator[bytes]:
        stream: Any = self._response.stream
        # What is raised while the consumer has a piece does not come in here.
        with self._upstream.stoppable():
            try:
                async for piece in stream:
                    yield piece
            except HTTP_ERRORS as error:
                raise BrokenBodyError(late=isinstance(error, httpcore2.TimeoutException)) from error


class Upstream:
    """Sends requests to the provider.

    It uses a bare pool of connections, because redirects, cookies and default headers are up to the proxy's client.

    Attributes:
        url: the provider's base URL.
        netloc: its host and port.
        host: the same as the value of `Host`.
        origin: its URL without a path.
        stopped: whether the proxy was stopped; cancelled requests are then refused.
    """

    def __init__(self, url: UpstreamUrl, timeouts: ServerTimeouts) -> None:
        self.url = url
        self.stopped = False
        self.origin = url.origin
        self._url = httpcore2.URL(self.origin)
        self.netloc = url.netloc
        self.host = self.netloc.encode()
        self._prefix = url.prefix.encode()
        version = self._prefix[self._prefix.rfind(b"/") :]
        self._version = version + b"/" if version[:2] == b"/v" and version[2:].isdigit() else None
        self._timeout = {name: getattr(timeouts, name) for name in ("connect", "read", "write", "pool")}
        # Certificates take a while to read.
        tls = httpcore2.default_ssl_context() if url.scheme == "https" else None
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            proxy=environment_proxy(url),
            max_connections=None,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_IDLE,
            network_backend=Network(),
        )

    def target(self, path: bytes) -> bytes:
        """Return the request target for a client's path and query.

        A client's base URL may end with the version that the provider's ends with or not; it is not doubled.
        """
        if self._version is not None and path.startswith(self._version):
            path = path[len(self._version) - 1 :]
        return self._prefix + path

    def address(self, path: bytes) -> str:
        """Return the URL for a client's path and query, without the query, which may hold a key."""
        return self.origin + self.target(path).partition(b"?")[0].decode("latin-1")

    async def send(
        self,
        counters: RequestCounters,
        method: str,
        target: bytes,
        headers: Headers,
        content: bytes | AsyncIterator[bytes],
    ) -> UpstreamResponse:
        """Send a request, and return the answer once its head has arrived.

        Args:
            counters: counts failures.
            method: the HTTP method.
            target: path and query, as the client sent them.
            headers: all headers, including `Host`; the length of a body in one piece is added.
            content: the body.

        Raises:
            RefusedError: if the provider cannot be reached, or the proxy is stopped meanwhile; reading the answer's
                body raises it too.
            ClientGoneError: if the client disconnects while it sends.
        """
        if isinstance(content, bytes):
            headers = [*headers, (b"content-length", b"%d" % len(content))]
            if counters.sending is not None:
                await counters.sending(content, self.address(target))
        url = httpcore2.URL(
            scheme=self._url.scheme, host=self._url.host, port=self._url.port, target=self.target(target)
        )
        request = httpcore2.Request(
            method, url, headers=headers, content=content, extensions={"timeout": self._timeout}
        )
        try:
            with self.stoppable():
                response = await self._pool.handle_async_request(request)
            if response.status > 599:
                await response.aclose()
                raise httpcore2.RemoteProtocolError("not an HTTP status")
        except HTTP_ERRORS as error:
            kind, status, message = next(fault[1:] for fault in _FAULTS if isinstance(error, fault[0]))
            counters.upstream_error(kind)
            counters.outcome = "unreachable"
            raise RefusedError(status, message.format(self.origin), unsent=isinstance(error, _UNSENT)) from error
        if (length := size(response.headers)) > LONGEST_HEAD:
            await response.aclose()
            counters.upstream_error("malformed")
            counters.outcome = "broken"
            raise RefusedError(502, f"{self.origin} answered with {length:,} bytes of headers")
        if response.status >= 400:
            counters.upstream_error(response.status)
        return UpstreamResponse(response, self)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Turn a cancellation into a refusal for the client, if the proxy was stopped.

        Raises:
            RefusedError: in that case.
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
        await self._pool.aclose()


async def from_first(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; leading blank ones are joined to the first that shows its form."""
    blank, started = b"", False
    async for piece in pieces:
        if started:
            yield piece
            continue
        blank += piece
        started = bool(blank.strip(_BLANK))
        if started:
            yield blank
    if blank and not started:
        yield blank


def streams_in(beginning: bytes, headers: Headers) -> bool | None:
    """Whether a reply is a stream of events; None if it is neither that nor JSON.

    Args:
        beginning: the first piece of its body, as `from_first` yields it.
        headers: its headers. Some gateways declare the wrong form, so the body takes precedence.
    """
    text = beginning.lstrip(_BLANK)
    if text.startswith(b"{"):
        return False
    if any(text.startswith(field) or field.startswith(text) for field in _FIELDS):
        return True
    kind = (first(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    return True if kind == b"text/event-stream" and not text.startswith(b"<") else None


async def pass_on(
    upstream: Upstream, client: Client, body: bytes | None = None, extra: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a request upstream unchanged, and relay the answer.

    Args:
        upstream: the provider.
        client: the client.
        body: the body if it has been read already; None to pass it on as it arrives.
        extra: headers to add to the reply.

    Raises:
        RefusedError: if the provider cannot be reached.
        BrokenOffError: if its answer breaks off.
        ClientGoneError: if the client disconnects.
    """
    request = client.request
    sent = to_upstream(request.headers, upstream.host)
    if body is None:
        if (length := first(request.headers, b"content-length")) is not None:
            sent.append((b"content-length", length))
        elif first(request.headers, b"transfer-encoding") is not None:
            sent.append((b"transfer-encoding", b"chunked"))
    content = client.pieces() if body is None else body
    async with await upstream.send(client.counters, request.method, request.target, sent, content) as answer:
        client.watch()
        await relay(client, answer, extra)


async def relay(
    client: Client,
    answer: UpstreamResponse,
    extra: Sequence[tuple[bytes, bytes]] = (),
    watch: Callable[[bytes], object] | None = None,
) -> None:
    """Send the client an answer as it arrives.

    Args:
        client: the client.
        answer: the answer.
        extra: headers to add to it.
        watch: gets each piece of its body too, which the client has by then.

    Raises:
        BrokenOffError: if it breaks off.
        ClientGoneError: if the client disconnects.
    """
    await client.start(answer.status, [*answer.headers, *extra])
    try:
        async for piece in answer.pieces():
            await client.write(piece)
            if watch is not None:
                watch(piece)
    except BrokenBodyError as error:
        client.counters.upstream_error("timeout" if error.late else "reset")
        client.counters.outcome = "broken"
        raise BrokenOffError from error
    await client.end()


def environment_proxy(url: UpstreamUrl) -> httpcore2.Proxy | None:
    """Return the HTTP proxy that the environment sets for a provider; None for one on this machine.

    Raises:
        ConfigError: if it cannot be used.
    """
    if url.is_loopback or proxy_bypass(url.netloc):
        return None
    proxies = getproxies()
    text = proxies.get(url.scheme) or proxies.get("all")
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise _unusable(url, "its URL is not understood") from None
    if not parts.hostname:
        raise _unusable(url, "its URL is not understood")
    if parts.scheme not in ("http", "https", "socks5", "socks5h"):
        raise _unusable(url, f"{parts.scheme} is no way to a proxy; it can be http, https, socks5 or socks5h")
    if parts.scheme.startswith("socks") and find_spec("socksio") is None:
        raise _unusable(url, "for a SOCKS proxy, install the package socksio")
    address = httpcore2.URL(scheme=parts.scheme, host=parts.hostname.encode("idna"), port=port, target="/")
    if parts.username is None:
        return httpcore2.Proxy(address)
    return httpcore2.Proxy(address, (unquote(parts.username).encode(), unquote(parts.password or "").encode()))


def _unusable(url: UpstreamUrl, why: str) -> ConfigError:
    return ConfigError(f"the proxy that the environment names for {url.origin} cannot be used: {why}")

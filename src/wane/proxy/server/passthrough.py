"""Passes unmanaged requests on byte by byte, in both directions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import httpx2

from wane.proxy.http import headers
from wane.proxy.http.client import Client
from wane.proxy.http.faults import BrokenOffError, RefusedError, fault_of
from wane.proxy.http.request import Request
from wane.proxy.http.upstream import Answer, Upstream
from wane.proxy.server.traffic import Exchange


async def pass_on(
    upstream: Upstream,
    client: Client,
    request: Request,
    exchange: Exchange,
    body: bytes | None = None,
    extra: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Send a request upstream unchanged, and relay the answer.

    Args:
        upstream: the provider.
        client: the client.
        request: the head of its request.
        exchange: the request's counters.
        body: the body if it has been read already; None to pass it on as it arrives.
        extra: headers to add to the reply.

    Raises:
        RefusedError: if the provider cannot be reached.
        BrokenOffError: if its answer breaks off.
        ClientGoneError: if the client disconnects.
    """
    sent = headers.to_upstream(request.headers, upstream.host)
    content: bytes | AsyncIterator[bytes] = client.pieces()
    if body is not None:
        sent.append((b"content-length", b"%d" % len(body)))
        content = body
    elif (length := headers.first(request.headers, b"content-length")) is not None:
        sent.append((b"content-length", length))
    elif headers.first(request.headers, b"transfer-encoding") is not None:
        sent.append((b"transfer-encoding", b"chunked"))
    async with await ask(upstream, exchange, request.method, request.target, sent, content) as answer:
        client.watch()
        await relay(client, exchange, answer, extra)


async def ask(
    upstream: Upstream,
    exchange: Exchange,
    method: str,
    target: bytes,
    sent: headers.Headers,
    content: bytes | AsyncIterator[bytes],
) -> Answer:
    """Send a request upstream, and count failures.

    Raises:
        RefusedError: if the provider cannot be reached; it says why.
        ClientGoneError: if the client disconnects while it sends.
    """
    try:
        answer = await upstream.send(method, target, sent, content)
    except httpx2.HTTPError as error:
        fault = fault_of(error, upstream.url.origin)
        exchange.upstream_error(fault.kind)
        exchange.outcome = "unreachable"
        raise RefusedError(fault.status, fault.message) from error
    if answer.status >= 400:
        exchange.upstream_error(answer.status)
    return answer


async def relay(client: Client, exchange: Exchange, answer: Answer, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send the client an answer as it arrives.

    Args:
        client: the client.
        exchange: the request's counters.
        answer: the answer.
        extra: headers to add to it.

    Raises:
        BrokenOffError: if it breaks off.
        ClientGoneError: if the client disconnects.
    """
    await client.start(answer.status, [*answer.headers, *extra])
    try:
        async for piece in answer.pieces():
            await client.write(piece)
    except httpx2.HTTPError as error:
        exchange.upstream_error("timeout" if isinstance(error, httpx2.TimeoutException) else "reset")
        exchange.outcome = "broken"
        raise BrokenOffError from error
    await client.end()

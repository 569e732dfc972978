"""What is not managed: passed on byte by byte, both ways, as it comes."""

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
    """Send a request upstream as it came, and give the client what comes back.

    Args:
        upstream: the provider.
        client: the client.
        request: the head of its request.
        exchange: is told how it goes.
        body: the body as it came, where it has been read already; None to pass it on as it comes.
        extra: headers that the reply gains.

    Raises:
        RefusedError: if the provider cannot be asked.
        BrokenOffError: if its answer breaks off.
        ClientGoneError: if the client goes away.
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
    """Send a request upstream, and count what goes wrong.

    Raises:
        RefusedError: if the provider cannot be asked; it says why.
        ClientGoneError: if the client goes away while it sends.
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
    """Give the client an answer as it comes.

    Args:
        client: the client.
        exchange: is told how it goes.
        answer: the answer.
        extra: headers that it gains.

    Raises:
        BrokenOffError: if it breaks off.
        ClientGoneError: if the client goes away.
    """
    await client.start(answer.status, [*answer.headers, *extra])
    try:
        async for piece in answer.pieces():
            await client.give(piece)
    except httpx2.HTTPError as error:
        exchange.upstream_error("timeout" if isinstance(error, httpx2.TimeoutException) else "reset")
        exchange.outcome = "broken"
        raise BrokenOffError from error
    await client.end()

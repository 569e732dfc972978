"""A bare relay on what Wane's proxy stands on, uvicorn, h11 and httpcore2: the least time that a proxy on them takes.

    python benchmarks/proxy/relay.py URL

prints its own URL, and passes each request on to the provider at URL until it is ended. It keeps nothing.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import httpcore2
import uvicorn

DROPPED = (b"host", b"content-length", b"connection", b"transfer-encoding")


class Relay:
    """The application.

    Args:
        upstream: the provider's URL.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._pool = httpcore2.AsyncConnectionPool(max_keepalive_connections=64)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and its answer back."""
        pieces, goes_on = list[bytes](), True
        while goes_on:
            event = await receive()
            pieces.append(event.get("body", b""))
            goes_on = event.get("more_body", False)
        body, host = b"".join(pieces), self._upstream.partition("//")[2]
        headers = [*pass_headers(scope["headers"]), (b"host", host.encode()), (b"content-length", b"%d" % len(body))]
        request = httpcore2.Request("POST", self._upstream + scope["path"], headers=headers, content=body)
        answer = await self._pool.handle_async_request(request)
        stream: Any = answer.stream
        await send({"type": "http.response.start", "status": answer.status, "headers": pass_headers(answer.headers)})
        async for piece in stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await answer.aclose()
        await send({"type": "http.response.body"})


def pass_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return the headers of a message that go on."""
    return [(name, value) for name, value in headers if name.lower() not in DROPPED]


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(Relay(sys.argv[1]), http="h11", lifespan="off", log_level="critical", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])

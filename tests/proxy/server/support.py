"""A provider of raw bytes on loopback, a proxy before it, and clients of raw bytes: all in one event loop."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from wane.proxy.server.app import known_wires
from wane.proxy.server.running import Running, serving
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import Address, ServerSettings, ServerTimeouts, UpstreamUrl
from wane.proxy.store import open_store
from wane.proxy.wire.wire import Wire

KEY = "sk-a-key-that-nobody-may-see"
TOKEN = "a-token-of-some-length"
WAIT = 60.0  # seconds, in which anything that is waited for happens also where the machine is busy


@dataclass
class Asked:
    """A request as the provider got it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Provider:
    """What the provider got, and how it answers."""

    answer: Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    raw: bytes = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def provider(
    answer: Callable[[Asked, asyncio.StreamWriter], Awaitable[None]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Provider]:
    """A provider that answers each request by a function, which writes raw bytes; over TLS if there is a context."""
    it = Provider(answer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        it.connections += 1
        try:
            while (asked := await read_request(reader)) is not None:
                it.asked.append(asked)
                answering = asyncio.ensure_future(it.answer(asked, writer))
                watching = asyncio.ensure_future(hang_up(reader))
                await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
                watching.cancel()
                if not answering.done():
                    it.hung_up.set()
                    answering.cancel()
                    return
                await answering
        except (ConnectionError, asyncio.IncompleteReadError):
            it.hung_up.set()
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            writer.close()

    async def hang_up(reader: asyncio.StreamReader) -> None:
        while not reader.at_eof():
            await asyncio.sleep(0.002)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, ssl=tls)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, headers = parse_head(head)
    method, target, _ = first.split(" ")
    asked = Asked(method, target, headers)
    if asked.header("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            asked.body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif length := int(asked.header("content-length") or 0):
        asked.body = await reader.readexactly(length)
    return asked


def parse_head(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    """The first line and the headers of a message."""
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    return first, headers


@asynccontextmanager
async def proxy(
    upstream: str,
    *,
    index: SessionIndex | None = None,
    wires: Mapping[str, Wire] | None = None,
    timeouts: Mapping[str, float] | None = None,
    telemetry: Any = None,
    pages: SessionPages | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A proxy before a provider; with an index of sessions in memory unless another is given."""
    listen = Address("127.0.0.1", 0)
    quick = {"grace": 0.3, **(timeouts or {})}
    chosen = ServerSettings(UpstreamUrl.parse(upstream), listen, timeouts=ServerTimeouts(**quick), **settings)
    index = index or SessionIndex(open_store(None))
    async with serving(chosen, index, {**known_wires(), **(wires or {})}, telemetry=telemetry, pages=pages) as running:
        yield running


# What providers and clients write


def response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def stream_head(status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())


START = event(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    },
)
STOP = event(
    "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 5}
) + event("message_stop")
CALLED = event(
    "message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 5}
) + event("message_stop")


def text_start(index: int = 0) -> bytes:
    return event("content_block_start", index=index, content_block={"type": "text", "text": ""})


def text_delta(text: str, index: int = 0) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def block_stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def text_block(text: str, index: int = 0) -> bytes:
    return text_start(index) + text_delta(text, index) + block_stop(index)


def call_block(name: str, arguments: Mapping[str, Any], index: int = 0, number: int = 1) -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{name}_{index}_{number}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    return (
        event("content_block_start", index=index, content_block=block)
        + event("content_block_delta", index=index, delta=delta)
        + block_stop(index)
    )


MARK = {"action": "start", "name": "look", "type": "expl"}
"""Arguments of a call of the own tool that is right."""

TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]


def body(text: str = "hello", *, stream: bool = True, tools: bool = True, **more: Any) -> dict[str, Any]:
    """A body of the Messages API."""
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
        "stream": stream,
        **({"tools": TOOLS} if tools else {}),
        **more,
    }


def message(text: str = "hi", **more: Any) -> bytes:
    """A whole reply of the Messages API."""
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
            **more,
        }
    ).encode()


@dataclass
class Answer:
    """What a client got, to the end of its connection or of the reply."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    whole: bool
    """Whether it came to its proper end."""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A client of raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Answer:
        async with asyncio.timeout(WAIT):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, headers = parse_head(head)
        return Answer(int(first.split(" ")[1]), headers, b"", whole=False)

    async def piece(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        async with asyncio.timeout(WAIT):
            size = int(await self.reader.readline(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> Answer:
        """The whole answer."""
        answer = await self.head()
        async with asyncio.timeout(WAIT):
            try:
                if answer.header("transfer-encoding") == "chunked":
                    while piece := await self.piece():
                        answer.body += piece
                elif (length := answer.header("content-length")) is not None:
                    answer.body = await self.reader.readexactly(int(length))
                elif answer.status not in (204, 304):
                    answer.body = await self.reader.read()
                answer.whole = True
            except (asyncio.IncompleteReadError, ValueError, ConnectionError):
                pass
        return answer

    def close(self) -> None:
        self.writer.close()


class Listening(Protocol):
    """A proxy in this event loop, or a process."""

    @property
    def address(self) -> Address: ...


@asynccontextmanager
async def connection(running: Listening) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.address.port, limit=1 << 24)
    it = Connection(reader, writer)
    try:
        yield it
    finally:
        it.close()


def request(
    content: bytes | dict[str, Any] = b"",
    path: str = "/v1/messages",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a request."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"x-api-key: {KEY}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if data or method == "POST":
        lines.append(f"content-length: {len(data)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def ask(
    running: Listening,
    content: bytes | dict[str, Any] = b"",
    path: str = "/v1/messages",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request on a connection of its own, and return its answer."""
    async with connection(running) as it:
        it.send(request(content, path, method, headers))
        return await it.answer()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(WAIT):
        while not condition():
            await asyncio.sleep(0.005)

"""What goes wrong on either side, over real connections."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any, NoReturn

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import (
    START,
    STOP,
    Asked,
    ask,
    body,
    chunk,
    message,
    provider,
    proxy,
    request,
    response,
    stream_head,
    text_block,
    text_delta,
    text_start,
    until,
)
from tests.proxy.store.servers import free_port
from wane.proxy.server.running import Running
from wane.proxy.sessions.memory import CachedSession
from wane.proxy.sessions.session_index import SessionFinder, SessionIndex
from wane.proxy.store import open_store
from wane.proxy.wire.wire import Wire


def outcomes(running: Running) -> dict[str, int]:
    return {name: count for name, count in running.traffic.outcomes().items() if count}


async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(stream_head() + chunk(START) + chunk(text_block("hi")) + chunk(STOP) + b"0\r\n\r\n")


async def begins(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(stream_head() + chunk(START + text_start() + text_delta("one")))
    await asyncio.sleep(60)


async def resets(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


# The client


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize(("answer", "stream"), [(begins, True), (never, True), (never, False)])
async def test_client_that_leaves_ends_the_providers_request(answer: Any, stream: bool, managed: bool) -> None:
    async with provider(answer) as up, proxy(up.url) as running:
        async with support.connection(running) as it:
            it.send(request(body(tools=managed, stream=stream)))
            await until(lambda: up.asked)
            if answer is begins:
                await it.head()
                await it.piece()
        await asyncio.wait_for(up.hung_up.wait(), support.WAIT)
        await until(lambda: outcomes(running) == {"client_gone": 1})


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_client_that_leaves_while_sending_asks_nothing_of_a_model(path: str) -> None:
    async with provider(says) as up, proxy(up.url) as running:
        async with support.connection(running) as it:
            it.send(request(body("x" * 1000), path)[:-10])
            await until(lambda: running.traffic.open_requests() and (path == "/v1/messages" or up.connections))
        await until(lambda: outcomes(running) == {"client_gone": 1})
        assert not up.asked
        if path == "/v1/files":  # which has passed while it came
            await asyncio.wait_for(up.hung_up.wait(), support.WAIT)


async def test_client_that_stops_reading_holds_the_provider_back() -> None:
    """What waits in the proxy and the kernel is bounded, however much the provider has to say."""

    piece, written = text_delta("x" * 20_000), 0

    async def floods(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        writer.write(stream_head() + chunk(START + text_start()))
        while written < 100_000_000:
            writer.write(chunk(piece))
            await writer.drain()
            written += len(piece)

    async with provider(floods) as up, proxy(up.url) as running:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", running.address.port))
        await asyncio.get_running_loop().sock_sendall(slow, request(body()))
        await until(lambda: written)
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.2)
        assert written < 20_000_000
        # Others are served meanwhile.
        assert (await ask(running, b"", "/wane/status", "GET")).status == 200
        slow.close()
        await asyncio.wait_for(up.hung_up.wait(), support.WAIT)


async def test_client_that_takes_nothing_for_too_long_is_left() -> None:
    async def floods(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(START + text_start()))
        while True:
            writer.write(chunk(text_delta("x" * 20_000)))
            await writer.drain()

    async with provider(floods) as up, proxy(up.url, timeouts={"client": 0.1}) as running:
        async with support.connection(running) as it:
            it.writer.transport.pause_reading()  # type: ignore[attr-defined]
            it.send(request(body()))
            await asyncio.wait_for(up.hung_up.wait(), support.WAIT)
        await until(lambda: outcomes(running) == {"client_gone": 1})


# The provider


@pytest.mark.parametrize(("managed", "stream"), [(True, True), (True, False), (False, True)])
async def test_provider_that_cannot_be_reached(managed: bool, stream: bool) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with proxy(url) as running:
        answer = await ask(running, body(tools=managed, stream=stream))
        assert answer.status == 502
        assert answer.header("content-type") == "application/json"
        assert answer.json["error"]["message"] == f"{url} could not be reached"
        chat = await ask(running, b"{}", "/v1/chat/completions")
        assert chat.json["error"]["message"] == f"{url} could not be reached"
        assert outcomes(running) == {"unreachable": 2}


async def says_no_http(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n\r\n")


async def stops_early(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(stream_head() + chunk(START) if asked.json["stream"] else response(message())[:-5])
    writer.close()


@pytest.mark.parametrize(
    ("answer", "managed", "stream", "status", "words"),
    [
        *((resets, managed, True, 502, "closed the connection") for managed in (True, False)),
        *((never, managed, True, 504, "in time") for managed in (True, False)),
        *((stops_early, True, stream, 502, "broke off") for stream in (True, False)),
        (says_no_http, True, True, 502, "closed the connection"),
    ],
)
async def test_provider_that_gives_no_answer(answer: Any, managed: bool, stream: bool, status: int, words: str) -> None:
    async with provider(answer) as up, proxy(up.url, timeouts={"read": 0.1}) as running:
        got = await ask(running, body(tools=managed, stream=stream))
        assert got.status == status
        assert words in got.json["error"]["message"]
        assert outcomes(running) == {"broken" if answer is stops_early else "unreachable": 1}
        if answer is never:
            await asyncio.wait_for(up.hung_up.wait(), support.WAIT)


@pytest.mark.parametrize("managed", [True, False])
async def test_provider_that_breaks_off_in_mid_stream(managed: bool) -> None:
    arrived = asyncio.Event()

    async def breaks(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(START + text_start() + text_delta("one")))
        await arrived.wait()
        writer.transport.abort()

    async with provider(breaks) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(request(body(tools=managed)))
        asyncio.get_running_loop().call_later(0.05, arrived.set)
        answer = await it.answer()
        assert (answer.status, answer.whole) == (200, False)
        assert b"one" in answer.body
        assert outcomes(running) == {"broken": 1}


# Wane


class FailingIndex(SessionIndex):
    """An index that fails where it is told to, and is a real one otherwise."""

    def __init__(self, where: str) -> None:
        super().__init__(open_store(None))
        self.where = where

    def gate_of(self, root: str) -> asyncio.Lock:
        if self.where == "locate":
            raise KeyError("a defect")
        return super().gate_of(root)

    def finder_of(self, owner: str) -> SessionFinder:
        finder = super().finder_of(owner)
        if self.where == "preview":
            finder.memory.has_root = _fail  # type: ignore[method-assign]
        return finder

    def sync_later(self, cached: CachedSession) -> None:
        if self.where == "record":
            raise KeyError("a defect")
        super().sync_later(cached)


def _fail(*_: object) -> NoReturn:
    raise KeyError("a defect")


def failing_wire(where: str) -> Wire:
    real = type(support.known_wires()["anthropic"])

    class FailingReply:
        def __init__(self, reply: Any) -> None:
            self.reply = reply

        def __getattr__(self, name: str) -> Any:
            if name == where:
                raise KeyError("a defect")
            return getattr(self.reply, name)

    class FailingWire(real):  # type: ignore[valid-type, misc]
        def __getattribute__(self, name: str) -> Any:
            if name == where:
                raise KeyError("a defect")
            found = super().__getattribute__(name)
            return (lambda *args, **more: FailingReply(found(*args, **more))) if name == "reply" else found

    return FailingWire()  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["locate", "why_unmanaged", "messages", "equip", "reply", "feed", "end"])
@pytest.mark.parametrize("strict", [False, True])
async def test_failure_of_wane(where: str, strict: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The client's own bytes go upstream; or to be strict, nothing does and the client is told."""

    async def whole(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(message("hi")))

    with caplog.at_level(logging.WARNING, "wane.proxy"):
        index = FailingIndex(where)
        wires = {"anthropic": failing_wire(where)}
        sent = body(stream=False)
        async with provider(whole) as up, proxy(up.url, index=index, wires=wires, strict=strict) as running:
            answer = await ask(running, sent)
            if strict:
                assert answer.status == 500
                assert "KeyError" in answer.json["error"]["message"]
                return
            assert (answer.status, answer.body) == (200, message("hi"))
            assert "KeyError" in (answer.header("x-wane-warning") or "")
            assert answer.header("x-wane-session") is None
            assert up.asked[-1].body == request(sent).partition(b"\r\n\r\n")[2]
            assert outcomes(running) == {"failed_open": 1}
    assert "POST /v1/messages: Traceback" in caplog.text


@pytest.mark.parametrize("where", ["preview", "record", "finish"])
async def test_failure_of_wane_beside_a_reply(where: str) -> None:
    """While tokens are counted, when a reply is to be recorded, and in one that has begun."""
    path = "/v1/messages/count_tokens" if where == "preview" else "/v1/messages"
    wires = {"anthropic": failing_wire(where)}
    async with provider(says) as up, proxy(up.url, index=FailingIndex(where), wires=wires) as running:
        answer = await ask(running, body(), path)
        assert (answer.status, answer.whole, len(up.asked)) == (200, True, 1)
        if where == "preview":
            assert "KeyError" in (answer.header("x-wane-warning") or "")
            assert up.asked[0].json == body()
        elif where == "record":
            assert answer.body.endswith(STOP[-40:])
        else:
            assert answer.body.rpartition(b"event: ")[2].startswith(b"error")
            assert outcomes(running) == {"broken": 1}


# The server


async def test_a_proxy_that_ends_leaves_the_log_of_another_one_as_quiet() -> None:
    usual = logging.LogRecord("uvicorn.error", logging.WARNING, "", 1, "Unsupported upgrade request.", None, None)
    log = logging.getLogger(usual.name)

    async with provider(says) as up, proxy(up.url):
        async with proxy(up.url):
            assert not log.filter(usual)
        assert not log.filter(usual)
    assert log.filter(usual)


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        *((begins, path) for path in ("/v1/messages", "/v1/files")),
        *((never, path) for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/models")),
    ],
)
async def test_stopping_ends_what_is_open_after_a_moment(
    answer: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With an error in the reply's form; what was passed on breaks off."""
    async with provider(answer) as up:
        async with proxy(up.url, timeouts={"grace": 0.05}) as running:
            it = support.Connection(*await asyncio.open_connection("127.0.0.1", running.address.port))
            it.send(request(body(), path, headers={"anthropic-version": "2023-06-01"}))
            await until(lambda: up.asked)
            if answer is begins:
                await it.head()
                await it.piece()
        head, _, content = (await it.reader.read()).partition(b"\r\n\r\n")
        it.close()
        if answer is never:
            assert head.startswith(b"HTTP/1.1 503 ")
            told = json.loads(content)
            assert (told["type"], told["error"]["message"]) == ("error", "the proxy was stopped")
        elif path == "/v1/files":
            assert (head, content) == (b"", b"")
        else:
            assert b"event: error" in head
            assert b"the proxy was stopped" in head
        assert outcomes(running) == {"broken": 1}
        await asyncio.wait_for(up.hung_up.wait(), support.WAIT)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_stopping_lets_a_stream_end() -> None:
    more = asyncio.Event()

    async def slowly(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(START + text_start() + text_delta("one")))
        await more.wait()
        writer.write(chunk(support.block_stop() + STOP) + b"0\r\n\r\n")

    async with provider(slowly) as up:
        async with proxy(up.url, timeouts={"grace": support.WAIT}) as running:
            answering = asyncio.create_task(ask(running, body()))
            await until(lambda: up.asked)
            asyncio.get_running_loop().call_later(0.1, more.set)
        answer = await answering
        assert answer.whole
        assert answer.body.endswith(STOP[-40:])


async def test_connection_that_the_provider_closed_while_idle_is_not_used_again() -> None:
    async def once(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(message()))
        await writer.drain()
        writer.close()

    async with provider(once) as up, proxy(up.url) as running:
        for _ in range(20):
            answer = await ask(running, body(stream=False))
            assert answer.status == 200, answer.body
        assert len(up.asked) == 20

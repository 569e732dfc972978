"""What is not managed goes both ways byte by byte."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import KEY, Asked, ask, body, provider, proxy, request, response
from wane.core.errors import ConfigError


async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(response(asked.body, headers={"x-own": "yes", "X-Wane-View": "7", "connection": "keep-alive, x-hop"}))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_any_method_and_path_pass_with_query_and_body(method: str) -> None:
    async with provider(echo) as up, proxy(f"{up.url}/base") as running:
        answer = await ask(running, b"some bytes", "/v1/files/a%2Fb?x=1&y=%20", method)
        asked = up.asked[0]
        assert (asked.method, asked.target, asked.body) == (method, "/base/v1/files/a%2Fb?x=1&y=%20", b"some bytes")
        assert asked.header("host") == f"127.0.0.1:{up.port}"
        assert asked.header("x-api-key") == KEY
        assert (answer.status, answer.body) == (200, b"some bytes")
        assert answer.header("x-own") == "yes"
        assert answer.header("x-wane-view") is None


async def test_head_has_no_body() -> None:
    async def head(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")

    async with provider(head) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(request(method="HEAD", path="/v1/models"))
        answer = await it.head()
        assert (answer.status, answer.header("content-length")) == (200, "500")
        # The connection is good for another.
        it.send(request(method="HEAD", path="/v1/models"))
        assert (await it.head()).status == 200


async def test_response_encoding_is_kept_as_it_came() -> None:
    data = gzip.compress(b"x" * 5000)

    async def answer_zipped(asked: Asked, writer: asyncio.StreamWriter) -> None:
        assert asked.header("accept-encoding") == "gzip, br"
        writer.write(response(data, headers={"content-encoding": "gzip", "etag": '"1"'}))

    async with provider(answer_zipped) as up, proxy(up.url) as running:
        answer = await ask(running, method="GET", path="/v1/models", headers={"accept-encoding": "gzip, br"})
        assert answer.body == data
        assert answer.header("content-encoding") == "gzip"
        assert answer.header("content-length") == str(len(data))


async def test_headers_for_the_next_hop_stay_here() -> None:
    async with provider(echo) as up, proxy(up.url) as running:
        hop = {
            "connection": "keep-alive, x-private",
            "keep-alive": "timeout=5",
            "x-private": "1",
            "proxy-authorization": "Basic abc",
            "te": "trailers",
            "x-wane-token": "t",
            "x-wane-anything": "t",
            "x-public": "2",
        }
        answer = await ask(running, b"", "/v1/models", "GET", hop)
        names = {name for name, _ in up.asked[0].headers}
        assert names == {"host", "x-api-key", "content-type", "x-public"}
        assert not {name for name, _ in answer.headers} & {"connection", "x-hop"}


async def test_body_passes_while_it_comes() -> None:
    """A body without an end yet is at the provider already, and so is the answer at the client."""

    got: list[bytes] = []
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while not got or got[-1] != b"0\r\n":
            got.append(await reader.readline())
        writer.write(support.stream_head() + support.chunk(b"one"))
        await arrived.wait()
        writer.write(support.chunk(b"two") + b"0\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, proxy(url) as running, support.connection(running) as it:
        it.send(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await support.until(lambda: b"abc\r\n" in got)
        it.send(b"2\r\nde\r\n0\r\n\r\n")
        assert (await it.head()).status == 200
        assert await it.piece() == b"one"
        arrived.set()
        assert await it.piece() == b"two"
        assert await it.piece() == b""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (body(tools=False), "tools"),
        (b"not json at all", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"", "not JSON"),
        (b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not JSON"),
    ],
)
async def test_model_request_that_is_not_managed_says_why(content: bytes, reason: str) -> None:
    async with provider(echo) as up, proxy(up.url) as running:
        answer = await ask(running, content)
        sent = request(content).partition(b"\r\n\r\n")[2]
        assert up.asked[0].body == answer.body == sent
        assert reason in (answer.header("x-wane-unmanaged") or "")


@pytest.mark.parametrize("prefix", ["", "/v1", "/some/gateway", "/openai/deployments/a-name", "/anthropic/v1"])
@pytest.mark.parametrize("path", ["/messages", "/chat/completions", "/responses", "/messages/count_tokens"])
async def test_apis_are_known_below_any_prefix(prefix: str, path: str) -> None:
    async with provider(echo) as up, proxy(up.url) as running:
        answer = await ask(running, b"{}", prefix + path)
        assert answer.header("x-wane-unmanaged")
        answer = await ask(running, b"{}", f"{prefix}{path}/more")
        assert answer.header("x-wane-unmanaged") is None


async def test_version_of_the_base_is_not_doubled() -> None:
    async with provider(echo) as up, proxy(f"{up.url}/api/v1/") as running:
        await ask(running, b"{}", "/v1/chat/completions")
        await ask(running, b"{}", "/chat/completions")
        await ask(running, b"", "/v1beta/models", "GET")
        targets = [asked.target for asked in up.asked]
        assert targets == ["/api/v1/chat/completions"] * 2 + ["/api/v1/v1beta/models"]


async def test_redirects_are_the_clients_to_follow() -> None:
    async def away(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", 307, {"location": "http://127.0.0.1:1/evil"}))

    async with provider(away) as up, proxy(up.url) as running:
        for content in (b"{}", body()):
            answer = await ask(running, content)
            assert (answer.status, answer.header("location")) == (307, "http://127.0.0.1:1/evil")
        assert len(up.asked) == 2


@pytest.mark.parametrize("status", [204, 304, 404, 418, 529])
async def test_any_status_passes(status: int) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        empty = status in (204, 304)
        writer.write(b"HTTP/1.1 %d X\r\n\r\n" % status if empty else response(b"said", status, {"retry-after": "3"}))

    async with provider(answer) as up, proxy(up.url) as running:
        got = await ask(running, method="GET", path="/v1/models")
        assert got.status == status
        assert status in (204, 304) or (got.body, got.header("retry-after")) == (b"said", "3")


async def test_proxy_of_the_environment_is_used_but_not_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    async with provider(echo) as up:
        monkeypatch.setenv("http_proxy", up.url)
        monkeypatch.delenv("no_proxy", raising=False)
        async with proxy("http://api.example/base") as running:
            assert (await ask(running, b"x", "/v1//files?a=%2f")).body == b"x"
            assert up.asked[0].target == "http://api.example/base/v1//files?a=%2f"
            assert up.asked[0].header("host") == "api.example"
        async with proxy(up.url) as running:
            await ask(running, b"x", "/v1/files")
            assert up.asked[1].target == "/v1/files"
        monkeypatch.setenv("http_proxy", up.url.replace("://", "://me:p%40ss@"))
        async with proxy("http://api.example") as running:
            await ask(running, b"x", "/v1/files")
            assert up.asked[2].header("proxy-authorization") == "Basic bWU6cEBzcw=="


@pytest.mark.parametrize(
    ("url", "why"), [("nonsense://x", "nonsense is no way to a proxy"), ("http://a:b", "its URL is not understood")]
)
async def test_a_proxy_of_the_environment_that_cannot_be_used_is_refused(
    url: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConfigError, match=f"environment names for http://api.example cannot be used: {why}"):
        async with proxy("http://api.example"):
            pass


async def test_two_cookies_stay_two() -> None:
    async def cookies(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 0\r\n\r\n")

    async with provider(cookies) as up, proxy(up.url) as running:
        for _ in range(2):
            answer = await ask(running, method="GET", path="/v1/models")
            assert [value for name, value in answer.headers if name == "set-cookie"] == ["a=1", "b=2"]
        # They are one client's, and not the next one's.
        assert up.asked[1].header("cookie") is None

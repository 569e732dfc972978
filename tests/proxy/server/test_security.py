"""Who gets in, and that no request gets out but as what it is: no smuggling, no open relay, no key in any log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import (
    KEY,
    TOKEN,
    Asked,
    ask,
    body,
    message,
    provider,
    proxy,
    request,
    response,
)
from wane.core.errors import ConfigError
from wane.proxy.head import RequestHead
from wane.proxy.http.client import Client
from wane.proxy.server.exchange import ManagedRequest
from wane.proxy.server.watched import WatchedRequest
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl


async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(response(message()))


HOST = "Host: 127.0.0.1\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
REFUSED = {
    "length and chunks": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length: 4\r\n{CHUNKED}\r\n0\r\n\r\n",
    "two lengths": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a list of lengths": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length: 4, 5\r\n\r\nabcde",
    "a negative length": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length: -4\r\n\r\nabcd",
    "a signed length": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length: +4\r\n\r\nabcd",
    "other codings": f"POST /v1/files HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": f"POST /v1/files HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "identity": f"POST /v1/files HTTP/1.1\r\n{HOST}Transfer-Encoding: identity\r\n\r\nabcd",
    "chunks in 1.0": f"POST /v1/files HTTP/1.0\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": f"POST /v1/files HTTP/1.1\r\n{HOST}Content-Length : 4\r\n\r\nabcd",
    "a null in a value": f"GET / HTTP/1.1\r\n{HOST}X-A: a\0b\r\n\r\n",
    "no name": f"GET / HTTP/1.1\r\n{HOST}: value\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "two hosts": f"GET / HTTP/1.1\r\n{HOST}{HOST}\r\n",
    "another server": f"GET http://evil.example/ HTTP/1.1\r\n{HOST}\r\n",
    "a tunnel": f"CONNECT evil.example:443 HTTP/1.1\r\n{HOST}\r\n",
    "no path": f"OPTIONS * HTTP/1.1\r\n{HOST}\r\n",
    "parent directories": f"GET /v1/../../other HTTP/1.1\r\n{HOST}\r\n",
    "hidden parent directories": f"GET /v1/%2e%2e/%2E./other HTTP/1.1\r\n{HOST}\r\n",
    "backslashes": f"GET /v1/..\\other HTTP/1.1\r\n{HOST}\r\n",
    "HTTP/2 without asking": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP": "hello there\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_ambiguous_requests_are_refused(name: str) -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(REFUSED[name].encode("latin-1"))
        answer = await it.answer()
        assert 400 <= answer.status < 500
        assert not up.asked


@pytest.mark.parametrize(
    "chunks", ["4\r\nabcdX\r\n0\r\n\r\n", "zz\r\nabcd\r\n0\r\n\r\n", "-1\r\n\r\n", "4 abcd\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("path", ["/v1/files", "/v1/messages"])
async def test_bad_chunks_never_become_a_whole_request(chunks: str, path: str) -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(f"POST {path} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n{chunks}".encode())
        # To the end of the connection, whatever is said.
        await it.reader.read()
        assert not up.asked


async def test_second_request_in_a_body_stays_body() -> None:
    inner = f"GET /evil HTTP/1.1\r\n{HOST}\r\n".encode()

    async with provider(says) as up, proxy(up.url) as running:
        await ask(running, inner, "/v1/files")
        assert [(it.target, it.body) for it in up.asked] == [("/v1/files", inner)]


async def test_folded_header_is_one_line_upstream() -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(f"GET /v1/models HTTP/1.1\r\n{HOST}X-A: one\r\n  Evil: two\r\n\r\n".encode())
        await it.answer()
        assert up.asked[0].header("x-a") == "one Evil: two"
        assert up.asked[0].header("evil") is None


@pytest.mark.parametrize(
    "path", ["//evil.example/v1/models", "///evil", "/@evil.example/", "/:80/x", "/http://evil.example"]
)
async def test_no_path_leads_elsewhere(path: str) -> None:
    async with provider(says) as up, proxy(f"{up.url}/base") as running:
        assert (await ask(running, path=path, method="GET")).status == 200
        assert up.asked[0].target == f"/base{path}"
        assert up.asked[0].header("host") == f"127.0.0.1:{up.port}"


OTHERS = ["evil.example", "evil.example:8484", "127.0.0.1.evil.example", "localhost.evil", "[::2]", "a@b"]
THIS_MACHINE = ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8484", "a.localhost", "127.9.9.9"]


@pytest.mark.parametrize(
    ("path", "host", "origin", "status"),
    [
        *((path, host, None, 421) for path in ("/v1/models", "/wane/status") for host in OTHERS),
        *(("/v1/models", host, None, 200) for host in THIS_MACHINE),
        *(("/v1/models", "localhost", page, 403) for page in ("https://evil.example", "null")),
        *(("/v1/models", "localhost", page, 200) for page in ("http://localhost:3000", "http://127.0.0.1")),
        ("/v1/models", "localhost", "vscode-webview://abc", 200),
    ],
)
async def test_names_and_web_pages_of_others_are_refused_on_loopback(
    path: str, host: str, origin: str | None, status: int
) -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        line = "" if origin is None else f"Origin: {origin}\r\n"
        it.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{line}\r\n".encode())
        assert (await it.answer()).status == status
        assert bool(up.asked) == (status == 200)


@pytest.mark.parametrize(
    ("method", "lines", "status"),
    [
        ("POST", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403),
        ("POST", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403),
        ("GET", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403),
        # Another site's link; a page of this machine, which may be another site; the page's own scripts; a client.
        ("GET", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 200),
        ("POST", "Origin: http://localhost:3000\r\nSec-Fetch-Site: cross-site\r\n", 200),
        ("POST", "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n", 200),
        ("POST", "Sec-Fetch-Site: none\r\n", 200),
        ("POST", "", 200),
    ],
)
async def test_what_another_site_makes_a_browser_send_is_refused_without_an_origin(
    method: str, lines: str, status: int
) -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        head = f"{method} /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n{lines}"
        it.send(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        answer = await it.answer()
        assert answer.status == status
        assert (b"accepts no requests from web pages" in answer.body) == (status == 403)
        assert bool(up.asked) == (status == 200)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/messages", {}, 401),
        ("/v1/messages", {"x-wane-token": "wrong"}, 401),
        ("/v1/messages", {"x-wane-token": TOKEN + "x"}, 401),
        ("/v1/messages", {"x-wane-token": "t\xe9"}, 401),
        ("/v1/messages", {"authorization": f"Bearer {TOKEN}"}, 401),
        ("/wane/status", {}, 401),
        ("/~wrong/v1/messages", {}, 401),
        (f"/{TOKEN}/v1/messages", {}, 401),
        (f"/~{TOKEN}x/v1/messages", {}, 401),
        ("/v1/messages", {"x-wane-token": TOKEN}, 200),
        (f"/~{TOKEN}/v1/messages", {}, 200),
        (f"/~{TOKEN}/v1/messages", {"host": "proxy.example"}, 200),
        (f"/%7e{TOKEN}/v1/messages", {}, 200),
        (f"//%7E{TOKEN.replace('-', '%2D')}/v1/messages", {}, 200),
        (f"/~{TOKEN}/~{TOKEN}/v1/messages", {"x-wane-token": TOKEN}, 200),
        (f"/~{TOKEN}/v1/messages", {"x-wane-token": TOKEN}, 200),
        (f"/%257E{TOKEN}/v1/messages", {}, 401),
    ],
)
async def test_token_is_asked_for(path: str, headers: Mapping[str, str], status: int) -> None:
    async with provider(says) as up, proxy(up.url, token=TOKEN) as running, support.connection(running) as it:
        lines = {"host": "127.0.0.1", "content-length": "2", **headers}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        it.send(head.encode("latin-1") + b"\r\n{}")
        assert (await it.answer()).status == status
        assert [it.target for it in up.asked] == (["/v1/messages"] if status == 200 else [])
        assert not any(TOKEN in value for asked in up.asked for _, value in asked.headers)


@pytest.mark.parametrize("token", [TOKEN, "~~a.token_of-other~characters"])
async def test_token_is_not_in_the_log_however_it_is_written(token: str, caplog: pytest.LogCaptureFixture) -> None:
    encoded = "".join(f"%{ord(it):02x}" for it in token)
    written = (token, token.upper(), encoded, encoded.upper(), encoded.replace("%", "%25"), token[:5] + encoded[15:])
    places = (
        "/~{}/v1/files",
        "/%7E{}/v1/files",
        "//~{}",
        "/~{0}/~{0}/v1/files",
        "/~x/%7e{}",
        "/{}/v1",
        "/v1/~{}",
        "/%257E{}",
    )

    for name in ("wane", "uvicorn"):
        caplog.set_level(logging.DEBUG, name)
    async with provider(says) as up, proxy(up.url, token=token) as running:
        for place in places:
            for it in written:
                for headers in ({}, {"x-wane-token": token}):
                    await ask(running, path=place.format(it), headers=headers)
    lines = [record.getMessage() for record in caplog.records if record.name == "wane.proxy.access"]
    assert len(lines) == 2 * len(places) * len(written)
    told = unquote(unquote(caplog.text))
    assert token not in told
    assert "POST /~***/v1/files 401" in told


async def test_websockets_are_refused_so_that_clients_fall_back() -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-key": "x", "sec-websocket-version": "13"}

    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, path="/v1/responses", method="GET", headers=upgrade)
        assert answer.status == 426
        assert "WebSocket" in answer.json["error"]["message"]
        # Any other upgrade is an offer that need not be taken.
        assert (await ask(running, body(), headers={"connection": "upgrade", "upgrade": "h2c"})).status == 200
        assert up.asked[0].header("upgrade") is None


async def test_old_clients_are_served() -> None:
    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        data = request(body(stream=False)).replace(b"HTTP/1.1", b"HTTP/1.0")
        it.send(data)
        answer = await it.answer()
        assert answer.json["content"][0]["text"] == "hi"
        assert await it.reader.read() == b""


async def test_client_that_waits_to_be_told_to_go_on() -> None:
    waits = {"expect": "100-continue"}

    async with provider(says) as up, proxy(up.url, max_body=1000) as running:
        async with support.connection(running) as it:
            head, _, content = request(body(stream=False), headers=waits).partition(b"\r\n\r\n")
            it.send(head + b"\r\n\r\n")
            assert (await it.head()).status == 100
            it.send(content)
            assert (await it.answer()).status == 200
            assert up.asked[0].header("expect") is None
        async with support.connection(running) as it:
            it.send(request(b"x" * 2000, headers=waits).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            assert (await it.answer()).status == 413


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "192.168.1.2:1", "proxy.example:1"])
def test_listening_elsewhere_needs_a_token(listen: str) -> None:
    upstream = UpstreamUrl.parse("https://api.example")
    with pytest.raises(ConfigError, match="set a token"):
        ServerSettings(upstream, Address.parse(listen))
    ServerSettings(upstream, Address.parse(listen), token=TOKEN)
    for token in ("short", "x" * 15, "a token with spaces", "slash/slash/slash/slash"):
        with pytest.raises(ConfigError) as caught:
            ServerSettings(upstream, Address.parse(listen), token=token)
        assert token not in str(caught.value)
    assert TOKEN not in repr(ServerSettings(upstream, Address.parse(listen), token=TOKEN))


def test_a_request_in_an_error_shows_no_key() -> None:
    nothing: Any = None
    head = RequestHead("POST", "/v1/messages", b"/v1/messages", b"", [(b"x-api-key", KEY.encode())])
    client = Client(nothing, nothing, nothing, head, nothing)
    parts = (client, nothing, nothing, nothing, KEY.encode(), ())
    assert KEY not in repr(ManagedRequest(*parts, nothing, nothing, {"metadata": KEY}, False, False))
    assert KEY not in repr(WatchedRequest(*parts, nothing, 1, nothing))


async def test_keys_are_nowhere_but_upstream(caplog: pytest.LogCaptureFixture) -> None:
    """After a run with faults of all sorts, none is in a log, an answer, the status page or the metrics."""
    secrets = (KEY, "query-key-of-the-client", "Bearer-of-the-client", TOKEN, "cookie-of-the-client")

    async def faulty(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if "reset" in asked.target:
            writer.transport.abort()
        elif "odd" in asked.target:
            writer.write(b"nonsense " * 10 + b"\r\n\r\n")
        else:
            writer.write(response(message("hi"), 500 if "error" in asked.target else 200))

    class SessionIndex(support.SessionIndex):
        def gate_of(self, root: str) -> asyncio.Lock:
            raise RuntimeError(f"a defect that tells of {KEY} and query-key-of-the-client")

    for name in ("wane", "uvicorn"):
        caplog.set_level(logging.DEBUG, name)
    sent = {
        "authorization": "Bearer Bearer-of-the-client",
        "cookie": "session=cookie-of-the-client",
        "x-wane-token": TOKEN,
    }
    query = "?key=query-key-of-the-client&x="
    got = b""
    for index in (None, SessionIndex(support.open_store(None))):
        async with provider(faulty) as up, proxy(up.url, token=TOKEN, index=index) as running:
            for what in ("fine", "reset", "odd", "error"):
                for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/files"):
                    for content in (body(), b"{}"):
                        answer = await ask(running, content, path + query + what, headers=sent)
                        got += answer.body + repr(answer.headers).encode()
            await ask(running, body(), f"/~{TOKEN}/v1/messages" + query)
            await ask(running, body(), f"/~{TOKEN}x/v1/messages" + query)
            for page in ("status", "metrics", ""):
                answer = await ask(running, path=f"/wane/{page}", method="GET", headers=sent)
                assert answer.status == 200
                got += answer.body
            assert all(secret in repr(up.asked[0]) for secret in secrets if secret != TOKEN)
    texts = got.decode() + caplog.text
    assert "a defect that tells of ***" in texts
    assert len(caplog.records) > 60
    assert not [secret for secret in secrets if secret in texts]

"""Bodies: how large, how long in coming, in which encoding."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import Asked, ask, body, message, provider, proxy, request, response

DATA = json.dumps(body(stream=False)).encode()


async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(response(message()))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").ZstdCompressor().compress(data))


def brotli(data: bytes) -> bytes:
    return bytes(pytest.importorskip("brotli").compress(data, quality=1))


ENCODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip in two members": ("gzip", lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:])),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", raw_deflate),
    "zstd": ("ZSTD", zstd),
    "br": ("br", brotli),
    "identity": ("identity", bytes),
}


@pytest.mark.parametrize("name", ENCODINGS)
async def test_encoded_body_is_read_and_sent_plain(name: str) -> None:
    encoding, encode = ENCODINGS[name]

    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, encode(DATA), headers={"content-encoding": encoding})
        assert answer.header("x-wane-session")
        assert up.asked[0].header("content-encoding") is None
        assert up.asked[0].json["messages"] == body()["messages"]


async def test_gzip_body_has_a_dozen_members_at_most() -> None:
    """Each member copies what follows it, so thousands of them take minutes."""

    def gzip_members(members: int) -> bytes:
        return b"".join([gzip.compress(DATA, mtime=0), *[gzip.compress(b"", mtime=0)] * (members - 1)])

    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, gzip_members(12), headers={"content-encoding": "gzip"})
        assert answer.header("x-wane-session")
        for members in (13, 20_000):
            answer = await ask(running, gzip_members(members), headers={"content-encoding": "gzip"})
            why = "the body cannot be read: it has more than 12 members"
            assert answer.header("x-wane-unmanaged") == why
            assert up.asked[-1].body == gzip_members(members)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "br"])
@pytest.mark.parametrize("size", [1_000_001, 50_000_000])
async def test_bomb_is_refused(name: str, size: int) -> None:
    encoding, encode = ENCODINGS[name]

    async with provider(says) as up, proxy(up.url, max_body=1_000_000) as running:
        answer = await ask(running, encode(bytes(size)), headers={"content-encoding": encoding})
        assert answer.status == 413
        assert not up.asked


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "br"])
@pytest.mark.parametrize("damage", ["cut", "junk", "other"])
async def test_body_that_cannot_be_decoded_passes_as_it_came(name: str, damage: str) -> None:
    encoding, encode = ENCODINGS[name]
    whole = encode(DATA)
    sent = {"cut": whole[: len(whole) // 2], "junk": b"junk " * 20, "other": whole}[damage]
    named = "compress" if damage == "other" else f"{encoding}, gzip" if damage == "two" else encoding

    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, sent, headers={"content-encoding": named})
        assert answer.header("x-wane-unmanaged")
        assert up.asked[0].body == sent
        assert up.asked[0].header("content-encoding") == named


@pytest.mark.parametrize("chunked", [False, True])
async def test_too_large_a_body_is_refused_in_the_providers_shape(chunked: bool) -> None:
    async with provider(says) as up, proxy(up.url, max_body=1_000_000) as running:
        async with support.connection(running) as it:
            if chunked:
                it.send(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(20):
                    it.send(support.chunk(bytes(100_000)))
                it.send(b"0\r\n\r\n")
            else:
                it.send(request(bytes(2_000_000)))
            answer = await it.answer()
            assert answer.status == 413
            assert answer.json["error"]["type"] == "request_too_large"
        assert not up.asked
        # What is not a model's is not kept, so it may be as large as the provider likes.
        assert (await ask(running, bytes(2_000_000), "/v1/files")).status == 200


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_body_that_does_not_come_is_given_up(path: str) -> None:
    async with provider(says) as up, proxy(up.url, timeouts={"body": 0.1}) as running:
        async with support.connection(running) as it:
            it.send(request(DATA, path)[:-5])
            answer = await it.answer()
            assert answer.status == 408
            assert answer.header("connection") == "close"
        assert not up.asked


@pytest.mark.full
async def test_head_that_does_not_come_is_given_up() -> None:
    async with provider(says) as up, proxy(up.url, timeouts={"head": 0.5}) as running:
        async with support.connection(running) as it:
            it.send(b"POST /v1/messages HTTP/1.1\r\nHost: local")
            assert await asyncio.wait_for(it.reader.read(), support.WAIT) == b""
        async with support.connection(running) as it:
            it.send(request(DATA))
            assert (await it.answer()).status == 200
            # Between requests there is more time.
            await asyncio.sleep(0.7)
            it.send(request(DATA))
            assert (await it.answer()).status == 200


async def test_body_that_trickles_is_given_up() -> None:
    """Each piece in time is not the whole in time."""

    async with provider(says) as up, proxy(up.url, timeouts={"body": 0.3}) as running:
        it = support.Connection(*await asyncio.open_connection("127.0.0.1", running.address.port))
        it.send(request(bytes(1000))[:-1000])
        answering = asyncio.create_task(it.answer())
        while not answering.done():
            it.send(b" ")
            await asyncio.sleep(0.02)
        assert answering.result().status == 408
        it.close()


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files", "/wane/status"])
@pytest.mark.parametrize(
    "headers",
    ["x-a: " + "a" * 100_000, "\r\n".join(f"x-{n}: {'a' * 90}" for n in range(1_000)), "\r\n".join(["x-a: b"] * 9_000)],
    ids=["one", "many", "small"],
)
@pytest.mark.parametrize("pieces", [1, 20])
async def test_a_head_of_more_than_64_kb_is_refused_however_it_arrives(path: str, headers: str, pieces: int) -> None:
    data = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\nContent-Length: 2\r\n\r\n{{}}".encode()

    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        for at in range(0, len(data), len(data) // pieces):
            it.send(data[at : at + len(data) // pieces])
            await asyncio.sleep(0)
        # The parser refuses a head before it has arrived whole; the rest of it may then reset the connection.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            assert (await it.head()).status in ((431,) if pieces == 1 else (400, 431))
        assert not up.asked


async def test_a_head_of_60_kb_passes_both_ways() -> None:
    async def answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(message(), headers={"x-long": "b" * 60_000}))

    async with provider(answers) as up, proxy(up.url) as running:
        for path in ("/v1/messages", "/v1/files"):
            answer = await ask(running, body(stream=False), path, headers={"x-a": "a" * 60_000})
            assert answer.header("x-long") == "b" * 60_000
            assert up.asked[-1].header("x-a") == "a" * 60_000


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("headers", [{"x-long": "b" * 90_000}, {f"x-{n}": "b" * 90 for n in range(900)}])
async def test_an_answer_whose_head_is_too_long_is_an_error(path: str, headers: dict[str, str]) -> None:
    async def answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(message(), headers=headers))

    async with provider(answers) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=False), path)
        assert answer.status == 502
        assert "bytes of headers" in answer.json["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize(
    # The first is more than a body may have; the last two are lines that do not end.
    "size",
    ["8001000\r\n", "FFFFFFFFFFFFFFFF\r\n", "FFFFFFFFFFFFFFFFFFFF\r\n", "F" * 30 + "\r\n", "1" * 17, "0" * 5_000],
)
@pytest.mark.parametrize("before", ["", "2\r\n{}\r\n"])
async def test_a_chunk_of_a_size_that_no_client_means_is_refused_at_once(path: str, size: str, before: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"

    async with provider(says) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(f"{head}{before}{size}abc".encode())
        assert (await it.head()).status == 400
        # What the provider has of it never becomes a whole request.
        assert not any(asked.body for asked in up.asked)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFF", b"F" * 30])
async def test_a_chunk_of_such_a_size_in_an_answer_never_becomes_a_whole_one(path: str, size: bytes) -> None:
    async def answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(support.stream_head() + size + b"\r\n" + support.START)
        await writer.drain()
        writer.close()

    async with provider(answers) as up, proxy(up.url) as running:
        answer = await ask(running, body(), path)
        assert answer.status == 502 or not answer.whole

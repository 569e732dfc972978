"""Replies in another form than was asked for, and later rounds that are none."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests.proxy.server.support import (
    CALLED,
    MARK,
    START,
    Asked,
    ask,
    body,
    call_block,
    chunk,
    message,
    provider,
    proxy,
    response,
    stream_head,
    text_block,
)
from tests.proxy.server.test_managed import kinds, replies

JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream"}
OWN = {"type": "tool_use", "id": "o1", "name": "delimiter", "input": MARK}
READ = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
BOTH = message(content=[{"type": "text", "text": "hi"}, OWN, READ], stop_reason="tool_use")
BOTH_STREAMED = START + text_block("hi") + call_block("delimiter", MARK, 1) + call_block("read", {}, 2) + CALLED
SAID = START + text_block("hi") + call_block("delimiter", MARK, 1) + CALLED
ALONE = START + call_block("delimiter", MARK) + CALLED


@pytest.mark.parametrize("headers", [JSON, {"content-type": "text/event-stream"}, {}])
async def test_json_for_a_stream_is_a_whole_reply_without_own_calls(headers: dict[str, str]) -> None:
    says = replies(response(b"\n \n" + BOTH, headers=headers))
    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert answer.header("content-type") == headers.get("content-type")
        assert [block["type"] for block in answer.json["content"]] == ["text", "tool_use"]
        assert b"delimiter" not in answer.body
        assert len(running.sessions.status()) == 1


@pytest.mark.parametrize("headers", [SSE, JSON, {}])
async def test_a_stream_for_json_is_a_stream_without_own_calls(headers: dict[str, str]) -> None:
    says = replies(response(b"\n" + BOTH_STREAMED, headers=headers))
    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=False))
        assert kinds(answer.body).count("content_block_start") == 2
        assert kinds(answer.body)[-1] == "message_stop"
        assert b"delimiter" not in answer.body


async def test_rounds_of_another_form_are_one_reply() -> None:
    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        alone = message(content=[OWN], stop_reason="tool_use")
        writer.write(response(BOTH if len(asked.json["messages"]) > 1 else alone, headers=JSON))

    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert [block["type"] for block in answer.json["content"]] == ["text", "tool_use"]
        assert len(up.asked) == 2


HTML = b"<html>\n\n<p>delimiter maintenance\n\n</html>"
BAD: dict[str, bytes] = {
    "empty": response(b"", headers=SSE),
    "empty whole": response(b"", headers=JSON),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "html": response(HTML, headers={"content-type": "text/html"}),
    "html as a stream": response(HTML, headers=SSE),
    "brotli": response(SAID, headers={**SSE, "content-encoding": "br"}),
    "no gzip": response(SAID, headers={**SSE, "content-encoding": "gzip"}),
    "half of a gzip": response(gzip.compress(SAID)[:-60], headers={**SSE, "content-encoding": "gzip"}),
    "another form": response(BOTH, headers=JSON),
    "blank": response(b"\n\n", headers=SSE),
    "comments": response(b": hi\n\n", headers=SSE),
    "cut off": response(SAID[:700], headers=SSE),
    "no json": response(START + b"data: {oops\n\n", headers=SSE),
}


def later(bad: bytes, first: bytes) -> Any:
    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(bad if len(asked.json["messages"]) > 1 else stream_head() + chunk(first) + b"0\r\n\r\n")

    return says


@pytest.mark.parametrize("name", BAD)
async def test_later_round_that_is_none_ends_a_reply_that_has_begun_with_an_error(name: str) -> None:
    async with provider(later(BAD[name], SAID)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert (answer.status, answer.whole) == (200, True)
        events = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b'data: {"')]
        assert [it["type"] for it in events].count("error") == 1
        assert events[-1]["error"]["type"] == "api_error"
        assert up.url in events[-1]["error"]["message"]
        assert b"html" not in answer.body
        assert b"delimiter" not in answer.body
        assert running.traffic.outcomes()["broken"] == 1
        assert len(up.asked) == 2


@pytest.mark.parametrize("name", BAD)
async def test_later_round_that_is_none_is_a_bad_gateway_before_anything_was_given(name: str) -> None:
    async with provider(later(BAD[name], ALONE)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert b"delimiter" not in answer.body
        if name in ("cut off", "half of a gzip"):
            # Something of it was given before it broke.
            assert kinds(answer.body)[-1] == "error"
            return
        assert (answer.status, answer.json["error"]["type"]) == (502, "api_error")


async def test_error_of_the_provider_in_a_later_stream_is_told_once() -> None:
    error = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n'

    async with provider(later(response(START + error, headers=SSE), SAID)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert answer.body.endswith(error)
        assert kinds(answer.body).count("error") == 1


async def test_whole_reply_that_is_cut_off_tells_nothing_of_own_calls() -> None:
    async with provider(replies(response(BOTH[:-50], headers=JSON))) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=False))
        assert (answer.status, answer.json["error"]["type"]) == (502, "api_error")


@pytest.mark.parametrize("stream", [True, False])
async def test_page_instead_of_a_reply_is_given_as_it_came(stream: bool) -> None:
    page = b"<html>the delimiter of tool_use is under repair</html>"

    says = replies(response(page, headers={"content-type": "text/html"}))
    async with provider(says) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=stream))
        assert (answer.status, answer.body) == (200, page)
        assert answer.header("x-wane-warning")

"""A stream that breaks in a round of own calls alone: the client gets an error of its API, or a good reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.marks import first_quick
from tests.proxy.server.support import MARK, Answer, Asked, ask, provider, proxy, response
from wane.testing import Call, Reply, Usage
from wane.testing.anthropic import Anthropic
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.wire import Provider

TOOL: dict[str, Any] = {"name": "read", "parameters": {"type": "object"}}
SAID = Reply("All is well.")
JUNK = b"data: {oops\n\n"


@dataclass(frozen=True)
class Protocol:
    path: str
    provider: Provider
    body: dict[str, Any]
    error: str  # in the last event of a stream that ends with an error
    end: str  # in the last events of one that does not


PROTOCOLS = {
    "anthropic": Protocol(
        "/v1/messages",
        Anthropic(),
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"name": "read", "input_schema": {}}],
        },
        '"type":"error"',
        "message_stop",
    ),
    "chat": Protocol(
        "/v1/chat/completions",
        OpenAIChat(),
        {"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", "function": TOOL}]},
        '"error":',
        "[DONE]",
    ),
    "responses": Protocol(
        "/v1/responses",
        OpenAIResponses(),
        {"input": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", **TOOL}]},
        "response.failed",
        "response.completed",
    ),
}


def events(protocol: Protocol, reply: Reply) -> list[bytes]:
    """A stream of the provider's, event by event."""
    raw = json.dumps({"model": "m", "stream": True, **protocol.body}).encode()
    request = protocol.provider.parse(raw, json.loads(raw), {}, 0)
    return [event.encode() for event in protocol.provider.stream(request, reply, Usage(9, 9))]


def broken(stream: list[bytes]) -> Iterator[bytes]:
    """The stream broken in every place: cut off, with junk in between, with an event that is none."""
    for place in range(len(stream)):
        before, after = b"".join(stream[:place]), b"".join(stream[place + 1 :])
        yield before
        yield before + stream[place][: len(stream[place]) // 2]
        yield before + JUNK + stream[place] + after
        yield before + JUNK + after
        yield before + stream[place].replace(b"{", b"", 1) + after


def check(protocol: Protocol, answer: Answer, asked: int) -> None:
    assert answer.whole
    assert b"delimiter" not in answer.body
    if answer.status != 200:
        assert answer.status == 502
        assert isinstance(answer.json["error"]["message"], str)
        assert (answer.json.get("type") == "error") is (protocol.path == "/v1/messages")
        return
    text = answer.body.decode()
    last = text.rstrip().rpartition("\n\n")[2]
    if protocol.error in last.replace('": ', '":'):
        return
    assert asked == 2
    assert 'All "' in text
    assert protocol.end in last


@pytest.mark.full
@pytest.mark.parametrize("name", first_quick(*PROTOCOLS))
@pytest.mark.parametrize("text", first_quick("Looking.", None))
async def test_a_stream_that_breaks_in_a_round_of_own_calls_alone_is_never_an_empty_reply(
    name: str, text: str | None
) -> None:
    protocol = PROTOCOLS[name]
    second = b"".join(events(protocol, SAID))
    head = {"content-type": "text/event-stream"}

    streams = list(broken(events(protocol, Reply(text, calls=(Call("delimiter", MARK),)))))
    for number, stream in enumerate(streams):

        async def says(asked: Asked, writer: asyncio.StreamWriter, first: bytes = stream) -> None:
            later = len(asked.json.get("messages") or asked.json["input"]) > 2
            writer.write(response(second if later else first, headers=head))

        async with provider(says) as up, proxy(up.url) as running:
            body = {"model": "m", "stream": True, **protocol.body}
            answer = await ask(running, body, protocol.path)
            if not any(word in stream for word in (b'"tool_use"', b'"tool_calls": [', b'"function_call"')):
                continue  # nothing of the call has come: what there is, is given as it came
            try:
                check(protocol, answer, len(up.asked))
            except AssertionError as error:
                raise AssertionError((number, stream.decode(), answer)) from error


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_a_stream_that_stops_in_an_own_call_broke_off_whether_or_not_its_length_was_told(name: str) -> None:
    protocol = PROTOCOLS[name]
    stream = events(protocol, Reply(None, calls=(Call("delimiter", MARK),)))
    called = next(number for number, event in enumerate(stream) if b"delimiter" in event)
    begun = b"".join(stream[: called + 1])

    for data in (begun, begun + stream[called + 1][:-20]):
        for length in ("", f"content-length: {len(data) + 1}\r\n"):
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{length}\r\n"

            async def says(asked: Asked, writer: asyncio.StreamWriter, reply: bytes = head.encode() + data) -> None:
                writer.write(reply)
                writer.close()

            async with provider(says) as up, proxy(up.url) as running:
                answer = await ask(running, {"model": "m", "stream": True, **protocol.body}, protocol.path)
                assert answer.status == 502
                assert answer.json["error"]["message"] == f"the reply from {up.url} broke off"
                assert b'status="reset"} 1.0' in running.traffic.metrics()


async def test_a_stream_of_another_protocol_did_not_break_off(caplog: pytest.LogCaptureFixture) -> None:
    opening = events(PROTOCOLS["anthropic"], SAID)[0]
    strange = events(PROTOCOLS["chat"], SAID)[0]
    told = {opening: "the reply from {} broke off", strange: "{} sent a reply that is not understood"}
    body = {"model": "m", "stream": True, **PROTOCOLS["anthropic"].body}

    for data, what in told.items():

        async def says(asked: Asked, writer: asyncio.StreamWriter, reply: bytes = data) -> None:
            writer.write(response(reply, headers={"content-type": "text/event-stream"}))

        async with provider(says) as up, proxy(up.url) as running:
            answer = await ask(running, body)
            assert (answer.status, answer.body) == (200, data)
            warning = f"{what.format(up.url)}: the provider's stream ended without message_delta"
            assert warning in caplog.text
            assert answer.header("x-wane-warning") == (warning if data is opening else None)

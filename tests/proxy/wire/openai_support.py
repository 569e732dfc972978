"""A provider without a network, and what drives a wire as the proxy's server does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests.proxy.wire.cuts import pieces
from wane.conversation.request import Tool
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import AnsweredRound, Body, ClientReply, Round, ViewMessage, Wire
from wane.testing import Call, Usage
from wane.testing import Reply as Scripted
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.wire import Provider

DELIMITER = Tool("delimiter", "Mark episodes.", {"type": "object", "properties": {"action": {"type": "string"}}})
OWN = frozenset({"delimiter"})
GUIDANCE = "Mark your episodes."

_TOOL: dict[str, Any] = {"name": "read", "parameters": {"type": "object"}}
_HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
CHAT: Body = {"model": "m", "messages": _HI, "tools": [{"type": "function", "function": _TOOL}]}
RESPONSES: Body = {"model": "m", "input": _HI, "tools": [{"type": "function", **_TOOL}]}

both_wires = pytest.mark.parametrize(
    ("wire", "provider", "body"),
    [(OpenAIChatWire(), OpenAIChat(), CHAT), (OpenAIResponsesWire(), OpenAIResponses(), RESPONSES)],
    ids=["chat", "responses"],
)
"""A test of both of OpenAI's wires, each with a provider and the body of a request."""


def mark(action: str = "start") -> Call:
    return Call("delimiter", {"action": action})


class Upstream:
    """Answers from a script, and refuses what the provider would."""

    def __init__(self, provider: Provider, replies: Iterable[Scripted] = ()) -> None:
        self.provider = provider
        self.replies = iter(replies)
        self.bodies: list[Body] = []

    def ask(self, body: Body, reply: Scripted | None = None) -> bytes:
        raw = json.dumps(body).encode()
        request = self.provider.parse(raw, body, {}, len(self.bodies))
        self.provider.check(request)
        self.bodies.append(body)
        reply = reply or next(self.replies)
        usage = reply.usage or Usage(input=request.tokens, output=reply.tokens)
        if request.stream:
            return b"".join(event.encode() for event in self.provider.stream(request, reply, usage))
        return json.dumps(self.provider.answer(request, reply, usage)).encode()


class Told:
    """What a reply gave to the client, and what it said of its rounds."""

    def __init__(self) -> None:
        self.bytes = b""
        self.rounds: list[Round] = []


def run(reply: ClientReply, streams: Sequence[bytes], cuts: Sequence[int] = ()) -> Told:
    """Feed one reply with the bodies of its rounds."""
    told = Told()
    for stream in streams:
        for piece in pieces(stream, cuts):
            told.bytes += reply.feed(piece)
        told.rounds.append(reply.end())
    told.bytes += reply.finish()
    return told


def answer_rounds(wire: Wire, rounds: Sequence[Round]) -> list[AnsweredRound]:
    return [AnsweredRound(each.message, wire.results([(call, "ok") for call in each.own])) for each in rounds]


class Proxy:
    """The least that a proxy does: it keeps rounds by the order of replies, and evicts nothing."""

    def __init__(self, wire: Wire, upstream: Upstream) -> None:
        self.wire, self.upstream = wire, upstream
        self.replies: list[list[AnsweredRound]] = []

    def history(self, body: Body) -> list[Any]:
        replies = iter(self.replies)
        history: list[Any] = []
        for message in self.wire.messages(body):
            made = _is_made(message)
            history += self.wire.expand(message, next(replies)) if made else [message]
        return history

    def ask(self, body: Body) -> Told:
        wire, told = self.wire, Told()
        equipped = wire.equip(body, [DELIMITER], GUIDANCE)
        history = self.history(body)
        reply = wire.reply(body, OWN)
        while True:
            told.bytes += reply.feed(
                self.upstream.ask(wire.with_messages(equipped, [*map(ViewMessage, history)], history))
            )
            told.rounds.append(reply.end())
            if not told.rounds[-1].alone:
                break
            for each in answer_rounds(wire, told.rounds[-1:]):
                history += [each.message, *each.results]
        told.bytes += reply.finish()
        self.replies.append(answer_rounds(wire, told.rounds))
        return told


def _is_made(message: dict[str, Any]) -> bool:
    if "items" not in message:
        return bool(message["role"] == "assistant")
    item = message["items"][0]
    return item.get("role") == "assistant" or item.get("type") in ("reasoning", "function_call")


def events(stream: bytes) -> Iterator[Any]:
    """Yield the data of a stream's events."""
    for block in stream.decode().split("\n\n"):
        data = "".join(line[6:] for line in block.split("\n") if line.startswith("data: "))
        if data:
            yield data if data == "[DONE]" else json.loads(data)


def sse(*chunks: Any) -> bytes:
    """A stream of chunks, as Chat Completions has them."""
    return b"".join(
        b"data: %b\n\n" % (chunk.encode() if isinstance(chunk, str) else json.dumps(chunk).encode()) for chunk in chunks
    )

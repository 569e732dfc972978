"""Replies of Anthropic's, made up: blocks, the streams that they come in, and rounds of them.

| strategy | gives |
|---|---|
| `replies()` | the rounds of one reply: alone ones, in which only `delimiter` is called, and a last one of any kind |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anthropic
import httpx2
from hypothesis import strategies as st

from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.wire import AnsweredRound, ClientReply, Round, Wire

Block = dict[str, Any]

OWN = frozenset({"delimiter"})
WIRE: Wire = AnthropicWire()


@dataclass(frozen=True)
class Made:
    """What the provider says to one request."""

    content: list[Block]
    stop: str = "end_turn"
    usage: dict[str, Any] = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 3})
    number: int = 0

    @property
    def message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": self.content,
            "stop_reason": self.stop,
            "stop_sequence": None,
            "usage": self.usage,
        }

    @property
    def whole(self) -> bytes:
        return json.dumps(self.message, indent=1).encode()

    @property
    def events(self) -> list[bytes]:
        start = {**self.message, "content": [], "stop_reason": None, "usage": {**self.usage, "output_tokens": 1}}
        found = [event("message_start", message=start), event("ping")]
        for index, block in enumerate(self.content):
            begin, deltas = _split_block(block)
            found.append(event("content_block_start", index=index, content_block=begin))
            found += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
            found.append(event("content_block_stop", index=index))
        stop = {"stop_reason": self.stop, "stop_sequence": None}
        final = {key: value for key, value in self.usage.items() if key != "cache_creation"}
        return [*found, event("message_delta", delta=stop, usage=final), event("message_stop")]

    @property
    def stream(self) -> bytes:
        return b"".join(self.events)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def text(value: str) -> Block:
    return {"type": "text", "text": value}


def thinking(value: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": value, "signature": signature}


def call(id_: str, tool: str = "read", /, **given: Any) -> Block:
    return {"type": "tool_use", "id": id_, "name": tool, "input": given}


def own(id_: str, /, **given: Any) -> Block:
    return call(id_, "delimiter", **(given or {"action": "end"}))


def make(*content: Block, stop: str | None = None, **fields: Any) -> Made:
    stop = stop or ("tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn")
    return Made(list(content), stop, **fields)


def reply(*, stream: bool = True) -> ClientReply:
    return WIRE.reply({"stream": stream}, OWN)


def play(made: Sequence[Made], *, stream: bool = True) -> tuple[bytes, list[Round]]:
    """What the client gets of these rounds, and what is known of them."""
    client = reply(stream=stream)
    out = b""
    rounds = []
    for each in made:
        out += client.feed(each.stream if stream else each.whole)
        rounds.append(client.end())
    return out + client.finish(), rounds


def accumulate_message(stream: bytes) -> anthropic.types.Message:
    """What the official client makes of a stream."""
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=stream))
    client = anthropic.Anthropic(api_key="none", http_client=httpx2.Client(transport=transport))
    asked: Any = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with client.messages.stream(**asked) as streamed:
        return streamed.get_final_message()


def answer_rounds(rounds: Sequence[Round]) -> list[AnsweredRound]:
    """Rounds with the results of their own calls."""
    return [
        AnsweredRound(round_.message, WIRE.results([(one, f"done {one.id}") for one in round_.own]))
        for round_ in rounds
    ]


def _split_block(block: Block) -> tuple[Block, Iterator[Block]]:
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, iter(deltas)
        case "text":
            begin = {**block, "text": ""}
            return begin, iter([{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])])
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            raw = json.dumps(block["input"], separators=(",", ":"), ensure_ascii=False) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(raw))]
            return {**block, "input": {}}, iter(deltas)
        case _:
            return block, iter(())


def _pieces(value: str) -> list[str]:
    return [value[start : start + 4] for start in range(0, len(value), 4)]


# Texts repeat, begin alike, and are within each other, as those of models do.
WORDS = ("Ok.", "Let me look.", "Let me look. Now", "Done", 'é“\U0001f600"\\\n', " Now I edit\n", "I", "Ok")


@st.composite
def replies(draw: st.DrawFn) -> list[Made]:
    ids = count()
    made = []
    for number in range(draw(st.integers(0, 3))):
        before = draw(_shown_blocks(ids))
        made.append(make(*before, *draw(_own_calls(ids, 1)), usage=draw(_usages()), number=number))
    last = draw(_shown_blocks(ids))
    calls = [*draw(_own_calls(ids, 0)), *draw(_client_calls(ids))]
    if calls:
        calls = draw(st.permutations(calls))
    elif not last or last[-1]["type"] in ("thinking", "redacted_thinking"):
        last.append(text("The end."))
    return [*made, make(*last, *calls, usage=draw(_usages()), number=len(made))]


@st.composite
def _shown_blocks(draw: st.DrawFn, ids: Iterator[int]) -> list[Block]:
    content: list[Block] = []
    for kind in draw(st.lists(st.sampled_from(["thinking", "redacted", "text", "text", "server"]), max_size=3)):
        number = next(ids)
        if kind == "thinking":
            content.append(thinking(draw(st.sampled_from(["", "Hm.", "I think so."])), f"sig{number}"))
        elif kind == "redacted":
            content.append({"type": "redacted_thinking", "data": f"data{number}"})
        elif kind == "text":
            content.append(text(draw(st.sampled_from(WORDS))))
        else:
            found = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}]
            query = {"type": "server_tool_use", "id": f"srv{number}", "name": "web_search", "input": {"query": "q"}}
            content += [query, {"type": "web_search_tool_result", "tool_use_id": f"srv{number}", "content": found}]
    return content


@st.composite
def _own_calls(draw: st.DrawFn, ids: Iterator[int], least: int) -> list[Block]:
    given = draw(st.lists(_GIVEN, min_size=least, max_size=2))
    return [call(f"own{next(ids)}", "delimiter", **each) for each in given]


@st.composite
def _client_calls(draw: st.DrawFn, ids: Iterator[int]) -> list[Block]:
    given = draw(st.lists(st.sampled_from([{}, {"path": "a.py"}, {"n": 1, "s": "é"}]), max_size=2))
    return [call(f"call{next(ids)}", **each) for each in given]


@st.composite
def _usages(draw: st.DrawFn) -> dict[str, Any]:
    tokens = st.integers(0, 1_000)
    usage: dict[str, Any] = {"input_tokens": draw(tokens), "output_tokens": draw(tokens) + 1}
    if draw(st.booleans()):
        short, long = draw(tokens), draw(tokens)
        usage["cache_creation_input_tokens"] = short + long
        usage["cache_read_input_tokens"] = draw(tokens)
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    if draw(st.booleans()):
        usage["server_tool_use"] = {"web_search_requests": draw(tokens), "web_fetch_requests": 0}
    return usage


_GIVEN = st.sampled_from([{"action": "start", "name": "a", "type": "expl"}, {"action": "end"}, {}])

"""Whatever a provider sends, a reply gives it out or breaks off in the one way that the server knows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.cuts import cuts, pieces
from tests.proxy.wire.openai_support import OWN
from tests.strategies import times
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import BrokenReplyError, ClientReply, Wire

WIRES: tuple[Wire, Wire] = (OpenAIChatWire(), OpenAIResponsesWire())
KEYS = st.sampled_from(
    ["choices", "delta", "message", "index", "tool_calls", "function", "name", "arguments", "id", "type", "content",
     "reasoning_details", "reasoning_content", "finish_reason", "usage", "error", "response", "output", "output_index",
     "item", "sequence_number", "status", "call_id", "tools", "instructions", "encrypted_content", "summary", "audio",
     "refusal", "namespace", "custom"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["delimiter", "function", "read", "stop", "", "{}", "function_call", "reasoning", "message", "assistant",
     "response.created", "response.completed", "response.output_item.added", "response.output_item.done", "completed",
     "failed", "function_call_output"]
)  # fmt: skip
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SOME: st.SearchStrategy[dict[str, Any]] = st.dictionaries(KEYS, WORDS | JUNK, max_size=3)


@st.composite
def chunks(draw: st.DrawFn) -> Any:
    """Something not far from what is expected."""
    if draw(st.booleans()):
        entry = {"function": draw(SOME), "id": draw(JUNK), **draw(SOME)}
        delta = {"tool_calls": draw(st.sampled_from([None, [entry], [entry, entry]])), **draw(SOME)}
        choice = {"index": 0, draw(st.sampled_from(["delta", "message"])): delta}
        return {"id": "c", "choices": [{**choice, **draw(SOME)}], **draw(SOME)}
    items = draw(st.lists(st.fixed_dictionaries({"type": WORDS, "name": WORDS | JUNK, "call_id": WORDS | JUNK}) | SOME))
    response = {"output": items, **draw(SOME)}
    place = {"output_index": draw(st.integers(0, 2)), "item": items[0] if items else None}
    return draw(st.sampled_from([{"type": draw(WORDS), **place, "response": response}, response]))


def drive(reply: ClientReply, body: bytes, places: list[int]) -> None:
    out = b""
    for _ in range(2):
        for piece in pieces(body, places):
            out += reply.feed(piece)
        try:
            reply.end()
        except BrokenReplyError:
            out += reply.held_back()
            return
    assert isinstance(out + reply.finish(), bytes)


@times(2.5)
@given(st.lists(chunks() | JUNK, max_size=5), cuts())
def test_streams(data: list[Any], places: list[int]) -> None:
    raw = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in data) + b"data: [DONE]\n\n"
    for wire in WIRES:
        drive(wire.reply({"stream": True}, OWN), raw, places)


@times(2.5)
@given(chunks() | JUNK, cuts())
def test_whole_replies(data: Any, places: list[int]) -> None:
    for wire in WIRES:
        drive(wire.reply({}, OWN), json.dumps(data).encode(), places)


@times(3)
@given(
    st.dictionaries(
        st.sampled_from(["messages", "input", "tools", "n", "instructions", "modalities", "functions"]), JUNK
    )
)
def test_requests(body: dict[str, Any]) -> None:
    for wire in WIRES:
        assert isinstance(wire.why_unmanaged(body), str | None)
        assert isinstance(wire.refusal(body), str | None)
        wire.tools(body)
        correction = wire.correction(400, b"invalid_encrypted_content", body, body)
        assert correction is None or correction(body, body) is not body

"""What is read of a body is what a parser makes of the whole body, whatever it shares with earlier ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.world import AnthropicClient, ChatClient, GeminiClient, ResponsesClient
from wane.proxy import jsons
from wane.proxy.sessions.bodies import BodyReader, ReadBody
from wane.proxy.wire.wire import Wire

Write = Callable[[Any], bytes]
LONG = "A long text, so that the body is worth keeping. " * 100
WIRES: dict[str, Wire] = {
    client.wire.history + client.__name__: client.wire
    for client in (AnthropicClient, ChatClient, ResponsesClient, GeminiClient)
}
WRITERS: dict[str, Write] = {
    "compact": orjson.dumps,
    "escaped": lambda value: json.dumps(value, separators=(",", ":")).encode(),
    "spaced": lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    "indented": lambda value: json.dumps(value, indent=1).encode(),
}
every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def read(reader: BodyReader, raw: bytes, wire: Wire) -> ReadBody:
    return asyncio.run(reader.read(raw, wire))


def text_of(value: object) -> str:
    """A value as text, in which true, 1 and 1.0 differ, and the order of keys counts."""
    return json.dumps(value)


def message(wire: Wire, number: int, text: str = LONG) -> dict[str, Any]:
    role = ("user", "assistant")[number % 2]
    if wire.name == "gemini":
        return {"role": role.replace("assistant", "model"), "parts": [{"text": f"{number} {text}"}]}
    return {"role": role, "content": f"{number} {text} <é>"}


def body(wire: Wire, numbers: range) -> dict[str, Any]:
    return {"model": "m", wire.history: [message(wire, number) for number in numbers], "stream": True}


@every_wire
@pytest.mark.parametrize("writer", ["compact", "escaped", "spaced"])
def test_known_messages_are_the_same_objects(wire: Wire, writer: str) -> None:
    reader, write = BodyReader(), WRITERS[writer]
    first = read(reader, write(body(wire, range(5))), wire)
    arrivals = first.take_messages(wire, first.content)
    second = read(reader, write({**body(wire, range(7)), "stream": False, "seed": 1}), wire)
    assert second.content == {**body(wire, range(7)), "stream": False, "seed": 1}
    messages = second.take_messages(wire, second.content)
    assert list(messages[:5]) == list(arrivals)
    assert [arrival.message for arrival in messages] == wire.messages(body(wire, range(7)))


def test_after_a_changed_message_all_is_read_anew() -> None:
    wire, reader = AnthropicClient.wire, BodyReader()
    sent = body(wire, range(6))
    before = read(reader, orjson.dumps(sent), wire)
    before.take_messages(wire, sent)
    sent["messages"][3]["content"] = "Something else."
    after = read(reader, orjson.dumps(sent), wire)
    assert after.content == sent
    assert len(after.arrivals) == 3


def test_a_message_that_new_items_continue_is_read_anew() -> None:
    """In Responses, items of the model in a row are one message."""
    wire, reader = ResponsesClient.wire, BodyReader()
    sent = body(wire, range(4))
    first = read(reader, orjson.dumps(sent), wire)
    assert len(first.take_messages(wire, first.content)) == 4
    sent["input"].append({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"})
    second = read(reader, orjson.dumps(sent), wire)
    messages = second.take_messages(wire, second.content)
    assert [len(arrival.message["items"]) for arrival in messages] == [1, 1, 1, 2]
    assert messages[2] is first.arrivals[2]


def test_bodies_of_another_owner_are_not_compared() -> None:
    wire, reader = AnthropicClient.wire, BodyReader()
    raw = orjson.dumps(body(wire, range(4)))
    before = asyncio.run(reader.read(raw, wire, "ann"))
    before.take_messages(wire, before.content)
    assert not asyncio.run(reader.read(raw, wire, "bob")).arrivals
    assert len(asyncio.run(reader.read(raw, wire, "ann")).arrivals) == 4


def test_a_reader_keeps_no_more_than_its_limit() -> None:
    wire, reader = AnthropicClient.wire, BodyReader(limit=100_000)
    bodies = [
        orjson.dumps({"messages": [message(wire, 2 * number), *body(wire, range(3))["messages"]]})
        for number in range(20)
    ]
    for raw in bodies:
        result = read(reader, raw, wire)
        result.take_messages(wire, result.content)
    known = [number for number in reversed(range(20)) if read(reader, bodies[number], wire).arrivals]
    assert known == [19, 18, 17, 16, 15]


def test_a_nested_field_of_that_name_is_not_the_history() -> None:
    """The two bodies have the same bytes where the history seems to be, but in the first it is not the history."""
    wire, reader = AnthropicClient.wire, BodyReader()
    inner = [{"text": LONG}, {"text": LONG}]
    nested = {"metadata": {"messages": inner}, "messages": [message(wire, 0), message(wire, 1)]}
    for sent in (nested, {"messages": inner}, nested):
        result = read(reader, orjson.dumps(sent), wire)
        assert result.content == sent


VALUES: list[Any] = [
    *(None, True, 1, 1.0, -0.0, 2**70, 1e300, "", "}]", '"messages":[', "é<", "\ud800", [], {}, [[1, True]]),
    *({"messages": [1]}, {"messages": [{"role": "user"}]}, [{"messages": []}], {"role": "user", "content": LONG}),
]
JSON = st.sampled_from(VALUES)
NAMES = st.sampled_from(["model", "metadata", "messages", "m\\u0065ssages"])
FIELDS = st.lists(st.tuples(NAMES, JSON), max_size=3)
OBJECTS = st.dictionaries(st.sampled_from(["role", "content", "messages"]), JSON, max_size=3)
MESSAGES = st.lists(OBJECTS | OBJECTS | JSON, max_size=4)
WRITER = st.sampled_from([WRITERS["escaped"], WRITERS["spaced"], WRITERS["indented"]])


@st.composite
def bodies(draw: st.DrawFn) -> list[bytes]:
    """Bodies of one session: most continue the one before, and all are written as text, with any keys twice."""
    first = {"role": "user", "content": LONG}
    history: list[Any] = [first]
    ahead, behind, write = draw(FIELDS), draw(FIELDS), draw(WRITER)
    sent: list[bytes] = []
    for _ in range(draw(st.integers(2, 4))):
        match draw(st.sampled_from(["goes on", "goes on", "goes back", "changes", "is written otherwise", "frame"])):
            case "goes back":
                history = history[: draw(st.integers(1, len(history)))]
            case "changes":
                history = [*history]
                history[draw(st.integers(0, len(history) - 1))] = draw(JSON)
            case "is written otherwise":
                write = draw(WRITER)
            case "frame":
                ahead, behind = draw(FIELDS), draw(FIELDS)
        history = [*history, *draw(MESSAGES)]
        fields = [*ahead, ("messages", history), *behind]
        raw = b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), write(value)) for name, value in fields)
        if draw(st.integers(0, 4)) == 0:
            at = draw(st.integers(0, len(raw) - 1))
            raw = draw(st.sampled_from([raw[:at], raw[:at] + b"]" + raw[at:], raw[:at] + raw[at + 1 :]]))
        sent.append(raw)
    return sent


@given(bodies())
def test_a_body_is_read_as_a_parser_reads_it(sent: list[bytes]) -> None:
    wire, reader = AnthropicClient.wire, BodyReader()
    for raw in sent:
        try:
            expected = jsons.loads(raw)
            if not isinstance(expected, dict):
                raise ValueError
        except ValueError:
            with pytest.raises(ValueError, match="JSON"):
                read(reader, raw, wire)
            continue
        result = read(reader, raw, wire)
        assert text_of(result.content) == text_of(expected)
        entries = expected.get("messages")
        if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
            arrivals = result.take_messages(wire, result.content)
            assert text_of([arrival.message for arrival in arrivals]) == text_of(entries)

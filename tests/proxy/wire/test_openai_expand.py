"""Own rounds put back into what clients send, with the edits that clients make, under the provider's rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, Proxy, Upstream, answer_rounds, mark, run
from tests.proxy.wire.views import with_view
from tests.strategies import times
from wane.formats import get_format
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire, text_of
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import AnsweredRound, Equipped, Message, Round, ViewMessage, Wire
from wane.testing import Call
from wane.testing import Reply as Scripted
from wane.testing.openai import OpenAIChat, OpenAIResponses

CHAT, RESPONSES = OpenAIChatWire(), OpenAIResponsesWire()
WIRES: list[tuple[Wire, Any]] = [(CHAT, OpenAIChat), (RESPONSES, OpenAIResponses)]
TEXTS = st.sampled_from([None, "A", "A", "B.", " padded \n", "two\n\nparagraphs", "é…"])
READ = Call("read", {"path": "a.py", "lines": [1, 2]})

both = pytest.mark.parametrize(("wire", "provider"), WIRES, ids=["chat", "responses"])


def tools(wire: Wire) -> list[Any]:
    function = {"name": "read", "parameters": {"type": "object"}}
    return [{"type": "function", "function": function} if wire is CHAT else {"type": "function", **function}]


def request(wire: Wire, history: list[Message], *, stream: bool) -> dict[str, Any]:
    key = "messages" if wire is CHAT else "input"
    return {"model": "m", key: get_format(wire.format.name).dump(history), "tools": tools(wire), "stream": stream}


def user(wire: Wire, text: str) -> Message:
    message = {"role": "user", "content": text}
    return message if wire is CHAT else {"items": [message]}


def call_ids(message: Message) -> list[str]:
    if "items" in message:
        return [item["call_id"] for item in message["items"] if item["type"] == "function_call"]
    return [call["id"] for call in message.get("tool_calls", ())]


def answer(wire: Wire, call_id: str) -> Message:
    if wire is CHAT:
        return {"role": "tool", "tool_call_id": call_id, "content": "r"}
    return {"items": [{"type": "function_call_output", "call_id": call_id, "output": "r"}]}


@st.composite
def alone(draw: st.DrawFn) -> Scripted:
    return Scripted(draw(TEXTS), draw(TEXTS), tuple(mark() for _ in range(draw(st.integers(1, 2)))))


@st.composite
def last(draw: st.DrawFn) -> Scripted:
    calls = draw(st.lists(st.sampled_from([READ, mark()]), max_size=3))
    text = draw(TEXTS)
    if READ not in calls:
        # Else there is nothing that a client could come back with.
        text = text or "Done."
        calls = []
    return Scripted(text, draw(TEXTS), tuple(calls))


@st.composite
def replies(draw: st.DrawFn) -> list[Scripted]:
    return [*draw(st.lists(alone(), max_size=3)), draw(last())]


def rounds_of(wire: Wire, provider: Any, script: list[Scripted], *, stream: bool) -> list[Round]:
    body = request(wire, [user(wire, "Go")], stream=stream)
    upstream = Upstream(provider(), script)
    return run(wire.reply(body, OWN), [upstream.ask(body) for _ in script]).rounds


@both
@given(replies(), st.booleans())
def test_what_is_shown_stands_for_exactly_the_rounds(
    wire: Wire, provider: Any, script: list[Scripted], stream: bool
) -> None:
    rounds = rounds_of(wire, provider, script, stream=stream)
    history = [message for each in answer_rounds(wire, rounds) for message in (each.message, *each.results)]
    shown = wire.visible(rounds)
    assert not any(name in json.dumps(shown) for name in OWN)
    assert wire.expand(shown, answer_rounds(wire, rounds)) == history
    # Through JSON, as a client has it.
    assert wire.expand(json.loads(json.dumps(shown)), answer_rounds(wire, rounds)) == history


# What clients make of a message


def no_reasoning(message: Message) -> Message:
    if "items" not in message:
        return {key: value for key, value in message.items() if not key.startswith("reasoning")}
    # Whoever leaves out reasoning leaves out ids, or fails without the proxy too.
    return no_ids({"items": [item for item in message["items"] if item["type"] != "reasoning"]})


def no_ids(message: Message) -> Message:
    if "items" not in message:
        return message
    return {"items": [{key: item[key] for key in item if key not in ("id", "status")} for item in message["items"]]}


def no_ids_but_of_reasoning(message: Message) -> Message:
    if "items" not in message:
        return message
    return {"items": [item if item["type"] == "reasoning" else no_ids({"items": [item]})["items"][0]
                      for item in message["items"]]}  # fmt: skip


def trim_texts(message: Message) -> Message:
    if "items" not in message:
        text = text_of(message.get("content")).strip()
        return {**message, "content": text or (None if message.get("tool_calls") else "-")}
    return {"items": [_trimmed_item(item) for item in message["items"]]}


def _trimmed_item(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] != "message":
        return item
    return {**item, "content": [{**part, "text": part["text"].strip() or "-"} for part in item["content"]]}


def reword_texts(message: Message) -> Message:
    if "items" not in message:
        return {**message, "content": "In other words."}
    said = [{"type": "output_text", "text": "In other words."}]
    return {"items": [{**item, "content": said} if item["type"] == "message" else item for item in message["items"]]}


def written_anew(message: Message) -> Message:
    def again(arguments: str) -> str:
        return json.dumps(json.loads(arguments), indent=1)

    if "items" in message:
        return {"items": [{**item, "arguments": again(item["arguments"])} if "arguments" in item else item
                          for item in message["items"]]}  # fmt: skip
    calls = [{**call, "function": {**call["function"], "arguments": again(call["function"]["arguments"])}}
             for call in message.get("tool_calls", ())]  # fmt: skip
    return {**message, "tool_calls": calls} if calls else message


def in_parts(message: Message) -> Message:
    if "items" in message:
        return message
    if not message.get("content"):
        return message
    part = {"type": "text", "text": text_of(message["content"]), "cache_control": {"type": "ephemeral"}}
    return {**message, "content": [part]}


EDITS: list[Callable[[Message], Message]] = [
    no_reasoning, no_ids, no_ids_but_of_reasoning, trim_texts, reword_texts, written_anew, in_parts,
]  # fmt: skip


@both
@times(2.5)
@given(st.lists(replies(), min_size=1, max_size=4), st.lists(st.sampled_from(EDITS), max_size=3), st.booleans())
def test_edits_leave_a_history_that_the_provider_takes(
    wire: Wire, provider: Any, script: list[list[Scripted]], edits: list[Callable[[Message], Message]], stream: bool
) -> None:
    proxy = Proxy(wire, Upstream(provider(), [reply for each in script for reply in each]))
    history = [user(wire, "Go")]
    for _ in script:
        message = wire.visible(proxy.ask(request(wire, history, stream=stream)).rounds)
        for edit in edits:
            message = edit(message)
        results = [answer(wire, call_id) for call_id in call_ids(message)]
        history += [message, *(results or [user(wire, "More")])]
    known = proxy.history(request(wire, history, stream=False))
    proxy.upstream.ask(
        wire.with_messages(Equipped(request(wire, [], stream=False)), [*map(ViewMessage, known)], known),
        Scripted("End."),
    )
    own = [call for each in proxy.replies for call in each if call.results]
    sent = json.dumps(proxy.upstream.bodies[-1])
    assert sent.count('"delimiter"') >= len(own)


def test_texts_are_split_where_rounds_met() -> None:
    rounds = rounds_of(
        CHAT, OpenAIChat, [Scripted("One.", calls=(mark(),)), Scripted("Two.", calls=(READ,))], stream=True
    )
    shown = CHAT.visible(rounds)
    assert shown["content"] == "One.\n\nTwo."
    marker = {"cache_control": {"type": "ephemeral"}}
    [one, _, two] = CHAT.expand(
        {**shown, "content": [{"type": "text", "text": "One.\n\nTwo.", **marker}]}, answer_rounds(CHAT, rounds)
    )
    assert one["content"] == [{"type": "text", "text": "One."}]
    assert two["content"] == [{"type": "text", "text": "Two.", **marker}]
    [one, _, two] = CHAT.expand({**shown, "content": "Other."}, answer_rounds(CHAT, rounds))
    # It takes the last place of a text that did not come back; the round before stays as it was.
    assert (one["content"], two["content"]) == ("One.", "Other.")
    [one, _, two] = CHAT.expand({**shown, "content": "One. Then"}, answer_rounds(CHAT, rounds))
    assert (one["content"], two["content"]) == ("One. Then", None)


def test_a_round_of_which_nothing_came_back_stays_as_it_was() -> None:
    script = [Scripted(None, "Hm.", (mark(),)), Scripted("Two.", "So.", (READ,))]
    for wire, provider in WIRES:
        rounds = rounds_of(wire, provider, script, stream=True)
        history = wire.expand(no_reasoning(wire.visible(rounds)), answer_rounds(wire, rounds))
        assert history[0] == rounds[0].message
        assert "So." not in json.dumps(history[-1])


def test_an_own_call_gives_up_its_id_with_its_reasoning() -> None:
    rounds = rounds_of(RESPONSES, OpenAIResponses, [Scripted(None, "Hm.", (mark(), READ))], stream=False)
    [said, _] = RESPONSES.expand(no_reasoning(RESPONSES.visible(rounds)), answer_rounds(RESPONSES, rounds))
    assert [("id" in item, item["name"]) for item in said["items"]] == [(False, "delimiter"), (False, "read")]


def test_a_message_that_no_rounds_stand_behind() -> None:
    for wire, _ in WIRES:
        message = user(wire, "x")
        assert wire.expand(message, []) == [message]


def test_calls_that_the_client_left_out_stay_out() -> None:
    rounds = rounds_of(CHAT, OpenAIChat, [Scripted("A", calls=(READ, mark(), READ))], stream=False)
    shown = CHAT.visible(rounds)
    [said, _] = CHAT.expand({**shown, "tool_calls": shown["tool_calls"][:1]}, answer_rounds(CHAT, rounds))
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["read", "delimiter"]


def test_a_last_round_of_which_nothing_came_back_stays_too() -> None:
    # A message that stood for other numbers of messages from request to request would be another history each time.
    script = [Scripted("One.", calls=(mark(),)), Scripted("Two.")]
    for wire, provider in WIRES:
        rounds = rounds_of(wire, provider, script, stream=False)
        shown = wire.visible(rounds)
        less = {"items": shown["items"][:1]} if "items" in shown else {**shown, "content": "One."}
        assert wire.expand(less, answer_rounds(wire, rounds))[-1] == rounds[-1].message


def test_equipped_requests_are_the_same_in_every_round() -> None:
    for wire, provider in WIRES:
        proxy = Proxy(wire, Upstream(provider(), [Scripted("A", calls=(mark(),)), Scripted("B")]))
        body = request(wire, [user(wire, "Go")], stream=True)
        proxy.ask(body)
        first, second = proxy.upstream.bodies
        key = "messages" if wire is CHAT else "input"
        assert second[key][: len(first[key])] == first[key]
        assert {k: v for k, v in first.items() if k != key} == {k: v for k, v in second.items() if k != key}
        assert first == with_view(wire, wire.equip(body, [DELIMITER], GUIDANCE), wire.messages(body))
        assert AnsweredRound(first).results == ()

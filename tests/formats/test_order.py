"""Shortcuts of a request's order of roles and of its breakpoints: they say what the whole search says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane import Kind
from wane.formats import get_format
from wane.formats.anthropic import AnthropicFormat, blocks_of, breakpoint_of, has_breakpoint
from wane.formats.message_format import GrowingOrder, OrderReader, Outline, order_of
from wane.formats.notices import INDEX_CLOSING, INDEX_OPENING
from wane.formats.roles import CALLING, RESULTS, NeighbourJoiner, Order, join_neighbours
from wane.testing.rules import DEEPSEEK_V4, MISTRAL, TEMPLATE, Rule
from wane.testing.sent_request import Request

SPEAKERS = st.lists(st.sampled_from(["user", "assistant", CALLING, RESULTS, None]), max_size=8)
MARKS = st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}, {"cache_control": None}])
TEXTS = st.builds(lambda mark: {"type": "text", "text": "words", **mark}, MARKS)
RESULT_CONTENTS = st.one_of(st.just("output"), st.lists(TEXTS, max_size=2))
RESULT_BLOCKS = st.builds(
    lambda content, mark: {"type": "tool_result", "tool_use_id": "c", "content": content, **mark},
    RESULT_CONTENTS,
    MARKS,
)
CONTENTS = st.one_of(st.just("words"), st.none(), st.lists(st.one_of(TEXTS, RESULT_BLOCKS), max_size=3))


INDEX = "index"


class Turns:
    """A format whose messages are pairs: whose turn one is, and its words."""

    def speaker(self, message: tuple[Any, str]) -> Any:
        return message[0]

    def merge(self, first: tuple[Any, str], second: tuple[Any, str]) -> tuple[Any, str]:
        return first[0], f"{first[1]} {second[1]}"

    def divide(self, message: Any) -> None:
        """No call is one of Wane's own."""

    def is_index(self, message: tuple[Any, str]) -> bool:
        return message[1] == INDEX


@given(SPEAKERS)
def test_the_order_of_a_beginning_that_has_none_is_that_of_all(speakers: list[str | None]) -> None:
    reader = OrderReader()
    for speaker in speakers:
        reader.read(speaker)
    assert order_of(speakers, lambda speaker: speaker) is reader.order


@given(SPEAKERS)
def test_where_there_is_no_order_nothing_is_joined(speakers: list[str | None]) -> None:
    messages = [(speaker, str(number)) for number, speaker in enumerate(speakers)]
    joiner = NeighbourJoiner(Turns(), Order.FREE)
    for message in messages:
        joiner.add(message)
    assert joiner.joined == messages == join_neighbours(messages, Turns(), Order.FREE)


@pytest.mark.parametrize(
    ("order", "messages", "joined"),
    [
        # Behind calls, and between an early answer and its calls, it joins the turn before them.
        (Order.ALTERNATING, "u1 r1 index c2 r2 a", "u1+index r1 c2 r2 a"),
        (Order.BOTH, "u1 a1 c1 r1 index c2 r2 a2", "u1+index a1+c1 r1 c2 r2 a2"),
        (Order.ALTERNATING, "u1 a1 index c1 r1 u2", "u1+index a1 c1 r1 u2"),
        (Order.ALTERNATING, "u1 a1 c1 r1 index c2 r2 u2", "u1+index a1 c1 r1 c2 r2 u2"),
        # Behind the answer that ends a turn it joins the next one.
        (Order.BOTH, "u1 c1 r1 a1 index u2", "u1 c1 r1 a1 index+u2"),
    ],
)
def test_an_index_joins_a_turn_of_the_user(order: Order, messages: str, joined: str) -> None:
    speakers = {"u": "user", "i": "user", "a": "assistant", "c": CALLING, "r": RESULTS}
    pairs = [(speakers[name[0]], name) for name in messages.split()]
    sent = join_neighbours(pairs, Turns(), order)
    assert " ".join(words.replace(" ", "+") for _, words in sent) == joined


@given(CONTENTS)
def test_a_message_has_a_breakpoint_if_a_block_of_it_has(content: Any) -> None:
    message = {"role": "user", "content": content}
    assert has_breakpoint(message) is any(breakpoint_of(block) is not None for block in blocks_of(message))


@given(st.lists(SPEAKERS, max_size=4), st.data())
def test_the_order_of_a_growing_list_is_that_of_all_of_it(
    additions: list[list[str | None]], data: st.DataObject
) -> None:
    messages: list[list[str | None]] = []
    asked: list[str | None] = []

    def speaker_of(message: list[str | None]) -> str | None:
        asked.append(message[0])
        return message[0]

    growing = GrowingOrder(speaker_of)
    for speakers in additions:
        if messages and data.draw(st.booleans()):
            # A client may send another message in its place, or fewer.
            number = data.draw(st.integers(0, len(messages) - 1))
            messages[number:] = [[data.draw(st.sampled_from(["user", "assistant", CALLING, RESULTS, None]))]]
        messages += [[speaker] for speaker in speakers]
        assert growing.of(messages) is order_of(messages, lambda message: message[0])
    asked.clear()
    growing.of(messages)
    assert len(asked) <= 1


FORMATS = [("openai", "openai-chat"), ("anthropic", "anthropic"), ("openai_responses", "openai-responses")]


def call_of(name: str, tool: str, text: str, **fields: Any) -> list[dict[str, Any]]:
    """An answer with a text and a call, and its result, in a format."""
    if name == "openai":
        calls = [{"id": text, "type": "function", "function": {"name": tool, "arguments": "{}"}}]
        answer = {"role": "assistant", "content": text, "tool_calls": calls, **fields}
        return [answer, {"role": "tool", "tool_call_id": text, "content": "x"}]
    if name == "anthropic":
        use = {"type": "tool_use", "id": text, "name": tool, "input": {}}
        content = [{"type": "text", "text": text}, use]
        result = {"type": "tool_result", "tool_use_id": text, "content": "x"}
        return [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    call = {"type": "function_call", "call_id": text, "name": tool, "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": text, "output": "x"}
    return [{"items": [{"role": "assistant", "content": text}, call]}, {"items": [output]}]


def refusal(api: str, messages: list[Any], *rules: Rule) -> str | None:
    key = "input" if api == "openai-responses" else "messages"
    items = [item for message in messages for item in message["items"]] if key == "input" else messages
    body = {key: items}
    request = Request(0, api, "m", (), (), 0, False, body, b"", {})
    return next((words for rule in rules if (words := rule(request)) is not None), None)


@pytest.mark.parametrize(("name", "api"), FORMATS)
@pytest.mark.parametrize("order", [Order.ANSWERED, Order.ALTERNATING, Order.BOTH])
def test_what_came_with_an_own_call_parts_turns_if_nothing_follows(name: str, api: str, order: Order) -> None:
    """Without Wane it would have been an answer; a text beside a client's call is none."""
    form = get_format(name)
    history = [form.turn("Hi"), *call_of(name, "read", "c1"), *call_of(name, "delimiter", "c2"), form.turn("Ho")]
    joined = form.join_roles(history, order)
    assert refusal(api, joined, *TEMPLATE, *MISTRAL) is None
    assert [form.speaker(message) for message in joined[-3:]] == [RESULTS, "assistant", "user"]
    assert json.dumps(joined).count('"c2"') == json.dumps(history).count('"c2"')
    # An index is no turn, and comes while the model works.
    index = form.turn(f"{INDEX_OPENING}.\nRead: a.py{INDEX_CLOSING}")
    assert "assistant" not in map(form.speaker, form.join_roles([*history[:-1], index], order))


def test_reasoning_that_a_server_may_demand_stands_beside_both_halves() -> None:
    form = get_format("openai")
    own = call_of("openai", "delimiter", "c1", reasoning_content="Hm.")
    joined = form.join_roles([form.turn("Hi"), *own, form.turn("Ho")], Order.BOTH)
    assert refusal("openai-chat", joined, *TEMPLATE, *DEEPSEEK_V4) is None
    # The empty answer behind it may have reasoned, too.
    empty = {"role": "assistant", "content": "", "reasoning_content": "So."}
    joined = form.join_roles([form.turn("Hi"), *own, empty, form.turn("Ho")], Order.BOTH)
    assert joined[-2] == {"role": "assistant", "content": "c1", "reasoning_content": "Hm.\n\nSo."}


@pytest.mark.parametrize(("name", "api"), FORMATS[:2])
def test_a_history_that_keeps_two_orders_keeps_both(name: str, api: str) -> None:
    """An answer early in a turn parts turns that alternate, but no turn stands right behind a result."""
    form = get_format(name)
    early = {"role": "assistant", "content": "Early."}
    work = [form.turn("Hi"), early, *call_of(name, "read", "c1")]
    history = [*work, *call_of(name, "read", "c2")]
    order = order_of(history, form.speaker)
    assert order is Order.BOTH
    index = form.turn(f"{INDEX_OPENING}.\nRead: a.py{INDEX_CLOSING}")
    joined = form.join_roles([*work, index, *history[len(work) :]], order)
    assert refusal(api, joined, *TEMPLATE, *MISTRAL) is None


def answer_of(name: str, text: str) -> dict[str, Any]:
    """An answer without calls, in a format."""
    answer = {"role": "assistant", "content": text}
    return {"items": [answer]} if name == "openai_responses" else answer


EMPTY = {"role": "assistant", "content": []}
MESSAGES, RESPONSES = FORMATS[1:]
TURNS: list[tuple[tuple[str, str], list[dict[str, Any]]]] = [
    # What came with an own call would be a second answer.
    *(
        (form, [answer_of(form[0], "Early."), *call_of(form[0], "read", "c1"), *call_of(form[0], "delimiter", "c2")])
        for form in FORMATS[:2]
    ),
    # llama.cpp makes one answer of items in a row, however they were appended.
    (RESPONSES, [answer_of("openai_responses", "Early."), answer_of("openai_responses", "Well.")]),
    (
        RESPONSES,
        [
            answer_of("openai_responses", "Early."),
            *call_of("openai_responses", "read", "c1"),
            answer_of("openai_responses", "Well."),
        ],
    ),
    # Requests in Messages hold no empty answer.
    (MESSAGES, [EMPTY, answer_of("anthropic", "Well.")]),
    (MESSAGES, [EMPTY, *call_of("anthropic", "read", "c1"), EMPTY, answer_of("anthropic", "Well.")]),
    (MESSAGES, [answer_of("anthropic", "Early."), *call_of("anthropic", "read", "c1"), EMPTY]),
]


@pytest.mark.parametrize(("form_and_api", "answers"), TURNS)
def test_answers_of_which_servers_count_one_are_one_turn(
    form_and_api: tuple[str, str], answers: list[dict[str, Any]]
) -> None:
    """So a summary, or an index, joins the user's turn beside it."""
    name, api = form_and_api
    form = get_format(name)
    history = [form.turn("Hi"), *answers, form.turn("Ho")]
    outline = Outline(format=form)
    for message in history:
        outline.number(form.parts(message))
    beside = [history[0], form.turn("A summary."), *history[1:]]
    for messages in (history, form.join_roles(beside, outline.order)):
        assert refusal(api, [message for message in messages if form.is_sent(message)], *TEMPLATE) is None


@pytest.mark.parametrize(("name", "api"), FORMATS)
def test_calls_of_wanes_own_alone_are_no_turn(name: str, api: str) -> None:
    """The proxy's client never has them: behind their result a turn of the user is one of two in a row."""
    form = get_format(name)
    own, result = call_of(name, "delimiter", "c1")
    key = "items" if name == "openai_responses" else "content"
    alone = {**own, key: None if name == "openai" else own[key][1:]}
    work = [*call_of(name, "read", "c2"), answer_of(name, "Done."), form.turn("Hu")]
    history = [form.turn("Hi"), alone, result, form.turn("Ho"), *work]
    outline = Outline(format=form)
    items = [item for message in history for item, _ in outline.number(form.parts(message))]
    # A request of Messages holds both turns as one message.
    assert outline.order is (Order.BOTH if name == "anthropic" else Order.ANSWERED)
    assert refusal(api, form.join_roles(history, outline.order), *MISTRAL) is None
    # So the call stays behind no answer that a pass takes.
    done = next(item for item in items if item.needed_by)
    assert done.kind is Kind.TEXT


def test_reasoning_alone_is_divided_from_an_own_call_for_those_whose_server_takes_it() -> None:
    """DeepSeek and Kimi take no answer of reasoning alone, so a turn of the user stays behind the call."""
    form = AnthropicFormat()
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    own = {"role": "assistant", "content": [thinking, {"type": "tool_use", "id": "c", "name": "recall", "input": {}}]}
    assert form.divide(own) == (own, None)
    assert form.divide(own, thoughts=True) == (own, {"role": "assistant", "content": [thinking]})

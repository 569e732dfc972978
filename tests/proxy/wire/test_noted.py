"""A note at the tail of a request: valid in every protocol, and behind all that a provider caches."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire

NOTE = "[Note.]"
MARK = {"type": "ephemeral"}
ANTHROPIC, CHAT, RESPONSES = AnthropicWire(), OpenAIChatWire(), OpenAIResponsesWire()

TEXT = {"type": "text", "text": "Go."}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]}
ANSWER = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
NOTED = {"type": "text", "text": NOTE}


def add_note(wire: Any, body: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(body)
    after: dict[str, Any] = wire.add_note(body, NOTE)
    assert body == before, "nothing is changed in place"
    return after


@pytest.mark.parametrize(
    ("last", "content"),
    [
        ({"role": "user", "content": "Go."}, [TEXT, NOTED]),
        ({"role": "user", "content": [ANSWER, TEXT]}, [ANSWER, TEXT, NOTED]),
        ({"role": "user", "content": [{**ANSWER, "cache_control": MARK}]}, [{**ANSWER, "cache_control": MARK}, NOTED]),
        ({"role": "system", "content": "Be quick."}, [{"type": "text", "text": "Be quick."}, NOTED]),
    ],
)
def test_anthropic_gets_it_as_the_last_block_behind_results_and_breakpoints(last: Any, content: Any) -> None:
    body = {"system": "S", "messages": [{"role": "user", "content": "Hi"}, CALLED, last]}
    after = add_note(ANTHROPIC, body)
    assert after == {**body, "messages": [*body["messages"][:-1], {**last, "content": content}]}


@pytest.mark.parametrize("content", ["r", [{"type": "text", "text": "r"}]])
def test_anthropic_gets_it_in_the_last_result_where_nothing_stands_beside_one(content: Any) -> None:
    """With a strict template, llama.cpp would refuse the text beside it, which it makes a message of the user."""
    messages = [
        {"role": "user", "content": "Hi"},
        CALLED,
        {"role": "user", "content": [{**ANSWER, "content": content}]},
    ]
    after = add_note(ANTHROPIC, {"messages": messages})
    (result,) = after["messages"][-1]["content"]
    assert result == {**ANSWER, "content": [{"type": "text", "text": "r"}, NOTED]}
    # A client that has text beside results itself gets the note there.
    messages[-1]["content"].append(TEXT)
    assert add_note(ANTHROPIC, {"messages": messages})["messages"][-1]["content"][-1] == NOTED


@pytest.mark.parametrize("last", [{"role": "user", "content": [ANSWER]}, {"role": "user", "content": "Go."}])
def test_the_automatic_breakpoint_of_anthropic_stands_where_it_would_without_the_note(last: Any) -> None:
    after = add_note(ANTHROPIC, {"cache_control": MARK, "messages": [CALLED, last]})
    assert "cache_control" not in after
    *_, marked, note = after["messages"][-1]["content"]
    assert (marked["cache_control"], note) == (MARK, NOTED)
    # One that the client has put there itself counts.
    own = {**ANSWER, "cache_control": {**MARK, "ttl": "1h"}}
    after = add_note(ANTHROPIC, {"cache_control": MARK, "messages": [CALLED, {"role": "user", "content": [own]}]})
    assert after["messages"][-1]["content"] == [own, NOTED]


def test_an_automatic_breakpoint_passes_over_what_cannot_carry_it() -> None:
    empty = {"role": "user", "content": [{"type": "text", "text": " "}]}
    after = add_note(ANTHROPIC, {"cache_control": MARK, "messages": [{"role": "user", "content": "Hi"}, CALLED, empty]})
    assert after["messages"][1]["content"][0]["cache_control"] == MARK
    assert json.dumps(after).count("cache_control") == 1


@pytest.mark.parametrize(
    ("last", "content"),
    [
        ({"role": "user", "content": "Go."}, [TEXT, NOTED]),
        ({"role": "tool", "tool_call_id": "c", "content": "r"}, f"r\n\n{NOTE}"),
        ({"role": "tool", "tool_call_id": "c", "content": ""}, NOTE),
        ({"role": "user", "content": [{**TEXT, "cache_control": MARK}]}, [{**TEXT, "cache_control": MARK}, NOTED]),
    ],
)
def test_chat_gets_it_at_the_end_of_the_last_message_as_some_take_no_user_behind_a_tool(
    last: Any, content: Any
) -> None:
    body = {"model": "m", "messages": [{"role": "system", "content": "S"}, last]}
    assert add_note(CHAT, body) == {**body, "messages": [body["messages"][0], {**last, "content": content}]}


def test_a_server_of_chat_that_takes_strings_alone_gets_the_request_without_the_note() -> None:
    sent = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
    refused = add_note(CHAT, sent)
    error = b'{"error": {"message": "messages[0]: invalid type: sequence, expected a string"}}'
    correction = CHAT.correction(400, error, refused, sent)
    assert correction is not None
    assert correction(refused, sent) == sent
    # Later requests of the session are corrected before they get a note.
    assert correction(sent, sent) is sent
    for status, said, body in ((500, error, refused), (400, b"no such model", refused), (400, error, sent)):
        assert CHAT.correction(status, said, body, sent) is None


NOTED_ITEM = {"type": "input_text", "text": NOTE}
OUTPUT = {"type": "function_call_output", "call_id": "c"}
SAID = {"role": "user", "content": "Go."}


@pytest.mark.parametrize(
    ("given", "last"),
    [
        ("Go.", {**SAID, "content": [{"type": "input_text", "text": "Go."}, NOTED_ITEM]}),
        ([SAID], {**SAID, "content": [{"type": "input_text", "text": "Go."}, NOTED_ITEM]}),
        ([SAID, {**OUTPUT, "output": "r"}], {**OUTPUT, "output": f"r\n\n{NOTE}"}),
        ([SAID, SAID, {**OUTPUT, "output": "r"}], {**OUTPUT, "output": f"r\n\n{NOTE}"}),
        ([SAID, {**OUTPUT, "output": []}], {**OUTPUT, "output": [NOTED_ITEM]}),
    ],
)
def test_responses_get_it_in_the_last_item(given: Any, last: Any) -> None:
    """An item of its own would be a second turn of the user's, which strict templates refuse."""
    after = add_note(RESPONSES, {"model": "m", "input": given})
    assert after["input"] == [*(given[:-1] if isinstance(given, list) else []), last]


@pytest.mark.parametrize(
    "given", [[SAID, OUTPUT, SAID, {**OUTPUT, "output": "r"}], [SAID, {"type": "computer_call_output", "call_id": "c"}]]
)
def test_responses_get_it_as_the_last_item_where_turns_take_no_order(given: Any) -> None:
    after = add_note(RESPONSES, {"model": "m", "input": given})
    assert after["input"] == [*given, {"type": "message", "role": "user", "content": [NOTED_ITEM]}]


@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT])
def test_words_of_the_model_that_it_is_to_go_on_with_stay_the_last(wire: Any) -> None:
    body = {"messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "{"}]}
    assert add_note(wire, body) == body

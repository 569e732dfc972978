"""What the formats write by themselves: answers to calls, turns, tools, cleared results."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.formats.convert import SIGNATURE, to_anthropic, to_gemini, to_pydantic_ai, to_responses
from wane import Kind
from wane.conversation import Conversation
from wane.formats import FORMAT_NAMES, Part, get_format
from wane.formats.message_format import NativeFormat, WritingFormat

SESSION: list[dict[str, Any]] = [
    {"role": "user", "content": "Go."},
    {
        "role": "assistant",
        "content": "Both.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": call, "type": "function", "function": {"name": tool, "arguments": "{}"}}
            for call, tool in (("c1", "grep"), ("c2", "read"))
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "of c1"},
    {"role": "tool", "tool_call_id": "c2", "content": "of c2"},
]

WRITE = {
    "openai": list,
    "anthropic": to_anthropic,
    "openai_responses": to_responses,
    "gemini": to_gemini,
    "pydantic_ai": to_pydantic_ai,
}

every_format = pytest.mark.parametrize("name", FORMAT_NAMES)


def written_session(name: str) -> tuple[WritingFormat[Any], list[Any]]:
    chosen = get_format(name)
    assert isinstance(chosen, WritingFormat)
    return chosen, WRITE[name](copy.deepcopy(SESSION))


@every_format
def test_a_result_answers_the_call_at_its_position(name: str) -> None:
    chosen, messages = written_session(name)
    for position, part in enumerate(chosen.parts(messages[1])):
        if part.kind is Kind.CALL:
            assert chosen.awaits(messages[1], position)
            (made,) = chosen.parts(chosen.result(messages[1], position, "done"))
            assert (made.kind, made.call_id, made.text) == (Kind.RESULT, part.call_id, "done")


@every_format
def test_a_turn_is_the_users(name: str) -> None:
    chosen, _ = written_session(name)
    (made,) = chosen.parts(chosen.turn("Well?"))
    assert (made.kind, made.text) == (Kind.USER, "Well?")


@every_format
def test_a_cleared_result_has_another_text_and_nothing_else_changes(name: str) -> None:
    chosen, messages = written_session(name)
    before = copy.deepcopy(messages)
    for message in messages:
        for position, part in enumerate(chosen.parts(message)):
            if part.kind is Kind.RESULT:
                parts = chosen.parts(chosen.clear_result(message, position, "gone"))
                assert (parts[position].text, parts[position].call_id) == ("gone", part.call_id)
                others = [p for n, p in enumerate(chosen.parts(message)) if n != position]
                assert [p for n, p in enumerate(parts) if n != position] == others
    assert messages == before


@every_format
def test_what_a_host_holds_becomes_messages_that_are_the_same_objects(name: str) -> None:
    chosen, messages = written_session(name)
    assert all(a is b for a, b in zip(chosen.read(messages), messages, strict=True))
    assert [chosen.parts(m) for m in chosen.read(chosen.wire(messages))] == [chosen.parts(m) for m in messages]


def test_what_no_provider_takes_back_is_not_sent_as_it_came() -> None:
    silent = {"role": "assistant", "content": None, "reasoning_content": "Hm."}
    asked = {"role": "user", "content": ""}
    chat, anthropic = get_format("openai"), get_format("anthropic")
    assert isinstance(chat, WritingFormat)
    assert isinstance(anthropic, WritingFormat)
    assert chat.wire([asked, silent, {**silent, "content": "Yes."}]) == [asked, {**silent, "content": "Yes."}]
    spoken = {**silent, "audio": {"id": "audio_1"}}
    assert chat.wire([asked, spoken]) == [asked, spoken]
    calls = [
        {"type": "tool_use", "id": f"c{n}", "name": "read", "input": given} for n, given in enumerate(["{", "", {}])
    ]
    blank = {"type": "text", "text": " "}
    whole = {"role": "assistant", "content": calls[2:]}
    sent = anthropic.wire(
        [{"role": "assistant", "content": [blank, *calls]}, whole, {"role": "assistant", "content": [blank]}]
    )
    assert [block["input"] for block in sent[0]["content"]] == [{"INVALID_JSON": "{"}, {}, {}]
    assert sent[1] is whole
    assert len(sent) == 2


def test_a_tool_is_defined_as_each_api_wants_it() -> None:
    schema = {"type": "object", "properties": {}}
    defined = {name: written_session(name)[0].tool("look", "Looks.", schema) for name in FORMAT_NAMES}
    function = {"name": "look", "description": "Looks.", "parameters": schema}
    assert defined["openai"] == {"type": "function", "function": function}
    assert defined["openai_responses"] == {"type": "function", **function, "strict": False}
    assert defined["anthropic"] == {"name": "look", "description": "Looks.", "input_schema": schema}
    declared = {"name": "look", "description": "Looks.", "parametersJsonSchema": schema}
    assert defined["gemini"] == {"functionDeclarations": [declared]}
    made = defined["pydantic_ai"]
    assert (made.name, made.description, made.parameters_json_schema) == ("look", "Looks.", schema)


def test_what_a_provider_runs_itself_is_not_the_applications_to_answer() -> None:
    anthropic = get_format("anthropic")
    assert isinstance(anthropic, WritingFormat)
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
        ],
    }
    assert [anthropic.awaits(message, position) for position in (1, 2)] == [False, True]
    served = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    content = [*message["content"], served]
    whole = {**message, "content": content}
    assert anthropic.clear_result(whole, 3, "gone") is whole


def test_a_custom_tool_of_responses_has_an_output_of_its_own_kind() -> None:
    responses = get_format("openai_responses")
    assert isinstance(responses, WritingFormat)
    message = {"items": [{"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}]}
    (item,) = responses.result(message, 0, "ok")["items"]
    assert item == {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}


class Unfinished(NativeFormat[tuple[str, ...]]):
    """Messages of a role and texts."""

    name = "own"

    def locate_parts(self, message: tuple[str, ...]) -> list[tuple[int, Part]]:
        kind = Kind.TEXT if message[0] == "model" else Kind.USER
        return [(place, Part(kind, text)) for place, text in enumerate(message[1:], 1)]


class Own(Unfinished):
    def keep(self, message: tuple[str, ...], kept: Sequence[int]) -> tuple[str, ...]:
        return (message[0], *(message[position + 1] for position in kept))


def test_a_format_of_ones_own_needs_slots_and_keep() -> None:
    conversation = Conversation(Own(), strategy="none")
    history = [("user", "Go."), ("model", "Well,", "yes.")]
    conversation.host.ingest(history)
    assert conversation.request().view == history
    assert not isinstance(Own(), WritingFormat)
    with pytest.raises(TypeError, match=r"abstract method '?keep"):
        Unfinished()  # type: ignore[abstract]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
CONTENTS: dict[str, list[Any]] = {
    "openai": [
        [{"type": "text", "text": "seen"}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}],
    ],
    "anthropic": [
        [{"type": "tool_reference", "tool_name": "deferred"}],
        [{"type": "text", "text": "seen"}, IMAGE],
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "page"}, "title": "t"}],
        [{"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "hit"}]}],
        [{"type": "browser_state", "tabs": []}],
    ],
    "openai_responses": [
        [{"type": "input_text", "text": "seen"}],
        [{"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "low"}],
        [{"type": "input_file", "filename": "a.pdf", "file_data": "eA=="}],
    ],
    "gemini": [[{"text": "seen"}, {"inlineData": {"mimeType": "image/png", "data": "eA=="}}]],
    "pydantic_ai": [],
}
RECORDS: list[Any] = [
    [],
    [{"type": "text", "text": "x", "author": "a"}],
    [{"type": "document", "id": 5}],
    [{"type": "image", "url": "https://example.org"}],
    [{"type": "input_text", "text": 5}],
    [{"text": 5}],
    [IMAGE, {"rows": 2}],
    [{"name": "a"}, {"name": "b"}],
    {"type": "text", "text": "x"},
]
"""Data of a tool's own that only look like contents."""


def begin_with_call(name: str) -> tuple[Conversation[Any], Any]:
    conversation: Conversation[Any] = Conversation(name, budget="80k")
    messages = WRITE[name](copy.deepcopy(SESSION[:2]))
    conversation.append(messages[0])
    conversation.request()
    return conversation, conversation.append(messages[1])


@pytest.mark.parametrize(("name", "output"), [(name, output) for name, rows in CONTENTS.items() for output in rows])
def test_a_result_holds_contents_of_the_providers_own_as_they_are(name: str, output: list[Any]) -> None:
    conversation, calls = begin_with_call(name)
    for call in calls:
        conversation.append(call.result(copy.deepcopy(output)))
    sent = conversation.request().messages
    if name == "gemini":
        (first, _) = sent[-1]["parts"]
        response = first["functionResponse"]
        assert (response["response"], response["parts"]) == ({"output": "seen"}, output[1:])
        return
    key = "output" if name == "openai_responses" else "content"
    results = [block for message in sent for block in [message, *(message.get("content") or [])] if key in block]
    assert [block[key] for block in results if block[key] == output] == [output, output]


@every_format
@pytest.mark.parametrize("output", RECORDS)
def test_a_result_holds_other_data_as_json(name: str, output: Any) -> None:
    conversation, (call, _) = begin_with_call(name)
    conversation.append(call.result(output))
    (made,) = conversation.format.parts(conversation.messages[-1])
    assert made.text == json.dumps(output)

"""What a format does not know: it is refused by name where a program gives messages, and passed on elsewhere."""

from __future__ import annotations

import typing
from typing import Any

import anthropic.types.beta
import anthropic.types.beta.beta_content_block_param as anthropic_blocks
import openai.types.responses.response_input_item_param as response_items
import pytest
import typing_extensions
from anthropic.types import Message as AnthropicMessage
from anthropic.types import TextBlock, ToolUseBlock, Usage
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    chat_completion_content_part_param,
    chat_completion_message_tool_call_union_param,
)
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseReasoningItem,
    response_input_content_param,
)
from pydantic import BaseModel

import wane
from wane.conversation import Adapter
from wane.core.errors import FormatError
from wane.formats.vocabulary import ANTHROPIC, CHAT, RESPONSES, TECHNICAL, Vocabulary

CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
SAMPLES: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "assistant", "content": "So.", "reasoning_content": "Hm."},
    ],
    "anthropic": [
        {"role": "assistant", "content": [TOOL_USE]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
    ],
    "openai_responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "x"}}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "eA=="}}]},
        {"parts": [{"text": "Go."}]},
    ],
}
FOREIGN = [
    pytest.param(own, other, message, id=f"{other} {number} in {own}")
    for own in SAMPLES
    for other in SAMPLES
    if own != other
    for number, message in enumerate(SAMPLES[other])
]


@pytest.mark.parametrize(("own", "message"), [(own, each) for own, messages in SAMPLES.items() for each in messages])
def test_own_messages_are_taken(own: str, message: dict[str, Any]) -> None:
    conversation = wane.Conversation(own)
    if "tool_result" in str(message) or "functionResponse" in str(message):
        conversation.append(SAMPLES[own][0])
    conversation.append(message)
    assert conversation.messages


@pytest.mark.parametrize(("own", "other", "message"), FOREIGN)
def test_messages_of_another_format_are_refused(own: str, other: str, message: dict[str, Any]) -> None:
    conversation = wane.Conversation(own)
    with pytest.raises(FormatError):
        conversation.append(message)
    assert conversation.length == 0
    with pytest.raises(FormatError, match=r"^message 0: "):
        wane.plan([message], budget="80k", format=own)


@pytest.mark.parametrize(
    ("own", "message", "match"),
    [
        (
            "openai",
            SAMPLES["anthropic"][0],
            "'tool_use' of a content .* role 'assistant' .*; 'anthropic' knows it",
        ),
        (
            "anthropic",
            SAMPLES["openai"][0],
            "'tool_calls' of a message of role 'assistant' .*; 'openai' knows it",
        ),
        ("openai_responses", SAMPLES["openai"][0], "field 'tool_calls' .*; 'openai' knows it"),
        ("openai_responses", SAMPLES["anthropic"][0], "type 'tool_use' .*; 'anthropic' knows it"),
        ("anthropic", {"role": "user", "content": [{"type": "hologram", "data": "x"}]}, "'hologram'.* leave it out"),
        ("openai", {"role": "user", "content": [{"type": "hologram", "data": "x"}]}, "'hologram'.* leave it out"),
        ("gemini", SAMPLES["openai"][0], "role 'assistant' is unknown; known: user, model; 'openai'"),
        ("gemini", SAMPLES["openai"][1], "field 'content' of a content is unknown in the format 'gemini'; 'openai'"),
        ("openai", SAMPLES["gemini"][0], "role 'model' is unknown; .*; 'gemini' knows it"),
        ("anthropic", SAMPLES["gemini"][1], "needs a content"),
        ("gemini", {"role": "user", "parts": [{"hologram": "x"}]}, "field 'hologram' of a part is .* leave it out"),
        (
            "gemini",
            {"role": "user", "parts": [{"thought": True}]},
            "a part needs one of text, .*found thou",
        ),
        ("gemini", {"role": "user", "parts": "Go."}, "the parts of a content must be a list, found str"),
        ("openai_responses", {"type": "hologram", "data": "x"}, "type 'hologram' of an item .* leave it out"),
        ("openai", {"role": "user", "content": "x", "attachments": [{"id": 1}]}, "field 'attachments' .* leave it out"),
        ("openai", {"role": "user", "content": None}, "content of a message of role 'user' must be a string or a list"),
        ("openai", {"role": "user"}, "must be a string or a list, found NoneType"),
        ("anthropic", {"role": "user", "content": None}, "must be a string or a list, found NoneType"),
        ("openai_responses", {"role": "user", "content": None}, "must be a string or a list, found NoneType"),
        ("openai_responses", {"role": "user", "content": {"text": "x"}}, "must be a string or a list, found dict"),
        (
            "openai_responses",
            {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]},
            "'input_text' cannot be that of a content of a message of role 'assistant'",
        ),
        ("openai_responses", {"role": "user", "content": [{"type": "text", "text": "x"}]}, "'openai' and 'anthropic'"),
        (
            "openai",
            {"role": "assistant", "content": None, "reasoning_content": 5},
            "field 'reasoning_content' must be a string, found",
        ),
        ("openai", {"role": "assistant", "tool_calls": [{"id": "c1", "type": "gizmo"}]}, "'c1' has no gizmo"),
        ("openai", {"index": 0, "message": {"role": "assistant", "content": "x"}}, "a choice of an answer; append its"),
        ("anthropic", {"role": "assistant", "content": "x", "function_call": {"name": "f"}}, "of type `tool_use`"),
        ("openai_responses", {"role": "assistant", "content": "x", "function_call": {"name": "f"}}, "`function_call`$"),
        (
            "anthropic",
            {"role": "user", "content": [TOOL_USE]},
            "'tool_use' cannot be that of a content .* role 'user'.* stands in a message of role 'assistant'",
        ),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "audio"}]}]},
            "type 'audio' of a block of a result",
        ),
    ],
)
def test_what_is_unknown_is_named(own: str, message: dict[str, Any], match: str) -> None:
    conversation = wane.Conversation(own)
    if "tool_result" in str(message) or "functionResponse" in str(message):
        conversation.append(SAMPLES[own][0])
    with pytest.raises(FormatError, match=match):
        conversation.append(message)


LONG = "x" * 1_000
CALLED: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}


@pytest.mark.parametrize(
    ("own", "message", "match"),
    [
        (
            "anthropic",
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "output": LONG}]},
            "field 'output' of .* 'tool_result' .*; 'openai_responses' knows it",
        ),
        (
            "openai_responses",
            {"type": "function_call_output", "call_id": "c1", "content": LONG},
            "field 'content' of an item of type 'function_call_output' .*; .*'anthropic' .* it",
        ),
        ("openai", {"role": "user", "content": [{"type": "text", "text": "a", "body": LONG}]}, "field 'body' of"),
        ("openai", {"role": "user", "content": [{"type": "text", "content": LONG}]}, "field 'content' of"),
        ("openai", {"role": "user", "content": [{"type": "text", "text": None}]}, "must be a string, found None"),
        ("openai_responses", {"role": "user", "content": [{"type": "input_text", "text": 5}]}, "string, found 5"),
        ("anthropic", {"role": "user", "content": [{"text": LONG}]}, "the type of .* must be a string, found None"),
        ("openai", {"role": "user", "content": [{"text": "a", "toolUse": {"name": "f"}}]}, "the type of .* found None"),
        ("openai", {"role": "user", "content": ["hi"]}, "must be an object, found str"),
        ("openai_responses", {"type": "reasoning", "text": LONG}, "field 'text' of an item of type 'reasoning'"),
        ("openai_responses", {"type": "banana_call", "call_id": "c1"}, "type 'banana_call' of an item"),
        (
            "openai_responses",
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "hologram"}]},
            "type 'hologram' of a content of an output",
        ),
        (
            "openai",
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "mcp", "mcp": {"name": "f"}}]},
            "type 'mcp' of a call",
        ),
        ("anthropic", {"role": "assistant"}, "a message of role 'assistant' needs a content"),
        (
            "openai",
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            "Write it as an entry of `tool_calls`",
        ),
    ],
)
def test_a_field_whose_content_would_be_lost_is_named(own: str, message: dict[str, Any], match: str) -> None:
    conversation = wane.Conversation(own)
    if own == "anthropic" and "tool_result" in str(message):
        conversation.append(SAMPLES["anthropic"][0])
    if "function_call_output" in str(message):
        conversation.append(CALLED)
    with pytest.raises(FormatError, match=match):
        conversation.append(message)


def test_messages_without_a_role_name_the_format_that_knows_them() -> None:
    whole = chat_answer()
    for own, message, owner in [
        ("openai", CALLED, "openai_responses"),
        ("anthropic", CALLED, "openai_responses"),
        ("anthropic", {"role": "tool", "tool_call_id": "c1", "content": "x"}, "openai"),
        ("openai_responses", {"role": "tool", "tool_call_id": "c1", "content": "x"}, "openai"),
        ("anthropic", whole, "openai"),
        ("openai_responses", whole, "openai"),
        ("openai_responses", whole.model_dump(), "openai"),
        ("openai", {"role": "assistant", "content": [], "stop_reason": "end_turn"}, "anthropic"),
    ]:
        with pytest.raises(FormatError, match=f"; '{owner}' knows it"):
            wane.Conversation(own).append(message)
        with pytest.raises(FormatError, match=f"; '{owner}' knows it"):
            wane.plan([message], budget="80k", format=own)


@pytest.mark.parametrize("reference", [{"id": "toolu_1", "name": "f", "input": {}}, {"id": "msg_1", "content": ["x"]}])
def test_an_object_with_an_id_is_a_reference_only_if_it_has_nothing_else(reference: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="role None is unknown"):
        wane.Conversation("openai_responses").append(reference)
    assert wane.Conversation("openai_responses").append({"id": "msg_1"}) == []


def test_a_piece_of_a_stream_is_no_message() -> None:
    chunk = ChatCompletionChunk.model_validate(
        {
            "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}],
        }
    )  # fmt: skip
    with pytest.raises(FormatError, match="a piece of a streamed answer; append the whole message"):
        wane.Conversation().append(chunk)
    with pytest.raises(FormatError, match="'openai' knows it"):
        wane.Conversation("openai_responses").append(chunk)


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_blocks_of_another_sdk_are_refused(role: str) -> None:
    with pytest.raises(FormatError, match=r"'tool_use' of a content .*; 'anthropic' knows it"):
        wane.Conversation().append({"role": role, "content": ANSWER.content})


def test_the_sdks_calls_in_a_list_are_taken() -> None:
    conversation = wane.Conversation()
    message = {"role": "assistant", "content": None, "tool_calls": chat_answer().choices[0].message.tool_calls}
    (call,) = conversation.append(message)
    conversation.append(call.result("x"))
    assert conversation.request().messages[0]["tool_calls"] == [CHAT_CALL]


def test_a_format_alone_takes_what_it_does_not_know() -> None:
    """As the proxy must, which passes it on."""
    block = {"type": "hologram", "data": "x"}
    for name in ("openai", "anthropic"):
        assert wane.formats.get_format(name).parts({"role": "user", "content": [block]})
    assert wane.formats.get_format("openai_responses").parts({"items": [block]})


def test_a_frameworks_own_fields_stay_and_another_formats_are_refused() -> None:
    class Framework(Adapter[dict[str, Any]]):
        adds_fields = True

    answer = {"role": "assistant", "content": "So.", "trace": ["t1"]}
    conversation = wane.Conversation("anthropic", adapter=Framework())
    conversation.extend([{"role": "user", "content": "Go."}, answer, {"role": "user", "content": "On."}])
    assert answer in conversation.request().messages
    with pytest.raises(FormatError, match="'tool_calls'"):
        conversation.append({"role": "assistant", "content": "So.", "tool_calls": [CHAT_CALL]})
    with pytest.raises(FormatError, match="'trace'"):
        wane.Conversation("anthropic").append(answer)


def test_every_position_is_named() -> None:
    messages = [{"role": "user", "content": "Go."}, {"role": "user", "content": "On.", "tool_calls": [CHAT_CALL]}]
    conversation = wane.Conversation()
    with pytest.raises(FormatError, match=r"^message 1: field 'tool_calls'"):
        conversation.extend(messages)
    with pytest.raises(FormatError, match=r"^message 1: field 'tool_calls'"):
        conversation.host.ingest(messages)
    conversation.host.ingest(messages[:1])
    with pytest.raises(FormatError, match=r"^message 1: field 'tool_calls'"):
        conversation.host.ingest(messages)
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "x"}
    with pytest.raises(wane.HistoryError, match=r"^message 1: a result answers the call 'c9'"):
        conversation.host.ingest([messages[0], orphan])


# What the SDKs have


def literals(kind: Any) -> set[str]:
    """The values that the field `type` may have in a union of an SDK."""
    if typing.get_origin(kind) is typing.Literal:
        return set(typing.get_args(kind))
    if typing_extensions.is_typeddict(kind):
        return literals(typing.get_type_hints(kind).get("type"))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return literals(kind.model_fields["type"].annotation)
    return {value for each in typing.get_args(kind) if not isinstance(each, str) for value in literals(each)}


def test_each_block_of_anthropics_sdk_is_known() -> None:
    blocks = literals(anthropic_blocks.BetaContentBlockParam)
    assert {"text", "tool_use", "web_search_tool_result"} <= blocks
    assert blocks <= ANTHROPIC.contents["user"] | ANTHROPIC.contents["assistant"]
    fields = set(anthropic.types.beta.BetaMessage.model_fields)
    assert fields <= ANTHROPIC.metadata | ANTHROPIC.fields["assistant"]
    for message in typing.get_args(anthropic.types.beta.BetaMessageParam):
        hints = typing.get_type_hints(message)
        assert set(hints) <= ANTHROPIC.fields[typing.get_args(hints["role"])[0]]


def fields_of(kind: Any) -> dict[str, set[str]]:
    """The fields of the objects in a union of an SDK, by the value of their field `type`."""
    if typing_extensions.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        return {name: set(hints) for name in literals(hints.get("type"))}
    found: dict[str, set[str]] = {}
    for each in typing.get_args(kind):
        for name, fields in ({} if isinstance(each, str) else fields_of(each)).items():
            found.setdefault(name, set()).update(fields)
    return found


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (ANTHROPIC, [anthropic_blocks.BetaContentBlockParam]),
        (RESPONSES, [response_items.ResponseInputItemParam, response_input_content_param.ResponseInputContentParam]),
        (
            CHAT,
            [
                chat_completion_content_part_param.ChatCompletionContentPartParam,
                chat_completion_message_tool_call_union_param.ChatCompletionMessageToolCallUnionParam,
            ],
        ),
    ],
    ids=lambda value: getattr(value, "format", ""),
)
def test_each_field_of_the_sdks_contents_is_known(words: Vocabulary, kinds: list[Any]) -> None:
    checked = 0
    for kind in kinds:
        for name, fields in fields_of(kind).items():
            if name in words.blocks:
                checked += 1
                assert fields <= words.blocks[name] | TECHNICAL, name
    assert checked >= 5


def test_each_item_of_openais_sdk_is_known() -> None:
    items = literals(response_items.ResponseInputItemParam)
    assert {"message", "function_call", "reasoning"} <= items
    assert items <= RESPONSES.items
    assert literals(chat_completion_content_part_param.ChatCompletionContentPartParam) <= CHAT.contents["user"]
    fields = set(ChatCompletionMessage.model_fields) - {"function_call"}  # deprecated since 2023
    assert fields <= CHAT.fields["assistant"] | CHAT.metadata


# The SDKs' objects

ANSWER = AnthropicMessage(
    id="msg_1",
    content=[
        TextBlock(type="text", text="I look."),
        ToolUseBlock(type="tool_use", id="c1", name="read", input={"path": "a", "limit": None}),
    ],
    model="m",
    role="assistant",
    stop_reason="tool_use",
    type="message",
    usage=Usage(input_tokens=1, output_tokens=1),
)
SENT = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a", "limit": None}},
    ],
}


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER,
        ANSWER.model_dump(exclude_none=True),
        ANSWER.model_dump(),
        {"role": "assistant", "content": ANSWER.content},
    ],
    ids=["object", "dump", "dump with None", "blocks"],
)
def test_an_answer_of_anthropics_sdk_goes_out_as_the_api_takes_it(answer: Any) -> None:
    conversation = wane.Conversation("anthropic")
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    (call,) = conversation.append(answer)
    assert not conversation.ended
    conversation.append(call.result("x"))
    sent = conversation.request().messages[1]
    assert set(sent) == {"role", "content"}
    assert [{k: v for k, v in block.items() if v is not None} for block in sent["content"]] == SENT["content"]


def chat_answer() -> ChatCompletion:
    message = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [CHAT_CALL]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return ChatCompletion.model_validate(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )


@pytest.mark.parametrize(
    "answer",
    [chat_answer(), chat_answer().choices[0].message, chat_answer().choices[0].message.model_dump(exclude_none=True)],
    ids=["answer", "message", "dump"],
)
def test_an_answer_of_openais_sdk_is_taken(answer: Any) -> None:
    conversation = wane.Conversation()
    conversation.append({"role": "user", "content": "Go."})
    conversation.request()
    (call,) = conversation.append(answer)
    conversation.append(call.result("x"))
    assert conversation.request().messages[1]["tool_calls"] == [CHAT_CALL]


def test_an_answer_with_several_choices_is_refused() -> None:
    answer = chat_answer()
    answer.choices *= 2
    with pytest.raises(FormatError, match="an answer with 2 choices; append the message of the one that you use"):
        wane.Conversation().append(answer)


def test_an_answer_of_openais_responses_is_taken() -> None:
    items: list[Any] = [
        ResponseReasoningItem(id="rs_1", summary=[], type="reasoning"),
        ResponseFunctionToolCall(type="function_call", call_id="c1", name="read", arguments="{}"),
    ]
    whole = Response.model_construct(id="r", object="response", output=items, usage=None)
    for answer in (whole, items, [items[0], items[1].model_dump(exclude_none=True)]):
        conversation = wane.Conversation("openai_responses")
        conversation.append({"role": "user", "content": "Go."})
        conversation.request()
        (call,) = conversation.append(answer)
        conversation.append(call.result("x"))
        sent = conversation.request().messages
        assert sent[1:3] == [
            {"id": "rs_1", "summary": [], "type": "reasoning"},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        ]

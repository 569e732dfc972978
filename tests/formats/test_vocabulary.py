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
from openai.types.chat import ChatCompletion, ChatCompletionMessage, chat_completion_content_part_param
from openai.types.responses import Response, ResponseFunctionToolCall, ResponseReasoningItem
from pydantic import BaseModel

import wane
from wane.conversation import Adapter
from wane.core.errors import FormatError
from wane.formats.vocabulary import ANTHROPIC, CHAT, RESPONSES

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
    if "tool_result" in str(message):
        conversation.append(SAMPLES["anthropic"][0])
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
        ("openai_responses", {"type": "hologram", "data": "x"}, "type 'hologram' of an item .* leave it out"),
        ("openai", {"role": "user", "content": "x", "attachments": [{"id": 1}]}, "field 'attachments' .* leave it out"),
        (
            "anthropic",
            {"role": "user", "content": [TOOL_USE]},
            "'tool_use' of a content of a message of role 'user'",
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
    if "tool_result" in str(message):
        conversation.append(SAMPLES["anthropic"][0])
    with pytest.raises(FormatError, match=match):
        conversation.append(message)


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
        conversation.ingest(messages)
    conversation.ingest(messages[:1])
    with pytest.raises(FormatError, match=r"^message 1: field 'tool_calls'"):
        conversation.ingest(messages)
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "x"}
    with pytest.raises(wane.HistoryError, match=r"^message 1: a result answers the call 'c9'"):
        conversation.ingest([messages[0], orphan])


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

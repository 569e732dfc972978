"""Messages of Inspect AI, part by part."""

from __future__ import annotations

import pytest

pytest.importorskip("inspect_ai", reason="Inspect AI is not installed")

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
)
from inspect_ai.tool import ToolCall, ToolCallError

from wane.core import Kind
from wane.core.errors import FormatError
from wane.integrations.inspect_ai import InspectFormat

FORMAT = InspectFormat()


def made(*content: Content, calls: int = 0) -> ChatMessageAssistant:
    named = [ToolCall(id=f"c{n}", function="read", arguments={"path": f"{n}"}) for n in range(calls)]
    return ChatMessageAssistant(id="m", content=list(content), tool_calls=named or None)


def test_what_messages_become() -> None:
    failed = ToolCallError("parsing", "5 is not of type 'string'")
    messages = [
        ChatMessageSystem(content="Be good."),
        ChatMessageUser(content=[ContentText(text="Look."), ContentImage(image="data:image/png;base64,eA==")]),
        made(ContentReasoning(reasoning="Hm."), ContentText(text="I look."), ContentText(text=""), calls=1),
        ChatMessageTool(content="It.", tool_call_id="c0", function="read"),
        ChatMessageTool(content="", tool_call_id="c1", function="read", error=failed),
        ChatMessageAssistant(content="Done."),
        ChatMessageAssistant(content=""),
    ]
    told = [[(part.kind, part.text) for part in FORMAT.parts(message)] for message in messages]
    assert told == [
        [(Kind.SYSTEM, "Be good.")],
        [(Kind.USER, "Look.")],
        [(Kind.REASONING, "Hm."), (Kind.TEXT, "I look."), (Kind.CALL, "")],
        [(Kind.RESULT, "It.")],
        [(Kind.RESULT, failed.message)],
        [(Kind.TEXT, "Done.")],
        [],
    ]
    assert FORMAT.parts(messages[1])[0].extra_tokens > 0
    assert FORMAT.parts(messages[2])[2].arguments == '{"path":"0"}'


def test_prompts_of_the_loop_are_notices() -> None:
    submit = (
        "\nPlease proceed to the next step using your best judgement. If you believe you have completed the task, "
        "please call the `submit()` tool with your final answer.\n"
    )
    loop = [submit, "\nPlease proceed to the next step using your best judgement.\n"]
    persons = [f"{submit} Mind the tests.", "Please proceed to the next step."]
    kinds = [FORMAT.parts(ChatMessageUser(content=text))[0].kind for text in (*loop, *persons)]
    assert kinds == [Kind.NOTICE, Kind.NOTICE, Kind.USER, Kind.USER]


def test_calls_stay_with_signed_reasoning_and_it_with_what_follows() -> None:
    text = ContentText(text="I look.")
    plain = FORMAT.parts(made(ContentReasoning(reasoning="Hm."), text, calls=2))
    signed = FORMAT.parts(made(ContentReasoning(reasoning="Hm.", signature="x"), text, calls=2))
    named = FORMAT.parts(made(ContentReasoning(reasoning="eA==", redacted=True, signature="rs_1"), text, calls=2))
    assert [part.needs for part in plain] == [(), (), (), ()]
    assert [part.needs for part in signed] == [(1,), (), (-2,), (-3,)]
    assert [part.needs for part in named] == [(1,), (-1,), (-2,), (-3,)]


def test_some_parts_are_kept_as_they_are() -> None:
    ran = ContentToolUse(tool_type="web_search", id="w", name="search", arguments="{}", result="Found.")
    message = made(ContentReasoning(reasoning="Hm."), ContentText(text="I look."), ran, calls=2)
    assert "Found." in FORMAT.parts(message)[2].text
    kept = FORMAT.keep(message, [1, 4])
    assert isinstance(kept, ChatMessageAssistant)
    assert kept.content == [ContentText(text="I look.")]
    assert kept.tool_calls == message.tool_calls[1:] if message.tool_calls else False
    assert kept.id != message.id
    assert kept.id == FORMAT.keep(message, [1, 4]).id
    bare = FORMAT.keep(ChatMessageAssistant(content="I look.", tool_calls=message.tool_calls), [1])
    assert bare.content == ""


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(FormatError, match="found str"):
        FORMAT.parts("Go.")  # type: ignore[arg-type]


def test_what_wane_writes() -> None:
    message = made(ContentText(text="I look."), calls=1)
    result = FORMAT.result(message, 1, "It.")
    assert (result.role, result.text, FORMAT.parts(result)[0].call_id) == ("tool", "It.", "c0")
    failed = ChatMessageTool(content="", tool_call_id="c0", error=ToolCallError("unknown", "No."))
    assert FORMAT.parts(FORMAT.cleared(failed, 0, "Gone."))[0].text == "Gone."
    assert FORMAT.tool("read", "Reads.", {"type": "object", "properties": {}}).name == "read"

"""Events of the OpenHands SDK, part by part."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the OpenHands SDK needs Python 3.12 or newer", allow_module_level=True)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without the network
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
pytest.importorskip("openhands.sdk", reason="the OpenHands SDK is not installed")

from openhands.sdk import ImageContent, TextContent
from openhands.sdk import Message as ModelMessage
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    CondensationSummaryEvent,
    MessageEvent,
    PauseEvent,
    SystemPromptEvent,
    UserRejectObservation,
)
from openhands.sdk.llm import MessageToolCall, ReasoningItemModel, RedactedThinkingBlock, ThinkingBlock

from wane.core import Kind
from wane.core.errors import FormatError
from wane.integrations.openhands import OpenHandsFormat

FORMAT = OpenHandsFormat()


def call(number: int, *, answer: str = "r1", thought: str = "", **told: Any) -> ActionEvent:
    made = MessageToolCall(id=f"c{number}", name="read", arguments=f'{{"path": "{number}"}}', origin="completion")
    return ActionEvent(
        thought=[TextContent(text=thought)] if thought else [],
        tool_name="read",
        tool_call_id=f"c{number}",
        tool_call=made,
        llm_response_id=answer,
        **told,
    )


def failed(number: int) -> AgentErrorEvent:
    return AgentErrorEvent(tool_name="read", tool_call_id=f"c{number}", error="It fell.")


def said(text: str, *, role: Any = "user", source: Any = "user", images: int = 0) -> MessageEvent:
    content: list[Any] = [TextContent(text=text)]
    content += [ImageContent(image_urls=["data:image/png;base64,eA=="] * images)] if images else []
    return MessageEvent(source=source, llm_message=ModelMessage(role=role, content=content))


def test_what_events_become() -> None:
    events = [
        SystemPromptEvent(
            system_prompt=TextContent(text="Be good."), tools=[], dynamic_context=TextContent(text="Now.")
        ),
        said("Go."),
        said("A hook says no.", source="environment"),
        said("<system-reminder>Mind it.</system-reminder>"),
        CondensationSummaryEvent(summary="All that was."),
        call(1, thought="I look.", reasoning_content="Hm."),
        failed(1),
        call(2, answer="r2"),
        UserRejectObservation(tool_name="read", tool_call_id="c2", action_id="x", rejection_reason="Not now."),
        said("Done.", role="assistant", source="agent"),
        said("Look at it.", images=2),
    ]
    told = [[(part.kind, part.text) for part in FORMAT.parts(message)] for message in FORMAT.read(events)]
    assert told == [
        [(Kind.SYSTEM, "Be good.\nNow.")],
        [(Kind.USER, "Go.")],
        [(Kind.NOTICE, "A hook says no.")],
        [(Kind.NOTICE, "<system-reminder>Mind it.</system-reminder>")],
        [(Kind.USER, "All that was.")],
        [(Kind.REASONING, "Hm."), (Kind.TEXT, "I look."), (Kind.CALL, "")],
        [(Kind.RESULT, "It fell.")],
        [(Kind.CALL, "")],
        [(Kind.RESULT, "Action rejected: Not now.")],
        [(Kind.TEXT, "Done.")],
        [(Kind.USER, "Look at it.")],
    ]
    assert FORMAT.parts((events[-1],))[0].extra_tokens > FORMAT.parts((said("", images=1),))[0].extra_tokens > 0


def test_an_answer_is_one_message_and_the_result_of_a_malformed_call_goes_behind_it() -> None:
    one, bad, error, two, other = call(1), call(2), failed(2), call(3), call(4, answer="r2")
    messages = FORMAT.read([one, bad, error, two, failed(1), other])
    assert messages == [(one, bad, two), (error,), (messages[2][0],), (other,)]
    assert FORMAT.read(messages) == messages
    assert FORMAT.wire(messages)[:4] == [one, bad, two, error]


def test_calls_stay_with_sealed_reasoning_and_it_with_what_follows() -> None:
    def needs(**told: Any) -> list[tuple[int, ...]]:
        return [part.needs for part in FORMAT.parts((call(1, thought="I look.", **told), call(2)))]

    item = ReasoningItemModel(id="rs_1", encrypted_content="eA==")
    assert needs(reasoning_content="Hm.") == [(), (), (), ()]
    assert needs(thinking_blocks=[ThinkingBlock(thinking="Hm.", signature="x")]) == [(1,), (), (-2,), (-3,)]
    assert needs(thinking_blocks=[RedactedThinkingBlock(data="eA==")]) == [(1,), (), (-2,), (-3,)]
    assert needs(responses_reasoning_item=item) == [(1,), (-1,), (-2,), (-3,)]


def test_what_is_kept_of_an_answer_stands_in_the_first_event_that_is_kept() -> None:
    first = call(1, thought="I look.", reasoning_content="Hm.")
    message = (first, call(2), call(3))
    (kept, last) = FORMAT.keep(message, [0, 1, 3, 4])
    assert isinstance(kept, ActionEvent)
    assert (kept.tool_call_id, kept.reasoning_content) == ("c2", "Hm.")
    assert kept.thought == first.thought
    assert last is message[2]
    (bare,) = FORMAT.keep(message, [2])
    assert isinstance(bare, ActionEvent)
    assert (bare.tool_call_id, bare.reasoning_content, list(bare.thought)) == ("c1", None, [])
    (text,) = FORMAT.keep(message, [1])
    assert isinstance(text, MessageEvent)
    assert [(part.kind, part.text) for part in FORMAT.parts((text,))] == [(Kind.TEXT, "I look.")]


def test_what_is_kept_of_a_last_answer() -> None:
    told = ModelMessage(role="assistant", content=[TextContent(text="Done.")], reasoning_content="Hm.")
    message = (MessageEvent(source="agent", llm_message=told),)
    assert [part.kind for part in FORMAT.parts(message)] == [Kind.REASONING, Kind.TEXT]
    assert [part.kind for part in FORMAT.parts(FORMAT.keep(message, [1]))] == [Kind.TEXT]


def test_an_event_that_no_model_is_shown_is_refused() -> None:
    with pytest.raises(FormatError, match="found PauseEvent"):
        FORMAT.parts(FORMAT.read([PauseEvent()])[0])


def test_what_wane_writes() -> None:
    message = (call(1),)
    (result,) = FORMAT.result(message, 0, "It.")
    assert [(part.text, part.call_id) for part in FORMAT.parts((result,))] == [("It.", "c1")]
    assert FORMAT.parts(FORMAT.cleared((failed(1),), 0, "Gone."))[0].text == "Gone."
    assert FORMAT.parts(FORMAT.turn("Go."))[0].kind is Kind.USER
    assert FORMAT.tool("read", "Reads.", {"type": "object"})["function"]["name"] == "read"

"""What an answer's stop reason says, for every reason that the SDKs know."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from anthropic.types import StopReason
from anthropic.types.beta import BetaStopReason
from google.genai.types import Candidate, Content, FinishReason, GenerateContentResponse, Part
from openai.types.chat.chat_completion import Choice
from openai.types.responses import ResponseStatus
from openai.types.responses.response import IncompleteDetails

import wane
from wane import FormatError
from wane.conversation import Conversation
from wane.formats.answers import (
    ANTHROPIC_REASONS,
    CHAT_REASONS,
    GEMINI_REASONS,
    RESPONSES_REASONS,
    Ending,
    stop_reason,
)

TEXT = {"type": "text", "text": "The answer is 42."}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
HIT = {"type": "web_search_result", "title": "t", "url": "https://example.org", "encrypted_content": "eA=="}
HITS = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [HIT]}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
SPOKEN = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}


def words(literal: Any) -> set[str]:
    """The strings of a type: of literals, also in unions and aliases."""
    if isinstance(literal, str):
        return {literal}
    return set().union(*map(words, typing.get_args(literal))) if typing.get_args(literal) else set()


def test_the_tables_have_every_reason_of_the_sdks() -> None:
    assert words(StopReason) | words(BetaStopReason) == ANTHROPIC_REASONS.keys()
    assert words(Choice.model_fields["finish_reason"].annotation) <= CHAT_REASONS.keys()
    details = words(IncompleteDetails.model_fields["reason"].annotation)
    assert words(ResponseStatus) - {"incomplete"} | details == RESPONSES_REASONS.keys()
    assert {reason.value for reason in FinishReason} <= GEMINI_REASONS.keys()


def begin_conversation(format_: str) -> Conversation[Any]:
    conversation: Conversation[Any] = wane.Conversation(format_, budget="8k")
    parts = {"parts": [{"text": "Go."}]} if format_ == "gemini" else {"content": "Go."}
    conversation.append({"role": "user", **parts})
    conversation.request()
    return conversation


def answers() -> list[tuple[str, str, Any, Ending]]:
    """An answer with a text for each reason."""
    rows: list[tuple[str, str, Any, Ending]] = []
    for reason, ending in ANTHROPIC_REASONS.items():
        content = [CALL] if ending is Ending.CALLS else [TEXT]
        rows.append(("anthropic", reason, {"role": "assistant", "content": content, "stop_reason": reason}, ending))
    for reason, ending in CHAT_REASONS.items():
        calls = [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
        message = {"role": "assistant", "content": "42"}
        message |= {"tool_calls": calls} if ending is Ending.CALLS else {}
        rows.append(("openai", reason, {"choices": [{"message": message, "finish_reason": reason}]}, ending))
    for reason, ending in RESPONSES_REASONS.items():
        state: dict[str, Any] = {"status": reason}
        if reason not in words(ResponseStatus):
            state = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        rows.append(("openai_responses", reason, {"output": [SPOKEN], **state}, ending))
    for reason, ending in GEMINI_REASONS.items():
        candidate = {"content": {"role": "model", "parts": [{"text": "42"}]}, "finishReason": reason}
        rows.append(("gemini", reason, {"candidates": [candidate]}, ending))
    return rows


@pytest.mark.parametrize(("format_", "reason", "answer", "ending"), answers())
def test_an_answer_with_content_ends_as_its_reason_says(format_: str, reason: str, answer: Any, ending: Ending) -> None:
    conversation = begin_conversation(format_)
    if reason in ("CONTINUATION", "queued", "in_progress"):
        before = conversation.messages
        with pytest.raises(FormatError, match=f"stopped with '{reason}'"):
            conversation.append(answer)
        assert conversation.messages == before
        return
    conversation.append(answer)
    # What a failed answer holds besides is taken.
    assert conversation.ended is (ending in (Ending.OVER, Ending.VOID))
    if not conversation.ended and not conversation.calls:
        restored: Conversation[Any] = wane.Conversation(format_, budget="8k")
        assert restored.restore(conversation.state(), conversation.messages)
        assert not restored.ended
        assert conversation.request().reminder is None


@pytest.mark.parametrize(
    "answer",
    [
        ("openai_responses", {"output": [], "status": "failed", "error": {"code": "server_error", "message": "x"}}),
        ("openai_responses", {"output": [], "status": "queued"}),
        ("gemini", {"candidates": [{"content": {"role": "model"}, "finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        ("openai", {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "error"}]}),
    ],
)
def test_an_answer_that_failed_with_nothing_is_refused_and_can_be_asked_for_again(answer: tuple[str, Any]) -> None:
    conversation = begin_conversation(answer[0])
    before = conversation.messages
    with pytest.raises(FormatError, match="nothing to append"):
        conversation.append(answer[1])
    assert conversation.messages == before
    assert not conversation.ended


def test_objects_of_googles_sdk_have_their_reason_too() -> None:
    candidate = Candidate(content=Content(role="model", parts=[Part(text="x")]), finish_reason=FinishReason.STOP)
    assert stop_reason(GenerateContentResponse(candidates=[candidate])) == ("STOP", Ending.OVER)


@pytest.mark.parametrize(
    ("format_", "answer", "ended"),
    [
        ("anthropic", [SEARCH, HITS, TEXT], True),
        ("anthropic", [SEARCH, HITS, CALL], False),
        ("anthropic", [TEXT, SEARCH], False),
        ("gemini", [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}, {"text": "1"}], True),
        ("gemini", [{"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"}}], False),
    ],
)
def test_without_a_reason_calls_that_the_provider_ran_do_not_keep_the_loop_going(
    format_: str, answer: list[Any], ended: bool
) -> None:
    conversation = begin_conversation(format_)
    conversation.append(
        {"role": "model", "parts": answer} if format_ == "gemini" else {"role": "assistant", "content": answer}
    )
    assert conversation.ended is ended


def test_a_pause_between_the_call_of_a_providers_tool_and_its_result_goes_on_with_the_next_answer() -> None:
    conversation = begin_conversation("anthropic")
    conversation.append({"role": "assistant", "content": [TEXT, SEARCH], "stop_reason": "pause_turn"})
    assert not conversation.ended
    request = conversation.request()
    assert request.messages[-1] == {"role": "assistant", "content": [TEXT, SEARCH]}
    conversation.append({"role": "assistant", "content": [HITS, TEXT], "stop_reason": "end_turn"})
    assert conversation.ended

"""The messages of requests: the view, however it is put together, as it can be sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.integrations.support import histories, shapes_of
from tests.strategies import policies, times
from wane import Policy
from wane.conversation import Conversation
from wane.core import exact_budget
from wane.formats.pydantic_ai import sendable
from wane.integrations.pydantic_ai import new_conversation
from wane.integrations.pydantic_ai_messages import Outgoing, as_shown

HALF = "\ud83d"
DROP = {"input_transformations": [{"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}]}


@times(0.7)
@given(history=histories(), budget=st.integers(1, 400), policy=policies())
def test_a_request_that_is_made_from_the_last_one_is_the_view(
    history: list[ModelMessage], budget: int, policy: Policy
) -> None:
    conversation = new_conversation(exact_budget(budget), policy=policy)
    outgoing = Outgoing(conversation)
    # One text that cannot be sent as it is, so that what is kept of the last request is not the view's own.
    history = [user_request(HALF), *history]
    for stop in range(1, len(history) + 1):
        if stop == len(history) or isinstance(history[stop], ModelResponse):
            given = history[:stop]
            conversation.host.ingest(given)
            request = replace(conversation.request(), reminder=None)
            view = request.view
            shown = shapes_of(map(sendable, view))
            assert shapes_of(outgoing.messages(request, given, given)) == shown
            copies: list[Any] = [replace(message) for message in given]
            assert shapes_of(as_shown(copies, conversation.messages, view)) == shapes_of(view)


def user_request(*texts: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text) for text in texts])


def text_response(text: str, **fields: Any) -> ModelResponse:
    return ModelResponse([TextPart(text)], **fields)


def records(messages: list[ModelMessage]) -> list[int]:
    """The places of the responses that record dropped thinking."""
    return [n for n, each in enumerate(messages) if isinstance(each, ModelResponse) and each.provider_details]


@pytest.mark.parametrize("known", [False, True])
def test_the_record_of_dropped_thinking_goes_with_the_last_response(known: bool) -> None:
    history = [user_request("Go."), text_response("x" * 900, provider_details=DROP)]
    for number in range(6):
        history += [user_request(f"And {number}?"), text_response("x" * 900)]
    history.append(user_request("Well?"))
    conversation = new_conversation(1_000, strategy="truncate")

    def send_history(outgoing: Outgoing, given: list[ModelMessage]) -> list[ModelMessage]:
        conversation.host.ingest(given)
        return outgoing.messages(conversation.request(), given, given)

    if known:
        conversation.host.ingest(history)
    outgoing = Outgoing(conversation)
    assert records(send_history(outgoing, history[:3])) == [1]
    messages = send_history(outgoing, history)
    assert len(messages) < len(history)
    assert records(messages) == [len(messages) - 2]
    # A history that never had it.
    assert records(send_history(outgoing, [user_request("Else."), text_response("y"), user_request("On.")])) == []


def test_what_was_added_to_what_is_not_answered_yet_is_sent() -> None:
    conversation: Conversation[ModelMessage] = new_conversation(10_000)
    outgoing = Outgoing(conversation)
    history: list[ModelMessage] = [user_request("One."), text_response("x"), user_request("Two.")]
    conversation.host.ingest(history)
    given = [*history[:2], user_request("Two.", "A note."), user_request("More.")]
    sent = outgoing.messages(replace(conversation.request(), reminder="Remember."), given, history)
    assert [text for _, text, _ in shapes_of(sent)] == ["One.", "x", "Two.", "A note.", "More.", ""]
    assert sent[-1].parts[-1].part_kind == "system-prompt"
    assert all(one is other for one, other in zip(sent[:2], history, strict=False))


def test_a_turn_behind_results_stays_where_the_history_and_the_messages_keep_different_orders() -> None:
    """Another capability made one of two turns in a row and added a turn behind a result: no order is kept by both."""
    conversation: Conversation[ModelMessage] = new_conversation(10_000)
    outgoing = Outgoing(conversation)
    work = [
        text_response("Early."),
        ModelResponse([ToolCallPart("read", {}, "c1")]),
        ModelRequest([ToolReturnPart("read", "x", "c1")]),
    ]
    history: list[ModelMessage] = [user_request("One."), user_request("Two."), *work]
    conversation.host.ingest(history)
    given = [user_request("One.", "Two."), *work, user_request("More.")]
    sent = outgoing.messages(conversation.request(), given, history)
    assert [text for _, text, _ in shapes_of(sent)][-2:] == ["x", "More."]

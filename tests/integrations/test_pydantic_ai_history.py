"""From a history to a window: in one go or as it grows, joined or not, reloaded, continued or replaced."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.usage import RequestUsage

from tests.conversation.support import Log
from tests.integrations.support import FORMAT, histories, live, responses, shapes_of, standing
from tests.strategies import policies, times
from wane import Policy
from wane.conversation import Conversation
from wane.conversation.events import (
    HistoryForked,
    HistoryReplaced,
    MessageTaken,
    PassRan,
    UsageObserved,
)
from wane.core import exact_budget
from wane.integrations.pydantic_ai import new_conversation
from wane.integrations.pydantic_ai_messages import PydanticAIAdapter


def user(text: str = "Go.", **fields: Any) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)], **fields)


def result(call_id: str, text: str = "ok") -> ToolReturnPart:
    return ToolReturnPart("tool", text, call_id)


def mark(call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart("delimiter", arguments, call_id)


def reply(*parts: Any, tokens: int = 0, **fields: Any) -> ModelResponse:
    return ModelResponse(
        list(parts), usage=RequestUsage(input_tokens=tokens), model_name="m", provider_name="p", **fields
    )


def exploration_messages(name: str, size: int = 400, start: int = 0) -> list[ModelMessage]:
    """An exploration of three messages and their results; `start` keeps call ids apart."""
    a, b, c = (f"c{start}{letter}" for letter in "abc")
    return [
        reply(mark(a, action="start", name=name, type="expl"), ToolCallPart("grep", {"p": name}, b)),
        ModelRequest([result(a), result(b, "x" * size)]),
        reply(mark(c, action="end", description=f"{name} is known")),
        ModelRequest([result(c)]),
    ]


LONG: list[ModelMessage] = [
    user(),
    *(message for number in range(6) for message in exploration_messages(f"e{number}", start=number)),
    reply(TextPart("Done.")),
]


# The same history, however it comes


@times(1.5)
@given(history=histories(), budget=st.integers(1, 400), policy=policies())
def test_a_history_taken_in_at_once_gives_the_view_of_the_run_that_made_it(
    history: list[ModelMessage], budget: int, policy: Policy
) -> None:
    lived, replayed = (
        new_conversation(exact_budget(budget), policy=policy),
        new_conversation(exact_budget(budget), policy=policy),
    )
    live(lived, history)
    replayed.host.ingest(history)
    replayed.request()
    assert standing(replayed) == standing(lived)
    assert replayed.window.item_count == sum(len(FORMAT.parts(message)) for message in history)


@given(history=histories(joined=False), budget=st.integers(1, 400), data=st.data())
def test_joined_cleaned_and_reloaded_histories_are_continuations(
    history: list[ModelMessage], budget: int, data: st.DataObject
) -> None:
    """Between two runs Pydantic AI joins requests, moves results up and may have read everything from JSON."""
    log = Log()
    conversation, plain = new_conversation(exact_budget(budget), on_event=log), new_conversation(exact_budget(budget))
    stops = [number for number, message in enumerate(history, start=1) if isinstance(message, ModelResponse)]
    first = history[: data.draw(st.sampled_from([0, *stops]))]
    live(conversation, first, asked=False)
    again = FORMAT.load(json.loads(json.dumps(FORMAT.dump(repair_messages(history, repair_last_response=False)))))
    live(conversation, again, known=responses(first))
    live(plain, history)
    assert standing(conversation) == standing(plain)
    assert not log.of(HistoryReplaced)


@times(0.7)
@given(history=histories(), budget=st.integers(1, 400))
def test_syncing_again_changes_nothing(history: list[ModelMessage], budget: int) -> None:
    log = Log()
    conversation = new_conversation(exact_budget(budget), on_event=log)
    live(conversation, history)
    before, told = standing(conversation), len(log)
    for again in (history, list(history), copy.deepcopy(history), FORMAT.load(FORMAT.dump(history))):
        conversation.host.ingest(again)
        conversation.request()
    assert standing(conversation) == before
    assert len(log) == told


# What is new


def grown(known: list[ModelMessage], history: list[ModelMessage]) -> tuple[Conversation[ModelMessage], Log]:
    log = Log()
    conversation = new_conversation(100_000, on_event=log)
    conversation.host.ingest(known)
    log.clear()
    conversation.host.ingest(history)
    return conversation, log


def taken_texts(log: Log) -> list[str]:
    return [part.text for event in log.of(MessageTaken) for part in FORMAT.parts(event.message)]


def test_a_request_that_was_never_answered_may_be_joined_with_the_next() -> None:
    conversation, log = grown([user("One.")], [ModelRequest([UserPromptPart("One."), UserPromptPart("Two.")]), reply()])
    assert taken_texts(log) == ["Two."]
    assert [shape[1] for shape in shapes_of(conversation.view)] == ["One.", "Two."]
    assert not log.of(HistoryReplaced)


def test_parts_that_a_request_gains_in_place_are_taken_in() -> None:
    request = user("One.")
    conversation = new_conversation(100_000)
    conversation.host.ingest([request])
    request.parts = [*request.parts, SystemPromptPart("Now also this.")]
    conversation.host.ingest([request])
    conversation.host.ingest([request])
    assert conversation.window.item_count == 2


def test_calls_that_were_interrupted_get_their_results() -> None:
    history = [user(), reply(ToolCallPart("grep", {}, "c1"), ToolCallPart("grep", {}, "c2"))]
    stopped = [*history, ModelRequest([result("c1")], state="interrupted")]
    conversation, log = grown(stopped, [*repair_messages(stopped), reply(TextPart("On."))])
    assert not log.of(HistoryReplaced)
    assert taken_texts(log)[1:] == ["On."]
    assert [shape[2] for shape in shapes_of(conversation.view) if shape[0] == "result"] == ["c1", "c2"]


def test_a_renewed_system_prompt_is_shown_and_is_no_other_history() -> None:
    def history(prompt: str) -> list[ModelMessage]:
        return [ModelRequest([SystemPromptPart(prompt, dynamic_ref="f"), UserPromptPart("Go.")]), reply(TextPart("x"))]

    conversation, log = grown(history("It is one."), [*history("It is two."), user()])
    assert not log.of(HistoryReplaced)
    part = conversation.view[0].parts[0]
    assert isinstance(part, SystemPromptPart)
    assert (part.content, part.dynamic_ref) == ("It is two.", "f")


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        (LONG[:-2], len(LONG) - 2),
        ([], 0),
        ([user("Something else."), *LONG[1:]], 0),
        ([*LONG[:1], *LONG[3:]], 0),
        ([*LONG[:9], *LONG[11:]], 8),
        ([*LONG[:-1], reply(TextPart("Undone."))], len(LONG) - 2),
        ([ModelRequest([SystemPromptPart("New."), *LONG[0].parts]), *LONG[1:]], 0),
    ],
    ids=["cut", "empty", "other start", "gap", "later gap", "other end", "new system prompt"],
)
@pytest.mark.parametrize("reloaded", [False, True])
def test_what_is_no_continuation_goes_on_from_the_last_response_that_is_the_same(
    history: list[ModelMessage], kept: int, reloaded: bool
) -> None:
    conversation, log = grown(LONG, FORMAT.load(FORMAT.dump(history)) if reloaded else history)
    assert log[0] == (HistoryForked(kept) if kept else HistoryReplaced())
    assert len(log.of(HistoryForked)) + len(log.of(HistoryReplaced)) == 1
    assert len(log.of(MessageTaken)) == len(conversation.messages) - kept
    fresh = new_conversation(100_000)
    fresh.host.ingest(history)
    assert standing(conversation) == standing(fresh)
    live(conversation, [*history, user("On."), *exploration_messages("more", start=99)], known=responses(history))
    assert len(log.of(HistoryForked)) + len(log.of(HistoryReplaced)) == 1


def test_a_fork_of_a_history_whose_requests_were_joined() -> None:
    first, second = user("One."), user("Two.")
    known = [first, second, reply(TextPart("x")), user("Three."), reply(TextPart("y")), user("Four.")]
    conversation, log = grown(known[:1], known)
    joined: list[ModelMessage] = [ModelRequest([*first.parts, *second.parts]), *known[2:5], user("Five.")]
    conversation.host.ingest(joined)
    assert log.of(HistoryForked) == [HistoryForked(5)]
    assert [shape[1] for shape in shapes_of(conversation.view)] == ["One.", "Two.", "x", "Three.", "y", "Five."]


def test_results_without_a_call_are_left_out_as_pydantic_ai_does() -> None:
    conversation = new_conversation(100_000)
    history = [user(), reply(TextPart("x")), ModelRequest([result("nobody"), UserPromptPart("Go.")])]
    conversation.host.ingest(history)
    conversation.host.ingest([*history, reply(TextPart("y"))])
    assert [shape[1] for shape in shapes_of(conversation.view)] == ["Go.", "x", "Go.", "y"]


def test_a_fork_behind_a_request_that_grew_after_a_result_without_a_call() -> None:
    conversation = new_conversation("80k")
    growing = ModelRequest([result("nobody")])
    first = [user(), reply(TextPart("1")), growing]
    conversation.host.ingest(first)
    growing.parts = [*growing.parts, UserPromptPart("And now?")]
    second = [*first, reply(TextPart("2"))]
    conversation.host.ingest([*second, user("this way"), reply(TextPart("3"))])
    conversation.host.ingest([*second, user("that way")])
    said = [part.text for message in conversation.messages for part in FORMAT.parts(message)]
    assert said == ["Go.", "1", "And now?", "2", "that way"]


def test_what_the_context_held_is_read_where_usage_sums_several_requests() -> None:
    log = Log()
    conversation = new_conversation(100_000, on_event=log)
    summed = reply(TextPart("y"), tokens=900, metadata={"__pydantic_ai__": {"context_input_tokens": 300}})
    live(conversation, [user(), summed, user(), reply(TextPart("z"), tokens=0)])
    assert [event.input_tokens for event in log.of(UsageObserved)] == [300]


@pytest.mark.parametrize(("pause", "passes"), [(299, 0), (301, 1)])
def test_the_times_of_messages_tell_whether_the_cache_has_expired(pause: float, passes: int) -> None:
    log, noon = Log(), datetime(2026, 1, 1, 12, tzinfo=UTC)
    conversation = new_conversation(1_000, policy=Policy(low_water=0.5, evict_when_cold=True), on_event=log)
    history = [replace(message, timestamp=noon) for message in LONG]
    live(conversation, [*history, user(timestamp=noon + timedelta(seconds=pause))])
    assert len(log.of(PassRan)) == passes


@pytest.mark.parametrize(
    ("model", "hour", "lifetime"),
    [("gpt-6-sol", 0, 1_800.0), ("claude-opus-5-5", 0, 300.0), ("claude-opus-5-5", 9, 3_600.0), (None, 0, None)],
)
def test_a_response_tells_how_long_its_cache_lives(model: str | None, hour: int, lifetime: float | None) -> None:
    usage = RequestUsage(input_tokens=20, cache_write_tokens=9, cache_write_1h_tokens=hour)
    response = ModelResponse([TextPart("ok")], usage=usage, model_name=model)
    assert PydanticAIAdapter().cache_lifetime(response) == lifetime
    assert PydanticAIAdapter().cache_lifetime(user()) is None

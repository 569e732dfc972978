"""The dry run: which formats it takes, and who marks episodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wane
from tests.cli import sample
from tests.formats.convert import to_anthropic, to_responses
from wane.budgets import AutoBudget, TunedBudget

Message = dict[str, Any]


def work(rounds: int = 5) -> list[Message]:
    """An agent that reads file after file, and marks nothing."""
    messages: list[Message] = [{"role": "user", "content": "Go."}]
    for number in range(rounds):
        body = {"name": "read", "arguments": json.dumps({"path": f"{number}.py"})}
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": body}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "x" * 2_000})
    return [*messages, {"role": "assistant", "content": "Done."}]


def mark_messages(**arguments: Any) -> list[Message]:
    """A `delimiter` call with its result."""
    body = {"name": "delimiter", "arguments": json.dumps(arguments)}
    call = {"role": "assistant", "tool_calls": [{"id": "d", "function": body}]}
    return [call, {"role": "tool", "tool_call_id": "d", "content": "?"}]


@pytest.mark.parametrize("convert", [list, to_anthropic, to_responses])
def test_the_format_is_recognised(convert: Any) -> None:
    expected = wane.plan(sample.messages(), budget=3_200, format="openai")
    told = wane.plan(convert(sample.messages()), budget=3_200)
    assert [(step.episode, step.level) for step in told.report.steps] == [
        (step.episode, step.level) for step in expected.report.steps
    ]
    assert told.visible == expected.visible


def test_messages_of_pydantic_ai_are_recognised_though_they_are_no_json_data() -> None:
    messages = pytest.importorskip("pydantic_ai.messages", reason='needs the "pydantic-ai" extra')
    history = [
        messages.ModelRequest([messages.UserPromptPart("Go.")]),
        messages.ModelResponse([messages.TextPart("Done.")]),
    ]
    assert wane.plan(history, budget=1_000).messages == history


@pytest.mark.parametrize("format_", ["auto", "openai"])
def test_a_list_of_no_format_is_refused(format_: str) -> None:
    with pytest.raises(wane.FormatError):
        wane.plan([{"type": "foo"}], budget=1_000, format=format_)


def test_lines_of_a_session_file_are_refused_and_where_they_can_be_read_is_said() -> None:
    line = {"type": "user", "message": {"role": "user", "content": "Go."}, "uuid": "u", "sessionId": "s"}
    with pytest.raises(wane.FormatError, match=r"an agent's session file, not messages: .*`wane plan FILE` reads"):
        wane.plan([line], budget=1_000)


def test_episodes_are_inferred_where_none_was_marked() -> None:
    plan = wane.plan(work(), budget=1_500)
    assert plan.inferred
    assert plan.satisfied
    assert plan.report.steps
    assert plan.to_dict()["annotation"] == "inferred"
    assert "reads, commands, other calls and notices" in plan.report.explain()


def test_the_agent_s_own_marks_are_taken_where_it_made_any() -> None:
    plan = wane.plan(sample.messages(), budget=3_200)
    assert not plan.inferred
    assert plan.to_dict() == wane.plan(sample.messages(), budget=3_200, annotate="model").to_dict()


def test_a_call_that_was_refused_marks_nothing() -> None:
    messages = work()
    refused = [*messages[:1], *mark_messages(action="end"), *messages[1:]]
    assert wane.plan(refused, budget=1_500).inferred
    accepted = [*messages[:1], *mark_messages(action="start", name="look", type="expl"), *messages[1:]]
    assert not wane.plan(accepted, budget=1_500).inferred


def test_the_budget_auto_goes_by_a_tuned_one() -> None:
    chat = [{"role": "user", "content": "Hello."}]
    assert wane.plan(chat, budget="auto").auto_budget == AutoBudget(80_000, "the default")
    tuned = wane.plan(chat, budget="auto", tuned=TunedBudget(60_000, 7))
    assert tuned.auto_budget == AutoBudget(60_000, "tuned on 7 of your sessions")
    assert tuned.report.budget_used == 60_000
    assert wane.plan(chat, budget="60k").auto_budget is None


def test_who_marks_episodes_can_be_said() -> None:
    assert not wane.plan(work(), budget=1_500, annotate="model").inferred
    assert wane.plan(work(), budget=1_500, annotate="infer").inferred
    # The agent is the authority from its first mark on.
    late = [
        *work()[:-1],
        *mark_messages(action="start", name="look", type="expl"),
        {"role": "assistant", "content": "Done."},
    ]
    names = [episode.name for episode in wane.plan(late, budget=1_500, annotate="infer").episodes]
    assert names[0] != "look"
    assert names[-1] == "look"
    assert {episode.name for episode in wane.plan(late, budget=1_500).episodes} <= {"look", None}
    with pytest.raises(wane.ConfigError, match="annotate is 'never'; it must be one of: auto, model, infer"):
        wane.plan(work(), budget=1_500, annotate="never")  # type: ignore[arg-type]


def test_what_is_wrong_in_a_history_is_said_of_its_message() -> None:
    orphan = [{"role": "user", "content": "Go."}, {"role": "tool", "tool_call_id": "c9", "content": "?"}]
    with pytest.raises(wane.HistoryError, match=r"^message 1: item 1 is a result for the call 'c9'"):
        wane.plan(orphan, budget=1_000)

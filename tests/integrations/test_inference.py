"""Agents that do not mark their work: their episodes are inferred."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.integrations.support import Log, histories, live, standing
from wane import ConfigError, ContextWindow, EpisodeType, Policy
from wane.core import Mark
from wane.integrations.events import EpisodeOpened, MessageTaken, PassRan, Reminded
from wane.integrations.pydantic_ai import ContextLifecycle, Tracker


def tracker(budget: int = 300, policy: Policy | None = None, log: Log | None = None) -> Tracker:
    return Tracker(budget, policy, annotate="infer", listener=log)


def marks_of(log: Log) -> dict[int, Sequence[Mark]]:
    return {entry.index: entry.marks for event in log.of(MessageTaken) for entry in event.added if entry.marks}


@given(histories(), st.integers(1, 2_000))
def test_a_history_taken_in_at_once_gives_the_episodes_of_the_run(history: list[ModelMessage], budget: int) -> None:
    one, two = tracker(budget), tracker(budget)
    live(one, history)
    two.sync(history)
    two.prepare()
    assert standing(one) == standing(two)
    assert one.inferring == two.inferring


@given(histories(), st.integers(1, 2_000), st.data())
def test_a_restored_tracker_goes_on_inferring(history: list[ModelMessage], budget: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history)), label="cut")
    log = Log()
    one = tracker(budget, log=log)
    live(one, history[:cut], asked=False)
    window = ContextWindow.restore(json.loads(json.dumps(one.window.export())))
    two = tracker(budget)
    two.restore(window, one.transcript.messages, marks=marks_of(log))
    assert one.inferring == two.inferring
    known = sum(isinstance(message, ModelResponse) for message in history[:cut])
    for each in (one, two):
        live(each, history, known=known)
    left, right = standing(one), standing(two)
    # Which episodes had gone before is not told to it here.
    left["episodes"] = left["episodes"][len(left["episodes"]) - len(right["episodes"]) :]
    assert {**left, "episodes": None} == {**right, "episodes": None}


def working(*steps: Sequence[tuple[str, dict[str, Any]]] | str) -> tuple[FunctionModel, list[AgentInfo]]:
    """A model that makes some calls by turns, without a word on episodes."""
    given: list[AgentInfo] = []
    script = iter(steps)

    def answer(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given.append(info)
        step = next(script)
        if isinstance(step, str):
            return ModelResponse([TextPart(step)])
        return ModelResponse([ToolCallPart(tool, arguments) for tool, arguments in step])

    return FunctionModel(answer), given


def coder(model: FunctionModel, capability: ContextLifecycle) -> Agent[None, str]:
    agent = Agent(model, capabilities=[capability])

    @agent.tool_plain
    def read(path: str) -> str:
        return f"content of {path} " * 60

    @agent.tool_plain
    def edit(path: str) -> str:
        return f"changed {path}"

    return agent


def test_an_agent_that_marks_nothing_stays_within_its_budget() -> None:
    steps: list[Any] = []
    for number in range(12):
        steps += [[("read", {"path": f"{number}.py"})], [("edit", {"path": f"{number}.py"})]]
    model, given = working(*steps, "Done.")
    log = Log()
    agent = coder(model, ContextLifecycle(2_000, annotate="infer", recall=True, remind_at=0.01, listener=log))
    assert agent.run_sync("Go.").output == "Done."
    opened = [event.episode for event in log.of(EpisodeOpened)]
    assert [episode.name for episode in opened[:2]] == ["explore-1:0.py", "act-2:0.py"]
    assert all(episode.inferred for episode in opened)
    assert opened[1].dependencies == ("explore-1:0.py",)
    assert log.of(PassRan)
    assert all(event.report.satisfied for event in log.of(PassRan))
    # It knows nothing of episodes: no tools, no instructions, no reminders.
    assert {tool.name for info in given for tool in info.function_tools} == {"read", "edit"}
    assert not any("delimiter" in (info.instructions or "") for info in given)
    assert not log.of(Reminded)


def test_an_agent_that_marked_its_work_before_is_left_to_it() -> None:
    call = ToolCallPart("delimiter", {"action": "start", "name": "mine", "type": "expl"}, "c1")
    one = tracker()
    one.sync([ModelRequest.user_text_prompt("Go."), ModelResponse([ToolCallPart("read", {"path": "a"}, "c0")])])
    assert one.inferring
    assert [episode.inferred for episode in one.episodes] == [True]
    one.sync([*one.transcript.messages, ModelResponse([call])])
    assert not one.inferring
    assert [(episode.name, episode.closed) for episode in one.episodes] == [("explore-1:a", True), ("mine", False)]
    assert one.episodes[1].type is EpisodeType.EXPL


def test_what_the_agent_is_told_of_its_own_marks_is_what_the_window_makes_of_them() -> None:
    start = {"action": "start", "name": "explore-1:a", "type": "expl"}
    one = tracker()
    read, again = ToolCallPart("read", {"path": "a"}, "c0"), ToolCallPart("delimiter", start, "c1")
    one.sync([ModelRequest.user_text_prompt("Go."), ModelResponse([read, again])])
    verdict = one.verdict("c1")
    assert verdict is not None
    assert not verdict.accepted
    assert "used before" in verdict.text
    assert one.inferring


def test_a_way_to_annotate_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="annotate is 'guess'; it must be one of: model, infer"):
        ContextLifecycle(annotate="guess")  # type: ignore[arg-type]

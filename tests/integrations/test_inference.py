"""Agents that do not mark their work: their episodes are inferred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.conversation.support import Log
from tests.integrations.support import histories, live, standing
from wane.conversation import Conversation
from wane.conversation.events import EpisodeOpened, PassRan, Reminded
from wane.conversation.request import RECALL_ALONE
from wane.core import exact_budget
from wane.integrations.pydantic_ai import ContextLifecycle, new_conversation


def inferring(budget: int = 300, log: Log | None = None) -> Conversation[ModelMessage]:
    return new_conversation(exact_budget(budget), annotate="infer", on_event=log)


@given(histories(), st.integers(1, 2_000))
def test_a_history_taken_in_at_once_gives_the_episodes_of_the_run(history: list[ModelMessage], budget: int) -> None:
    one, two = inferring(budget), inferring(budget)
    live(one, history)
    two.host.ingest(history)
    two.request()
    assert standing(one) == standing(two)


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
    agent = coder(model, ContextLifecycle(2_000, annotate="infer", recall=True, remind_at=0.01, on_event=log))
    assert agent.run_sync("Go.").output == "Done."
    opened = [event.episode for event in log.of(EpisodeOpened)]
    assert [episode.name for episode in opened[:2]] == ["explore-1:0.py", "act-2:0.py"]
    assert all(episode.inferred for episode in opened)
    assert opened[1].dependencies == ("explore-1:0.py",)
    assert log.of(PassRan)
    assert all(event.report.satisfied for event in log.of(PassRan))
    # It knows nothing of episodes: no `delimiter`, no guidance on it, no reminders. A search needs none.
    assert {tool.name for info in given for tool in info.function_tools} == {"read", "edit", "recall"}
    assert {info.instructions for info in given} == {RECALL_ALONE}
    assert not log.of(Reminded)


@pytest.mark.parametrize("settings", [{"annotate": "infer"}, {"strategy": "truncate"}])
def test_an_agent_that_marks_nothing_recalls_by_a_search(settings: dict[str, Any]) -> None:
    steps: list[Any] = [[("read", {"path": f"{number}.py"})] for number in range(12)]
    model, given = working(*steps, [("recall", {"search": '"0.py"'})], "Done.")
    agent = coder(model, ContextLifecycle(2_000, recall=True, guidance="Mark your work.", **settings))
    result = agent.run_sync("Go.")
    told = [p.content for m in result.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]
    assert "was found in 1 place" in told[-1]
    assert "not in view" in told[-1]
    assert {info.instructions for info in given} == {RECALL_ALONE}
    # It is offered only if it is asked for.
    model, given = working("Done.")
    coder(model, ContextLifecycle(2_000, **settings)).run_sync("Go.")
    assert [tool.name for info in given for tool in info.function_tools] == ["read", "edit"]

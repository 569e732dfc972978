"""Strategies over a Pydantic AI run: whatever others do to the messages on their way, the view is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the pydantic-ai extra is not installed")

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from wane.conversation.events import StrategyActed
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import ContextLifecycle, new_conversation
from wane.strategies.summarised import PREFIX

STRATEGIES = ("truncate", "compact", "clear-tools")
CALLS = 12


@dataclass
class Changing(AbstractCapability[Any]):
    """Sends other messages than the history's own."""

    change: Callable[[ModelMessage], ModelMessage]

    async def prepare_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        return replace(request_context, messages=list(map(self.change, request_context.messages)))


def add_note(message: ModelMessage) -> ModelMessage:
    """The message with a word more, if it is one of the user's."""
    if isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts):
        return replace(message, parts=[*message.parts, UserPromptPart("(noted)")])
    return message


async def write(model: Model[Any], messages: list[ModelMessage], instructions: str) -> str:
    assert "summary" in instructions.lower()
    return f"{len(messages)} messages"


def requests(name: str, *ahead: AbstractCapability[Any], prompts: int = 1, broken: bool = False) -> list[list[Any]]:
    """What a run sends, part by part."""
    sent: list[list[Any]] = []
    steps = 0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal steps
        steps += 1
        assert not info.instructions
        sent.append([(p.kind, p.text, p.call_id) for m in messages for p in PydanticAIFormat().parts(m)])
        done = steps % CALLS == 0
        # The count of the usage is not the subject.
        said = TextPart(f"done {steps}") if done else ToolCallPart("look", {"at": steps}, tool_call_id=f"c{steps}")
        return ModelResponse([said], usage=RequestUsage(input_tokens=1))

    told: list[object] = []
    conversation = new_conversation(1_500, strategy=name, on_event=told.append)
    lifecycle = ContextLifecycle(conversation=conversation, summarise=None if broken else write)
    agent = Agent(FunctionModel(answer), capabilities=[*ahead, lifecycle], system_prompt="Be brief.")

    @agent.tool_plain
    def look(at: int) -> str:
        return f"{at}: " + "seen " * 150

    async def run() -> list[ModelMessage]:
        history: list[ModelMessage] = []
        for number in range(prompts):
            history = (await agent.run(f"go {number}", message_history=history)).all_messages()
        return history

    history = asyncio.run(run())
    assert len(history) == 2 * CALLS * prompts
    assert [e.strategy for e in told if isinstance(e, StrategyActed)].count(name) >= 2
    return sent


def _plain(sent: list[tuple[Kind, str, str | None]]) -> list[tuple[Kind, str, str | None]]:
    """A request without notes, and with the user's turns as one where nothing stands between them (R12b)."""
    plain: list[tuple[Kind, str, str | None]] = []
    for kind, text, call in sent:
        kept = "\n\n".join(piece for piece in text.split("\n\n") if piece != "(noted)")
        if kind is Kind.USER and plain and plain[-1][0] is Kind.USER:
            _, before, _ = plain.pop()
            kept = "\n\n".join(filter(None, (before, kept)))
        plain.append((kind, kept, call))
    return [entry for entry in plain if entry[1] or entry[2]]


@pytest.mark.full
@pytest.mark.parametrize("name", STRATEGIES)
def test_what_others_do_on_the_way_changes_nothing_else(name: str) -> None:
    plain = requests(name, prompts=2)
    assert requests(name, Changing(replace), prompts=2) == plain
    assert all(kind.value != "system" or text == "Be brief." for kind, text, _ in plain[-1])
    assert plain[-1][0][1] == "Be brief."
    assert any(text.startswith(PREFIX) for _, text, _ in plain[-1]) == (name == "compact")
    added = requests(name, Changing(add_note), prompts=2)
    assert [_plain(sent) for sent in added] == [_plain(sent) for sent in plain]
    assert all(any("(noted)" in text for _, text, _ in sent) for sent in added)


def test_a_strategy_that_needs_summaries_says_so() -> None:
    with pytest.raises(ConfigError, match="'compact' needs summaries"):
        requests("compact", broken=True)


def test_each_run_has_a_strategy_of_its_own() -> None:
    sizes: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sizes.append(len(messages))
        return ModelResponse([TextPart("x" * 400)], usage=RequestUsage(input_tokens=1))

    agent = Agent(FunctionModel(answer), capabilities=[ContextLifecycle("0.6k", strategy="truncate")])
    history: list[ModelMessage] = []
    for number in range(12):
        history = agent.run_sync(f"go {number}", message_history=history).all_messages()
    assert max(sizes) < 14 < len(history)

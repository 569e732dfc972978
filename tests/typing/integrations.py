"""Uses the Pydantic AI capability as an application would. Never run: mypy --strict checks that the types hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model

import wane
from wane.conversation.events import BudgetUnmet, Event, MessageTaken, PassRan
from wane.integrations.pydantic_ai import ContextLifecycle, new_conversation
from wane.journal import Record


def listener(event: Event) -> None:
    if isinstance(event, PassRan | BudgetUnmet):
        assert_type(event.report, wane.FitReport)
    elif isinstance(event, MessageTaken):
        assert_type(event.added, tuple[wane.Added, ...])


async def write(model: Model, messages: list[ModelMessage], instructions: str) -> str:
    return f"{model.model_name}: {len(messages)} messages, {instructions}"


conversation = new_conversation("80k", policy=wane.Policy.paper(), tool_classes={"fetch": "bulk"}, on_event=listener)
assert_type(conversation, wane.Conversation[ModelMessage])
inferring = ContextLifecycle(annotate="infer")
compacting = ContextLifecycle("50k", strategy="compact", summarise=write)
agent = Agent(
    "test",
    deps_type=int,
    capabilities=[ContextLifecycle(conversation=conversation), ContextLifecycle(50_000, recall=True), inferring],
)
assert_type(agent.run_sync("Go.", deps=1).output, str)

conversation.host.ingest([])
assert_type(conversation.request().view, list[ModelMessage])
assert_type(conversation.view, list[ModelMessage])
assert_type(conversation.window, wane.ContextWindow)
assert_type(conversation.messages, list[ModelMessage])
assert_type(conversation.episodes, Sequence[wane.Episode])
assert_type(conversation.recall("look", 0), str)
assert_type(conversation.log.records(), list[Record])
conversation.log.follow(conversation.log.records())
conversation.change(strategy="truncate")

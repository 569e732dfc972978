"""A scripted agent at work: tools whose results are long, and scripts that mark episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse

from tests.conversation.support import Log
from tests.integrations.support import delimiter, shapes_of, shapes_on_wire
from tests.testing.support import model_of, run
from wane import Policy
from wane.conversation.events import OverheadChanged
from wane.core import exact_budget
from wane.integrations.pydantic_ai import ContextLifecycle, new_conversation
from wane.testing import Call, Reply, ScriptedServer

INSTRUCTIONS = "Work on the project."
THINKING = {"anthropic_thinking": {"type": "adaptive"}}


def worker(model: Any, *capabilities: Any, **options: Any) -> Agent[Any, Any]:
    """An agent with tools of every class. What it greps is long, and comes late."""
    settings = {"max_tokens": 4_000, **options.pop("model_settings", {})}
    given = {"instructions": INSTRUCTIONS, "retries": 0, **options}
    agent: Agent[Any, Any] = Agent(model, capabilities=capabilities, model_settings=settings, **given)

    @agent.tool_plain
    async def grep(pattern: str) -> str:
        await asyncio.sleep(0.002)
        return f"{pattern} " * 200

    @agent.tool_plain
    async def read(path: str) -> str:
        return f"{path}: line\n" * 60

    @agent.tool_plain
    def edit(path: str) -> str:
        return f"{path} was changed"

    return agent


def task(name: str, *, reasoning: bool = False, found: str = "it is in a.py") -> list[Reply]:
    """A task: an exploration, and an action that builds on it, with parallel calls in both."""
    thought = f"About {name}." if reasoning else None
    return [
        Reply(
            f"First {name}.",
            thought,
            (
                Call("grep", {"pattern": f"{name}-1"}),
                delimiter(action="start", name=f"find-{name}", type="expl"),
                Call("read", {"path": "a.py"}),
                Call("grep", {"pattern": f"{name}-2"}),
            ),
        ),
        Reply(None, thought, (Call("grep", {"pattern": f"{name}-3"}), Call("read", {"path": "b.py"}))),
        Reply(
            None,
            thought,
            (
                delimiter(action="end", description=found),
                delimiter(action="start", name=f"fix-{name}", type="act", dependencies=[f"find-{name}"]),
                Call("edit", {"path": "a.py"}),
            ),
        ),
        Reply("Now the end.", thought, (Call("read", {"path": "a.py"}), delimiter(action="end"))),
    ]


def session(*names: str, reasoning: bool = False) -> list[Reply]:
    return [reply for name in names for reply in task(name, reasoning=reasoning)] + [Reply("Done.")]


def expected_views(history: Sequence[ModelMessage], log: Log, budget: int, policy: Policy | None) -> list[Any]:
    """What each request should have shown, by a conversation that only sees the history up to it."""
    overhead = log.of(OverheadChanged)[0].tokens - len(history[0].instructions or "") // 4  # type: ignore[union-attr]
    views = []
    for number, message in enumerate(history):
        if isinstance(message, ModelResponse):
            conversation = new_conversation(exact_budget(budget), policy=policy)
            conversation.overhead = overhead
            conversation.host.ingest(history[:number])
            views.append(shapes_of(conversation.request().view))
    return views


def wire_views(server: ScriptedServer) -> list[Any]:
    return [shapes_on_wire(request) for request in server.requests]


async def work(
    server: ScriptedServer, protocol: str, stream: bool, capability: ContextLifecycle, **options: Any
) -> list[ModelMessage]:
    """Run the script's session, and return its history."""
    prompt, history = options.pop("prompt", "Go."), options.pop("message_history", None)
    result = await run(
        worker(model_of(server, protocol), capability, **options), prompt, stream, message_history=history
    )
    messages: list[ModelMessage] = result.all_messages()
    return messages

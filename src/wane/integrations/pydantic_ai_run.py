"""What a run of a Pydantic AI agent has of Wane: tools and events.

Calls of its tools never fail validation. Wrong arguments reach the tool as the model wrote them and get an ordinary
result that explains the mistake, so that they neither use up retries nor end the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic_ai import AbstractToolset, CapabilityEvent, RunContext, ToolDefinition, ToolsetTool
from pydantic_ai.messages import ModelMessage

from wane.conversation import Call, Conversation, Tool
from wane.conversation.events import BudgetUnmet, EpisodeClosed, EpisodeOpened, Event, PassRan, Reminded
from wane.formats.pydantic_ai import BEYOND_JSON, beyond_json
from wane.recall import RECALL

_RAW: Final = "raw"


class RawArguments:
    """An argument validator that accepts everything and passes it on unchanged."""

    def validate_json(
        self,
        input: str | bytes | bytearray,  # noqa: A002 - the interface's word
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002 - nothing to complete
        **kwargs: Any,  # noqa: ARG002 - context and strictness do not matter
    ) -> dict[str, Any]:
        """Return the text unchanged."""
        return {_RAW: input if isinstance(input, str) else bytes(input).decode(errors="replace")}

    def validate_python(
        self,
        input: Any,  # noqa: A002
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the object as JSON text."""
        return {_RAW: json.dumps(input, ensure_ascii=False, default=str)}


class LifecycleToolset(AbstractToolset[Any]):
    """The tools of one conversation.

    Args:
        conversation: answers their calls.
        tools: the tools.
    """

    def __init__(self, conversation: Conversation[ModelMessage], tools: Sequence[Tool]) -> None:
        self._conversation = conversation
        self._tools = tools

    @property
    def id(self) -> str:
        """Name of the toolset."""
        return "context_lifecycle"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002 - the interface's
        """Return the tools, none of which ever asks for a retry."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description
                ),
                max_retries=0,
                args_validator=RawArguments(),
            )
            for tool in self._tools
        }

    async def call_tool(
        self,
        name: str,
        tool_args: Mapping[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002 - there is one for each name
    ) -> str:
        """Return the verdict on a `delimiter` call, or the result of a `recall`."""
        # The response with the call is in the history, and is judged as a whole, in whatever order its tools run.
        self._conversation.ingest(ctx.messages)
        if name == RECALL and beyond_json(tool_args[_RAW]):
            return f"Error: {BEYOND_JSON}"
        return self._conversation.answer(Call(name, tool_args[_RAW], ctx.tool_call_id))


@dataclass(kw_only=True)
class PassRanEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A pass ran before a model request.

    Attributes:
        tokens_before: tokens of the view before it.
        tokens_after: tokens of the view after it.
        budget: tokens that the view may hold.
        evicted: number of items that left the view.
    """

    tokens_before: int
    tokens_after: int
    budget: int
    evicted: int


@dataclass(kw_only=True)
class BudgetUnmetEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A request goes out over the budget.

    Attributes:
        excess: tokens over the budget.
        explanation: what holds the tokens, for people.
    """

    excess: int
    explanation: str


@dataclass(kw_only=True)
class EpisodeOpenedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """An annotated episode began.

    Attributes:
        name: its name.
        type: `expl` or `act`.
        dependencies: names of the explorations that an act builds on.
    """

    name: str
    type: str
    dependencies: list[str]


@dataclass(kw_only=True)
class EpisodeClosedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """An annotated episode ended.

    Attributes:
        name: its name.
        type: `expl` or `act`.
        description: what an exploration learned; None for an act.
    """

    name: str
    type: str
    description: str | None


@dataclass(kw_only=True)
class RemindedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A request reminds the agent to mark its work."""


def stream_event(event: Event) -> CapabilityEvent | None:
    """Return an event for the event stream; None for events that its consumers do not need."""
    match event:
        case PassRan(report):
            evicted = sum(len(step.removed) for step in report.steps)
            return PassRanEvent(
                tokens_before=report.tokens_before,
                tokens_after=report.tokens_after,
                budget=report.budget,
                evicted=evicted,
            )
        case BudgetUnmet(report):
            return BudgetUnmetEvent(excess=report.excess, explanation=report.shortfall)
        case EpisodeOpened(episode) if episode.name is not None:
            return EpisodeOpenedEvent(
                name=episode.name, type=episode.type.value, dependencies=list(episode.dependencies)
            )
        case EpisodeClosed(episode) if episode.name is not None:
            return EpisodeClosedEvent(name=episode.name, type=episode.type.value, description=episode.description)
        case Reminded():
            return RemindedEvent()
    return None

"""Context Window Lifecycle for any Pydantic AI agent. Needs the `pydantic-ai` extra.

    from pydantic_ai import Agent
    from wane.integrations.pydantic_ai import ContextLifecycle

    agent = Agent("anthropic:claude-sonnet-5-5", capabilities=[ContextLifecycle(budget=80_000)])

The run's own history stays complete: `result.all_messages()` has everything. Only the messages of each request are
replaced by the view.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack

from wane.conversation import Call, Conversation, Tool
from wane.conversation.context import ContextArguments, ContextSettings
from wane.conversation.events import (
    BudgetUnmet,
    EpisodeClosed,
    EpisodeOpened,
    Event,
    Listener,
    PassRan,
    Reminded,
    ThrashingBegan,
)
from wane.core.errors import ConfigError, MissingExtraError
from wane.core.items import DELIMITER

try:
    from pydantic_ai import CallToolsNode, CapabilityEvent, FunctionToolset, ModelSettings, RunContext
    from pydantic_ai import Tool as AgentTool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.wrapper import WrapperModel
except ImportError as error:
    raise MissingExtraError("wane.integrations.pydantic_ai", "pydantic-ai") from error

from wane.caches import rules_for
from wane.core import RECALL
from wane.formats.pydantic_ai import (
    BEYOND_JSON,
    PydanticAIFormat,
    beyond_json,
    raw_arguments,
    with_encodable_text,
)
from wane.integrations.lifecycle import HostMarks, Warner
from wane.integrations.pydantic_ai_caching import CACHING, cache_point
from wane.integrations.pydantic_ai_messages import STAMP, FinishedRuns, Outgoing, PydanticAIAdapter, TurnAligner
from wane.strategies.registry import traits

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import AgentNode, WrapRunHandler
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition

__all__ = [
    "BudgetUnmetEvent",
    "ContextLifecycle",
    "EpisodeClosedEvent",
    "EpisodeOpenedEvent",
    "PassRanEvent",
    "RemindedEvent",
    "Summarise",
    "ThrashingEvent",
    "new_conversation",
]

_STORED: Final = (
    "OpenAI keeps the conversation (openai_conversation_id), so nothing is evicted. Leave out that setting, and pass "
    "the message history"
)
_COMPACTED: Final = (
    "the provider compacts the conversation beside it, and what it takes out cannot be recalled. Take "
    "AnthropicCompaction and OpenAICompaction out of the agent's capabilities, and {setting} out of its model settings"
)
_COMPACTING: Final = ("anthropic_context_management", "openai_context_management")
"""Settings with which a provider shortens conversations by itself."""
Summarise: TypeAlias = Callable[[Model, list[ModelMessage], str], Awaitable[str]]
"""Asks a model to summarise messages, by the given instructions."""


def new_conversation(
    budget: int | str | None = None,
    *,
    settings: ContextSettings | None = None,
    on_event: Listener | None = None,
    **others: Unpack[ContextArguments],
) -> Conversation[ModelMessage]:
    """Return a conversation for a `ContextLifecycle` that spans several runs; see `Conversation` for the arguments.

    Raises:
        ConfigError: for a setting that cannot work.
    """
    return Conversation(
        PydanticAIFormat(),
        budget=budget,
        adapter=PydanticAIAdapter(),
        aligner=TurnAligner,
        on_event=on_event,
        settings=settings,
        **others,
    )


class ContextLifecycle(AbstractCapability[Any], HostMarks):
    """A capability that keeps an agent's requests within a token budget, by evicting finished episodes.

    It gives the agent the `delimiter` tool (and optionally `recall`) with instructions, takes in the history, runs a
    pass before each model request and sends the view.

    Each run has its own conversation, which first takes in the run's `message_history`, so that a continued history
    keeps its view; a run that continues one of the last goes on with that one's. There are no events for earlier runs.
    `conversation=` sets one conversation for all runs, one at a time, which has its own settings and listeners: only
    `summarise` and `guidance` go with it.

    Args:
        budget: tokens that the view may hold: a number, or text such as `"80k"`.
        on_event: called with each event of `wane.conversation.events`, in order.
        summarise: writes the summaries for the strategy `compact`.
        conversation: one context for several runs (`new_conversation`).
        guidance: instructions about marking episodes; by default those for the policy in force.
        settings: the other settings, by name (`wane.conversation.ContextSettings`). Under a strategy without episodes
            the agent gets no `delimiter` tool and no guidance on it.

    Raises:
        ConfigError: for a setting that cannot work, or one beside `conversation`.
    """

    # An agent has one context window, so it has one of these.
    id = "context_lifecycle"

    # Not a dataclass: the base class has a hook `on_event`, which a field of that name would replace.
    def __init__(
        self,
        budget: int | str | None = None,
        *,
        on_event: Listener | None = None,
        summarise: Summarise | None = None,
        conversation: Conversation[ModelMessage] | None = None,
        guidance: str | None = None,
        **settings: Unpack[ContextArguments],
    ) -> None:
        if conversation is not None and not isinstance(conversation, Conversation):
            raise ConfigError(f"conversation is {conversation!r:.80}; it must be one that new_conversation returned")
        own = {"budget": budget, "on_event": on_event, **settings}
        if conversation is not None and (given := [name for name, value in own.items() if value is not None]):
            raise ConfigError(
                f"{', '.join(given)}: the conversation has its own; give them to new_conversation instead"
            )
        self._new = partial(new_conversation, settings=ContextSettings.of(budget=budget, **settings))
        self._listener = on_event
        self._summarise = summarise
        self._guidance = guidance
        self._own_for_each_run = conversation is None
        self._warner = Warner()
        # Settings that cannot work are reported here, not in the first run.
        self._conversation = self._new(on_event=on_event) if conversation is None else conversation
        self._owner = self if conversation is None else conversation.host.owner
        self.marks = self._conversation.settings.annotate == "host"
        self._outgoing = Outgoing(self._conversation)
        self._finished = FinishedRuns()
        self._in_run = False
        self._tools: Sequence[Tool] = ()  # the agent's, which stay the same during a run
        self._past = 0  # responses in the run's history from earlier runs, for which there are no events
        self._history: list[ModelMessage] | None = None  # the run's messages at the last hook
        self._events: list[Event] = []  # not published yet

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return an instance with the run's own conversation, so that runs may overlap."""
        run = copy(self)
        run._in_run, run._events = True, []
        if self._own_for_each_run:
            run._outgoing = self._finished.take(ctx.messages) or Outgoing(self._new())
            run._conversation = run._outgoing.conversation
            run._conversation.host.owner = self._owner
            run._past = sum(isinstance(message, ModelResponse) for message in ctx.messages)
        run._tools = self.tools_of(run._conversation)
        return run

    def tools_of(self, conversation: Conversation[ModelMessage]) -> Sequence[Tool]:
        """Return the tools that the agent gets during a run."""
        return conversation.own_tools

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the agent's tools."""
        return FunctionToolset(list(map(self._tool, self._tools)), id="context_lifecycle") if self._tools else None

    def get_instructions(self) -> str | None:
        """Return the instructions on its tools, such as the guidance on annotation (paper, section 4.2)."""
        if not self._tools:
            return None
        return (self._guidance if self._conversation.settings.delimits else None) or self._conversation.instructions

    def get_model_settings(self) -> Callable[[RunContext[Any]], ModelSettings] | None:
        """Return settings that keep the system prompt the same with and without a reminder."""
        return _steady_framing if self._in_run and self._conversation.settings.reminds else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:  # noqa: ARG002
        """Take in the end of the run's history, however the run ended.

        An answer that broke off waits for the next run: a caller who tries again leaves it out of the history.
        """
        self._conversation.listeners.append(self._hear)
        try:
            result = await handler()
        finally:
            if self._history is not None:
                broken = [message for message in self._history[-1:] if getattr(message, "state", "") == "interrupted"]
                self._sync(self._history[:-1] if broken else self._history)
            self._conversation.listeners.remove(self._hear)
        # What another process would not come to is not kept: a summary, and a scope that is open now.
        if self._own_for_each_run and not (self.marks or traits(self._conversation.settings.strategy).summarises):
            self._finished.keep(self._outgoing)
        return result

    async def before_node_run(self, ctx: RunContext[Any], *, node: AgentNode[Any]) -> AgentNode[Any]:
        """Take in a response as soon as it is in the history, before its tools run."""
        self._history = ctx.messages
        if isinstance(node, CallToolsNode):
            self._sync(ctx.messages)
            await self._publish(ctx)
        return node

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send the view; or the messages as they are, with a warning, if OpenAI keeps the conversation.

        It uses this hook because the request is final only here: after `before_model_request` Pydantic AI still adds
        records of changed tools, instructions and settings, derived from the whole history. Changes made here do not
        enter the history, and are made again for each attempt.

        Raises:
            ConfigError: if the strategy needs a summary and there is no `summarise`.
        """
        conversation, parameters = self._conversation, request_context.model_request_parameters
        # Past requests had the tools too, so this comes before the history.
        conversation.overhead = definitions_text([*parameters.function_tools, *parameters.output_tools])
        self._sync(ctx.messages)
        settings = request_context.model_settings or {}
        if settings.get("openai_conversation_id"):
            self._warner.warn(_STORED)
            return request_context
        for setting in filter(settings.get, _COMPACTING):
            self._warner.warn(_COMPACTED.format(setting=setting))
        request = conversation.request()
        while request.for_summary:
            if self._summarise is None:
                strategy = conversation.settings.strategy
                raise ConfigError(f"the strategy {strategy!r} needs summaries; give ContextLifecycle a `summarise`")
            *messages, asking = request.view
            instructions = conversation.format.parts(asking)[0].text
            summary = await self._summarise(request_context.model, messages, instructions)
            request = conversation.summarised(summary)
        models = list(_serving(request_context.model))
        chat = any(map(_speaks_chat, models))
        # Some providers have system prompts of one request, behind which their own breakpoint does not fall.
        clears = any(model.profile.get("supports_request_scoped_system_prompts") for model in models)
        noted = chat or not (clears or any(map(settings.get, ("cache", *CACHING))))
        # A fallback model may have others behind it, of which each takes what it knows.
        marks = any(rules_for(model.system, model.model_name).marks_head for model in models)
        request_context.messages = self._outgoing.messages(
            request,
            request_context.messages,
            ctx.messages,
            noted=noted,
            cached=cache_point(settings) if marks else None,
        )
        if (
            chat
            and (parts := parameters.instruction_parts)
            and len(parts) == 2
            and parts[1].content == self.get_instructions()
        ):
            # A system message of its own would be a second one, which strict templates refuse.
            joined = replace(parts[0], content=f"{parts[0].content}\n\n{parts[1].content}")
            request_context.model_request_parameters = replace(parameters, instruction_parts=[joined])
        await self._publish(ctx)
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the interface's
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Keep text out of the history that cannot be encoded, because tools and requests would fail on it.

        It also notes in the response the scopes in which it was asked for.
        """
        response = with_encodable_text(response)
        stamp = self._conversation.host.stamp
        return response if stamp is None else replace(response, metadata={**(response.metadata or {}), STAMP: stamp})

    async def before_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002 - the interface's
        args: str | dict[str, Any],
    ) -> str | dict[str, Any]:
        """Refuse arguments that JSON cannot write; the next request shows them as malformed.

        Own tools get their arguments as the model wrote them, and explain a mistake in an ordinary result: a failed
        validation would use up retries and could end the run.

        It also judges `delimiter` calls whose response is not in the history yet: `run_stream` runs the tools of the
        response with the output before that. It validates all calls of the response in order.
        """
        # A call from inside another tool, such as one that runs code, comes after the response is in the history.
        if call.tool_name == DELIMITER and ctx.messages and isinstance(ctx.messages[-1], ModelRequest):
            self._conversation.host.foresee([Call(DELIMITER, raw_arguments(call), call.tool_call_id)])
        if call.tool_name in {tool.name for tool in self._tools}:
            return {"raw": args}
        if beyond_json(args):
            raise ModelRetry(BEYOND_JSON)
        return args

    def _tool(self, tool: Tool) -> AgentTool[Any]:
        """A tool that the conversation answers, and that never asks for a retry."""

        async def answer(ctx: RunContext[Any], raw: str | dict[str, Any]) -> str:
            # The response with the call is in the history, and is judged as a whole, in whatever order its tools run.
            self._conversation.host.ingest(ctx.messages)
            if tool.name == RECALL and beyond_json(raw):
                return f"Error: {BEYOND_JSON}"
            return self._conversation.host.answer(Call(tool.name, raw, ctx.tool_call_id))

        return AgentTool.from_schema(answer, tool.name, tool.description, dict(tool.schema), takes_ctx=True)

    def _sync(self, history: list[ModelMessage]) -> None:
        """Take in what is new in the run's whole history."""
        self._history = history
        if self._past:
            ends = [number for number, message in enumerate(history, 1) if isinstance(message, ModelResponse)]
            self._conversation.host.ingest(history[: max(ends[: self._past], default=0)])
            self._past = 0
        self._conversation.host.ingest(history)

    def _hear(self, event: Event) -> None:
        """Pass an event to the listener, and keep it until it can be published."""
        if self._past:
            return
        if self._listener is not None:
            self._listener(event)
        self._events.append(event)

    async def _publish(self, ctx: RunContext[Any]) -> None:
        """Emit the kept events to the run's event stream."""
        events, self._events = self._events, []
        for event in events:
            if (emitted := _stream_event(event)) is not None:
                await ctx.emit(emitted)


def definitions_text(tools: Sequence[ToolDefinition]) -> str:
    """Return what tools add to every request, as text to count."""
    return "".join(
        f"{tool.name}{tool.description or ''}{json.dumps(tool.parameters_json_schema, separators=(',', ':'))}"
        for tool in tools
    )


def _steady_framing(ctx: RunContext[Any]) -> ModelSettings:
    # For models without system messages inside the conversation, a note is a tag in the user's turn. The explanation of
    # the tag would enter the system prompt with a reminder and leave it again with the next request, and invalidate the
    # cache both times.
    announcement = (ctx.model_settings or {}).get("framing_announcement")
    return ModelSettings() if announcement else ModelSettings(framing_announcement="always")


# Events of a run's event stream


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
class ThrashingEvent(CapabilityEvent, namespace="context_lifecycle"):
    """The window has begun to evict what the work needs.

    Attributes:
        explanation: what shows it, and which budget would help, for people.
    """

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


def _stream_event(event: Event) -> CapabilityEvent | None:
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
        case ThrashingBegan(thrashing):
            return ThrashingEvent(explanation=thrashing.warning)
        case EpisodeOpened(episode) if episode.name is not None:
            return EpisodeOpenedEvent(
                name=episode.name, type=episode.type.value, dependencies=list(episode.dependencies)
            )
        case EpisodeClosed(episode) if episode.name is not None:
            return EpisodeClosedEvent(name=episode.name, type=episode.type.value, description=episode.description)
        case Reminded():
            return RemindedEvent()
    return None


def _serving(model: Model) -> Iterator[Model]:
    """The models of which one serves a request, without those that wrap them."""
    if isinstance(model, FallbackModel):
        for inner in model.models:
            yield from _serving(inner)
    elif isinstance(model, WrapperModel):
        yield from _serving(model.wrapped)
    else:
        yield model


def _speaks_chat(model: Model) -> bool:
    """Whether a model speaks Chat Completions."""
    return any(base.__name__ == "OpenAIChatModel" for base in type(model).__mro__)

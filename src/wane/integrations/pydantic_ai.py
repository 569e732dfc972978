"""Context Window Lifecycle for any Pydantic AI agent. Needs the `pydantic-ai` extra.

    from pydantic_ai import Agent
    from wane.integrations.pydantic_ai import ContextLifecycle

    agent = Agent("anthropic:claude-sonnet-5-5", capabilities=[ContextLifecycle(budget=80_000)])

The run's own history stays whole: `result.all_messages()` has everything, and only the messages of each request
are replaced by the view.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from wane.conversation import Call, Conversation, Request
from wane.conversation.events import Event, Listener
from wane.conversation.reminder import REMIND_AT
from wane.conversation.timeline import CACHE_LIFETIME
from wane.core import DEFAULT_BUDGET, Counter, Policy, ToolClass
from wane.core.errors import ConfigError, MissingExtraError
from wane.core.items import DELIMITER

try:
    from pydantic_ai import CallToolsNode, ModelSettings, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model
except ImportError as error:
    raise MissingExtraError("wane.integrations.pydantic_ai", "pydantic-ai") from error

from wane.formats.pydantic_ai import PydanticAIFormat, raw_arguments
from wane.integrations.history import PydanticAIAdapter, TurnAligner
from wane.integrations.outgoing import Outgoing
from wane.integrations.sendable import BEYOND_JSON, beyond_json, with_encodable_text
from wane.integrations.stream_events import stream_event
from wane.integrations.tools import LifecycleToolset
from wane.strategies.base import Annotate

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import AgentNode, WrapRunHandler
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition

__all__ = ["ContextLifecycle", "Summarise", "new_conversation"]

Summarise: TypeAlias = Callable[[Model, list[ModelMessage], str], Awaitable[str]]
"""Has a model summarise messages, as it is told to."""


def new_conversation(budget: int | str = DEFAULT_BUDGET, **settings: Any) -> Conversation[ModelMessage]:
    """Return a conversation for a `ContextLifecycle` that goes on over several runs.

    Args:
        budget: tokens that the view may hold: a number, or text such as `"80k"`.
        settings: the others of `wane.Conversation`, such as `policy`, `recall`, `strategy`, `on_event`.

    Raises:
        ConfigError: for a setting that cannot work.
    """
    return Conversation(PydanticAIFormat(), budget=budget, adapter=PydanticAIAdapter(), aligner=TurnAligner, **settings)


@dataclass
class ContextLifecycle(AbstractCapability[Any]):
    """A capability that keeps an agent's requests within a token budget, by evicting finished episodes.

    It gives the agent the `delimiter` tool (and `recall` if asked for) with instructions for it, takes in the
    history, runs a pass ahead of each model request and sends the view.

    Each run has a conversation of its own, which takes in the run's `message_history` first, so a history that is
    continued has the view that it had; of what happened in earlier runs nothing is told again. With `conversation=`,
    that one is used for every run, one at a time: it then holds the settings, and those given here other than
    `summarise` and `guidance` play no part.

    Args:
        budget: tokens that the view may hold: a number, or text such as `"80k"`.
        policy: what a pass evicts, and how far; `Policy()` if None.
        recall: whether the agent gets the `recall` tool.
        counter: `chars`, `tiktoken`, or a function from text to tokens.
        tool_classes: classes of tools by name, on top of the defaults.
        remind_at: share of the budget that unannotated work may fill before the agent is reminded, a quarter of it
            ahead of the first start; None never reminds.
        manage: whether to manage the context at all; if not, there are no tools and no instructions, and
            nothing is evicted.
        annotate: who marks episodes: `model`, the agent itself, or `infer`, what its tool calls tell
            (`wane.inference`). It then gets no tool and no instructions: it knows no episodes.
        cache_lifetime: seconds after which the provider's cache has expired, for a policy with `evict_when_cold`.
        listener: called with each event of `wane.conversation.events`, in order.
        strategy: how the budget is kept (`wane.strategies.registry.STRATEGY_NAMES`). Under one that knows no episodes
            the agent gets no tool and no instructions.
        summarise: has a model write the summaries that the strategy `compact` asks for.
        conversation: keeps one context over several runs (`new_conversation`).
        guidance: what the agent is told of the marks that it makes; made from the policy in force if None.

    Raises:
        ConfigError: for a budget, counter, tool class, share or strategy that cannot work.
    """

    budget: int | str = DEFAULT_BUDGET
    policy: Policy | None = None

    _: KW_ONLY

    recall: bool = False
    counter: str | Counter = "chars"
    tool_classes: Mapping[str, ToolClass | str] | None = None
    remind_at: float | None = REMIND_AT
    manage: bool = True
    annotate: Annotate = "model"
    cache_lifetime: float = CACHE_LIFETIME
    listener: Listener | None = None
    strategy: str = "cwl"
    summarise: Summarise | None = None
    conversation: Conversation[ModelMessage] | None = None
    guidance: str | None = None
    # An agent has one context window, so it has one of these.
    id: str | None = "context_lifecycle"

    def __post_init__(self) -> None:
        self._run: _Run | None = None
        # What cannot work is to be told where it is written, not in the first run.
        self._outgoing = Outgoing(self._new() if self.conversation is None else self.conversation)

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return an instance with the run's own conversation, so that runs may go on at the same time."""
        run = copy(self)
        if self.conversation is not None:
            run._run = _Run(self.conversation, self._outgoing)
        else:
            conversation = self._new()
            past = sum(isinstance(message, ModelResponse) for message in ctx.messages)
            run._run = _Run(conversation, Outgoing(conversation), self.listener, past)
        return run

    def get_toolset(self) -> LifecycleToolset | None:
        """Return the `delimiter` tool, and `recall` if asked for."""
        run = self._run
        return LifecycleToolset(run.conversation, run.tools) if run and run.tools else None

    def get_instructions(self) -> str | None:
        """Return the guidance on annotation (paper, section 4.2)."""
        if self._run is None or not self._run.tools:
            return None
        return self.guidance or self._run.conversation.instructions

    def get_model_settings(self) -> Callable[[RunContext[Any]], ModelSettings] | None:
        """Return what keeps the system prompt the same with a reminder and without one."""
        return _steady_framing if self._run is not None and self._run.conversation.reminds else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:  # noqa: ARG002
        """Take in what the run's end has added to its history, however it ended."""
        run = self._running()
        run.conversation.listeners.append(run.hear)
        try:
            return await handler()
        finally:
            if run.history is not None:
                run.sync(run.history)
            run.conversation.listeners.remove(run.hear)

    async def before_node_run(self, ctx: RunContext[Any], *, node: AgentNode[Any]) -> AgentNode[Any]:
        """Take in a response as soon as it is in the history, before any of its tools runs."""
        run = self._running()
        run.history = ctx.messages
        if isinstance(node, CallToolsNode):
            run.sync(ctx.messages)
            await run.publish(ctx)
        return node

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send the view.

        This hook, and not `before_model_request`, as only here the request is final: Pydantic AI adds records of
        changed tools, instructions and settings after the other one, and derives them from all of the history. What
        is changed here stays out of the history, and is made anew for each attempt.

        Raises:
            ConfigError: if the strategy asks for a summary, and nobody is there to write one.
        """
        run, parameters = self._running(), request_context.model_request_parameters
        run.describe(definitions_text([*parameters.function_tools, *parameters.output_tools]))
        run.sync(ctx.messages)
        request = run.conversation.request()
        while request.for_summary:
            request = run.conversation.summarised(await self._summary(request_context.model, request))
        request_context.messages = run.outgoing.messages(
            request.view, request_context.messages, ctx.messages, request.reminder
        )
        await run.publish(ctx)
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the interface's
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Let no text into the history that cannot be encoded: neither a tool nor a request could do with it."""
        return with_encodable_text(response)

    async def before_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002 - the interface's
        args: str | dict[str, Any],
    ) -> str | dict[str, Any]:
        """Refuse arguments that JSON cannot write, which the next request shows to have been no JSON.

        A `delimiter` call whose response is not in the history yet is judged here: `run_stream` runs the tools of the
        response that holds the output before it is. It asks for all calls of the response, in their order.
        """
        run = self._running()
        # Our own tools refuse by a result, which uses up no retry.
        if call.tool_name not in {tool.name for tool in run.tools} and beyond_json(args):
            raise ModelRetry(BEYOND_JSON)
        # A call from inside another tool, such as one that runs code, comes when the response is there.
        if call.tool_name == DELIMITER and ctx.messages and isinstance(ctx.messages[-1], ModelRequest):
            run.conversation.foresee([Call(DELIMITER, raw_arguments(call), call.tool_call_id)])
        return args

    async def _summary(self, model: Model[Any], request: Request[ModelMessage]) -> str:
        run = self._running()
        if self.summarise is None:
            strategy = run.conversation.strategy
            raise ConfigError(f"the strategy {strategy!r} needs summaries; give ContextLifecycle what writes them")
        *messages, asking = request.view
        return await self.summarise(model, messages, run.conversation.format.parts(asking)[0].text)

    def _new(self) -> Conversation[ModelMessage]:
        return new_conversation(
            self.budget,
            policy=self.policy,
            recall=self.recall,
            counter=self.counter,
            tool_classes=self.tool_classes,
            remind_at=self.remind_at,
            manage=self.manage,
            annotate=self.annotate,
            cache_lifetime=self.cache_lifetime,
            strategy=self.strategy,
        )

    def _running(self) -> _Run:
        assert self._run is not None, "Pydantic AI calls for_run before any hook"
        return self._run


class _Run:
    """What one run knows.

    Args:
        conversation: keeps its context.
        outgoing: makes the messages of its requests.
        listener: told of every event.
        past: how many responses of its history are another run's: of these, and what was before them, nothing is told.

    Attributes:
        tools: the agent's tools of the conversation, which do not change on the way.
        history: its messages, as of the last hook.
    """

    def __init__(
        self,
        conversation: Conversation[ModelMessage],
        outgoing: Outgoing,
        listener: Listener | None = None,
        past: int = 0,
    ) -> None:
        self.conversation = conversation
        self.outgoing = outgoing
        # An agent that marks nothing knows nothing of episodes; one whose strategy has it search needs its tool.
        self.tools = conversation.own_tools if conversation.delimits or conversation.searches else ()
        self.history: list[ModelMessage] | None = None
        self._listener = listener
        self._past = past
        self._definitions: str | None = None
        self._events: list[Event] = []

    def describe(self, definitions: str) -> None:
        """Say what tool definitions every request carries. Before `sync`, as requests of the history did so too."""
        if definitions != self._definitions:
            self._definitions = self.conversation.overhead = definitions

    def sync(self, history: list[ModelMessage]) -> None:
        """Take in what is new of the run's whole history."""
        self.history = history
        if self._past:
            ends = [number for number, message in enumerate(history, 1) if isinstance(message, ModelResponse)]
            self.conversation.ingest(history[: max(ends[: self._past], default=0)])
            self._past = 0
        self.conversation.ingest(history)

    def hear(self, event: Event) -> None:
        """Tell the listener of an event, and keep it until it can be published."""
        if self._past:
            return
        if self._listener is not None:
            self._listener(event)
        self._events.append(event)

    async def publish(self, ctx: RunContext[Any]) -> None:
        """Put what has happened on the run's event stream."""
        events, self._events = self._events, []
        for event in events:
            if (told := stream_event(event)) is not None:
                await ctx.emit(told)


def _steady_framing(ctx: RunContext[Any]) -> ModelSettings:
    # Models without a system role inside the conversation read a note as a tag in the user's turn. What explains the
    # tag to them would come into the system prompt with a reminder and leave it with the next request, and each time
    # all that is cached would be gone.
    said = (ctx.model_settings or {}).get("framing_announcement")
    return ModelSettings() if said else ModelSettings(framing_announcement="always")


def definitions_text(tools: Sequence[ToolDefinition]) -> str:
    """Return what tools add to every request, as text that can be counted."""
    return "".join(
        f"{tool.name}{tool.description or ''}{json.dumps(tool.parameters_json_schema, separators=(',', ':'))}"
        for tool in tools
    )

"""Context Window Lifecycle for any Pydantic AI agent. Needs the `pydantic-ai` extra.

    from pydantic_ai import Agent
    from wane.integrations.pydantic_ai import ContextLifecycle

    agent = Agent("anthropic:claude-sonnet-5", capabilities=[ContextLifecycle(budget=80_000)])

The run's own history stays whole: `result.all_messages()` has everything, and only the messages of each request
are replaced by the view.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from wane.conversation.reminder import REMIND_AT
from wane.core import DEFAULT_BUDGET, Counter, Policy, ToolClass
from wane.core.errors import MissingExtraError
from wane.core.guidance import guidance
from wane.core.items import DELIMITER

try:
    from pydantic_ai import CallToolsNode, ModelSettings, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, ToolCallPart
except ImportError as error:
    raise MissingExtraError("wane.integrations.pydantic_ai", "pydantic-ai") from error

from wane.formats.pydantic_ai import raw_arguments
from wane.integrations.events import Event, Listener
from wane.integrations.sendable import BEYOND_JSON, beyond_json, sendable, with_encodable_text
from wane.integrations.stale_thinking import carry_drop_record
from wane.integrations.stream_events import stream_event
from wane.integrations.tools import LifecycleToolset
from wane.integrations.tracker import CACHE_LIFETIME, Tracker
from wane.recall import RECALL
from wane.strategies.base import Annotate

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import AgentNode, WrapRunHandler
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition

__all__ = ["ContextLifecycle", "Tracker"]


@dataclass
class ContextLifecycle(AbstractCapability[Any]):
    """A capability that keeps an agent's requests within a token budget, by evicting finished episodes.

    It gives the agent the `delimiter` tool (and `recall` if asked) with instructions for it, takes in the
    history, runs a pass ahead of each model request and sends the view.

    Each run has a tracker of its own, which takes in the run's `message_history` first, so a history that is
    continued has the view that it had; of what happened in earlier runs nothing is told again. With `tracker=`, that
    one is used for every run, one at a time: it then holds the settings, and those given here other than `recall`
    play no part.

    Args:
        budget: tokens that the view may hold.
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
        listener: called with each event of `wane.integrations.events`, at once.
        tracker: keeps the window over several runs.
        guidance: what the agent is told of the marks that it makes; made from the policy in force if None.

    Raises:
        ConfigError: for a budget, counter, tool class or share that cannot work.
    """

    budget: int = DEFAULT_BUDGET
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
    tracker: Tracker | None = None
    guidance: str | None = None
    # An agent has one context window, so it has one of these.
    id: str | None = "context_lifecycle"

    def __post_init__(self) -> None:
        self._current: _Run | None = None
        if self.tracker is None:
            # What cannot work is to be told where it is written, not in the first run.
            self._new_tracker()

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return an instance with the run's own tracker, so that runs may go on at the same time."""
        tracker = self.tracker
        if tracker is None:
            tracker = self._new_tracker()
            tracker.past = sum(isinstance(message, ModelResponse) for message in ctx.messages)
        run = copy(self)
        run._current = _Run(tracker, managed=tracker.manage, annotates=tracker.annotate == "model")
        return run

    def get_toolset(self) -> LifecycleToolset | None:
        """Return the `delimiter` tool, and `recall` if asked for."""
        run = self._current
        return LifecycleToolset(run.tracker, recall=self.recall) if run and run.annotates else None

    def get_instructions(self) -> str | None:
        """Return the guidance on annotation (paper, section 4.2)."""
        if self._current is None or not self._current.annotates:
            return None
        return self.guidance or guidance(self._current.tracker.window.policy, recall=self.recall)

    def get_model_settings(self) -> Callable[[RunContext[Any]], ModelSettings] | None:
        """Return what keeps the system prompt the same with a reminder and without one."""
        return _steady_framing if self._current is not None and self._current.tracker.reminds else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:  # noqa: ARG002
        """Take in what the run's end has added to its history, however it ended."""
        run = self._running()
        run.tracker.listeners.append(run.note)
        try:
            return await handler()
        finally:
            if run.history is not None:
                run.tracker.sync(run.history)
            run.tracker.listeners.remove(run.note)

    async def before_node_run(self, ctx: RunContext[Any], *, node: AgentNode[Any]) -> AgentNode[Any]:
        """Take in a response as soon as it is in the history, before any of its tools runs."""
        run = self._running()
        run.history = ctx.messages
        if isinstance(node, CallToolsNode):
            run.tracker.sync(ctx.messages)
            await run.publish(ctx)
        return node

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send the view.

        This hook, and not `before_model_request`, as only here the request is final: Pydantic AI adds records of
        changed tools, instructions and settings after the other one, and derives them from all of the history. What
        is changed here stays out of the history, and is made anew for each attempt.
        """
        run = self._running()
        tracker = run.tracker
        run.history = ctx.messages
        parameters = request_context.model_request_parameters
        tracker.set_tools(definitions_text([*parameters.function_tools, *parameters.output_tools]))
        tracker.sync(ctx.messages)
        tracker.prepare()
        messages = tracker.view_of(request_context.messages, ctx.messages)
        messages = carry_drop_record(messages, ctx.messages)
        if run.managed and (reminder := tracker.reminder):
            messages = with_note(messages, reminder)
        request_context.messages = sendable(messages)
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

        A `delimiter` call whose response is not in the history yet is judged here; see `Tracker.judge_ahead`.
        """
        # Our own tools refuse by a result, which uses up no retry.
        if not self._has_tool(call.tool_name) and beyond_json(args):
            raise ModelRetry(BEYOND_JSON)
        # A call from inside another tool, such as one that runs code, comes when the response is there.
        if call.tool_name == DELIMITER and ctx.messages and isinstance(ctx.messages[-1], ModelRequest):
            self._running().tracker.judge_ahead(call.tool_call_id, raw_arguments(call))
        return args

    def _has_tool(self, name: str) -> bool:
        return self._running().annotates and (name == DELIMITER or (self.recall and name == RECALL))

    def _new_tracker(self) -> Tracker:
        return Tracker(
            self.budget,
            self.policy,
            counter=self.counter,
            tool_classes=self.tool_classes,
            remind_at=self.remind_at,
            manage=self.manage,
            annotate=self.annotate,
            cache_lifetime=self.cache_lifetime,
            listener=self.listener,
        )

    def _running(self) -> _Run:
        assert self._current is not None, "Pydantic AI calls for_run before any hook"
        return self._current


class _Run:
    """What one run knows.

    Args:
        tracker: keeps its window.
        managed: whether its context is managed; it does not change on the way.
        annotates: whether the agent is to mark its work, if it is managed; likewise.
    """

    def __init__(self, tracker: Tracker, *, managed: bool, annotates: bool) -> None:
        self.tracker = tracker
        self.managed = managed
        self.annotates = managed and annotates
        self.history: list[ModelMessage] | None = None
        self._events: list[Event] = []

    def note(self, event: Event) -> None:
        """Keep an event until it can be published."""
        self._events.append(event)

    async def publish(self, ctx: RunContext[Any]) -> None:
        """Put what has happened on the run's event stream."""
        events, self._events = self._events, []
        for event in events:
            if (told := stream_event(event)) is not None:
                await ctx.emit(told)


def with_note(messages: list[ModelMessage], text: str) -> list[ModelMessage]:
    """Return messages with a note after everything else, so that what a provider has cached stays as it is.

    It is said to be for this request alone: a cache breakpoint on it would be one that no later request can read,
    so Pydantic AI puts it on what stands ahead. Messages that end in a response, which a provider is about to go on
    with, get none.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return messages
    return [*messages[:-1], replace(last, parts=[*last.parts, SystemPromptPart(text, scope="request")])]


def _steady_framing(ctx: RunContext[Any]) -> ModelSettings:
    # Models without a system role inside the conversation read a note as a tag in the user's turn. What explains the
    # tag to them would come into the system prompt with a reminder and leave it with the next request, and each time
    # all that is cached would be gone.
    said = (ctx.model_settings or {}).get("framing_announcement")
    return ModelSettings() if said else ModelSettings(framing_announcement="always")


def definitions_text(tools: list[ToolDefinition]) -> str:
    """Return what tools add to every request, as text that can be counted."""
    return "".join(
        f"{tool.name}{tool.description or ''}{json.dumps(tool.parameters_json_schema, separators=(',', ':'))}"
        for tool in tools
    )

"""Context Window Lifecycle for the OpenAI Agents SDK. Needs the `openai-agents` extra.

    lifecycle = ContextLifecycle(budget="80k")
    result = await Runner.run(lifecycle.equip(agent), "Go.", session=session)

The session keeps every item; each model call gets a view of them. Sessions cannot store Wane's state, so it is kept in
memory or in a file (`states`), by the content of the conversation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack
from weakref import WeakSet

from wane.conversation import Adapter, Call, Conversation, Conversations, Request, States, Tool, calls_of
from wane.core import DEFAULT_BUDGET
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.openai_responses import Message, OpenAIResponsesFormat
from wane.integrations.lifecycle import UNMANAGED_CALL, HostMarks, LifecycleSettings, Warner, maker
from wane.integrations.states import StateFile
from wane.strategies.host import HostScope

try:
    from agents import Agent, FunctionTool, Model, ModelProvider, ModelResponse, MultiProvider, RunContextWrapper
    from agents import Tool as AgentTool
    from agents.items import TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseCompletedEvent, ResponseOutputItemDoneEvent
except ImportError as error:
    raise MissingExtraError("wane.integrations.openai_agents", "openai-agents") from error

__all__ = ["ContextLifecycle"]

_SERVED: Final = (
    "OpenAI keeps this conversation on its side, so nothing can be evicted. Leave out conversation_id, "
    "previous_response_id and auto_previous_response_id, and use a session"
)
_COMPACTED: Final = (
    "the history is compacted beside Wane, which cannot recall what that takes away. Leave out "
    "OpenAIResponsesCompactionSession, ModelSettings(context_management=…) and ModelSettings(truncation='auto')"
)
_FILTERED: Final = (
    "a call_model_input_filter changes what Wane is given; if it trims tool outputs, leave it out, as Wane evicts them"
)
_UNMANAGED: Final = (
    "an equipped agent was run with a model that is not Wane's, so nothing is evicted. Give "
    "RunConfig(model=lifecycle.model(…))"
)
# The positional arguments of a model.
_PLACES: Final = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")

Arguments: TypeAlias = dict[str, Any]
"""The runner's arguments of a model for one call, by name."""


class _Adapter(Adapter[Message]):
    adds_fields = True


class ContextLifecycle(HostMarks):
    """Keeps agents' requests within a token budget, evicting by episode. Their sessions stay whole.

    An agent gets the tool `delimiter`, and guidance with its instructions. One object serves any number of agents and
    conversations; a sub-agent has a window of its own.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        states: where to store states, by the content of conversations: a file, which is created if it is missing, or a
            store of your own. Another process then continues with the same view. None for memory only: another
            process then estimates the tokens of past requests.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(
        self,
        budget: int | str = DEFAULT_BUDGET,
        *,
        states: str | Path | States | None = None,
        **settings: Unpack[LifecycleSettings],
    ) -> None:
        make = maker(OpenAIResponsesFormat(), _Adapter(), budget, self, **settings)
        sample = make()
        self.marks = sample.settings.annotate == "host"
        self.instructions = sample.instructions
        self.tools: list[AgentTool] = [self._tool(tool) for tool in sample.own_tools]
        self._own = frozenset(tool.name for tool in self.tools)
        store = StateFile(states) if isinstance(states, (str, Path)) else states
        self._warner = Warner(_COMPACTED)
        self._contexts: WeakSet[RunContextWrapper[Any]] = WeakSet()
        self._persons: set[str] = set()

        def begin() -> Conversation[Message]:
            conversation = make()
            conversation.host.persons = self._persons
            return conversation

        self._conversations = Conversations(begin, states=store, on_unreadable=self._warner.unreadable)
        self._lock = threading.RLock()  # event loops of several threads may share an agent

    def equip(
        self, agent: Agent[Any], *, provider: ModelProvider | None = None, episode: str | None = None
    ) -> Agent[Any]:
        """Return the agent with a managed context. Equip the agents that it hands over to separately.

        Args:
            agent: an agent; it stays as it is.
            provider: finds its model by name; None for the SDK's own.
            episode: with `annotate="host"`, what its work is from a handoff to it to the next one: an episode that
                explores (`expl`) or acts (`act`), or a `task`. It has the agent's name.

        Raises:
            ConfigError: for another `episode`, and for one without `annotate="host"`.
        """
        if isinstance(agent.model, _ManagedModel):
            return agent
        scope = None if episode is None else self._scope(agent.name, episode).scope
        model = self.model(agent.model, provider)
        if scope is not None and isinstance(model, _ManagedModel):
            model = _ManagedModel(model._model, self, scope)
        equipped = agent.clone(model=model, tools=[*agent.tools, *self.tools])
        # The settings that belong to a model's name would be lost with the name.
        equipped.model_settings = agent.model_settings
        return equipped

    def model(self, model: str | Model | None, provider: ModelProvider | None = None) -> Model:
        """Return a model with a managed context, such as for `RunConfig(model=…)`, which overrides an agent's.

        Args:
            model: a model, its name, or None for the SDK's default.
            provider: finds a model by its name; None for the SDK's own.
        """
        resolved = model if isinstance(model, Model) else (provider or MultiProvider()).get_model(model)
        return resolved if isinstance(resolved, _ManagedModel) else _ManagedModel(resolved, self)

    # Around each model call

    def _prepare_arguments(
        self, arguments: Arguments, scope: HostScope | None = None
    ) -> tuple[Arguments, Conversation[Message] | None, Request[Message] | None]:
        """The arguments to send instead of the runner's; no request if the provider keeps the conversation."""
        if arguments.get("previous_response_id") is not None or arguments.get("conversation_id") is not None:
            self._warner.warn(_SERVED)
            return self._without_tools(arguments), None, None
        items, settings = arguments["input"], arguments["model_settings"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        compacted = any(isinstance(item, dict) and item.get("type") == "compaction" for item in items)
        if compacted or settings.context_management or settings.truncation == "auto":
            self._warner.warn(_COMPACTED)
        system = "\n\n".join(filter(None, (arguments["system_instructions"], self.instructions))) or None
        with self._lock:
            self._note_rejections(items)
            try:
                conversation = self._conversations.of(items)
            except (FormatError, HistoryError) as error:
                self._warner.warn_unmanaged(error)
                return self._without_tools(arguments), None, None
            conversation.overhead = f"{system or ''}{_definitions(arguments)}"
            conversation.host.worker = scope
            request = conversation.request()
        return {**arguments, "system_instructions": system, "input": request.messages}, conversation, request

    def _note_rejections(self, items: Sequence[Any]) -> None:
        """Note the outputs that are a person's reason for rejecting a call (R21), as the contexts of runs know them."""
        given = [item for item in items if isinstance(item, Mapping)]
        names = {item["call_id"]: str(item.get("name")) for item in given if item.get("type") == "function_call"}
        for item in given:
            call_id, output = str(item.get("call_id")), item.get("output")
            if item.get("type") != "function_call_output" or call_id in self._persons or call_id not in names:
                continue
            reasons = [context.get_rejection_message(names[call_id], call_id) for context in self._contexts]
            if output and output in reasons:
                self._persons.add(call_id)

    def _note_context(self, context: RunContextWrapper[Any], _agent: object) -> bool:
        """Remember the context of a run, which no model gets; the SDK asks it whether a tool is enabled."""
        with self._lock:  # another thread may be passing through them
            self._contexts.add(context)
        return True

    def _without_tools(self, arguments: Arguments) -> Arguments:
        return {**arguments, "tools": [tool for tool in arguments["tools"] if tool.name not in self._own]}

    def _take_answer(
        self, conversation: Conversation[Message], request: Request[Message] | None, output: Sequence[Any], tokens: int
    ) -> None:
        items = [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in output]
        with self._lock:
            conversation.observe(tokens, request=request)
            self._conversations.judge_answer(
                conversation, calls_of(conversation.format, conversation.host.read(items)), output
            )
            self._conversations.save(conversation)

    def _tool(self, tool: Tool) -> FunctionTool:
        async def answer(context: ToolContext[Any], arguments: str) -> str:
            if getattr(context.run_config, "call_model_input_filter", None) is not None:
                self._warner.warn(_FILTERED)
            call: Call[Message] = Call(tool.name, arguments, context.tool_call_id)
            with self._lock:
                conversation = self._conversations.answering(call, context.tool_call)
                if conversation is None:
                    self._warner.warn(_UNMANAGED)
                    return UNMANAGED_CALL
                return conversation.host.answer(call)

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.schema),
            on_invoke_tool=answer,
            strict_json_schema=False,
            is_enabled=self._note_context,
        )


class _ManagedModel(Model):
    """A model whose requests are views; everything else is the wrapped model's. A scope is that of its agent."""

    def __init__(self, model: Model, lifecycle: ContextLifecycle, scope: HostScope | None = None) -> None:
        self._model = model
        self._lifecycle = lifecycle
        self._scope = scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def close(self) -> None:
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        arguments, conversation, request = self._lifecycle._prepare_arguments(_bind_arguments(args, named), self._scope)
        response = await self._model.get_response(*_pop_positional(arguments), **arguments)
        if conversation is not None:
            self._lifecycle._take_answer(conversation, request, response.output, response.usage.input_tokens)
        return response

    async def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[TResponseStreamEvent]:
        arguments, conversation, request = self._lifecycle._prepare_arguments(_bind_arguments(args, named), self._scope)
        stream, done = self._model.stream_response(*_pop_positional(arguments), **arguments), list[Any]()
        try:
            async for event in stream:
                if isinstance(event, ResponseOutputItemDoneEvent):
                    done.append(event.item)
                if isinstance(event, ResponseCompletedEvent) and conversation is not None:
                    usage = event.response.usage
                    # Some servers omit from the final response what they have streamed already.
                    output = event.response.output or done
                    self._lifecycle._take_answer(conversation, request, output, usage.input_tokens if usage else 0)
                yield event
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()


def _bind_arguments(args: tuple[Any, ...], named: Mapping[str, Any]) -> Arguments:
    return {**dict(zip(_PLACES, args, strict=False)), **named}


def _pop_positional(arguments: Arguments) -> list[Any]:
    """Take a model's positional arguments out of the given ones."""
    return [arguments.pop(name) for name in _PLACES]


def _definitions(arguments: Arguments) -> str:
    """The definitions of a request's tools and output, as text to count."""
    definitions = [
        {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
        if isinstance(tool, FunctionTool)
        else vars(tool)
        for tool in arguments["tools"]
    ]
    definitions += [
        {"name": to.tool_name, "description": to.tool_description, "parameters": to.input_json_schema}
        for to in arguments["handoffs"]
    ]
    output = arguments["output_schema"]
    schema = None if output is None or output.is_plain_text() else output.json_schema()
    return json.dumps([definitions, schema], default=str)

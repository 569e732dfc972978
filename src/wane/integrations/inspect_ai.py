"""Context Window Lifecycle for Inspect AI. Needs the `inspect-ai` extra.

    lifecycle = ContextLifecycle(budget="80k")
    react(model=lifecycle.model(), tools=[bash(), lifecycle])

The sample's messages and the log stay complete; each model call gets a view of them. The state of the view is stored in
the sample's store, which a checkpoint saves, so that a retried sample continues with the same view.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import takewhile
from typing import Any, Final, Unpack

from wane.conversation import Adapter, Call, Conversation, Conversations, Tool, calls_of
from wane.core import DEFAULT_BUDGET
from wane.core.errors import ConfigError, FormatError, HistoryError, MissingExtraError
from wane.integrations.lifecycle import LifecycleSettings, Warner, maker

try:
    from inspect_ai.agent import Agent, AgentState
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        Model,
        ModelOutput,
        get_model,
    )
    from inspect_ai.tool import Tool as AgentTool
    from inspect_ai.tool import ToolDef, ToolInfo, ToolParams, ToolSource
    from inspect_ai.util import store
except ImportError as error:
    raise MissingExtraError("wane.integrations.inspect_ai", "inspect-ai") from error

from wane.formats.frameworks.inspect_ai import InspectFormat

__all__ = ["ContextLifecycle"]

_STORED: Final = "wane"  # in the sample's store
_GUIDANCE: Final = "wane-guidance"  # the message's id
_REPLACED: Final = (
    "messages were taken out of the sample, so what had been evicted cannot be recalled. Leave out react(truncation=…)"
)
_LACKING: Final = (
    "the agent lacks Wane's tools: give it the lifecycle among its tools, as in "
    "react(model=lifecycle.model(), tools=[…, lifecycle])"
)
_NOWHERE: Final = "Error: this tool works only for an agent whose model is `lifecycle.model(…)`. Do not call it again."

_asking: ContextVar[Conversation[ChatMessage] | None] = ContextVar("wane_inspect_ai", default=None)
"""The conversation of the running agent: its tools run in tasks that it starts."""


class _Adapter(Adapter[ChatMessage]):
    def key(self, message: ChatMessage) -> str | None:
        identity: str | None = message.id
        return identity


class ContextLifecycle(ToolSource):
    """Keeps agents' requests within a token budget, evicting by episode. Their messages stay whole.

    It is a source of tools: an agent gets `delimiter`, and guidance behind its system message. One object serves any
    number of agents and samples; a sub-agent has a window of its own.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        make = maker(InspectFormat(), _Adapter(), budget, **settings)
        sample = make()
        self.instructions = sample.instructions
        self._tools = [_tool(tool) for tool in sample.own_tools]
        self._own = frozenset(tool.name for tool in sample.own_tools)
        self._guidance = [ChatMessageSystem(id=_GUIDANCE, content=self.instructions)] if self.instructions else []
        # A sample goes on from its last turn alone, and its store is part of the log.
        self._conversations = Conversations(make, states=_SampleStates(), kept=1)
        self._warner = Warner(_REPLACED)

    async def tools(self) -> list[AgentTool]:
        """Return the tools that an agent gets."""
        return list(self._tools)

    def model(self, model: str | Model | None = None) -> Agent:
        """Return an agent to use as the model in `react(model=…)`, or in a loop of your own.

        Args:
            model: a model or its name; None for the evaluated one.
        """

        async def lifecycle(state: AgentState, tools: list[AgentTool]) -> AgentState:
            """Answer with a view of the messages."""
            answering = get_model(model)
            definitions = [ToolDef(tool) for tool in tools]
            if not self._own <= {tool.name for tool in definitions}:
                raise ConfigError(_LACKING)
            try:
                conversation = self._conversation(state.messages)
            except (FormatError, HistoryError) as error:
                self._warner.unmanaged(error)
                others = [tool for tool in definitions if tool.name not in self._own]
                return _answered(state, await answering.generate(state.messages, others))
            conversation.keep_opening = "claude" in answering.name
            conversation.overhead = json.dumps([self.instructions, *map(_definition, definitions)])
            request = conversation.request()
            output = await answering.generate(self._with_guidance(request.messages), tools)
            conversation.observe(_input_tokens(output), request=request)
            answer = [choice.message for choice in output.choices[:1]]
            self._conversations.answered(conversation, calls_of(conversation.format, answer), answer)
            self._conversations.save(conversation)
            _asking.set(conversation)
            return _answered(state, output)

        return lifecycle

    def _conversation(self, messages: Sequence[ChatMessage]) -> Conversation[ChatMessage]:
        """The conversation that these messages continue, after it took them in."""
        last = _asking.get()
        conversation = self._conversations.of(messages)
        earlier = [] if last is None or last is conversation or last.host.shares(messages) else last.messages
        if earlier and earlier[0].id == messages[0].id and _has_answer(earlier) and _has_answer(messages):
            self._warner.warn(_REPLACED)
        return conversation

    def _with_guidance(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        first = sum(1 for _ in takewhile(lambda message: isinstance(message, ChatMessageSystem), messages))
        return [*messages[:first], *self._guidance, *messages[first:]]


class _SampleStates:
    """States of conversations in the sample's store."""

    def find(self, digests: Sequence[str]) -> Mapping[str, Any] | None:
        states = self._all()
        return next((states[digest] for digest in digests if digest in states), None)

    def put(self, state: Mapping[str, Any]) -> None:
        store().set(_STORED, {**self._all(), state["digest"]: dict(state)})

    def drop(self, digest: str) -> None:
        store().set(_STORED, {key: state for key, state in self._all().items() if key != digest})

    def _all(self) -> Mapping[str, Any]:
        states: Mapping[str, Any] = store().get(_STORED) or {}
        return states


def _tool(tool: Tool) -> AgentTool:
    """A tool that the running agent's conversation answers.

    A tool does not get its call's id, so calls are identified by arguments and order, and never run in parallel.
    """

    async def execute(**kwargs: Any) -> str:
        conversation = _asking.get()
        return _NOWHERE if conversation is None else conversation.host.answer(Call(tool.name, kwargs))

    return ToolDef(
        execute,
        name=tool.name,
        description=tool.description,
        parameters=ToolParams.model_validate(_lenient(tool.schema)),
        parallel=False,
        max_output=0,
    ).as_tool()


def _lenient(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema that accepts whatever Wane accepts, because Inspect refuses other calls before the tool runs."""
    properties = {
        name: value if name in schema.get("required", ()) else _optional(value)
        for name, value in schema["properties"].items()
    }
    return {**schema, "properties": properties, "additionalProperties": True}


def _optional(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key != "description"}
    return {"anyOf": [plain, {"type": "null"}], "description": schema["description"]}


def _definition(tool: ToolDef) -> Any:
    """A tool's definition, as data to count."""
    info = ToolInfo(name=tool.name, description=tool.description, parameters=tool.parameters)
    return info.model_dump(mode="json", exclude_none=True)


def _has_answer(messages: Sequence[ChatMessage]) -> bool:
    return any(isinstance(message, ChatMessageAssistant) for message in messages)


def _answered(state: AgentState, output: ModelOutput) -> AgentState:
    state.output = output
    state.messages.append(output.message)
    return state


def _input_tokens(output: ModelOutput) -> int:
    """All input tokens of a request; `input_tokens` excludes cached ones."""
    usage = output.usage
    if output.input_context_tokens is not None or usage is None:
        return int(output.input_context_tokens or 0)
    return int(usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0))

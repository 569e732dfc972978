"""Context Window Lifecycle for the OpenHands SDK. Needs the `openhands` extra, and Python 3.12 or newer.

    agent = ContextLifecycle(budget="80k").equip(Agent(llm=llm, tools=tools))

The conversation's events stay complete: nothing is condensed, and each model call gets a view of them. The state of the
view is stored in the conversation's own state (`agent_state`), so that any process can continue it.

An answer with several calls is several events, which `llm_response_id` holds together; here it is one message, the
tuple of these events. Every other event is a message by itself.

| event | item of Wane |
|---|---|
| `SystemPromptEvent` | system |
| `MessageEvent` of the user, the summary of an earlier condenser | user, or a notice |
| `MessageEvent` of the environment, such as a hook's | notice |
| `MessageEvent` of the agent | reasoning, text |
| `ActionEvent`s of one answer | reasoning, text, a call for each |
| `ObservationEvent`, `UserRejectObservation`, `AgentErrorEvent` | result |
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from wane.budgets import TunedBudget
from wane.conversation import Adapter, Call, Conversation
from wane.conversation.context import REMIND_AT
from wane.conversation.request import DELIMITER_TOOL, RECALL_TOOL, TASKS_TOOL
from wane.core import DEFAULT_BUDGET, Kind, Policy
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import NAMED, PLACED, UNTIED, couple
from wane.formats.fields import sealed_tokens, type_name
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, join_texts, speaker_by_role
from wane.integrations.lifecycle import LifecycleSettings, Warner, maker, resume
from wane.strategies.strategy import Annotate

try:
    from openhands.sdk import (
        LLM,
        Action,
        Agent,
        AgentContext,
        ImageContent,
        Observation,
        TextContent,
        Tool,
        ToolDefinition,
        register_tool,
    )
    from openhands.sdk import Message as ModelMessage
    from openhands.sdk.context.condenser.base import CondenserBase
    from openhands.sdk.context.view import View
    from openhands.sdk.event import (
        ActionEvent,
        AgentErrorEvent,
        CondensationSummaryEvent,
        LLMConvertibleEvent,
        MessageEvent,
        SystemPromptEvent,
        UserRejectObservation,
    )
    from openhands.sdk.event.llm_convertible import ObservationBaseEvent
    from openhands.sdk.tool import ToolAnnotations, ToolExecutor
    from pydantic import ConfigDict, Field, PlainSerializer
except ImportError as error:
    raise MissingExtraError("wane.integrations.openhands", "openhands") from error

__all__ = ["ContextLifecycle"]

Message: TypeAlias = tuple[LLMConvertibleEvent, ...]
"""The events of one answer, or one other event."""

_TOOLS: Final = "context_lifecycle"  # the name of Wane's tools in an agent's `tools`
_STATE: Final = "wane"  # in a conversation's `agent_state`
_LACKING: Final = (
    "the agent has Wane's condenser but no tools of Wane's for this conversation, so nothing is evicted. Make it with "
    "lifecycle.equip(agent), one agent for each conversation"
)
_NOWHERE: Final = "Error: this tool works only with the condenser `ContextLifecycle`. Do not call it again."
_warner: Final = Warner("Condense nothing beside Wane: the agent's condenser must be its ContextLifecycle alone")
_lock: Final = threading.RLock()  # tools may run in threads
_windows: Final = weakref.WeakValueDictionary[str, "_Window"]()  # by the conversation's id


class _Window(Adapter[Message]):
    """One conversation's window, in `_windows` while its state is in memory."""

    def __init__(self, state: Any) -> None:
        self.state = weakref.ref(state)
        with _lock:  # another thread may be passing through them
            _windows[str(state.id)] = self
        weakref.finalize(state, lambda _: None, self)  # keeps the window alive until then
        self._settings: ContextLifecycle | None = None
        self._conversation: Conversation[Message] | None = None
        self._tools: list[Any] = []

    def key(self, message: Message) -> str:
        return " ".join(event.id for event in message)

    def usage(self, message: Message) -> int:
        answered, state = getattr(message[0], "llm_response_id", None), self.state()
        rows = state.agent.llm.metrics.token_usages if answered and state else ()
        return next((row.prompt_tokens for row in reversed(rows) if row.response_id == answered), 0)

    def open_conversation(self, lifecycle: ContextLifecycle) -> Conversation[Message]:
        """Return the conversation with these settings, after it took in all events."""
        state: Any = self.state()
        events, tools = OpenHandsFormat().read(state.view.events), [*state.agent.tools_map.values()]
        if self._conversation is None or self._settings != lifecycle:
            self._conversation = resume(lambda: lifecycle._make(self), state.agent_state.get(_STATE), events, _warner)
            self._settings, self._tools = lifecycle, []
        if tools != self._tools:  # the SDK takes milliseconds to make their definitions
            definitions = [tool.to_openai_tool(add_security_risk_prediction=True) for tool in tools]
            # Before the events come in: the usage of their answers includes it.
            self._tools, self._conversation.overhead = tools, json.dumps(definitions)
        _warner.warn_replaced(self._conversation.host.ingest(events))
        return self._conversation

    def view(self, lifecycle: ContextLifecycle) -> list[Any]:
        """Return the events of the next request, and store the state for other processes."""
        state: Any = self.state()
        conversation, llm = self.open_conversation(lifecycle), state.agent.llm
        conversation.keep_opening = bool(llm.extended_thinking_budget) and "claude" in llm.model
        request = conversation.request()
        # Each assignment saves the whole state.
        state.agent_state = {**state.agent_state, _STATE: {"state": conversation.state()}}
        return request.messages


class ContextLifecycle(CondenserBase):
    """Keeps an agent's requests within a token budget, evicting by episode. The conversation's events stay whole.

    It is an agent's condenser, its tools (`tools`) and a suffix of its system prompt (`instructions`); `equip` gives an
    agent all three. One object serves any number of agents; each conversation has a window of its own.

    Attributes are the arguments of every adapter: `budget`, and `wane.integrations.lifecycle.LifecycleSettings`. An
    `on_event`, and a `counter` that is a function, are not saved with the agent.

    Raises:
        ValueError: for a setting that cannot work, as `pydantic.ValidationError`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    budget: int | str = DEFAULT_BUDGET
    policy: Policy | None = None
    annotate: Annotate = "model"
    recall: bool = False
    tasks: bool = False
    subagents: Mapping[str, str] | None = None
    remind_at: float | None = REMIND_AT
    tool_classes: Mapping[str, str] | None = None
    window: int | str | None = None
    tuned: TunedBudget | None = None
    counter: Annotated[Any, PlainSerializer(lambda value: value if isinstance(value, str) else "chars")] = "chars"
    on_event: Any = Field(default=None, exclude=True)

    def model_post_init(self, context: Any, /) -> None:
        """Check that the settings can work."""
        super().model_post_init(context)
        self._make()

    @property
    def tools(self) -> list[Tool]:
        """The tools that an agent's `tools` must include."""
        own = self._make().own_tools
        params: dict[str, Any] = {"names": [tool.name for tool in own]}
        return [Tool(name=_TOOLS, params=params | ({"tasks": True} if TASKS_TOOL in own else {}))]

    @property
    def instructions(self) -> str:
        """Text about the tools for an agent's system prompt; empty if it gets none."""
        return self._make().instructions

    def equip(self, agent: Agent) -> Agent:
        """Return the agent with a managed context.

        Args:
            agent: an agent; it is not changed.
        """
        if agent.condenser is not None and not isinstance(agent.condenser, ContextLifecycle):
            _warner.warn(
                f"the agent's {type(agent.condenser).__name__} is left out, because Wane keeps the requests small and "
                "the events whole. Make the agent with condenser=None"
            )
        context = agent.agent_context or AgentContext()
        suffix = "\n\n".join(filter(None, (context.system_message_suffix, self.instructions))) or None
        others = [tool for tool in agent.tools if tool.name != _TOOLS]
        context = context.model_copy(update={"system_message_suffix": suffix})
        return agent.model_copy(update={"condenser": self, "tools": [*others, *self.tools], "agent_context": context})

    def condense(self, view: View, agent_llm: LLM | None = None) -> View:  # noqa: ARG002 - the state has it
        """Return the events of the next request: a view, so that nothing enters the conversation's events."""
        with _lock:
            windows = [window for window in [*_windows.values()] if (state := window.state()) and state.view is view]
            try:
                if windows:
                    # They are valid events already; validating them again would take longer than choosing them.
                    return View.model_construct(events=windows[0].view(self))
                _warner.warn(_LACKING)
            except (FormatError, HistoryError) as error:
                _warner.warn_unmanaged(error)
        return view

    def _make(self, adapter: Adapter[Message] | None = None) -> Conversation[Message]:
        settings: Any = {name: getattr(self, name) for name in LifecycleSettings.__annotations__}
        return maker(OpenHandsFormat(), adapter or Adapter(), self.budget, **settings)()


# The tools; the SDK finds these classes by their names


class DelimiterAction(Action):
    """A call of `delimiter`, with any arguments: Wane judges them itself."""

    model_config = ConfigDict(extra="allow", frozen=True)
    tool: ClassVar = DELIMITER_TOOL

    @classmethod
    def to_mcp_schema(cls) -> dict[str, Any]:
        """Return the schema for the model; the SDK changes it."""
        return deepcopy(dict(cls.tool.schema))


class TasksDelimiterAction(DelimiterAction):
    """A call of `delimiter` by a model that may group episodes in tasks."""

    tool = TASKS_TOOL


class RecallAction(DelimiterAction):
    """A call of `recall`."""

    tool = RECALL_TOOL


class LifecycleObservation(Observation):
    """Wane's answer to a call."""


class _OwnToolExecutor(ToolExecutor[Any, LifecycleObservation]):
    def __call__(self, action: Any, conversation: Any = None) -> LifecycleObservation:
        observation: LifecycleObservation = LifecycleObservation.from_text(self._answer(action, conversation))
        return observation

    def _answer(self, action: Any, running: Any) -> str:
        lifecycle, state = running.agent.condenser, running.state
        if not isinstance(lifecycle, ContextLifecycle):
            return _NOWHERE
        with _lock:
            try:
                conversation = (_windows.get(str(state.id)) or _Window(state)).open_conversation(lifecycle)
            except (FormatError, HistoryError):
                return _NOWHERE
            # A tool gets neither its call nor the call's id.
            actions = [event for event in reversed(state.view.events) if isinstance(event, ActionEvent)]
            same = [event for event in actions if event.action is action]
            event = (same or [event for event in actions if event.action == action])[0]
            return conversation.host.answer(Call(event.tool_name, event.tool_call.arguments, event.tool_call_id))


class DelimiterTool(ToolDefinition[DelimiterAction, LifecycleObservation]):
    """The tool `delimiter`; it also makes the other tools."""

    name = DELIMITER_TOOL.name

    @classmethod
    def create(cls, conv_state: Any = None, names: Sequence[str] = (), tasks: bool = False, **_: Any) -> Sequence[Any]:
        """Give a conversation its window, and return the tools with these names; there may be none."""
        _Window(conv_state)
        delimiting = TasksDelimiterAction if tasks else DelimiterAction
        return [
            kind(
                description=action.tool.description,
                action_type=action,
                observation_type=LifecycleObservation,
                annotations=ToolAnnotations(readOnlyHint=True),
                executor=_OwnToolExecutor(),
            )
            for kind, action in ((DelimiterTool, delimiting), (RecallTool, RecallAction))
            if kind.name in names
        ]


class RecallTool(DelimiterTool):
    """The tool `recall`."""

    name = RECALL_TOOL.name


register_tool(_TOOLS, DelimiterTool)


# The events


_NO_REASONING: Final[Mapping[str, Any]] = {
    "reasoning_content": None,
    "thinking_blocks": [],
    "responses_reasoning_item": None,
}


class OpenHandsFormat(NativeFormat[Message]):
    """Events of the OpenHands SDK."""

    name = "openhands"

    def locate_parts(self, message: Message) -> list[Located[int]]:
        first = message[0]
        if isinstance(first, ActionEvent) or (
            isinstance(first, MessageEvent) and first.llm_message.role == "assistant"
        ):
            return _answer_parts(message)
        if not isinstance(first, LLMConvertibleEvent):
            raise FormatError(f"an event must be one that a model is shown, found {type_name(first)}")
        content = first.to_llm_message().content
        text = "\n".join(entry.text for entry in content if isinstance(entry, TextContent))
        extra = NON_TEXT_TOKENS * sum(len(entry.image_urls) for entry in content if isinstance(entry, ImageContent))
        if isinstance(first, ObservationBaseEvent):
            # A person's reason (R21); a hook rejects calls, too.
            person = isinstance(first, UserRejectObservation) and first.rejection_source == "user"
            return [(0, Part(Kind.RESULT, text, call_id=first.tool_call_id, extra_tokens=extra, person=person))]
        if isinstance(first, SystemPromptEvent):
            return [(0, Part(Kind.SYSTEM, text))]
        if first.source != "user" and not isinstance(first, CondensationSummaryEvent):
            return [(0, Part(Kind.NOTICE, text, extra_tokens=extra))]
        return [(0, turn_part(text, extra))]

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        # The first of its events tells what the answer told.
        located = self.locate_parts(message)
        kinds = {located[position][1].kind for position in positions}
        calls = [message[located[position][0]] for position in positions if located[position][1].kind is Kind.CALL]
        update = {} if Kind.REASONING in kinds else dict(_NO_REASONING)
        first = message[0]
        if not isinstance(first, ActionEvent):
            assert isinstance(first, MessageEvent)
            if Kind.TEXT not in kinds:
                update["content"] = []
            return (first.model_copy(update={"llm_message": first.llm_message.model_copy(update=update)}),)
        fields = {name: getattr(first, name) for name in _NO_REASONING} | update
        thought = list(first.thought) if Kind.TEXT in kinds else []
        if calls:
            return (calls[0].model_copy(update={**fields, "thought": thought}), *calls[1:])
        answer = ModelMessage(role="assistant", content=thought, **fields)
        return (MessageEvent(id=first.id, source="agent", llm_message=answer, llm_response_id=first.llm_response_id),)

    def read(self, data: Sequence[Any]) -> list[Message]:
        """Return the messages of events, one to an answer.

        The result of a call that is malformed may stand between the calls of its answer. It goes behind them, where
        providers want it.
        """
        messages: list[Message] = []
        places: dict[str, int] = {}
        for event in data:
            if isinstance(event, tuple):
                messages.append(event)
            elif isinstance(event, ActionEvent) and event.llm_response_id in places:
                messages[places[event.llm_response_id]] += (event,)
            else:
                if isinstance(event, ActionEvent):
                    places[event.llm_response_id] = len(messages)
                messages.append((event,))
        return messages

    def arrange(self, messages: Sequence[Message]) -> list[Any]:
        return [event for message in messages for event in message]

    def speaker(self, message: Message) -> str | None:
        first = message[0]
        if isinstance(first, ActionEvent):
            return CALLING
        if not isinstance(first, MessageEvent | CondensationSummaryEvent):
            return None
        return speaker_by_role(first.to_llm_message().role, has_calls=False)

    def merge(self, first: Message, second: Message) -> Message:
        if isinstance(second[0], ActionEvent):
            thought = [*first[0].to_llm_message().content, *second[0].thought]
            return (second[0].model_copy(update={"thought": thought}), *second[1:])
        messages = [event.to_llm_message() for event in (*first, *second)]
        content = [entry for message in messages for entry in message.content]
        joined = messages[0].model_copy(update={"content": content})
        return (MessageEvent(id=first[0].id, source=first[0].source, llm_message=joined),)

    def note_result(self, message: Message, text: str) -> Message | None:
        located = self.locate_parts(message)
        part = located[-1][1]
        if part.kind is not Kind.RESULT or part.extra_tokens:
            return None
        return self.clear_result(message, len(located) - 1, join_texts(part.text, text))

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Any:
        return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(schema)}}

    def turn(self, text: str) -> Message:
        return (MessageEvent(source="user", llm_message=ModelMessage(role="user", content=[TextContent(text=text)])),)

    def result(self, message: Message, position: int, text: str) -> Message:
        call = self.parts(message)[position]
        return (AgentErrorEvent(tool_name=call.tool or "", tool_call_id=call.call_id or "", error=text),)

    def clear_result(self, message: Message, position: int, text: str) -> Message:  # noqa: ARG002 - it has one part
        event = message[0]
        assert isinstance(event, ObservationBaseEvent)
        return (AgentErrorEvent(id=event.id, tool_name=event.tool_name, tool_call_id=event.tool_call_id, error=text),)


def _answer_parts(message: Message) -> list[Located[int]]:
    first = message[0]
    answer: Any = first.llm_message if isinstance(first, MessageEvent) else first
    parts = list(_reasoning(answer))
    signed = any(not hasattr(block, "signature") or block.signature for block in answer.thinking_blocks or ())
    named = answer.responses_reasoning_item is not None
    sealed = NAMED if named else UNTIED
    if signed and not named:
        sealed = PLACED
    content = answer.content if isinstance(first, MessageEvent) else answer.thought
    if text := "\n".join(entry.text for entry in content if isinstance(entry, TextContent)):
        parts.append(Part(Kind.TEXT, text))
    located = [(0, part) for part in parts]
    for location, event in enumerate(message):
        if isinstance(event, ActionEvent):
            raw = event.tool_call.arguments
            located.append((location, Part(Kind.CALL, call_id=event.tool_call_id, tool=event.tool_name, arguments=raw)))
    return couple(located, [sealed if part.kind is Kind.REASONING else UNTIED for _, part in located])


def _reasoning(answer: Any) -> Iterator[Part]:
    """The reasoning of an answer as one part: the SDK tells it several times, for different providers."""
    blocks, item = answer.thinking_blocks or (), answer.responses_reasoning_item
    text = answer.reasoning_content or "\n".join(getattr(block, "thinking", "") for block in blocks)
    if item is not None:
        text = text or "\n".join([*item.summary, *(item.content or ())])
    if text or blocks or item is not None:
        extra = 0
        if not text:
            seals = [getattr(block, "data", "") for block in blocks]
            if item is not None:
                seals.append(item.encrypted_content)
            extra = max(1, sum(sealed_tokens(seal, 0) for seal in seals))
        yield Part(Kind.REASONING, text, extra_tokens=extra)

"""Context Window Lifecycle for LangChain agents and LangGraph graphs. Needs the `langchain` extra.

    agent = create_agent(model, tools, middleware=[ContextLifecycle(budget="80k")])

The thread's messages stay complete in the checkpoint; each model call gets a view of them. The state of the view is in
a private channel of the thread's state, so that any process can continue any thread, even from an earlier checkpoint.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Annotated, Any, Final, NotRequired, Unpack
from uuid import uuid4

from wane.conversation import Adapter, Call, Conversation, Request, calls_of
from wane.conversation.scopes import stamped
from wane.core import DEFAULT_BUDGET
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.integrations.lifecycle import (
    UNMANAGED_CALL,
    HostMarks,
    LifecycleSettings,
    Warner,
    after_answer,
    has_budget,
    maker,
    resumed,
)
from wane.strategies.host import Scope

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, PrivateStateAttr, ToolCallRequest
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError("wane.integrations.langchain", "langchain") from error

from wane.formats.frameworks.langchain import LangChainFormat

__all__ = ["ContextLifecycle", "LifecycleState"]

_UNREAD: Final = "Error: the call's arguments are not a JSON object. Call the tool again with correct arguments."
_KEPT: Final = 64  # conversations kept in memory, so that they are not restored for each call


def _merged(stored: Any, new: Any) -> Any:
    """Return Wane's data after a node. Of parallel branches, the view of the first goes on, as its messages do."""
    if not isinstance(new, Mapping) or not isinstance(stored, Mapping):
        return new  # another's, which a node will warn of
    before = new.get("base", _mark_of(stored))
    if before == _mark_of(stored):
        return {key: value for key, value in new.items() if key != "base"}
    return {**stored, "told": {**stored["told"], **new["told"]}}


class LifecycleState(AgentState[Any]):
    """An agent's state with Wane's, which is in the checkpoint but not in the agent's input or output."""

    wane: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _merged]]


class _Adapter(Adapter[BaseMessage]):
    def key(self, message: BaseMessage) -> str | None:
        # LangChain gives a result of its own, for a call that it could not read, an id only when it is stored.
        return message.tool_call_id if isinstance(message, ToolMessage) else message.id

    def usage(self, message: BaseMessage) -> int:
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        return usage["input_tokens"] if usage else 0

    def scopes(self, message: BaseMessage) -> Sequence[Scope] | None:
        return stamped(message.response_metadata.get("wane"))


class ContextLifecycle(AgentMiddleware[LifecycleState, Any, Any], HostMarks):
    """Keeps an agent's requests within a token budget, evicting by episode. Its stored messages stay whole.

    The agent gets the tool `delimiter` and guidance in its system prompt. Put it last into `middleware`, so that
    retries and fallbacks wrap it. One object serves any number of agents and threads.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    state_schema = LifecycleState

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        super().__init__()
        self._make = maker(LangChainFormat(), _Adapter(), budget, self, **settings)
        self._warner = Warner("Take out what rewrites the thread, such as a SummarizationMiddleware")
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        self.instructions = sample.instructions
        self.tools = [
            StructuredTool(
                name=tool.name, description=tool.description, args_schema=dict(tool.schema), func=_not_through_us
            )
            for tool in sample.own_tools
        ]
        self._own = frozenset(tool.name for tool in sample.own_tools)
        # By the mark of its last state: an older checkpoint has another mark.
        self._known: OrderedDict[str, Conversation[BaseMessage]] = OrderedDict()
        # Those of `request` that wait for `update`, with the mark and the messages of their states; the latest last.
        self._asked: list[tuple[str, list[BaseMessage], Conversation[BaseMessage]]] = []
        self._lock = threading.RLock()  # tools of one answer, and agents, run in threads

    # In an agent

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send a view of the thread instead of all of it."""
        conversation, sent = self._outgoing(request)
        return self._answered(conversation, handler(sent))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send a view of the thread instead of all of it."""
        conversation, sent = self._outgoing(request)
        return self._answered(conversation, await handler(sent))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Answer `delimiter` and `recall`; every other tool runs as usual."""
        return self._answer(request) or handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Answer `delimiter` and `recall`; every other tool runs as usual."""
        return self._answer(request) or await handler(request)

    # In your own graph

    def request(self, state: Mapping[str, Any], system: str = "") -> Request[BaseMessage]:
        """Return the request that a node should send after a system message.

        Args:
            state: the node's state, with `messages` and `wane`. Messages without an id get one, as the graph would give
                them when the node ends: by then the state for the checkpoint is made.
            system: the text of the system message, which should include `instructions`.

        Raises:
            FormatError: for a message that cannot be part of a conversation.
            HistoryError: for messages that no provider would accept.
        """
        messages = state["messages"]
        for message in messages:
            message.id = message.id or str(uuid4())
        with self._lock:
            conversation = self._begun(state, messages, system)
            self._asked = [*self._asked, (_mark(state), list(messages), conversation)][-_KEPT:]
            return conversation.request()

    def update(self, state: Mapping[str, Any], *answer: BaseMessage) -> dict[str, Any]:
        """Return the update of the state after the model has answered `request`: its messages, and Wane's state."""
        mark, messages = _mark(state), state["messages"]
        with self._lock:
            # Only for these very messages: unrelated threads may have the same ids, or none.
            candidates = (
                conversation
                for its_mark, its_messages, conversation in reversed(self._asked)
                if its_mark == mark and len(its_messages) == len(messages) and all(map(is_, its_messages, messages))
            )
            conversation = next(candidates, None) or self._known_conversation(state, messages)
            self._take_in(conversation, messages)
            update = self._state_after(conversation, answer)
        # A node that calls the model several times goes on from the mark that the graph knows.
        stored = state.get("wane")
        base = stored["base"] if isinstance(stored, Mapping) and "base" in stored else mark
        return {"messages": list(answer), "wane": {**update["wane"], "base": base}}

    # Internals

    def _outgoing(self, request: ModelRequest[Any]) -> tuple[Conversation[BaseMessage] | None, ModelRequest[Any]]:
        """What to send, and the conversation if it is managed."""
        if getattr(request.model, "use_previous_response_id", False):
            self._warner.warn(
                "the model keeps the conversation at its provider, so nothing can be evicted. Set its "
                "use_previous_response_id to False"
            )
            return None, self._without_tools(request)
        system = request.system_message
        if self.instructions:
            blocks = [] if system is None else list(system.content_blocks)
            system = SystemMessage(content_blocks=[*blocks, {"type": "text", "text": self.instructions}])
        definitions = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
        overhead = f"{system.text if system else ''}{json.dumps(definitions)}"
        with self._lock:
            try:
                conversation = self._begun(request.state, request.messages, overhead)
            except (FormatError, HistoryError) as error:
                self._warner.unmanaged(error)
                return None, self._without_tools(request)
            conversation.keep_opening = has_budget(getattr(request.model, "thinking", None))
            return conversation, request.override(messages=conversation.request().messages, system_message=system)

    def _without_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in self._own])

    def _answered(
        self, conversation: Conversation[BaseMessage] | None, response: ModelResponse[Any]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        if conversation is None:
            return response
        return ExtendedModelResponse(response, Command(update=self._state_after(conversation, response.result)))

    def _begun(
        self, state: Mapping[str, Any], messages: Sequence[BaseMessage], overhead: str
    ) -> Conversation[BaseMessage]:
        """The thread's conversation for a request."""
        conversation = self._known_conversation(state, messages)
        # Until its answer is there, another run from the same checkpoint gets its own.
        self._known.pop(_mark(state), None)
        # Before the messages come in: the usage of their answers includes it.
        conversation.overhead = overhead
        self._take_in(conversation, messages)
        return conversation

    def _known_conversation(
        self, state: Mapping[str, Any], messages: Sequence[BaseMessage]
    ) -> Conversation[BaseMessage]:
        """The thread's conversation, before it took in the new messages."""
        conversation = self._known.get(_mark(state))
        return conversation or resumed(self._make, state.get("wane"), _with_refusals(messages), self._warner)

    def _take_in(self, conversation: Conversation[BaseMessage], messages: Sequence[BaseMessage]) -> None:
        self._warner.ingested(conversation.host.ingest(_with_refusals(messages)))

    def _state_after(self, conversation: Conversation[BaseMessage], answer: Sequence[BaseMessage]) -> dict[str, Any]:
        """The data to store in the thread's state after an answer."""
        calls = calls_of(conversation.format, [message for message in answer if isinstance(message, AIMessage)])
        with self._lock:
            if (stamp := conversation.host.stamp) is not None:
                for message in answer:
                    message.response_metadata["wane"] = stamp
            saved = after_answer(conversation, calls)
            self._known = OrderedDict((key, value) for key, value in self._known.items() if value is not conversation)
            self._known[saved["mark"]] = conversation
            self._asked = [row for row in self._asked if row[-1] is not conversation]
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return {"wane": saved}

    def _answer(self, request: ToolCallRequest) -> ToolMessage | None:
        call = request.tool_call
        name, call_id = call["name"], call["id"] or ""
        if name not in self._own:
            return None
        text = _part(_part(request.state.get("wane"), "told"), call_id)
        if not isinstance(text, str):
            with self._lock:
                try:
                    conversation = self._known_conversation(request.state, request.state["messages"])
                    self._take_in(conversation, request.state["messages"])
                    text = conversation.host.answer(Call(name, call["args"], call_id))
                except (FormatError, HistoryError):
                    text = UNMANAGED_CALL
        return ToolMessage(text, tool_call_id=call_id, name=name)


def _mark(state: Mapping[str, Any]) -> str:
    return _mark_of(state.get("wane"))


def _mark_of(stored: object) -> str:
    mark = _part(stored, "mark")
    return mark if isinstance(mark, str) else ""


def _part(data: object, key: str) -> object:
    """A part of stored data, which may be damaged or another's."""
    return data.get(key) if isinstance(data, Mapping) else None


def _with_refusals(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages with a result for each call that LangChain could not read, which `ToolNode` does not give."""
    complete: list[BaseMessage] = []
    for number, message in enumerate(messages, 1):
        complete.append(message)
        # The last answer's tools may still run.
        if isinstance(message, AIMessage) and message.invalid_tool_calls and number < len(messages):
            # Up to the next answer, and one for each call: some providers use an id again.
            after = takewhile(lambda later: not isinstance(later, AIMessage), messages[number:])
            answered = [result.tool_call_id for result in after if isinstance(result, ToolMessage)]
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                if call["id"] in answered:
                    answered.remove(call["id"])
                elif call["id"] is not None and call in message.invalid_tool_calls:
                    complete.append(ToolMessage(_UNREAD, tool_call_id=call["id"], name=call["name"]))
    return complete


def _not_through_us(**_: Any) -> str:
    return (
        "Error: this tool works only with the middleware `ContextLifecycle`, or its `wrap_tool_call` in a `ToolNode`."
    )

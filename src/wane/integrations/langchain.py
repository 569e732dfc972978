"""Context Window Lifecycle for LangChain agents and LangGraph graphs. Needs the `langchain` extra.

    agent = create_agent(model, tools, middleware=[ContextLifecycle(budget="80k")])

The thread's messages stay complete in the checkpoint; each model call gets a view of them. The state of the view is in
a private channel of the thread's state, so that any process can continue any thread, even from an earlier checkpoint.

An answer's content comes in dialects: text, Anthropic's blocks, items of OpenAI Responses (`responses/v1`) and
LangChain's own blocks (`v1`). Calls stand in `tool_calls` and, where their arguments are no JSON object, in
`invalid_tool_calls`; most dialects have them in the content as well.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final, NotRequired, TypeAlias, Unpack
from uuid import uuid4

from wane.conversation import Adapter, Call, Conversation, Request, calls_of
from wane.conversation.scopes import read_scopes
from wane.core import DEFAULT_BUDGET, Kind
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import NAMED, PLACED, UNTIED, Tie, couple
from wane.formats.fields import shown_text
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS, join_contents
from wane.integrations.lifecycle import (
    UNMANAGED_CALL,
    HostMarks,
    LifecycleSettings,
    Warner,
    after_answer,
    has_budget,
    maker,
    resume,
)
from wane.strategies.host import HostScope

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, PrivateStateAttr, ToolCallRequest
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError("wane.integrations.langchain", "langchain") from error

__all__ = ["ContextLifecycle", "LifecycleState"]

_UNREAD: Final = "Error: the call's arguments are not a JSON object. Call the tool again with correct arguments."
_KEPT: Final = 64  # conversations kept in memory, so that they are not restored for each call


def _merge_data(stored: Any, new: Any) -> Any:
    """Return Wane's data after a node. Of parallel branches, the view of the first goes on, as its messages do."""
    if not isinstance(new, Mapping) or not isinstance(stored, Mapping):
        return new  # another's, which a node will warn of
    if new.get("base", _mark(stored)) == _mark(stored):
        return {key: value for key, value in new.items() if key != "base"}
    return {**stored, "told": {**stored["told"], **new["told"]}}


class LifecycleState(AgentState[Any]):
    """An agent's state with Wane's, which is in the checkpoint but not in the agent's input or output."""

    wane: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _merge_data]]


class _Adapter(Adapter[BaseMessage]):
    def key(self, message: BaseMessage) -> str | None:
        # LangChain gives a result of its own, for a call that it could not read, an id only when it is stored.
        return message.tool_call_id if isinstance(message, ToolMessage) else message.id

    def usage(self, message: BaseMessage) -> int:
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        return usage["input_tokens"] if usage else 0

    def scopes(self, message: BaseMessage) -> Sequence[HostScope] | None:
        return read_scopes(message.response_metadata.get("wane"))


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
        # Those of `request` that wait for `update`, by the mark and the very messages: unrelated threads may have the
        # same ids, or none. The messages stay with them, so that no other object is taken for one.
        self._asked: OrderedDict[tuple[Any, ...], tuple[list[BaseMessage], Conversation[BaseMessage]]] = OrderedDict()
        self._lock = threading.RLock()  # tools of one answer, and agents, run in threads

    # In an agent

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send a view of the thread instead of all of it."""
        conversation, sent = self._outgoing(request)
        return self._take_answer(conversation, handler(sent))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send a view of the thread instead of all of it."""
        conversation, sent = self._outgoing(request)
        return self._take_answer(conversation, await handler(sent))

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
            conversation = self._begin(state.get("wane"), messages, system)
            self._asked[_mark(state.get("wane")), *map(id, messages)] = list(messages), conversation
            if len(self._asked) > _KEPT:
                self._asked.popitem(last=False)
            return conversation.request()

    def update(self, state: Mapping[str, Any], *answer: BaseMessage) -> dict[str, Any]:
        """Return the update of the state after the model has answered `request`: its messages, and Wane's state."""
        stored, messages = state.get("wane"), state["messages"]
        with self._lock:
            _, asked = self._asked.pop((_mark(stored), *map(id, messages)), (None, None))
            conversation = asked or self._conversation(stored, messages)
            self._known.pop(_mark(stored), None)
            self._warner.warn_replaced(conversation.host.ingest(messages))
            update = self._state_after(conversation, answer)
        # A node that calls the model several times goes on from the mark that the graph knows.
        base = stored["base"] if isinstance(stored, Mapping) and "base" in stored else _mark(stored)
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
                conversation = self._begin(request.state.get("wane"), request.messages, overhead)
            except (FormatError, HistoryError) as error:
                self._warner.warn_unmanaged(error)
                return None, self._without_tools(request)
            conversation.keep_opening = has_budget(getattr(request.model, "thinking", None))
            return conversation, request.override(messages=conversation.request().messages, system_message=system)

    def _without_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in self._own])

    def _take_answer(
        self, conversation: Conversation[BaseMessage] | None, response: ModelResponse[Any]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        if conversation is None:
            return response
        return ExtendedModelResponse(response, Command(update=self._state_after(conversation, response.result)))

    def _begin(self, stored: object, messages: Sequence[BaseMessage], overhead: str) -> Conversation[BaseMessage]:
        """The thread's conversation for a request."""
        conversation = self._conversation(stored, messages)
        # Until its answer is there, another run from the same checkpoint gets its own.
        self._known.pop(_mark(stored), None)
        # Before the messages come in: the usage of their answers includes it.
        conversation.overhead = overhead
        self._warner.warn_replaced(conversation.host.ingest(messages))
        return conversation

    def _conversation(self, stored: object, messages: Sequence[BaseMessage]) -> Conversation[BaseMessage]:
        """The thread's conversation, before it took in the new messages.

        Without a state, as without a checkpointer, it is what an earlier run had whose messages these continue. It is
        this run's alone then: of two that continue the same ones, the second takes them in anew, to the same view.
        """
        if not stored:
            for mark, conversation in reversed(self._known.items()):
                if conversation.length and conversation.host.shares(messages) == conversation.length:
                    return self._known.pop(mark)
        return self._known.get(_mark(stored)) or resume(self._make, stored, messages, self._warner)

    def _state_after(self, conversation: Conversation[BaseMessage], answer: Sequence[BaseMessage]) -> dict[str, Any]:
        """The data to store in the thread's state after an answer."""
        calls = calls_of(conversation.format, [message for message in answer if isinstance(message, AIMessage)])
        with self._lock:
            if (stamp := conversation.host.stamp) is not None:
                for message in answer:
                    message.response_metadata["wane"] = stamp
            saved = after_answer(conversation, calls)
            self._known[saved["mark"]] = conversation
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
                messages = request.state["messages"]
                try:
                    conversation = self._conversation(request.state.get("wane"), messages)
                    self._warner.warn_replaced(conversation.host.ingest(messages))
                    text = conversation.host.answer(Call(name, call["args"], call_id))
                except (FormatError, HistoryError):
                    text = UNMANAGED_CALL
        return ToolMessage(text, tool_call_id=call_id, name=name)


def _mark(stored: object) -> str:
    mark = _part(stored, "mark")
    return mark if isinstance(mark, str) else ""


def _part(data: object, key: str) -> object:
    """A part of stored data, which may be damaged or another's."""
    return data.get(key) if isinstance(data, Mapping) else None


def _not_through_us(**_: Any) -> str:
    return (
        "Error: this tool works only with the middleware `ContextLifecycle`, or its `wrap_tool_call` in a `ToolNode`."
    )


# The messages


Location: TypeAlias = tuple[str, Any]
"""Where a part stands: in a block of the content, in the text, in a field, or as which of the calls."""


_WHOLE: Final[Location] = ("whole", None)
_TEXT: Final[Location] = ("text", None)
_REASONING_FIELD: Final = "reasoning_content"
_REASONING: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
_MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "image_generation_call", "file", "input_file", "text-plain", "document"}
    | {"audio", "input_audio", "video", "video_url", "media"}
)
"""Blocks that hold data or refer to it, of all dialects. Others count as their JSON."""
_SERVED: Final = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call"})
"""Calls that the provider ran, of all dialects but OpenAI's, where they are one with their results."""
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call", "input_json_delta"})


class LangChainFormat(NativeFormat[BaseMessage]):
    """Messages of LangChain."""

    name = "langchain"

    def locate_parts(self, message: BaseMessage) -> list[Located[Location]]:
        if isinstance(message, AIMessage):
            return _couple(message, list(_answer(message)))
        if not isinstance(message, BaseMessage):
            raise FormatError(f"a message must be a LangChain message, found {type(message).__name__}")
        text, extra = _text_of(message.content)
        source = message.additional_kwargs.get("lc_source")
        if isinstance(message, ToolMessage):
            # `HumanInTheLoopMiddleware` says so of an answer in a tool's place, which has no other mark (R21).
            person = source == "hitl_interrupt_decision"
            part = Part(Kind.RESULT, text, call_id=message.tool_call_id, extra_tokens=extra, person=person)
            return [(_WHOLE, part)]
        if isinstance(message, HumanMessage) and source is not None:
            # A summary, a skill, a revision: a middleware's words in the user's place (R15).
            return [(_WHOLE, Part(Kind.NOTICE, text, extra_tokens=extra))]
        if isinstance(message, SystemMessage | HumanMessage):
            return [(_WHOLE, turn_part(text, extra, system=isinstance(message, SystemMessage)))]
        raise FormatError(f"a message of the type {message.type!r} cannot be part of a conversation")

    def read(self, data: Sequence[Any]) -> list[BaseMessage]:
        """Return messages with a result for each call that LangChain could not read, which `ToolNode` does not give."""
        messages: list[BaseMessage] = []
        for number, message in enumerate(data, 1):
            messages.append(message)
            # The last answer's tools may still run.
            if isinstance(message, AIMessage) and message.invalid_tool_calls and number < len(data):
                # Up to the next answer, and one for each call: some providers use an id again.
                after = takewhile(lambda later: not isinstance(later, AIMessage), data[number:])
                answered = [result.tool_call_id for result in after if isinstance(result, ToolMessage)]
                for call in _calls(message):
                    if call["id"] in answered:
                        answered.remove(call["id"])
                    elif call["id"] is not None and call in message.invalid_tool_calls:
                        messages.append(ToolMessage(_UNREAD, tool_call_id=call["id"], name=call["name"]))
        return messages

    def keep(self, message: BaseMessage, positions: Sequence[int]) -> BaseMessage:
        if not isinstance(message, AIMessage):
            return message
        located = self.locate_parts(message)
        locations = {located[position][0] for position in positions}
        calls = _calls(message)
        stay = {number for where, number in locations if where == "call"}
        kwargs = dict(message.additional_kwargs)
        if "tool_calls" in kwargs:
            raw = kwargs["tool_calls"]
            numbers = _numbers((call.get("id") for call in raw), calls)
            kwargs["tool_calls"] = [call for call, number in zip(raw, numbers, strict=True) if number in stay]
        if (_REASONING_FIELD, None) not in locations:
            kwargs.pop(_REASONING_FIELD, None)
        content: Any = message.content
        if isinstance(content, str):
            content = content if _TEXT in locations else ""
        else:
            blocks = zip(content, _locations(content, calls), strict=True)
            content = [block for block, location in blocks if location in locations]
        valid = len(message.tool_calls)
        update = {
            "content": content,
            "additional_kwargs": kwargs,
            "tool_calls": [call for number, call in enumerate(calls[:valid]) if number in stay],
            "invalid_tool_calls": [call for number, call in enumerate(calls[valid:], valid) if number in stay],
        }
        return message.model_copy(update=update)

    def speaker(self, message: BaseMessage) -> str | None:
        if isinstance(message, HumanMessage):
            return "user"
        if not isinstance(message, AIMessage):
            return RESULTS if isinstance(message, ToolMessage) else None
        return CALLING if _calls(message) else "assistant"

    def merge(self, first: BaseMessage, second: BaseMessage) -> BaseMessage:
        update: dict[str, Any] = {"content": join_contents(first.content, second.content)}
        texts = [message.additional_kwargs.get(_REASONING_FIELD) for message in (first, second)]
        if any(texts):
            joined = "\n\n".join(text for text in texts if isinstance(text, str) and text)
            update["additional_kwargs"] = {**second.additional_kwargs, _REASONING_FIELD: joined}
        # The later one of two answers has the calls.
        base = second if isinstance(second, AIMessage) else first
        return base.model_copy(update=update)

    def note_result(self, message: BaseMessage, text: str) -> BaseMessage | None:
        if not isinstance(message, ToolMessage):
            return None
        return message.model_copy(update={"content": join_contents(message.content, text)})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        # As every chat model's `bind_tools` takes it.
        function = {"name": name, "description": description, "parameters": dict(schema)}
        return {"type": "function", "function": function}

    def turn(self, text: str) -> BaseMessage:
        return HumanMessage(text)

    def result(self, message: BaseMessage, position: int, text: str) -> BaseMessage:
        call = self.locate_parts(message)[position][1]
        return ToolMessage(text, tool_call_id=call.call_id or "", name=call.tool)

    def clear_result(self, message: BaseMessage, position: int, text: str) -> BaseMessage:  # noqa: ARG002 - it has one part
        return message.model_copy(update={"content": text, "artifact": None})


def _answer(message: AIMessage) -> Iterator[Located[Location]]:
    calls = _calls(message)
    remaining: dict[Location, Part] = {
        ("call", number): Part(Kind.CALL, call_id=call["id"], tool=call["name"], arguments=shown_text(call["args"]))
        for number, call in enumerate(calls)
    }
    thought = message.additional_kwargs.get(_REASONING_FIELD)
    if isinstance(thought, str) and thought:
        yield (_REASONING_FIELD, None), Part(Kind.REASONING, thought)
    content = message.content
    if isinstance(content, str):
        if content:
            yield _TEXT, Part(Kind.TEXT, content)
    else:
        for block, location in zip(content, _locations(content, calls), strict=True):
            if _is_call(block):
                if (part := remaining.pop(location, None)) is not None:
                    yield location, part
            elif isinstance(block, dict) and block.get("type") in _REASONING:
                yield location, _reasoning(block)
            else:
                text, extra = _text_of([block])
                if text or extra:
                    yield location, Part(Kind.TEXT, text, extra_tokens=extra)
    yield from remaining.items()


def _calls(message: AIMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls]


def _numbers(ids: Iterable[Any], calls: Sequence[Any]) -> list[int | None]:
    """The number of the call of each id; calls with the same id come in order."""
    numbers: dict[Any, list[int]] = {}
    for number, call in enumerate(calls):
        numbers.setdefault(call["id"], []).append(number)
    candidates = (numbers.get(call_id, [None]) for call_id in ids)
    return [same.pop(0) if len(same) > 1 else same[0] for same in candidates]


def _locations(content: Sequence[Any], calls: Sequence[Any]) -> list[Location]:
    """The location of each block: a call's is that of the call."""
    ids = (block.get("call_id") or block.get("id") for block in content if _is_call(block))
    numbers = iter(_numbers(ids, calls))
    return [("call", next(numbers)) if _is_call(block) else ("block", index) for index, block in enumerate(content)]


def _couple(message: AIMessage, located: list[Located[Location]]) -> list[Located[Location]]:
    """Add what must stay together (R12): OpenAI knows its reasoning by an id, other providers by a signature."""
    ties: list[Tie] = []
    for (where, number), part in located:
        block = message.content[number] if where == "block" else None
        tie = UNTIED
        if not isinstance(block, dict):
            ties.append(tie)
            continue
        kind = str(block.get("type"))
        if part.kind is Kind.REASONING:
            if str(block.get("id") or "").startswith("rs_"):
                tie = NAMED
            elif _seal(block):
                tie = PLACED
        elif kind == "executable_code":
            # Code that Gemini ran has no id, and its result stands right behind it.
            tie = Tie(bonds=(f"code {number}",))
        elif kind == "code_execution_result":
            tie = Tie(bonds=(f"code {number - 1}",), served=True)
        elif kind in _SERVED or kind.endswith("_tool_result"):
            call_id = block.get("tool_use_id") or block.get("tool_call_id") or block.get("id")
            tie = Tie(bonds=(str(call_id),), served=kind not in _SERVED)
        else:
            tie = Tie(cites=bool(block.get("citations") or block.get("annotations")))
        ties.append(tie)
    return couple(located, ties)


def _reasoning(block: Mapping[str, Any]) -> Part:
    text = block.get("thinking") or block.get("reasoning") or ""
    if not text and isinstance(summary := block.get("summary"), list):
        text = "\n".join(str(entry.get("text", "")) for entry in summary if isinstance(entry, dict))
    return Part(Kind.REASONING, str(text), extra_tokens=0 if text else len(_seal(block)) // 4)


def _seal(block: object) -> str:
    """What a provider knows its own reasoning by."""
    if not isinstance(block, dict):
        return ""
    extras = block.get("extras")
    seals = [block.get(key) for key in ("signature", "data", "encrypted_content")]
    if isinstance(extras, dict):
        seals += [extras.get("signature"), extras.get("encrypted_content")]
    return next((seal for seal in seals if isinstance(seal, str) and seal), "")


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in _CALLS


def _text_of(content: object) -> tuple[str, int]:
    """The text of a content, and the estimate for what is no text in it."""
    if isinstance(content, str):
        return content, 0
    texts, extra = [], 0
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict) and isinstance(text := block.get("text"), str):
            texts.append(text)
        elif isinstance(block, dict) and block.get("type") in _MEDIA:
            text, tokens = _medium(block)
            texts += [text] if text else []
            extra += tokens
        elif block:
            texts.append(shown_text(block))
    return "\n".join(texts), extra


def _medium(block: Mapping[str, Any]) -> tuple[str, int]:
    """The text of a file, or else the estimate for it: its data would count as many times the tokens that it has."""
    source = block.get("source")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
        return _text_of(source.get("data") or source.get("content"))
    return "", NON_TEXT_TOKENS

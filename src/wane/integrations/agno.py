"""Context Window Lifecycle for Agno. Needs the `agno` extra.

    agent = ContextLifecycle(budget="80k").attach(Agent(model=model, tools=tools, db=db, add_history_to_context=True))

The session's messages stay complete, in memory and in its database; each model call gets a view of them. The messages
have ids and usage, so that a new process gets the same view without any other stored data.

Agno's `Message` has one field for each kind of content. What each field becomes:

| field | item of Wane |
|---|---|
| `content`, media of a user's message | user, or a notice |
| `reasoning_content`, sealed reasoning in `provider_data` | reasoning |
| `content` of an answer | text |
| `tool_calls` | calls |
| a message of role `tool` | result |

An answer of Claude also keeps its blocks as the provider gave them (`provider_data["content_blocks"]`), and Agno sends
those; of these, too, only what is in view goes out.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any, Final, Unpack

from wane.conversation import Adapter, Call, Conversation
from wane.core import DEFAULT_BUDGET, DELIMITER, OWN_TOOLS, Kind
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import SIGNED, UNTIED, Tie, couple
from wane.formats.fields import shown_text
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import join_contents, mend_calls, speaker_by_role
from wane.integrations.lifecycle import (
    UNMANAGED_CALL,
    HostMarks,
    LifecycleSettings,
    Warner,
    has_budget,
    insert_passing,
    maker,
    set_overhead,
    split_passing,
    with_guidance,
)

try:
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.message import Message
    from agno.models.response import ModelResponse
    from agno.tools.function import Function, FunctionCall
except ImportError as error:
    raise MissingExtraError("wane.integrations.agno", "agno") from error

__all__ = ["ContextLifecycle"]

SESSIONS: Final = 1_000
"""Sessions whose conversations are kept in memory. An older one is made anew from its messages when it goes on."""

_COMPETES: Final = (
    "Wane keeps the agent's requests small, and its session whole: leave out `compaction`, `compress_tool_results`, "
    "`num_history_messages` and `max_tool_calls_from_history`"
)
_CHAINS: Final = ("response_id", "interaction_id")
"""Fields of `provider_data` by which a provider continues a conversation that it holds, instead of what is sent."""


class ContextLifecycle(HostMarks):
    """Keeps an agent's requests within a token budget, evicting by episode. Its session stays whole.

    The agent gets the tool `delimiter`, and guidance in its system prompt. One object serves any number of agents and
    of their sessions, each with a window of its own.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        self._make = maker(AgnoFormat(), _Adapter(), budget, self, **settings)
        self._make_for_claude = maker(AgnoFormat(), _ClaudeAdapter(), budget, self, **settings)
        self._sample = self._make()
        self.marks = self._sample.settings.annotate == "host"
        self.instructions = self._sample.instructions
        self._warner = Warner(_COMPETES)

    def attach(self, agent: Agent) -> Agent:
        """Give an agent its window and its tools, and return the agent. Members of a team get it one by one.

        The agent's model is replaced by a copy of the same class, so that a model that others share stays as it is.
        If the agent replays the last three runs alone, which is Agno's default, it replays all of them from now on.
        A model of OpenAI's Responses gets each conversation whole, and no longer the id of the last response.

        Raises:
            ValueError: for an agent without a model.
        """
        if not isinstance(agent.model, Model):
            raise ValueError(f"the agent {agent.name or agent.id!r} has no model; give it one first")
        if agent.compaction or agent.compress_tool_results or agent.max_tool_calls_from_history is not None:
            self._warner.warn(_COMPETES)
        if agent.num_history_messages is not None:
            self._warner.warn(_COMPETES)
        elif agent.num_history_runs == 3:
            agent.num_history_runs = sys.maxsize
        make = self._make_for_claude if _leaves_cache_out(agent.model) else self._make
        model = copy.copy(agent.model)
        model.__class__ = _managed_class(type(agent.model))
        if hasattr(model, "use_previous_response_id"):
            # OpenAI would continue its own copy of the whole conversation, and Agno would not store the reasoning.
            model.use_previous_response_id = False
        model.windows = _Windows(make, self._warner, self.instructions)  # type: ignore[attr-defined]
        agent.model = model
        for tool in self._sample.own_tools:
            agent.add_tool(
                Function(
                    name=tool.name,
                    description=tool.description,
                    parameters=dict(tool.schema),
                    entrypoint=_answer_unmanaged,
                    skip_entrypoint_processing=True,
                )
            )
        return agent


class _Adapter(Adapter[Message]):
    def key(self, message: Message) -> str:
        return message.id

    def usage(self, message: Message) -> int:
        return message.metrics.input_tokens if message.role == "assistant" else 0

    def time(self, message: Message) -> float:
        return float(message.created_at)


class _ClaudeAdapter(_Adapter):
    """Anthropic and Bedrock do not count cached tokens as input."""

    def usage(self, message: Message) -> int:
        if message.role != "assistant":
            return 0
        metrics = message.metrics
        return metrics.input_tokens + metrics.cache_read_tokens + metrics.cache_write_tokens


_PERSON: Final = "wane_person"
"""Key of a result's `provider_data`, if a person gave it."""


def _leaves_cache_out(model: Model) -> bool:
    """Whether the input tokens that a model reports are without the cached ones (`agno/models/anthropic`, `aws`)."""
    return not {"Claude", "AwsBedrock"}.isdisjoint(base.__name__ for base in type(model).__mro__)


def _answer_unmanaged(**_: Any) -> str:
    """Answer an own call whose conversation is not known; the window puts its own answer in the place of this."""
    return UNMANAGED_CALL


class _Windows:
    """The conversations of one agent's sessions."""

    def __init__(self, make: Any, warner: Warner, instructions: str) -> None:
        self._make = make
        self._warner = warner
        self._instructions = instructions
        self._lock = Lock()
        self._by_session: OrderedDict[str, Conversation[Message]] = OrderedDict()
        self._by_answer: OrderedDict[str, Conversation[Message]] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Windows:
        """Stay one for all copies that Agno makes of an agent."""
        return self

    def view(self, arguments: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a model call, with a view in place of the whole history.

        Args:
            arguments: those of `Model.invoke`, all by name.
            settings: the model's own, of which thinking on a budget matters.
        """
        run, messages = arguments.get("run_response"), arguments["messages"]
        tools = arguments.get("tools") or []
        names = {tool.get("function", tool).get("name") for tool in tools}
        session = getattr(run, "session_id", None)
        # Agno asks the agent's model for other things, too: memories, titles, summaries of a session.
        if session is None or (self._instructions and DELIMITER not in names):
            return arguments
        conversation = self._find(f"{getattr(run, 'agent_id', '')}\n{session}")
        history, passing = split_passing([m for m in messages if m.role != "system"], lambda m: not m.temporary)
        system = [m for m in messages if m.role == "system"]
        conversation.keep_opening = has_budget(settings.get("thinking"))
        prompts = [message.get_content_string() for message in system]
        # The reason of a person is the result of the call that he rejected; later runs have the message alone (R21).
        rejected = {
            tool.tool_call_id
            for tool in getattr(run, "tools", None) or ()
            if tool.confirmed is False and tool.confirmation_note
        }
        for message in messages:
            if message.role == "tool" and message.tool_call_id in rejected:
                message.provider_data = {**(message.provider_data or {}), _PERSON: True}
        fixed = json.dumps([prompts, self._instructions, list(map(_definition, tools))], default=str)
        try:
            set_overhead(conversation, fixed, [message for _, message in passing])
            self._warner.warn_replaced(conversation.host.ingest(history))
        except (FormatError, HistoryError) as error:
            self._warner.warn_unmanaged(error)
            others = [tool for tool in tools if tool.get("function", tool).get("name") not in OWN_TOOLS]
            return {**arguments, "tools": others or None}
        prompt = with_guidance(system, self._instructions, Message.get_content_string, _with_text)
        sent = insert_passing(conversation.request(), passing, conversation)
        answer = arguments.get("assistant_message")
        if answer is not None:
            with self._lock:
                _remember(self._by_answer, answer.id, conversation)
        return {**arguments, "messages": [*prompt, *map(_without_chain, sent)]}

    def prepare_calls(self, answer: Message, calls: list[FunctionCall]) -> list[FunctionCall]:
        """Judge all marks of an answer in order, before its tools run, and have own calls answered by its window."""
        with self._lock:
            conversation = self._by_answer.pop(answer.id, None)
        if conversation is None:
            return calls
        conversation.host.foresee([_call_of(call) for call in answer.tool_calls or []])
        for call in calls:
            if call.function.name in OWN_TOOLS:
                own: Call[Message] = Call(call.function.name, call.arguments or {}, call.call_id)
                call.function = copy.copy(call.function)
                call.function.entrypoint = _answering(conversation, own)
        return calls

    def _find(self, key: str) -> Conversation[Message]:
        with self._lock:
            conversation = self._by_session.get(key) or self._make()
            _remember(self._by_session, key, conversation)
            return conversation


def _remember(conversations: OrderedDict[str, Conversation[Message]], key: str, value: Conversation[Message]) -> None:
    conversations[key] = value
    conversations.move_to_end(key)
    if len(conversations) > SESSIONS:
        conversations.popitem(last=False)


def _answering(conversation: Conversation[Message], call: Call[Message]) -> Any:
    def answer(**_: Any) -> str:
        return conversation.host.answer(call)

    return answer


def _call_of(call: Mapping[str, Any]) -> Call[Message]:
    function = call["function"]
    return Call(function["name"], function.get("arguments") or "{}", call.get("id"))


def _definition(tool: Mapping[str, Any]) -> list[Any]:
    """What a model reads of a tool. Some models of Agno add fields to the dictionary at the first request."""
    function = tool.get("function", tool)
    parameters = function.get("parameters") or {}
    return [function.get("name"), function.get("description"), parameters.get("properties")]


def _with_text(message: Message | None, text: str) -> Message:
    """Return a system message with another text, or a new one."""
    return Message(role="system", content=text) if message is None else message.model_copy(update={"content": text})


def _without_chain(message: Message) -> Message:
    """Return a message without what would have the provider continue its own copy of the whole history."""
    data = message.provider_data
    if not data or not any(key in data for key in _CHAINS):
        return message
    kept = {key: value for key, value in data.items() if key not in _CHAINS}
    return message.model_copy(update={"provider_data": kept or None})


@cache
def _managed_class(model: type[Model]) -> type[Model]:
    """Return a subclass of a model's class whose calls send a view. It has the name of the class, which Agno stores."""

    class ManagedAgnoModel(model):  # type: ignore[valid-type,misc]
        windows: _Windows

        def invoke(self, **arguments: Any) -> ModelResponse:
            return model.invoke(self, **self.windows.view(arguments, vars(self)))

        async def ainvoke(self, **arguments: Any) -> ModelResponse:
            return await model.ainvoke(self, **self.windows.view(arguments, vars(self)))

        def invoke_stream(self, **arguments: Any) -> Iterator[ModelResponse]:
            yield from model.invoke_stream(self, **self.windows.view(arguments, vars(self)))

        async def ainvoke_stream(self, **arguments: Any) -> AsyncIterator[ModelResponse]:
            async for response in model.ainvoke_stream(self, **self.windows.view(arguments, vars(self))):
                yield response

        def get_function_calls_to_run(
            self, assistant_message: Message, messages: list[Message], functions: Any = None
        ) -> list[FunctionCall]:
            calls = model.get_function_calls_to_run(self, assistant_message, messages, functions)
            return self.windows.prepare_calls(assistant_message, calls)

    ManagedAgnoModel.__name__, ManagedAgnoModel.__qualname__, ManagedAgnoModel.__module__ = (
        model.__name__,
        model.__qualname__,
        model.__module__,
    )
    return ManagedAgnoModel


# The messages


class AgnoFormat(NativeFormat[Message]):
    """Messages of Agno.

    A part's location is `"reasoning"`, `"served"` (what the provider ran, with its results), `"text"`, `"result"`, or
    the number of a call.
    """

    name = "agno"

    def locate_parts(self, message: Message) -> list[Located[str | int]]:
        if not isinstance(message, Message):
            raise FormatError(f"a message must be a Message of Agno, found {type(message).__name__}")
        text, media = _text_of(message)
        match message.role:
            case "system" | "developer":
                return [("text", turn_part(text, media, system=True))]
            case "user":
                return [("text", turn_part(text, media))]
            case "tool":
                person = bool((message.provider_data or {}).get(_PERSON))
                part = Part(Kind.RESULT, text, call_id=message.tool_call_id, extra_tokens=media, person=person)
                return [("result", part)]
            case "assistant":
                return _answer_parts(message, text, media)
        raise FormatError(f"role {message.role!r} is unknown; known: system, developer, user, assistant, tool")

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        located = self.locate_parts(message)
        if len(positions) == len(located):
            return message
        locations = {located[position][0] for position in positions}
        calls = [call for number, call in enumerate(message.tool_calls or []) if number in locations]
        kept: dict[str, Any] = {"tool_calls": calls or None}
        if "text" not in locations:
            kept["content"] = None
        data = dict(message.provider_data or {})
        if "reasoning" not in locations:
            kept.update(reasoning_content=None, redacted_reasoning_content=None)
            data.pop("signature", None)
            data.pop("reasoning_output", None)
        if isinstance(data.get("content_blocks"), list):
            ids = {call.get("id") for call in calls}
            data["content_blocks"] = [block for block in data["content_blocks"] if _is_kept(block, locations, ids)]
        kept["provider_data"] = data or None
        return message.model_copy(update=kept)

    def speaker(self, message: Message) -> str | None:
        return speaker_by_role(message.role, has_calls=bool(message.tool_calls))

    def merge(self, first: Message, second: Message) -> Message:
        content = join_contents(first.content or "", second.content or "")
        media = {name: [*(getattr(first, name) or ()), *(getattr(second, name) or ())] or None for name in _MEDIA}
        # The later one of two answers has the calls.
        base = second if second.role == "assistant" else first
        return base.model_copy(update={"content": content, **media})

    def note_result(self, message: Message, text: str) -> Message | None:
        if message.role != "tool":
            return None
        return message.model_copy(update={"content": join_contents(message.content or "", text)})

    def sendable(self, message: Message) -> Message:
        """Return a message in which own calls whose arguments are no object have an empty one."""
        calls = message.tool_calls or []
        mended = mend_calls(calls)
        return message if mended is calls else message.model_copy(update={"tool_calls": mended})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        function = {"name": name, "description": description, "parameters": dict(schema)}
        return {"type": "function", "function": function}

    def turn(self, text: str) -> Message:
        return Message(role="user", content=text, temporary=True)

    def result(self, message: Message, position: int, text: str) -> Message:
        part = self.locate_parts(message)[position][1]
        return Message(role="tool", content=text, tool_call_id=part.call_id, tool_name=part.tool)

    def clear_result(self, message: Message, position: int, text: str) -> Message:  # noqa: ARG002 - a message has one result
        return message.model_copy(update={"content": text, "compressed_content": None})


_MEDIA: Final = ("images", "audio", "videos", "files")


def _text_of(message: Message) -> tuple[str, int]:
    """The text of a message, and the estimate for what is no text in it."""
    media = sum(len(getattr(message, name) or ()) for name in _MEDIA)
    if not isinstance(message.content, list):
        return message.content or "", media * NON_TEXT_TOKENS
    texts: list[str] = []
    for block in message.content:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif isinstance(block, dict) and str(block.get("type")).startswith(("image", "document", "input_", "audio")):
            media += 1
        else:
            texts.append(shown_text(block))
    return "".join(texts), media * NON_TEXT_TOKENS


def _answer_parts(message: Message, text: str, media: int) -> list[Located[str | int]]:
    located: list[Located[str | int]] = []
    seal = _seal(message)
    if message.reasoning_content or seal:
        thought = message.reasoning_content or ""
        located.append(("reasoning", Part(Kind.REASONING, thought, extra_tokens=0 if thought else len(seal) // 4)))
    blocks = _blocks(message)
    ran = [block for block in blocks if _is_served(block)]
    if ran:
        located.append(("served", Part(Kind.TEXT, "\n".join(map(shown_text, ran)))))
    if text or media:
        located.append(("text", Part(Kind.TEXT, text, extra_tokens=media)))
    for number, call in enumerate(message.tool_calls or []):
        function = call.get("function") or {}
        arguments = shown_text(function.get("arguments") or "{}")
        part = Part(Kind.CALL, call_id=call.get("id"), tool=function.get("name"), arguments=arguments)
        located.append((number, part))
    cites = any(block.get("citations") for block in blocks)
    ties = {"reasoning": SIGNED if seal else UNTIED, "served": Tie(served=True), "text": Tie(cites=cites)}
    return couple(located, [ties.get(str(location), UNTIED) for location, _ in located])


def _blocks(message: Message) -> list[Any]:
    """The blocks of Claude's answer, as they came."""
    blocks = (message.provider_data or {}).get("content_blocks")
    return blocks if isinstance(blocks, list) else []


def _is_served(block: Mapping[str, Any]) -> bool:
    """Whether a block is a call that the provider ran, or its result."""
    kind = str(block.get("type"))
    return kind in ("server_tool_use", "mcp_tool_use") or kind.endswith("_tool_result")


def _seal(message: Message) -> str:
    """What a provider needs to recognise its reasoning; empty if there is none."""
    data = message.provider_data or {}
    thinking = [block for block in _blocks(message) if "thinking" in str(block.get("type"))]
    sealed = [message.redacted_reasoning_content, data.get("signature"), data.get("reasoning_output"), *thinking]
    return "".join(shown_text(value) for value in sealed if value)


def _is_kept(block: Mapping[str, Any], locations: set[str | int], ids: set[Any]) -> bool:
    """Whether a block of Claude's answer belongs to what is kept of it."""
    kind = str(block.get("type"))
    if kind == "tool_use":
        return block.get("id") in ids
    if "thinking" in kind:
        return "reasoning" in locations
    return ("served" if _is_served(block) else "text") in locations

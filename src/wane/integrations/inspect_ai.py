"""Context Window Lifecycle for Inspect AI. Needs the `inspect-ai` extra.

    lifecycle = ContextLifecycle(budget="80k")
    react(model=lifecycle.model(), tools=[bash(), lifecycle])

The sample's messages and the log stay complete; each model call gets a view of them. The state of the view is stored in
the sample's store, which a checkpoint saves, so that a retried sample continues with the same view.

What the messages become:

| content | item of Wane |
|---|---|
| a system message | system |
| a user message | user, or a notice |
| `ContentText` and everything else of an answer, also what the provider ran (`ContentToolUse`) | text |
| `ContentReasoning` | reasoning |
| an entry of `tool_calls` | call |
| a tool message | result; the text of its error, if it has one |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import takewhile
from typing import Any, Final, TypeAlias, Unpack

from wane.conversation import Adapter, Call, Conversation, Conversations, Tool, calls_of
from wane.core import DEFAULT_BUDGET, Kind
from wane.core.errors import ConfigError, FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import NAMED, PLACED, UNTIED, Tie, couple
from wane.formats.fields import compact, sealed_tokens, type_name
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS, join_texts
from wane.integrations.lifecycle import LifecycleSettings, Warner, maker

try:
    from inspect_ai.agent import Agent, AgentState
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        ContentReasoning,
        ContentText,
        Model,
        ModelOutput,
        get_model,
    )
    from inspect_ai.tool import Tool as AgentTool
    from inspect_ai.tool import ToolDef, ToolInfo, ToolParams, ToolSource
    from inspect_ai.util import store
except ImportError as error:
    raise MissingExtraError("wane.integrations.inspect_ai", "inspect-ai") from error

__all__ = ["ContextLifecycle"]

_TEXT_FIELDS: Final = ("think", "reasoning", "reasoning_content")
"""Where Chat Completions have reasoning as text. Inspect notes which in `internal`, where others note what seals it."""
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
                self._warner.warn_unmanaged(error)
                others = [tool for tool in definitions if tool.name not in self._own]
                return _take_answer(state, await answering.generate(state.messages, others))
            conversation.keep_opening = "claude" in answering.name
            infos = [ToolInfo(name=it.name, description=it.description, parameters=it.parameters) for it in definitions]
            counted = [info.model_dump(mode="json", exclude_none=True) for info in infos]
            conversation.overhead = json.dumps([self.instructions, *counted])
            request = conversation.request()
            sent = request.messages
            first = sum(1 for _ in takewhile(lambda message: isinstance(message, ChatMessageSystem), sent))
            output = await answering.generate([*sent[:first], *self._guidance, *sent[first:]], tools)
            conversation.observe(_input_tokens(output), request=request)
            answer = [choice.message for choice in output.choices[:1]]
            self._conversations.judge_answer(conversation, calls_of(conversation.format, answer), answer)
            self._conversations.save(conversation)
            _asking.set(conversation)
            return _take_answer(state, output)

        return lifecycle

    def _conversation(self, messages: Sequence[ChatMessage]) -> Conversation[ChatMessage]:
        """The conversation that these messages continue, after it took them in."""
        last = _asking.get()
        conversation = self._conversations.of(messages)
        earlier = [] if last is None or last is conversation or last.host.shares(messages) else last.messages
        if earlier and earlier[0].id == messages[0].id and _has_answer(earlier) and _has_answer(messages):
            self._warner.warn(_REPLACED)
        return conversation


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
    # Inspect refuses calls before the tool runs, so the schema accepts whatever Wane accepts.
    properties = dict(tool.schema["properties"])
    for name in properties.keys() - set(tool.schema.get("required", ())):
        plain = {key: value for key, value in properties[name].items() if key != "description"}
        properties[name] = {"anyOf": [plain, {"type": "null"}], "description": properties[name]["description"]}

    async def execute(**kwargs: Any) -> str:
        conversation = _asking.get()
        return _NOWHERE if conversation is None else conversation.host.answer(Call(tool.name, kwargs))

    return ToolDef(
        execute,
        name=tool.name,
        description=tool.description,
        parameters=ToolParams.model_validate({**tool.schema, "properties": properties, "additionalProperties": True}),
        parallel=False,
        max_output=0,
    ).as_tool()


def _has_answer(messages: Sequence[ChatMessage]) -> bool:
    return any(isinstance(message, ChatMessageAssistant) for message in messages)


def _take_answer(state: AgentState, output: ModelOutput) -> AgentState:
    state.output = output
    state.messages.append(output.message)
    return state


def _input_tokens(output: ModelOutput) -> int:
    """All input tokens of a request; `input_tokens` excludes cached ones."""
    usage = output.usage
    if output.input_context_tokens is not None or usage is None:
        return int(output.input_context_tokens or 0)
    return int(usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0))


# The messages


Location: TypeAlias = tuple[str, int]
"""Where a part stands: in the whole message, in its content by position, or in its calls by position."""


class InspectFormat(NativeFormat[ChatMessage]):
    """Messages of Inspect AI."""

    name = "inspect_ai"

    def locate_parts(self, message: object) -> list[Located[Location]]:
        if isinstance(message, ChatMessageAssistant):
            located = list(_answer_parts(message))
            return couple(located, _ties(message, located))
        if not isinstance(message, (ChatMessageSystem, ChatMessageUser, ChatMessageTool)):
            raise FormatError(f"a message must be one of Inspect's, found {type_name(message)}")
        text, extra = _text_of(message.content)
        if not isinstance(message, ChatMessageTool):
            return [(("whole", 0), turn_part(text, extra, system=isinstance(message, ChatMessageSystem)))]
        # The model reads the error in place of the content.
        text = text if message.error is None else message.error.message
        return [(("whole", 0), Part(Kind.RESULT, text, call_id=message.tool_call_id, extra_tokens=extra))]

    def keep(self, message: ChatMessage, positions: Sequence[int]) -> ChatMessage:
        # Its id tells which parts, as logs tell messages apart by id.
        if not isinstance(message, ChatMessageAssistant):
            return message
        located = self.locate_parts(message)
        locations = {located[position][0] for position in positions}
        content: Any = message.content
        if isinstance(content, str):
            content = content if ("content", 0) in locations else ""
        else:
            content = [entry for number, entry in enumerate(content) if ("content", number) in locations]
        calls = [call for number, call in enumerate(message.tool_calls or ()) if ("call", number) in locations]
        new_id = f"{message.id}:{','.join(map(str, positions))}"
        return message.model_copy(update={"id": new_id, "content": content, "tool_calls": calls or None})

    def speaker(self, message: ChatMessage) -> str | None:
        if isinstance(message, ChatMessageUser):
            return "user"
        if not isinstance(message, ChatMessageAssistant):
            return RESULTS if isinstance(message, ChatMessageTool) else None
        return CALLING if message.tool_calls else "assistant"

    def merge(self, first: ChatMessage, second: ChatMessage) -> ChatMessage:
        # Its id tells of both, as logs tell messages apart by id.
        update = {"id": f"{first.id}+{second.id}", "content": _join(first, second.content)}
        # The later one of two answers has the calls.
        base = second if isinstance(second, ChatMessageAssistant) else first
        return base.model_copy(update=update)

    def note_result(self, message: ChatMessage, text: str) -> ChatMessage | None:
        # The model reads the error in place of the content.
        if not isinstance(message, ChatMessageTool) or message.error is not None:
            return None
        return message.model_copy(update={"id": f"{message.id}+note", "content": _join(message, text)})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> ToolInfo:
        return ToolInfo(name=name, description=description, parameters=ToolParams.model_validate(schema))

    def turn(self, text: str) -> ChatMessage:
        return ChatMessageUser(content=text)

    def result(self, message: ChatMessage, position: int, text: str) -> ChatMessage:
        call = self.locate_parts(message)[position][1]
        return ChatMessageTool(content=text, tool_call_id=call.call_id, function=call.tool)

    def clear_result(self, message: ChatMessage, position: int, text: str) -> ChatMessage:  # noqa: ARG002 - it has one part
        return message.model_copy(update={"content": text, "error": None})


def _join(message: ChatMessage, content: str | list[Any]) -> str | list[Any]:
    """The content of a message with more behind it."""
    if isinstance(message.content, str) and isinstance(content, str):
        return join_texts(message.content, content)
    more = [ContentText(text=content)] if isinstance(content, str) else content
    return [*message.content_list, *more]


def _answer_parts(message: ChatMessageAssistant) -> Iterator[Located[Location]]:
    for number, entry in enumerate(message.content_list):
        text, extra = _text_of([entry])
        if isinstance(entry, ContentReasoning):
            yield ("content", number), Part(Kind.REASONING, text, extra_tokens=extra)
        elif text or extra:
            yield ("content", number), Part(Kind.TEXT, text, extra_tokens=extra)
    for number, call in enumerate(message.tool_calls or ()):
        part = Part(Kind.CALL, call_id=call.id, tool=call.function, arguments=compact(call.arguments))
        yield ("call", number), part


def _text_of(content: Any) -> tuple[str, int]:
    """The text of a content, and the estimate for what is no text in it."""
    if isinstance(content, str):
        return content, 0
    texts, extra = list[str](), 0
    for entry in content:
        match entry.type:
            case "text":
                texts.append(entry.text)
            case "reasoning" if entry.redacted:
                texts.append(entry.summary or "")
                extra += 0 if entry.summary else sealed_tokens(entry.reasoning, 0)
            case "reasoning":
                texts.append(entry.reasoning)
            case "tool_use":
                texts.append("\n".join(filter(None, (entry.name, entry.arguments, entry.result, entry.error))))
            case "data":
                texts.append(compact(entry.data))
            case _:
                extra += NON_TEXT_TOKENS
    return "\n".join(texts), extra


def _ties(message: ChatMessageAssistant, located: Sequence[Located[Location]]) -> list[Tie]:
    """What ties each part to others: OpenAI knows its reasoning by an id, other providers by a signature (R12)."""
    entries, ties = message.content_list, list[Tie]()
    for (_, number), part in located:
        entry = entries[number] if part.kind is Kind.REASONING else None
        tie = UNTIED
        if isinstance(entry, ContentReasoning) and (
            entry.signature or entry.redacted or (entry.internal and entry.internal not in _TEXT_FIELDS)
        ):
            tie = NAMED if (entry.signature or "").startswith("rs_") else PLACED
        ties.append(tie)
    return ties

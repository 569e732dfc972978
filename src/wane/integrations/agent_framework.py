"""Context Window Lifecycle for Microsoft Agent Framework. Needs the `agent-framework` extra.

    agent = Agent(client, tools=tools, context_providers=[ContextLifecycle(budget="80k")])

The session's messages stay whole, wherever they are stored; each model call gets a view of them. The state of the view
is kept in the provider's own part of the `AgentSession`, so that any process can continue it.

The `contents` of a `Message` are text, reasoning, calls, results and media. What a provider runs by itself stands in an
answer as a call and its result: text to Wane, and kept together.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from wane.conversation import Adapter, Call, Conversation, calls_of
from wane.core import DEFAULT_BUDGET, Kind
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import NAMED, UNTIED, Seal, Tie, couple
from wane.formats.fields import sealed_tokens
from wane.formats.message_format import Located, NativeFormat, Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import join_texts, must_mend, speaker_by_role
from wane.integrations.lifecycle import (
    LifecycleSettings,
    Warner,
    after_answer,
    has_budget,
    insert_passing,
    maker,
    resume,
    set_overhead,
    split_passing,
)

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatResponse,
        CompactionProvider,
        Content,
        ContextProvider,
        FunctionInvocationContext,
        FunctionTool,
        HistoryProvider,
        Message,
        SessionContext,
    )
except ImportError as error:
    raise MissingExtraError("wane.integrations.agent_framework", "agent-framework") from error

__all__ = ["ContextLifecycle"]

_STORED: Final = (
    "the service stores the conversation and requests hold only what is new, so nothing can be evicted. Run the agent "
    'with options={"store": False}'
)
_PERSISTED: Final = (
    "the history is loaded anew inside of each model call, so nothing can be evicted. Set the agent's "
    "require_per_service_call_history_persistence to False"
)
_COMPACTED: Final = (
    "the framework compacts messages beside it, and what it takes out cannot be recalled. Set compaction_strategy to "
    "None, and take a CompactionProvider out of context_providers"
)


class ContextLifecycle(ContextProvider):
    """Keeps an agent's requests within a token budget, evicting by episode. Its stored messages stay whole.

    The agent gets the tool `delimiter` and guidance in its instructions. One object serves any number of agents and
    sessions; each agent has a window of its own in each session.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        source_id: the name of its state in the session.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(
        self, budget: int | str = DEFAULT_BUDGET, *, source_id: str = "wane", **settings: Unpack[LifecycleSettings]
    ) -> None:
        super().__init__(source_id)
        self._make = maker(AgentFrameworkFormat(), Adapter[Message](), budget, **settings)
        self._warner = Warner(_COMPACTED)
        sample = self._make()
        self._instructions = sample.instructions
        self._tools = [
            FunctionTool(name=tool.name, description=tool.description, input_model=tool.schema, func=_not_through_us)
            for tool in sample.own_tools
        ]
        self._runs: WeakKeyDictionary[SessionContext, _AgentRun] = WeakKeyDictionary()

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Join a run of an agent, unless its history is out of reach."""
        if (reason := _out_of_reach(agent, session, context)) is not None:
            self._warner.warn(reason)
            return
        providers = getattr(agent, "context_providers", ())
        if any(isinstance(provider, CompactionProvider) for provider in providers):
            self._warner.warn(_COMPACTED)
        if self._instructions:
            context.extend_instructions(self.source_id, self._instructions)
        context.extend_tools(self.source_id, self._tools)
        saved = state.get("agents", {}).get(_name(agent)) or {}
        stores = frozenset(provider.source_id for provider in providers if isinstance(provider, HistoryProvider))
        run = self._runs[context] = _AgentRun(self, saved, stores)
        # The framework tells the two apart by the types of their contexts.
        context.extend_middleware(self.source_id, [run.ask, run.call])

    async def after_run(
        self,
        *,
        agent: Any,
        session: AgentSession,  # noqa: ARG002
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Store the run's state, which fits the history that is stored now too. A run that failed stores neither."""
        if run := self._runs.pop(context, None):
            state.setdefault("agents", {})[_name(agent)] = run.saved


class _AgentRun:
    """One run of an agent, with a conversation of its own: several runs of a session may go on at once.

    Attributes:
        saved: the state of the conversation after the latest answer, to be stored.
        managed: whether the latest request was a view; True before the first one.
    """

    def __init__(self, lifecycle: ContextLifecycle, saved: Mapping[str, Any], stores: frozenset[str]) -> None:
        self._lifecycle, self.saved, self._stores = lifecycle, saved, stores
        self._conversation: Conversation[Message] | None = None
        self._calls: dict[str | None, Call[Message]] = {}
        self.managed = True

    async def ask(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Wrap a model call, inside the function loop."""
        self.managed = self._view(context)
        if not self.managed:
            options, lifecycle = dict(context.options or {}), self._lifecycle
            if isinstance(tools := options.get("tools"), Sequence):
                options["tools"] = [tool for tool in tools if tool not in lifecycle._tools]
            if isinstance(text := options.get("instructions"), str):
                options["instructions"] = text.replace(lifecycle._instructions, "").rstrip() or None
            context.options = options
        elif context.stream:
            # The end of a stream has the usage.
            context.stream_result_hooks.append(self._take_answer)
        await call_next()
        if self.managed and isinstance(context.result, ChatResponse):
            self._take_answer(context.result)

    async def call(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Wrap a call of a tool, before its arguments are validated, and answer an own call."""
        name, call_id = context.function.name, context.metadata.get("call_id")
        if name not in {tool.name for tool in self._lifecycle._tools}:
            await call_next()
        # After an approval, a run begins with the tools of the last answer.
        elif (text := self.saved.get("told", {}).get(call_id)) is not None:
            context.result = text
        elif self._conversation is None or not self.managed:
            again = "Call it again" if self.managed else "Do not call it again"
            context.result = f"Error: `{name}` cannot be answered now. {again}."
        else:
            call = self._calls.get(call_id) or Call(name, context.arguments, call_id)
            context.result = self._conversation.host.answer(call)

    def _view(self, context: ChatContext) -> bool:
        """Replace a request's messages by a view; return False if that is not possible."""
        options, warner = context.options or {}, self._lifecycle._warner
        if options.get("conversation_id"):
            warner.warn(_STORED)
            return False
        if context.kwargs.get("compaction_strategy") or getattr(context.client, "compaction_strategy", None):
            warner.warn(_COMPACTED)
        history, passing = split_passing(context.messages, self._is_of_history)
        try:
            conversation = self._conversation or resume(self._lifecycle._make, self.saved, history, warner)
            warner.warn_replaced(conversation.host.ingest(history))
            self._conversation = conversation
            fixed = f"{options.get('instructions') or ''}{_definitions(options.get('tools'))}"
            set_overhead(conversation, fixed, [message for _, message in passing])
        except (FormatError, HistoryError) as error:
            warner.warn_unmanaged(error)
            return False
        conversation.keep_opening = has_budget(options.get("thinking"))
        context.messages = insert_passing(conversation.request(), passing, conversation)
        return True

    def _take_answer(self, response: ChatResponse[Any]) -> None:
        """Take in a request's usage, and judge the answer's calls, because tools run before it is in the history."""
        conversation = self._conversation
        assert conversation is not None
        conversation.observe(_input_tokens(response.usage_details or {}))
        calls = calls_of(conversation.format, response.messages)
        self.saved = after_answer(conversation, calls)
        self._calls = {call.id: call for call in calls}

    def _is_of_history(self, message: Message) -> bool:
        """Whether a message is new or from a loaded history, and was not added to this run by another provider."""
        origin = message.additional_properties.get("_attribution")
        return not isinstance(origin, Mapping) or origin.get("source_id") in self._stores


def _name(agent: Any) -> str:
    """An agent's name, by which its state is stored."""
    return getattr(agent, "name", None) or ""


async def _not_through_us(**_: Any) -> str:
    return "Error: this tool works only in a run of an agent that has `ContextLifecycle` in its `context_providers`."


def _out_of_reach(agent: Any, session: AgentSession, context: SessionContext) -> str | None:
    """Why requests will not have the whole history, by the framework's own rules; None if they will."""
    options = {name: value for name, value in context.options.items() if value is not None}
    options = {**(getattr(agent, "default_options", None) or {}), **options}
    store = options.get("store")
    if store is None:
        store = getattr(getattr(agent, "client", None), "STORES_BY_DEFAULT", False)
    if store or session.service_session_id or options.get("conversation_id"):
        return _STORED
    if getattr(agent, "require_per_service_call_history_persistence", False) and any(
        isinstance(provider, HistoryProvider) for provider in agent.context_providers
    ):
        return _PERSISTED
    return None


def _input_tokens(usage: Mapping[str, Any]) -> int:
    """All input tokens of a request; Anthropic's count excludes tokens read from and written to its cache."""
    reported = usage.get("input_token_count") or 0
    cached = sum(usage.get(f"cache_{what}_input_token_count") or 0 for what in ("read", "creation"))
    apart = cached > reported or any(str(name).startswith("anthropic.") for name in usage)
    return int(reported + cached if apart else reported)


def _definitions(tools: Any) -> str:
    """The definitions of a request's tools, as text to count."""
    definitions: list[Any] = []
    if tools is None:
        tools = []
    for tool in tools if isinstance(tools, Sequence) else [tools]:
        definition = tool
        if isinstance(tool, FunctionTool):
            # OpenAI's clients add the last one to a tool's own schema when they first send it.
            schema = {**tool.parameters(), "additionalProperties": False}
            definition = {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}
        definitions.append(definition)
    return json.dumps(definitions, default=str)


# The messages


_TURNS: Final = {"user": Kind.USER, "system": Kind.SYSTEM, "developer": Kind.SYSTEM}
_MEDIA: Final = frozenset({"data", "uri", "hosted_file", "hosted_vector_store"})
_UNSAID: Final = frozenset({"usage", "function_approval_request", "function_approval_response"})
"""What no model reads: the framework resolves approvals ahead of a request."""


class AgentFrameworkFormat(NativeFormat[Message]):
    """Messages of Agent Framework."""

    name = "agent_framework"

    def locate_parts(self, message: Message) -> list[Located[int]]:
        if not isinstance(message, Message):
            raise FormatError(f"a message must be an Agent Framework Message, found {type(message).__name__}")
        kind, system = _TURNS.get(message.role, Kind.TEXT), False
        texts_only = all(content.type == "text" for content in message.contents)
        if kind is not Kind.TEXT and texts_only and is_notice(message.text, system=kind is Kind.SYSTEM):
            kind, system = Kind.NOTICE, kind is Kind.SYSTEM
        # The provider ran the calls whose results stand in the same message.
        calls = {content.call_id for content in message.contents if content.type.endswith("_call")}
        hosted = calls & {content.call_id for content in message.contents if content.type.endswith("_result")}
        parts = enumerate(_part(content, kind, hosted, system=system) for content in message.contents)
        located = [(location, part) for location, part in parts if part is not None]
        if not located and message.role in _TURNS:
            return [(-1, Part(kind, system=system))]
        if kind is not Kind.TEXT:
            return located
        return couple(located, [_tie(message.contents[location], part) for location, part in located])

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        located = self.locate_parts(message)
        fewer = copy.copy(message)
        fewer.contents = [message.contents[located[position][0]] for position in positions if located[position][0] >= 0]
        return fewer

    def speaker(self, message: Message) -> str | None:
        kinds = {content.type for content in message.contents} - _UNSAID
        return speaker_by_role(message.role, has_calls=any(kind.endswith("_call") for kind in kinds))

    def merge(self, first: Message, second: Message) -> Message:
        merged = copy.copy(first)
        merged.contents = [*first.contents, *second.contents]
        if all(content.type == "text" for content in merged.contents):
            # The framework makes a message of each content.
            merged.contents = [Content.from_text("\n\n".join(content.text or "" for content in merged.contents))]
        return merged

    def note_result(self, message: Message, text: str) -> Message | None:
        position = len(message.contents) - 1
        if position < 0 or message.contents[position].type != "function_result":
            return None
        content = copy.copy(message.contents[position])
        if content.items:
            content.items = [*content.items, Content.from_text(f"\n\n{text}")]
        else:
            content.result = join_texts(_result_text(content)[0], text)
        noted = copy.copy(message)
        noted.contents = [*message.contents[:position], content]
        return noted

    def sendable(self, message: Message) -> Message:
        """Return a message in which own calls whose arguments are no object have an empty one."""
        wrong = [
            content.type == "function_call" and must_mend(content.name, content.arguments)
            for content in message.contents
        ]
        if not any(wrong):
            return message
        mended = copy.copy(message)
        mended.contents = []
        for content, is_wrong in zip(message.contents, wrong, strict=True):
            call = copy.copy(content)
            if is_wrong:
                call.arguments = "{}"
            mended.contents.append(call)
        return mended

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> FunctionTool:
        return FunctionTool(name=name, description=description, input_model=schema)

    def turn(self, text: str) -> Message:
        return Message("user", [text])

    def result(self, message: Message, position: int, text: str) -> Message:
        call = self.locate_parts(message)[position][1]
        return Message("tool", [Content.from_function_result(call_id=call.call_id or "", result=text)])

    def clear_result(self, message: Message, position: int, text: str) -> Message:
        location = self.locate_parts(message)[position][0]
        cleared, content = copy.copy(message), copy.copy(message.contents[location])
        content.result, content.items, content.output, content.outputs = text, None, None, None
        cleared.contents = list(message.contents)
        cleared.contents[location] = content
        return cleared


def _part(content: Content, kind: Kind, hosted: set[str | None], *, system: bool) -> Part | None:
    type_ = content.type
    if type_ == "text":
        text = content.text or ""
        return Part(kind, text, system=system) if text or kind is not Kind.TEXT else None
    if type_ == "text_reasoning":
        text = content.text or ""
        seal = 0 if text else sealed_tokens(content.protected_data, 0)
        return Part(Kind.REASONING, text, extra_tokens=seal) if text or content.protected_data or content.id else None
    if type_ in _UNSAID:
        return None
    if type_ in _MEDIA:
        return Part(kind, extra_tokens=NON_TEXT_TOKENS, system=system)
    if content.call_id and content.call_id not in hosted:
        if type_.endswith("_call"):
            tool = content.name or content.tool_name or type_.removesuffix("_call")
            return Part(Kind.CALL, call_id=content.call_id, tool=tool, arguments=_arguments(content))
        if type_.endswith("_result"):
            text, extra = _result_text(content)
            return Part(Kind.RESULT, text, call_id=content.call_id, extra_tokens=extra)
    return Part(kind, _as_json(content.to_dict(exclude={"raw_representation"})), system=system)


def _tie(content: Content, part: Part) -> Tie:
    """What ties a content to others of its message (R12): a call of the provider's goes with its result."""
    if content.type == "text_reasoning":
        if _is_openai(content):
            return NAMED
        # Chat Completions has the details of reasoning at an answer's end.
        return Tie(Seal.PLACED if content.protected_data else Seal.NONE, unordered=True)
    return Tie(bonds=(content.call_id,)) if part.kind is Kind.TEXT and content.call_id else UNTIED


def _is_openai(content: Content) -> bool:
    return str(content.id or "").startswith("rs_")


def _arguments(content: Content) -> str:
    """The raw text that the model wrote, as far as it is told."""
    arguments: Any = content.arguments
    if arguments is None:
        arguments = content.commands or content.actions or content.inputs
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else _as_json(arguments)


def _result_text(content: Content) -> tuple[str, int]:
    """The text of a result, and the estimate for what is no text in it."""
    if content.items:
        texts = [item.text or "" for item in content.items if item.type == "text"]
        return "\n".join(texts), NON_TEXT_TOKENS * sum(item.type in _MEDIA for item in content.items)
    output = next((value for value in (content.result, content.output, content.outputs) if value is not None), "")
    extra = NON_TEXT_TOKENS if content.screenshot is not None else 0
    return output if isinstance(output, str) else _as_json(output), extra


def _as_json(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, default=lambda leaf: leaf.to_dict() if isinstance(leaf, Content) else str(leaf)
    )

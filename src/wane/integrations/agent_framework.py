"""Context Window Lifecycle for Microsoft Agent Framework. Needs the `agent-framework` extra.

    agent = Agent(client, tools=tools, context_providers=[ContextLifecycle(budget="80k")])

The session's messages stay whole, wherever they are stored; each model call gets a view of them. The state of the view
is kept in the provider's own part of the `AgentSession`, so that any process can continue it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from wane.conversation import Adapter, Call, Conversation, calls_of
from wane.core import DEFAULT_BUDGET
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.integrations.lifecycle import (
    LifecycleSettings,
    Warner,
    after_answer,
    has_budget,
    joined,
    maker,
    parted,
    resumed,
    set_overhead,
)

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatResponse,
        CompactionProvider,
        ContextProvider,
        FunctionInvocationContext,
        FunctionTool,
        HistoryProvider,
        Message,
        SessionContext,
    )
except ImportError as error:
    raise MissingExtraError("wane.integrations.agent_framework", "agent-framework") from error

from wane.formats.frameworks.agent_framework import AgentFrameworkFormat

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
        run = self._runs[context] = _AgentRun(self._make, self._warner, saved, stores)
        own = frozenset(tool.name for tool in self._tools)
        # The framework tells the two apart by the types of their contexts.

        async def ask(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
            # It wraps each model call, inside the function loop.
            run.managed = run.view(context)
            if not run.managed:
                context.options = self._without_own(context.options or {})
            elif context.stream:
                # The end of a stream has the usage.
                context.stream_result_hooks.append(run.answered)
            await call_next()
            if run.managed and isinstance(context.result, ChatResponse):
                run.answered(context.result)

        async def call(context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            # It wraps each call, before its arguments are validated.
            name = context.function.name
            if name in own:
                context.result = run.answer(name, context.arguments, context.metadata.get("call_id"))
            else:
                await call_next()

        context.extend_middleware(self.source_id, [ask, call])

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

    def _without_own(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a request that is not managed."""
        bare = dict(options)
        if isinstance(tools := bare.get("tools"), Sequence):
            bare["tools"] = [tool for tool in tools if tool not in self._tools]
        if isinstance(text := bare.get("instructions"), str):
            bare["instructions"] = text.replace(self._instructions, "").rstrip() or None
        return bare


class _AgentRun:
    """One run of an agent, with a conversation of its own: several runs of a session may go on at once.

    Attributes:
        saved: the state of the conversation after the latest answer, to be stored.
        managed: whether the latest request was a view; True before the first one.
    """

    def __init__(
        self,
        make: Callable[[], Conversation[Message]],
        warner: Warner,
        saved: Mapping[str, Any],
        stores: frozenset[str],
    ) -> None:
        self._make, self._warner, self.saved, self._stores = make, warner, saved, stores
        self._conversation: Conversation[Message] | None = None
        self._calls: dict[str | None, Call[Message]] = {}
        self.managed = True

    def view(self, context: ChatContext) -> bool:
        """Replace a request's messages by a view; return False if that is not possible."""
        options = context.options or {}
        if options.get("conversation_id"):
            self._warner.warn(_STORED)
            return False
        if context.kwargs.get("compaction_strategy") or getattr(context.client, "compaction_strategy", None):
            self._warner.warn(_COMPACTED)
        history, passing = parted(context.messages, self._is_of_history)
        try:
            conversation = self._ingested(history)
            fixed = f"{options.get('instructions') or ''}{_definitions(options.get('tools'))}"
            set_overhead(conversation, fixed, [message for _, message in passing])
        except (FormatError, HistoryError) as error:
            self._warner.unmanaged(error)
            return False
        conversation.keep_opening = has_budget(options.get("thinking"))
        context.messages = joined(conversation.request(), passing, conversation)
        return True

    def answered(self, response: ChatResponse[Any]) -> None:
        """Take in a request's usage, and judge the answer's calls, because tools run before it is in the history."""
        conversation = self._conversation
        assert conversation is not None
        conversation.observe(_input_tokens(response.usage_details or {}))
        calls = calls_of(conversation.format, response.messages)
        self.saved = after_answer(conversation, calls)
        self._calls = {call.id: call for call in calls}

    def answer(self, name: str, arguments: Any, call_id: str | None) -> str:
        """Return the result of an own call. After an approval, a run begins with the tools of the last answer."""
        text: str | None = self.saved.get("told", {}).get(call_id)
        if text is not None:
            return text
        if self._conversation is None or not self.managed:
            again = "Call it again" if self.managed else "Do not call it again"
            return f"Error: `{name}` cannot be answered now. {again}."
        return self._conversation.host.answer(self._calls.get(call_id) or Call(name, arguments, call_id))

    def _is_of_history(self, message: Message) -> bool:
        """Whether a message is new or from a loaded history, and was not added to this run by another provider."""
        origin = message.additional_properties.get("_attribution")
        return not isinstance(origin, Mapping) or origin.get("source_id") in self._stores

    def _ingested(self, messages: Sequence[Message]) -> Conversation[Message]:
        """The agent's conversation, after it took in these messages."""
        conversation = self._conversation
        if conversation is None:
            conversation = resumed(self._make, self.saved, messages, self._warner)
        self._warner.ingested(conversation.host.ingest(messages))
        self._conversation = conversation
        return conversation


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
    if tools is None:
        tools = []
    listed = tools if isinstance(tools, Sequence) else [tools]
    return json.dumps([_definition(tool) if isinstance(tool, FunctionTool) else tool for tool in listed], default=str)


def _definition(tool: FunctionTool) -> dict[str, Any]:
    # OpenAI's clients add the last one to a tool's own schema when they first send it.
    schema = {**tool.parameters(), "additionalProperties": False}
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}

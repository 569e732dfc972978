"""Context Window Lifecycle for Google's Agent Development Kit. Needs the `google-adk` extra.

    app = App(name="app", root_agent=agent, plugins=[ContextLifecycle(budget="80k")])

The session's events stay whole; each model call gets a view of their contents. The state of the view is kept in the
session's state, for each agent and branch, so that any process can continue it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Unpack
from uuid import uuid4
from weakref import finalize

from wane.conversation import Adapter, Call, Conversation, Tool
from wane.conversation.scopes import new_scope, path
from wane.core import DEFAULT_BUDGET, EpisodeType
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.integrations.lifecycle import (
    HostMarks,
    LifecycleSettings,
    Warner,
    after_answer,
    joined,
    maker,
    parted,
    resumed,
    set_overhead,
)

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise MissingExtraError("wane.integrations.google_adk", "google-adk") from error

from wane.formats.frameworks.google_adk import GoogleADKFormat, author_of, is_of_another_agent
from wane.strategies.host import Scope

__all__ = ["ContextLifecycle"]

_STORED: Final = (
    "the Interactions API keeps the conversation and requests hold only what is new, so nothing can be evicted. Set "
    "use_interactions_api of the model to False"
)
_COMPACTED: Final = (
    "the kit compacts or filters contents beside it, and what it takes out cannot be recalled. Take "
    "events_compaction_config and ContextFilterPlugin out of the App"
)


class _Adapter(Adapter[types.Content]):
    """Reads of which step of a workflow a content tells."""

    def __init__(self, steps: str | None) -> None:
        self._steps = steps

    def scopes(self, message: types.Content) -> Sequence[Scope] | None:
        name = author_of(message) if self._steps is not None else None
        return None if name is None else (new_scope(name, self._steps or "", id=f"step:{name}"),)


class ContextLifecycle(BasePlugin, HostMarks):
    """Keeps the requests of an app's agents within a token budget, evicting by episode. The events stay whole.

    Agents get the tool `delimiter` and guidance in their instructions. Each agent has a window of its own in each
    session and branch. Put it last into `plugins`, so that it sees what others have put into a request.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        name: the plugin's name.
        steps: with `annotate="host"`, what the work of a step is: an episode that explores (`expl`) or acts (`act`), or
            a `task`, with the name of its agent. In a `Workflow`, whose agents see their own steps alone, each run of a
            node; elsewhere, the work of another agent that an agent is told of, such as that of the step before it in
            a `SequentialAgent`. None for no episode.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(
        self,
        budget: int | str = DEFAULT_BUDGET,
        *,
        name: str = "wane",
        steps: str | None = None,
        **settings: Unpack[LifecycleSettings],
    ) -> None:
        super().__init__(name=name)
        self._steps = steps
        self._make = maker(GoogleADKFormat(), _Adapter(steps), budget, self, **settings)
        self._warner = Warner(_COMPACTED)
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        if steps is not None:
            self._scope("step", steps)  # to check it
        self._instructions = sample.instructions
        self._tools = {tool.name: _OwnTool(tool) for tool in sample.own_tools}
        # By run and agent, because several runs of a session may go on at once.
        self._runs: dict[tuple[int, str], dict[str, Conversation[types.Content]]] = {}

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace a request's contents by a view."""
        if llm_request.previous_interaction_id:
            self._warner.warn(_STORED)
            return
        running = callback_context.get_invocation_context()
        if running.events_compaction_config or any(
            isinstance(plugin, ContextFilterPlugin) for plugin in running.plugin_manager.plugins
        ):
            self._warner.warn(_COMPACTED)
        user_texts = _user_texts(callback_context)
        history, passing = parted(llm_request.contents, lambda content: _is_of_history(content, user_texts))
        try:
            conversation = self._conversation(callback_context, history)
            if self._instructions:
                llm_request.append_instructions([self._instructions])
            llm_request.append_tools(list(self._tools.values()))
            set_overhead(conversation, _fixed(llm_request.config), [content for _, content in passing])
        except (FormatError, HistoryError) as error:
            self._warner.unmanaged(error)
            return
        thinking = llm_request.config.thinking_config
        budgeted = thinking is not None and (thinking.thinking_budget or 0) > 0
        conversation.keep_opening = budgeted and "claude" in (llm_request.model or "")
        with self._step(callback_context):
            llm_request.contents = joined(conversation.request(), passing, conversation)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Take in a request's usage, and judge the answer's calls, because tools run before it is in the history."""
        conversation = self._conversations(callback_context).get(_key(callback_context))
        if llm_response.partial or conversation is None:
            return
        usage = llm_response.usage_metadata
        conversation.observe((usage.prompt_token_count if usage else 0) or 0)
        content = llm_response.content
        function_calls = [
            part.function_call for part in (content.parts if content else None) or [] if part.function_call
        ]
        for call in function_calls:
            # The kit would add an id later. It leaves this one out of requests, like its own.
            call.id = call.id or f"adk-{uuid4()}"
        calls: list[Call[types.Content]] = [Call(call.name or "", call.args, call.id) for call in function_calls]
        callback_context.state[_key(callback_context)] = after_answer(conversation, calls)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget a run's conversations; the next run goes on from the stored state."""
        self._runs.pop(_run(invocation_context), None)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer `delimiter` and `recall`; every other tool runs as usual."""
        if tool.name not in self._tools:
            return None
        text = _saved(tool_context).get("told", {}).get(tool_context.function_call_id)
        if text is None:
            conversation = self._conversations(tool_context).get(_key(tool_context))
            call: Call[types.Content] = Call(tool.name, tool_args)
            text = f"Error: `{tool.name}` cannot be answered now. Call it again."
            if conversation:
                text = conversation.host.answer(call)
        return {"result": text}

    def _conversation(self, context: CallbackContext, history: Sequence[types.Content]) -> Conversation[types.Content]:
        """The agent's conversation, after it took in these contents."""
        conversations, key = self._conversations(context), _key(context)
        conversation = conversations.get(key) or resumed(self._make, _saved(context), history, self._warner)
        self._warner.ingested(conversation.host.ingest(history))
        conversations[key] = conversation
        return conversation

    def _step(self, context: CallbackContext) -> AbstractContextManager[object]:
        """The scope of the node of a `Workflow` that runs, unless the program is in an episode of its own."""
        # The path of a node has the workflow ahead of it.
        in_episode = any(scope.type is not EpisodeType.TASK for scope in path(self))
        if self._steps is None or "/" not in context.node_path or in_episode:
            return nullcontext()
        return self._scope(context.agent_name, self._steps, id=f"{context.invocation_id}:{context.node_path}")

    def _conversations(self, context: CallbackContext) -> dict[str, Conversation[types.Content]]:
        """The conversations of a run by agent."""
        run = _run(context)
        if run not in self._runs:
            self._runs[run] = {}
            # The kit does not tell of the end of a run that was cancelled. But each run has its own session object.
            finalize(context.session, self._runs.pop, run, None)
        return self._runs[run]


class _OwnTool(BaseTool):
    """A tool that the plugin answers."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._declaration = GoogleADKFormat().tool(tool.name, tool.description, tool.schema)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self._declaration.model_copy()

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:  # noqa: ARG002
        return {"error": "this tool works only in an App that has `ContextLifecycle` in its `plugins`"}


def _key(context: CallbackContext) -> str:
    """The key of an agent's data in the session's state, by branch and task."""
    return ":".join(["wane", context.branch or "", context.isolation_scope or "", context.agent_name])


def _saved(context: CallbackContext) -> Mapping[str, Any]:
    """The agent's data in the session's state. `context.state` would copy it."""
    saved: Mapping[str, Any] = context.session.state.get(_key(context)) or {}
    return saved


def _run(context: CallbackContext | InvocationContext) -> tuple[int, str]:
    """What tells a run from all others, while its object for the session exists."""
    return id(context.session), context.invocation_id


def _user_texts(context: CallbackContext) -> set[str]:
    """The user's texts. The kit adds any other text in the user's role to this request only."""
    events = (event.content for event in context.session.events if event.author == "user" and event.content)
    return {part.text for content in events for part in content.parts or () if part.text}


def _is_of_history(content: types.Content, user_texts: set[str]) -> bool:
    texts = [part.text for part in content.parts or () if part.text]
    return (
        content.role == "model"
        or not texts
        or any(text in user_texts for text in texts)
        or is_of_another_agent(content)
    )


def _fixed(config: types.GenerateContentConfig) -> str:
    """The system prompt and the definitions of tools, as text to count."""
    tools = [tool.model_dump_json(exclude_none=True) for tool in config.tools or () if isinstance(tool, types.Tool)]
    return "".join([_text(config.system_instruction), *tools])


def _text(instruction: Any) -> str:
    if isinstance(instruction, str) or instruction is None:
        return instruction or ""
    if isinstance(instruction, types.Content):
        return _text(instruction.parts)
    if isinstance(instruction, Sequence):
        return "\n".join(map(_text, instruction))
    return (instruction.get("text") if isinstance(instruction, Mapping) else getattr(instruction, "text", None)) or ""

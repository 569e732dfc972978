"""Context Window Lifecycle for Strands Agents. Needs the `strands` extra.

    agent = Agent(plugins=[ContextLifecycle(budget="80k")])

The agent's messages stay complete, also in its session manager; each model call gets a view of them. The messages have
ids and usage, so that a new process gets the same view without any other stored data.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, Unpack

from wane.conversation import Adapter, Call, Conversation, Tool, calls_of
from wane.core import DEFAULT_BUDGET
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.frameworks.strands import Message, StrandsFormat, joined
from wane.integrations.lifecycle import HostMarks, LifecycleSettings, Warner, has_budget, maker, set_overhead

try:
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
    from strands.middleware import InvokeModelStage
    from strands.middleware.stages import InvokeModelContext, InvokeModelResult
    from strands.models import BedrockModel, Model
    from strands.plugins import Plugin
    from strands.tools.tools import PythonAgentTool
except ImportError as error:
    raise MissingExtraError("wane.integrations.strands", "strands") from error

__all__ = ["ContextLifecycle"]

_DEFAULT_WINDOW: Final = 40  # messages that Strands' own manager keeps by default

_SERVED: Final = (
    "the model keeps the conversation on the provider's side, so nothing can be evicted. Leave out `stateful` in its "
    "settings"
)
_COMPETES: Final = (
    "Wane keeps the agent's requests small, and its messages whole: give the agent "
    "conversation_manager=NullConversationManager(), and no context_manager"
)


class _Adapter(Adapter[Message]):
    def key(self, message: Message) -> str | None:
        return message.get("tracking_id")

    def usage(self, message: Message) -> int:
        # `inputTokens` includes cached tokens for OpenAI, but neither for Anthropic nor for Bedrock.
        usage = message.get("metadata", {}).get("usage") if message["role"] == "assistant" else None
        return usage["totalTokens"] - usage["outputTokens"] if usage else 0


class ContextLifecycle(Plugin, HostMarks):
    """Keeps an agent's requests within a token budget, evicting by episode. Its messages stay whole.

    The agent gets the tool `delimiter` and guidance in its system prompt. Strands' default manager, which drops all but
    40 messages after each run, is set to drop none. One object serves any number of agents, each with its own
    window. Put it last into `plugins`, so that others have done what they do to a request.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    name = "wane"

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        super().__init__()
        self._make = maker(StrandsFormat(), _Adapter(), budget, self, **settings)
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        self.instructions = sample.instructions
        self._own_tools = sample.own_tools
        self._warner = Warner(_COMPETES)

    def init_agent(self, agent: Agent) -> None:
        """Give an agent its window. The agent calls it."""
        window = _Window(self._make(), self.instructions, self._warner)
        agent.add_middleware(InvokeModelStage.Input, window.ask)
        agent.add_middleware(InvokeModelStage.Output, window.answered)
        for tool in self._own_tools:
            agent.tool_registry.register_tool(window.tool(tool))
        manager = agent.conversation_manager
        if type(manager) is SlidingWindowConversationManager and manager.window_size == _DEFAULT_WINDOW:
            manager.window_size = sys.maxsize
        elif not isinstance(manager, NullConversationManager) or agent.context_manager is not None:
            self._warner.warn(_COMPETES)


class _Window:
    """One agent's conversation, between the agent and its model."""

    def __init__(self, conversation: Conversation[Message], instructions: str, warner: Warner) -> None:
        self._conversation = conversation
        self._instructions = instructions
        self._warner = warner

    def ask(self, context: InvokeModelContext) -> InvokeModelContext:
        """Send a view of the agent's messages instead of all of them."""
        if context.model.stateful:
            self._warner.warn(_SERVED)
            return self._without_tools(context)
        system = _with_guidance(context.system_prompt, self._instructions)
        messages, passing = _apart(context.messages, context.dynamic_trailing_blocks)
        conversation = self._conversation
        conversation.keep_opening = _thinks_on_a_budget(context.model)
        fixed = json.dumps([system, context.tool_specs], default=str)
        try:
            set_overhead(conversation, fixed, [{"role": "user", "content": passing}] if passing else [])
            self._warner.ingested(conversation.host.ingest(messages))
        except (FormatError, HistoryError) as error:
            self._warner.unmanaged(error)
            return self._without_tools(context)
        request = conversation.request()
        sent: list[Any] = list(request.view)
        if request.reminder is not None:
            passing = [*passing, {"text": request.reminder}]
            sent.append({"role": "user", "content": passing})
        elif passing:
            sent = [*sent[:-1], *joined([*sent[-1:], {"role": "user", "content": passing}])]
        if isinstance(context.model, BedrockModel):
            sent = joined(sent)
        return context.replace(messages=sent, system_prompt=system, dynamic_trailing_blocks=len(passing))

    def answered(self, result: InvokeModelResult) -> InvokeModelResult:
        """Judge all marks of an answer in order, before its tools run in parallel."""
        conversation = self._conversation
        conversation.host.foresee(calls_of(conversation.format, [result.result.message]))
        return result

    def _without_tools(self, context: InvokeModelContext) -> InvokeModelContext:
        own = {tool.name for tool in self._conversation.own_tools}
        return context.replace(tool_specs=[spec for spec in context.tool_specs if spec["name"] not in own])

    def tool(self, tool: Tool) -> PythonAgentTool:
        """Return a tool whose calls the window answers."""

        async def answer(tool_use: Any, **_: Any) -> Any:
            call: Call[Message] = Call(tool.name, tool_use["input"], tool_use["toolUseId"])
            content = [{"text": self._conversation.host.answer(call)}]
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}

        spec: Any = StrandsFormat().tool(tool.name, tool.description, tool.schema)
        return PythonAgentTool(tool.name, spec, answer)


def _apart(messages: list[Any], trailing: int) -> tuple[list[Any], list[Any]]:
    """Split messages from the blocks at their end that are made anew for each request."""
    if not trailing:
        return messages, []
    last = messages[-1]
    history, passing = last["content"][:-trailing], last["content"][-trailing:]
    return [*messages[:-1], *([{**last, "content": history}] if history else [])], passing


def _with_guidance(system: Any, instructions: str) -> Any:
    if not instructions:
        return system
    if not isinstance(system, list):
        return "\n\n".join(filter(None, (system, instructions)))
    # A cache breakpoint at the end of the prompt then covers the guidance too.
    position = len(system) - 1 if system and "cachePoint" in system[-1] else len(system)
    return [*system[:position], {"text": instructions}, *system[position:]]


def _thinks_on_a_budget(model: Model) -> bool:
    config = model.get_config()
    fields = (
        [config.get(key) or {} for key in ("params", "additional_request_fields")] if isinstance(config, dict) else []
    )
    return any(has_budget(field.get("thinking")) for field in fields)

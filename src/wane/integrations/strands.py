"""Context Window Lifecycle for Strands Agents. Needs the `strands` extra.

    agent = Agent(plugins=[ContextLifecycle(budget="80k")])

The agent's messages stay complete, also in its session manager; each model call gets a view of them. The messages have
ids and usage, so that a new process gets the same view without any other stored data.

They are Bedrock's Converse messages, as plain dicts with a `tracking_id` and `metadata`. What each block becomes:

| block | item of Wane |
|---|---|
| `text`, `guardContent`, an image, a document of the user | user, or a notice |
| `text`, `citationsContent` and others of the assistant | text |
| `reasoningContent` | reasoning |
| `toolUse`, `toolResult` | call and result |
| `cachePoint` | nothing: it goes with the first block that goes from its message |
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, Unpack

from wane.conversation import Adapter, Call, Conversation, Tool, calls_of
from wane.core import DEFAULT_BUDGET, Kind
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import SIGNED, UNTIED, couple
from wane.formats.fields import shown_text, type_name
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS, must_mend
from wane.integrations.lifecycle import HostMarks, LifecycleSettings, Warner, has_budget, maker, set_overhead

try:
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
    from strands.hooks import AfterToolCallEvent
    from strands.middleware import InvokeModelStage
    from strands.middleware.stages import InvokeModelContext, InvokeModelResult
    from strands.models import BedrockModel
    from strands.plugins import Plugin
    from strands.tools.tools import PythonAgentTool
except ImportError as error:
    raise MissingExtraError("wane.integrations.strands", "strands") from error

__all__ = ["ContextLifecycle"]

Message: TypeAlias = dict[str, Any]
Block: TypeAlias = Mapping[str, Any]

_SERVED: Final = (
    "the model keeps the conversation on the provider's side, so nothing can be evicted. Leave out `stateful` in its "
    "settings"
)
_CACHED: Final = frozenset({"AnthropicModel", "BedrockModel"})
"""Classes of models for which Strands sets cache points, if their `cache_config` says so."""

_PERSONS: Final = "wane_persons"
"""Key of an agent's state: ids of calls whose results hold what a person said."""

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
        self._warner = Warner(_COMPETES)

    def init_agent(self, agent: Agent) -> None:
        """Give an agent its window. The agent calls it."""
        window = _Window(self._make(), self._warner, agent)
        agent.add_hook(window.note_answer, AfterToolCallEvent)
        agent.add_middleware(InvokeModelStage.Input, window.ask)
        agent.add_middleware(InvokeModelStage.Output, window.judge_answer)
        for tool in window.conversation.own_tools:
            agent.tool_registry.register_tool(window.tool(tool))
        manager = agent.conversation_manager
        # By default, Strands' own manager keeps 40 messages.
        if type(manager) is SlidingWindowConversationManager and manager.window_size == 40:
            manager.window_size = sys.maxsize
        elif not isinstance(manager, NullConversationManager) or agent.context_manager is not None:
            self._warner.warn(_COMPETES)


class _Window:
    """One agent's conversation, between the agent and its model."""

    def __init__(self, conversation: Conversation[Message], warner: Warner, agent: Agent) -> None:
        self.conversation = conversation
        self._warner = warner
        self._agent = agent

    def ask(self, context: InvokeModelContext) -> InvokeModelContext:
        """Send a view of the agent's messages instead of all of them."""
        if context.model.stateful:
            self._warner.warn(_SERVED)
            return self._without_tools(context)
        conversation, messages = self.conversation, context.messages
        system = _with_guidance(context.system_prompt, conversation.instructions)
        passing: list[Any] = []
        if trailing := context.dynamic_trailing_blocks:  # blocks at the end that are made anew for each request
            *messages, last = messages
            passing = last["content"][-trailing:]
            if history := last["content"][:-trailing]:
                messages.append({**last, "content": history})
        config = context.model.get_config()
        conversation.keep_opening = _thinks_on_a_budget(config)
        fixed = json.dumps([system, context.tool_specs], default=str)
        conversation.host.persons.update(self._agent.state.get(_PERSONS) or ())
        try:
            set_overhead(conversation, fixed, [{"role": "user", "content": passing}] if passing else [])
            self._warner.warn_replaced(conversation.host.ingest(messages))
        except (FormatError, HistoryError) as error:
            self._warner.warn_unmanaged(error)
            return self._without_tools(context)
        request = conversation.request()
        sent: list[Any] = list(request.messages)
        caches = isinstance(config, dict) and config.get("cache_config") is not None
        caches = caches and not _CACHED.isdisjoint(base.__name__ for base in type(context.model).__mro__)
        if request.reminder is not None and caches:
            # Strands sets a cache point ahead of the trailing blocks, as no later request has them. A result with the
            # reminder in it could not carry one.
            sent = conversation.host.wire(request.view)
            passing = [*passing, {"text": request.reminder}]
        if passing:
            sent = [*sent[:-1], *join_neighbours([*sent[-1:], {"role": "user", "content": passing}])]
        if isinstance(context.model, BedrockModel):
            sent = join_neighbours(sent)
        return context.replace(messages=sent, system_prompt=system, dynamic_trailing_blocks=len(passing))

    def judge_answer(self, result: InvokeModelResult) -> InvokeModelResult:
        """Judge all marks of an answer in order, before its tools run in parallel."""
        self.conversation.host.foresee(calls_of(self.conversation.format, [result.result.message]))
        return result

    def note_answer(self, event: AfterToolCallEvent) -> None:
        """Note a result that holds what a person said when the tool was interrupted (R21)."""
        call_id = event.tool_use["toolUseId"]
        result = "".join(_text_of(inner)[0] for inner in event.result["content"])
        for interrupt in event.agent._interrupt_state.interrupts.values():
            words = interrupt.response
            # One word, such as `y`, is an approval, and what follows is the tool's.
            if call_id in interrupt.id and isinstance(words, str) and len(words.split()) > 1 and words in result:
                # In the agent's state, because a message has no field for it, and interrupts are forgotten.
                self._agent.state.set(_PERSONS, [*(self._agent.state.get(_PERSONS) or ()), call_id])

    def _without_tools(self, context: InvokeModelContext) -> InvokeModelContext:
        own = {tool.name for tool in self.conversation.own_tools}
        return context.replace(tool_specs=[spec for spec in context.tool_specs if spec["name"] not in own])

    def tool(self, tool: Tool) -> PythonAgentTool:
        """Return a tool whose calls the window answers."""

        async def answer(tool_use: Any, **_: Any) -> Any:
            call: Call[Message] = Call(tool.name, tool_use["input"], tool_use["toolUseId"])
            content = [{"text": self.conversation.host.answer(call)}]
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}

        spec: Any = StrandsFormat().tool(tool.name, tool.description, tool.schema)
        return PythonAgentTool(tool.name, spec, answer)


def _with_guidance(system: Any, instructions: str) -> Any:
    if not instructions:
        return system
    if not isinstance(system, list):
        return "\n\n".join(filter(None, (system, instructions)))
    # A cache breakpoint at the end of the prompt then covers the guidance too.
    position = len(system) - 1 if system and "cachePoint" in system[-1] else len(system)
    return [*system[:position], {"text": instructions}, *system[position:]]


def _thinks_on_a_budget(config: Any) -> bool:
    if not isinstance(config, dict):
        return False
    fields = [config.get(key) or {} for key in ("params", "additional_request_fields")]
    return any(has_budget(field.get("thinking")) for field in fields)


# The messages


class StrandsFormat(NativeFormat[Message]):
    """Messages of Strands Agents."""

    name = "strands"

    def locate_parts(self, message: Message) -> list[Located[int]]:
        if not isinstance(message, dict):
            raise FormatError(f"a message must be an object, found {type_name(message)}")
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            raise FormatError(f"role {role!r} is unknown; known: user, assistant")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise FormatError("content must be a list of blocks")
        parts = enumerate(_part(role, block) for block in content)
        located = [(location, part) for location, part in parts if part is not None]
        if role != "assistant":
            return located
        sealed = [part.kind is Kind.REASONING and bool(_seal(content[location])) for location, part in located]
        return couple(located, [SIGNED if seal else UNTIED for seal in sealed])

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        located = self.locate_parts(message)
        return {**message, "content": [message["content"][located[position][0]] for position in positions]}

    def speaker(self, message: Message) -> str | None:
        kinds = {key for block in message["content"] for key in block} - {"cachePoint"}
        if message["role"] == "assistant":
            return CALLING if "toolUse" in kinds else "assistant"
        return RESULTS if kinds == {"toolResult"} else "user"

    def merge(self, first: Message, second: Message) -> Message:
        return {**first, "content": [*first["content"], *second["content"]]}

    def note_result(self, message: Message, text: str) -> Message | None:
        """Return a message with a note in its last result: Strands makes a user's message of text beside results."""
        *before, last = message["content"]
        if "toolResult" not in last:
            return None
        result = last["toolResult"]
        noted = {"toolResult": {**result, "content": [*result["content"], {"text": text}]}}
        return {**message, "content": [*before, noted]}

    def sendable(self, message: Message) -> Message:
        """Return a message in which own calls whose input is no object have an empty one."""
        content: list[Block] = []
        for block in message["content"]:
            call = block.get("toolUse")
            wrong = call is not None and must_mend(call["name"], call["input"])
            content.append({**block, "toolUse": {**call, "input": {}}} if wrong else block)
        return message if content == message["content"] else {**message, "content": content}

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "description": description, "inputSchema": {"json": dict(schema)}}

    def turn(self, text: str) -> Message:
        return {"role": "user", "content": [{"text": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        # A call that the provider runs by itself has a type.
        return "type" not in message["content"][self.locate_parts(message)[position][0]]["toolUse"]

    def result(self, message: Message, position: int, text: str) -> Message:
        call_id = self.locate_parts(message)[position][1].call_id
        block = {"toolResult": {"toolUseId": call_id, "status": "success", "content": [{"text": text}]}}
        return {"role": "user", "content": [block]}

    def clear_result(self, message: Message, position: int, text: str) -> Message:
        content, location = message["content"], self.locate_parts(message)[position][0]
        block = {"toolResult": {**content[location]["toolResult"], "content": [{"text": text}]}}
        return {**message, "content": [*content[:location], block, *content[location + 1 :]]}


def join_neighbours(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose roles alternate, as Bedrock demands: neighbours of one role become one message."""
    out: list[Message] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**out[-1], "content": [*out[-1]["content"], *message["content"]]}
        else:
            out.append(message)
    return out


def _part(role: str, block: Block) -> Part | None:
    """What a block is; None if it says nothing."""
    if (call := block.get("toolUse")) is not None:
        return Part(Kind.CALL, call_id=call["toolUseId"], tool=call["name"], arguments=shown_text(call["input"]))
    if (result := block.get("toolResult")) is not None:
        contents = [_text_of(inner) for inner in result["content"]]
        extra = sum(tokens for _, tokens in contents)
        return Part(Kind.RESULT, "".join(text for text, _ in contents), call_id=result["toolUseId"], extra_tokens=extra)
    if (reasoning := block.get("reasoningContent")) is not None:
        text = reasoning.get("reasoningText", {}).get("text") or ""
        return Part(Kind.REASONING, text, extra_tokens=0 if text else max(1, len(_seal(block)) // 4))
    if "cachePoint" in block:
        return None
    text, extra = _text_of(block)
    if role == "assistant":
        return Part(Kind.TEXT, text, extra_tokens=extra) if text or extra else None
    return turn_part(text, extra)


def _text_of(block: Block) -> tuple[str, int]:
    """The text of a block, and the estimate for what is no text in it."""
    if isinstance(text := block.get("text"), str):
        return text, 0
    if "json" in block:
        return shown_text(block["json"]), 0
    if (guarded := block.get("guardContent")) is not None:
        return _text_of(guarded.get("text", guarded))
    if (cited := block.get("citationsContent")) is not None:
        return "".join(_text_of(inner)[0] for inner in cited.get("content") or []), 0
    if any(kind in block for kind in ("image", "document", "audio", "video")):
        return "", NON_TEXT_TOKENS
    raise FormatError(f"a block {', '.join(map(repr, block))} is unknown")


def _seal(block: Block) -> str | bytes:
    """What a provider knows its own reasoning by; nothing for reasoning that is mere text."""
    reasoning = block["reasoningContent"]
    return reasoning.get("reasoningText", {}).get("signature") or reasoning.get("redactedContent") or b""

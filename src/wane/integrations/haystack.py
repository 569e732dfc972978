"""Context Window Lifecycle for Haystack's agents. Needs the `haystack` extra.

    agent = ContextLifecycle(budget="80k").attach(Agent(chat_generator=generator, tools=tools))

What the agent returns stays complete; each call of its chat generator gets a view. The hooks of an agent see its live
state, and whatever a hook leaves out of it is gone. So one hook puts a view in the place of the messages, and the next
one, once the model has answered, puts the messages back with the answer behind them.

A `ChatMessage` holds texts, calls, results, reasoning, images and files. Its place in the conversation is known by its
content, because it has no id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from wane.conversation import Adapter, Conversation, calls_of
from wane.conversation.conversations import Conversations
from wane.core import DEFAULT_BUDGET, OWN_TOOLS, Kind
from wane.core.errors import ConfigError, FormatError, HistoryError, MissingExtraError
from wane.formats.coupling import SIGNED, UNTIED, couple
from wane.formats.fields import shown_text
from wane.formats.message_format import Located, NativeFormat, Part, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import join_texts, speaker_by_role
from wane.integrations.lifecycle import UNMANAGED_CALL, HostMarks, LifecycleSettings, Warner, maker, with_guidance

try:
    from haystack.components.agents import Agent
    from haystack.components.agents.state import State
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool, flatten_tools_or_toolsets
except ImportError as error:
    raise MissingExtraError("wane.integrations.haystack", "haystack") from error

__all__ = ["ContextLifecycle"]

_COMPETES: Final = "Wane keeps the agent's requests small, and its messages whole: leave out hooks that compact them"


class ContextLifecycle(HostMarks):
    """Keeps an agent's requests within a token budget, evicting by episode. Its messages stay whole.

    The agent gets the tool `delimiter`, and guidance in its system prompt. One object serves any number of agents and
    conversations, each with a window of its own.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        settings: the other settings, by name (`wane.integrations.lifecycle.LifecycleSettings`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(self, budget: int | str = DEFAULT_BUDGET, **settings: Unpack[LifecycleSettings]) -> None:
        self._make = maker(HaystackFormat(), _Adapter(), budget, self, **settings)
        sample = self._make()
        self.marks = sample.settings.annotate == "host"
        self.instructions = sample.instructions
        self._own_tools = sample.own_tools
        self._warner = Warner(_COMPETES)
        self._conversations = Conversations(self._begin, on_unreadable=self._warner.unreadable)
        self._fixed = ""  # what the request carries besides messages for which a conversation is sought
        self._runs: WeakKeyDictionary[State, _Run] = WeakKeyDictionary()
        self._lock = RLock()  # several threads may share an agent

    def attach(self, agent: Agent) -> Agent:
        """Give an agent its window and its tools, and return the agent."""
        # What other hooks do to the messages, they do to all of them: the view stands there only for the model.
        agent.hooks.setdefault("before_llm", []).append(_Hook(self._show_view))
        agent.hooks.setdefault("before_tool", []).insert(0, _Hook(self._restore))
        agent.hooks.setdefault("after_tool", []).insert(0, _Hook(self._answer_calls))
        agent.hooks.setdefault("on_exit", []).insert(0, _Hook(self._restore))
        tools = flatten_tools_or_toolsets(agent.tools)
        for tool in self._own_tools:
            schema = dict(tool.schema)
            own = Tool(name=tool.name, description=tool.description, parameters=schema, function=_answer_unmanaged)
            tools.append(own)
        agent.tools = tools
        return agent

    def _begin(self) -> Conversation[ChatMessage]:
        conversation = self._make()
        # The history of an earlier process is repeated as it was, so the overhead must be known before.
        conversation.overhead = self._fixed
        return conversation

    def _show_view(self, state: State) -> None:
        """Put a view in the place of the messages."""
        messages: list[ChatMessage] = state.data["messages"]
        system = [message for message in messages if message.role.value == "system"]
        history = [message for message in messages if message.role.value != "system"]
        tools = state.data.get("tools") or []
        prompts = [message.text or "" for message in system]
        definitions = [[tool.name, tool.description, tool.parameters] for tool in tools]
        with self._lock:
            self._fixed = json.dumps([prompts, self.instructions, definitions], default=str)
            run = self._runs.get(state)
            try:
                if run is None:
                    run = self._runs[state] = _Run(self._conversations.of(history))
                else:
                    self._warner.warn_replaced(run.conversation.host.ingest(history))
            except (FormatError, HistoryError) as error:
                self._warner.warn_unmanaged(error)
                return
            conversation = run.conversation
            conversation.overhead = self._fixed
            prompt = with_guidance(system, self.instructions, lambda message: message.text or "", _with_text)
            view = [*prompt, *conversation.request().messages]
        run.messages, run.sent = messages, len(view)
        state.set("messages", view, handler_override=_replace)

    def _restore(self, state: State) -> None:
        """Put the messages back, with the answer behind them, and judge its marks before any tool runs."""
        run = self._runs.get(state)
        if run is None or run.messages is None:
            return
        answer = state.data["messages"][run.sent :]
        state.set("messages", [*run.messages, *answer], handler_override=_replace)
        run.messages = None
        with self._lock:
            run.calls = {}
            calls = calls_of(run.conversation.format, answer)
            self._conversations.judge_answer(run.conversation, calls, answer)
            for call in calls:
                if call.name in OWN_TOOLS and call.id is not None:
                    run.calls[call.id] = run.conversation.host.answer(call)

    def _answer_calls(self, state: State) -> None:
        """Put the answers to own calls in the place of what the tools returned, which know no call's id."""
        run = self._runs.get(state)
        if run is None or not run.calls:
            return
        messages: list[ChatMessage] = state.data["messages"]
        for number in range(len(messages) - 1, -1, -1):
            results = messages[number].tool_call_results
            if not results:
                break
            text = run.calls.get(results[0].origin.id or "")
            if text is not None:
                messages[number] = ChatMessage.from_tool(text, origin=results[0].origin, meta=messages[number].meta)


@dataclass(slots=True)
class _Run:
    """One run of an agent.

    Attributes:
        conversation: what it continues.
        messages: all messages, while a view stands in their place.
        sent: number of messages of the view.
        calls: the answers to own calls of the latest answer, by id.
    """

    conversation: Conversation[ChatMessage]
    messages: list[ChatMessage] | None = None
    sent: int = 0
    calls: dict[str, str] | None = None


class _Hook:
    """A hook that is a method of a lifecycle."""

    def __init__(self, function: Callable[[State], None]) -> None:
        self._function = function

    def run(self, state: State) -> None:
        self._function(state)

    def to_dict(self) -> dict[str, Any]:
        raise ConfigError("an agent with a ContextLifecycle cannot be stored; store it before you attach it")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _Hook:
        raise ConfigError(f"a ContextLifecycle cannot be loaded from {data}; attach the agent that was loaded")


def _replace(_: Any, messages: Any) -> Any:
    return messages


def _answer_unmanaged(**_: Any) -> str:
    return UNMANAGED_CALL


def _with_text(message: ChatMessage | None, text: str) -> ChatMessage:
    """Return a system message with another text, or a new one."""
    if message is None:
        return ChatMessage.from_system(text)
    return ChatMessage.from_system(text, meta=message.meta, name=message.name)


class _Adapter(Adapter[ChatMessage]):
    def usage(self, message: ChatMessage) -> int:
        usage = message.meta.get("usage") if message.role.value == "assistant" else None
        if not isinstance(usage, Mapping):
            return 0
        if "prompt_tokens" in usage and "cache_read_input_tokens" not in usage:
            return usage["prompt_tokens"] or 0
        # Anthropic does not count cached tokens as input.
        names = ("input_tokens", "prompt_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return sum(usage.get(name) or 0 for name in names)


# The messages


class HaystackFormat(NativeFormat[ChatMessage]):
    """Messages of Haystack. A part's location is its position in the message's content."""

    name = "haystack"

    def locate_parts(self, message: ChatMessage) -> list[Located[int]]:
        if not isinstance(message, ChatMessage):
            raise FormatError(f"a message must be a ChatMessage, found {type(message).__name__}")
        content, role = message.to_dict()["content"], message.role.value
        if role in ("user", "system"):
            texts = "".join(block.get("text") or "" for block in content)
            media = sum("text" not in block for block in content) * NON_TEXT_TOKENS
            return [(0, turn_part(texts, media, system=role == "system"))]
        located: list[Located[int]] = []
        for position, block in enumerate(content):
            part = _part(block)
            if part is not None:
                located.append((position, part))
        ties = [
            SIGNED if part.kind is Kind.REASONING and content[location]["reasoning"]["extra"] else UNTIED
            for location, part in located
        ]
        return couple(located, ties)

    def keep(self, message: ChatMessage, positions: Sequence[int]) -> ChatMessage:
        located = self.locate_parts(message)
        if len(positions) == len(located):
            return message
        data = message.to_dict()
        data["content"] = [data["content"][located[position][0]] for position in positions]
        return ChatMessage.from_dict(data)

    def speaker(self, message: ChatMessage) -> str | None:
        return speaker_by_role(message.role.value, has_calls=bool(message.tool_calls))

    def merge(self, first: ChatMessage, second: ChatMessage) -> ChatMessage:
        """Return two turns as one message: plain texts as one, as some generators take one text alone."""
        data, following = first.to_dict(), second.to_dict()["content"]
        content = [*data["content"], *following]
        if all(block.keys() == {"text"} for block in content):
            content = [{"text": "\n\n".join(block["text"] for block in content)}]
        return ChatMessage.from_dict({**data, "content": content})

    def note_result(self, message: ChatMessage, text: str) -> ChatMessage | None:
        data = message.to_dict()
        if not data["content"] or "tool_call_result" not in data["content"][-1]:
            return None
        result = data["content"][-1]["tool_call_result"]
        told = result["result"]
        noted = join_texts(told, text) if isinstance(told, str) else [*told, {"text": text}]
        data["content"][-1] = {"tool_call_result": {**result, "result": noted}}
        return ChatMessage.from_dict(data)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "description": description, "parameters": dict(schema)}

    def turn(self, text: str) -> ChatMessage:
        return ChatMessage.from_user(text)

    def result(self, message: ChatMessage, position: int, text: str) -> ChatMessage:
        call_id = self.locate_parts(message)[position][1].call_id
        origin = next(call for call in message.tool_calls if call.id == call_id)
        return ChatMessage.from_tool(text, origin=origin)

    def clear_result(self, message: ChatMessage, position: int, text: str) -> ChatMessage:
        origin = message.tool_call_results[position].origin
        return ChatMessage.from_tool(text, origin=origin, meta=message.meta)


def _part(block: Mapping[str, Any]) -> Part | None:
    """What a block of an answer or a result is; None if it says nothing."""
    if (call := block.get("tool_call")) is not None:
        return Part(Kind.CALL, call_id=call["id"], tool=call["tool_name"], arguments=shown_text(call["arguments"]))
    if (result := block.get("tool_call_result")) is not None:
        content = result["result"]
        if isinstance(content, str):
            return Part(Kind.RESULT, content, call_id=result["origin"]["id"])
        media = sum("text" not in inner for inner in content)
        texts = "".join(inner.get("text") or "" for inner in content)
        return Part(Kind.RESULT, texts, call_id=result["origin"]["id"], extra_tokens=media * NON_TEXT_TOKENS)
    if (reasoning := block.get("reasoning")) is not None:
        text = reasoning["reasoning_text"]
        return Part(Kind.REASONING, text, extra_tokens=0 if text else len(shown_text(reasoning["extra"])) // 4)
    if "text" in block:
        return Part(Kind.TEXT, block["text"]) if block["text"] else None
    return Part(Kind.TEXT, "", extra_tokens=NON_TEXT_TOKENS)

"""Strands Agents: `SlidingWindowConversationManager`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import BeforeModelCallEvent
from strands.models import Model

from wane.core import Kind
from wane.strategies.strategy import Slot, StrategySettings
from wane_research.peers import Peer, Turn


class _Silent(Model):
    """A model with a context window, which is never called."""

    def __init__(self, window: int) -> None:
        self._window = window

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {"model_id": "silent", "context_window_limit": self._window}

    def structured_output(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError

    def stream(self, *_: Any, **__: Any) -> AsyncIterable[Any]:
        raise NotImplementedError


class StrandsWindow(Peer):
    """`SlidingWindowConversationManager` with proactive compression at the budget, and otherwise its defaults.

    It trims the agent's messages in place, as in real use: dropped messages do not come back. The system prompt is not
    a message.
    """

    name = "strands-window"
    summary = "Strands' SlidingWindowConversationManager, at the budget"
    distributions = ("strands-agents",)

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        manager = SlidingWindowConversationManager(proactive_compression={"compression_threshold": 1.0})
        # The manager acts when its window is full, not only when it is exceeded.
        self._agent = Agent(
            model=_Silent(self.room + 1),
            conversation_manager=manager,
            callback_handler=None,
            load_tools_from_directory=False,
        )
        self._system: list[int] = []
        self._indexes: dict[int, list[int]] = {}
        self._tokens: dict[int, int] = {}
        self._all: list[Any] = []  # every message, so that no id of a dropped one is reused
        self._answers: Any = None  # the message to which further results are added

    def _append(self, turn: Turn) -> None:
        if turn.kind is Kind.SYSTEM:
            self._system += turn.indexes
            return
        message: Any
        # All results of a message are one message.
        if turn.kind is Kind.RESULT and self._answers is not None:
            message = self._answers
            message["content"] += _content(turn)
        else:
            role = "user" if turn.kind in (Kind.USER, Kind.NOTICE, Kind.RESULT) else "assistant"
            message = {"role": role, "content": _content(turn)}
            self._agent.messages.append(message)
            self._all.append(message)
        self._answers = message if turn.kind is Kind.RESULT else None
        self._indexes.setdefault(id(message), []).extend(turn.indexes)
        self._tokens[id(message)] = self._tokens.get(id(message), 0) + turn.tokens

    def _view(self) -> list[Slot]:
        agent = self._agent
        tokens = sum(self._tokens[id(message)] for message in agent.messages)
        agent.hooks.invoke_callbacks(BeforeModelCallEvent(agent=agent, projected_input_tokens=tokens))
        view = [*self._system]
        for message in agent.messages:
            view += self._indexes[id(message)]
        return [*sorted(view)]


def _content(turn: Turn) -> list[Any]:
    content: list[Any] = []
    for part in turn.parts:
        if part.kind is Kind.CALL:
            content.append({"toolUse": {"toolUseId": part.call_id, "name": part.tool, "input": {}}})
        elif part.kind is Kind.RESULT:
            result = {"toolUseId": part.call_id, "content": [{"text": part.text}], "status": "success"}
            content.append({"toolResult": result})
        elif part.kind is Kind.REASONING:
            content.append({"reasoningContent": {"reasoningText": {"text": part.text}}})
        else:
            content.append({"text": part.text})
    return content

"""LangChain: `trim_messages`, and `ContextEditingMiddleware` with `ClearToolUsesEdit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    trim_messages,
)

from wane.core import Kind, chars
from wane.strategies.strategy import Slot, StrategySettings
from wane_research.peers import Peer, Turn

_START_ON: Final = ("human", "ai")


class _LangChain(Peer):
    """A history of LangChain messages; each one's id is its position."""

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._messages: list[AnyMessage] = []
        self._turns: list[Turn] = []
        self._tokens: list[int] = []

    def _append(self, turn: Turn) -> None:
        self._messages.append(_message(turn, str(len(self._messages))))
        self._turns.append(turn)
        self._tokens.append(turn.tokens)

    def _turn_of(self, message: BaseMessage) -> int:
        return int(message.id or "")


class LangChainTrim(_LangChain):
    """`trim_messages(strategy="last", include_system=True)`, with the budget as `max_tokens`.

    `start_on` is `("human", "ai")`. With `"human"`, which its documentation uses for chats, a history is trimmed to
    nothing if the latest user turn lies further back than the budget reaches.
    """

    name = "langchain-trim"
    summary = "LangChain's trim_messages: the last messages that fit"
    distributions = ("langchain", "langchain-core")

    def _view(self) -> list[Slot]:
        trimmed = trim_messages(
            self._messages,
            max_tokens=self.room,
            token_counter=self._counter,
            strategy="last",
            start_on=_START_ON,
            include_system=True,
        )
        return [index for message in trimmed for index in self._turns[self._turn_of(message)].indexes]

    def _counter(self, messages: Sequence[BaseMessage]) -> int:
        return sum(self._tokens[self._turn_of(message)] for message in messages)


class LangChainEdit(_LangChain):
    """`ContextEditingMiddleware` with `ClearToolUsesEdit`; the trigger is the budget, the rest the defaults."""

    name = "langchain-edit"
    summary = "LangChain's ContextEditingMiddleware, clearing tool uses"
    distributions = ("langchain", "langchain-core")

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._edit = ClearToolUsesEdit(trigger=self.room)
        self._middleware: ContextEditingMiddleware[Any, Any] = ContextEditingMiddleware(
            edits=[self._edit], token_counter=self._counter
        )
        # A request needs a model; it is never called, because the counter is Wane's.
        self._model = FakeListChatModel(responses=[""])
        self._cost = chars(self._edit.placeholder)

    def _view(self) -> list[Slot]:
        sent: list[AnyMessage] = []

        def send(request: ModelRequest[Any]) -> ModelResponse[Any]:
            sent.extend(request.messages)
            return ModelResponse(result=[])

        self._middleware.wrap_model_call(ModelRequest(model=self._model, messages=self._messages), send)
        return [slot for message in sent for slot in self._slots(message)]

    def _slots(self, message: BaseMessage) -> list[Slot]:
        indexes = self._turns[self._turn_of(message)].indexes
        if _is_cleared(message):
            return [self._substitute(indexes[0], str(message.content), self._cost)]
        return list(indexes)

    def _counter(self, messages: Sequence[BaseMessage]) -> int:
        tokens = 0
        for message in messages:
            tokens += self._cost if _is_cleared(message) else self._tokens[self._turn_of(message)]
        return tokens


def _is_cleared(message: BaseMessage) -> bool:
    return bool(message.response_metadata.get("context_editing", {}).get("cleared"))


def _message(turn: Turn, name: str) -> AnyMessage:
    if turn.kind is Kind.SYSTEM:
        return SystemMessage(turn.text, id=name)
    if turn.kind is Kind.USER:
        return HumanMessage(turn.text, id=name)
    if turn.kind is Kind.RESULT:
        return ToolMessage(turn.text, tool_call_id=turn.items[0].call_id, id=name)
    # Neither strategy reads the arguments. Recorded ones need not be a JSON object, so they are wrapped in one.
    calls = [ToolCall(name=c.tool or "", args={"arguments": c.arguments}, id=c.call_id) for c in turn.calls]
    return AIMessage(turn.text, tool_calls=calls, id=name)

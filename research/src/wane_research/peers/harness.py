"""pydantic-ai-harness: `SlidingWindowCompaction` and `ClearToolResults`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic_ai import RunContext, RunUsage
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.compaction import ClearToolResults, SlidingWindowCompaction

from wane.core import Item, Kind, chars
from wane.formats.message_format import Part
from wane.strategies.strategy import Slot, StrategySettings
from wane_research.peers import Peer, Turn

_T = TypeVar("_T")


class _Counted(str):
    """A text with its token count, so that the peer counts as Wane does."""

    __slots__ = ("tokens",)
    tokens: int

    @classmethod
    def of(cls, text: str, tokens: int) -> _Counted:
        counted = cls(text)
        counted.tokens = tokens
        return counted

    def __str__(self) -> str:
        return self


def _tokenizer(text: str) -> int:
    return text.tokens if isinstance(text, _Counted) else chars(text)


class _Harness(Peer):
    """A history of Pydantic AI messages, run through the capability's hook before each model request.

    The history stays whole, as in Pydantic AI: a hook changes the request's messages, not those of the run.
    """

    capability: SlidingWindowCompaction[None] | ClearToolResults[None]

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._messages: list[ModelMessage] = []
        # By message, the items of its parts.
        self._indexes: list[list[int]] = []
        self._model = TestModel()
        self._tools: dict[str, str] = {}

    def _append(self, turn: Turn) -> None:
        for part in turn.calls:
            self._tools[part.call_id or ""] = part.tool or ""
        pairs = zip(turn.items, turn.parts, strict=True)
        if turn.kind in (Kind.SYSTEM, Kind.USER, Kind.RESULT):
            parts = [self._request_part(item, part) for item, part in pairs]
            # In Pydantic AI, everything between two responses is one request.
            last = self._messages[-1] if self._messages else None
            if isinstance(last, ModelRequest):
                self._messages[-1] = ModelRequest([*last.parts, *parts])
                self._indexes[-1] += turn.indexes
                return
            self._messages.append(ModelRequest(parts))
        else:
            self._messages.append(ModelResponse([_response_part(item, part) for item, part in pairs]))
        self._indexes.append(list(turn.indexes))

    def _send(self) -> list[ModelMessage]:
        """Return the messages that the hook leaves."""
        context = ModelRequestContext(
            model=self._model,
            messages=list(self._messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        run = RunContext[None](deps=None, model=self._model, usage=RunUsage(), messages=self._messages)
        return _finish(self.capability.before_model_request(run, context)).messages

    def _request_part(self, item: Item, part: Part) -> ModelRequestPart:
        text = _Counted.of(part.text, item.tokens)
        if part.kind is Kind.SYSTEM:
            return SystemPromptPart(text)
        if part.kind is Kind.USER:
            return UserPromptPart(text)
        return ToolReturnPart(self._tools.get(item.call_id or "", ""), text, item.call_id or "")


class HarnessWindow(_Harness):
    """`SlidingWindowCompaction`, with the budget as `max_tokens`.

    With a low water, `keep_tokens` is that share of it; without one, it keeps its default, the latest 40 messages and
    the first user turn, whatever they hold.
    """

    name = "harness-window"
    summary = "pydantic-ai-harness's SlidingWindowCompaction"
    distributions = ("pydantic-ai-harness", "pydantic-ai-slim")

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        keep = None if settings.low_water is None else int(self.room * settings.low_water)
        self.capability = SlidingWindowCompaction(max_tokens=self.room, keep_tokens=keep, tokenizer=_tokenizer)

    def _view(self) -> list[Slot]:
        numbers = {id(message): number for number, message in enumerate(self._messages)}
        view: list[Slot] = []
        for message in self._send():
            view += self._indexes[numbers[id(message)]]
        return view


class HarnessClear(_Harness):
    """`ClearToolResults`, with the budget as `max_tokens` and otherwise its defaults."""

    name = "harness-clear"
    summary = "pydantic-ai-harness's ClearToolResults"
    distributions = ("pydantic-ai-harness", "pydantic-ai-slim")

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self.capability = ClearToolResults(max_tokens=self.room, tokenizer=_tokenizer)

    def _view(self) -> list[Slot]:
        view: list[Slot] = []
        # `ClearToolResults` keeps the order of messages and parts.
        for before, after, indexes in zip(self._messages, self._send(), self._indexes, strict=True):
            if after is before:
                view += indexes
                continue
            for old, new, index in zip(before.parts, after.parts, indexes, strict=True):
                if new is not old and isinstance(new, ToolReturnPart):
                    text = str(new.content)
                    view.append(self._substitute(index, text, chars(text)))
                else:
                    view.append(index)
        return view


def _response_part(item: Item, part: Part) -> ModelResponsePart:
    if part.kind is Kind.CALL:
        # The item's tokens include the name, so the arguments carry them all here.
        arguments = _Counted.of(part.arguments or "", item.tokens)
        return ToolCallPart(_Counted.of(part.tool or "", 0), arguments, item.call_id or "")
    text = _Counted.of(part.text, item.tokens)
    return ThinkingPart(text) if part.kind is Kind.REASONING else TextPart(text)


def _finish(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits, with or without a running event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coroutine.close()
    raise RuntimeError("the capability waits for something, which no known version does")

"""What was evicted, to be left out of messages that are no longer the history's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ThinkingPart,
)

from wane.formats.base import Transcript
from wane.formats.pydantic_ai import slots


@dataclass(frozen=True, slots=True)
class Hidden:
    """Evicted parts.

    Attributes:
        parts: identities of the part objects.
        calls: ids of calls that were evicted wherever they stand.
    """

    parts: frozenset[int]
    calls: frozenset[str]

    @classmethod
    def of(cls, transcript: Transcript[ModelMessage], visible: Sequence[int]) -> Self:
        """Return what of a transcript is not visible."""
        shown = set(visible)
        parts: set[int] = set()
        gone: set[str] = set()
        kept: set[str] = set()
        for index, part in enumerate(_item_parts(transcript.messages)):
            call_id = part.tool_call_id if isinstance(part, BaseToolCallPart | BaseToolReturnPart) else None
            if index not in shown:
                parts.add(id(part))
            if call_id is not None:
                (kept if index in shown else gone).add(call_id)
        return cls(frozenset(parts), frozenset(gone - kept))

    def without(self, message: ModelMessage) -> ModelMessage | None:
        """Return a message without what was evicted: the same object if that is nothing.

        None if it is all, or all but reasoning, which providers refuse by itself (R9).
        """
        kept: list[Any] = [part for part in message.parts if not self._holds(part)]
        if len(kept) == len(message.parts):
            return message
        if all(isinstance(part, ThinkingPart) for part in kept):
            return None
        if isinstance(message, ModelRequest):
            return replace(message, parts=kept)
        return replace(message, parts=kept)

    def _holds(self, part: object) -> bool:
        if id(part) in self.parts:
            return True
        return isinstance(part, BaseToolCallPart | BaseToolReturnPart) and part.tool_call_id in self.calls


def _item_parts(messages: Iterable[ModelMessage]) -> Iterable[object]:
    """The part behind each item, in order."""
    for message in messages:
        for position, _ in slots(message):
            yield message.parts[position] if position >= 0 else message

"""What a conversation returns to its host: requests, and changes of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from wane.core import FitReport
from wane.formats.base import MessageT


@dataclass(frozen=True, slots=True)
class Request(Generic[MessageT]):
    """What to send to the model next.

    Attributes:
        messages: the messages to send, in the provider's form, with the reminder last.
        view: the same without the reminder, as messages of the format.
        tokens: tokens of `messages`, including the overhead.
        report: what the pass did, and whether the budget is met; None if the strategy has no passes.
        reminder: a note to the model at the end of this request only; usually None.
        number: the request's number in the conversation, from 1.
        for_summary: whether it asks for a summary, to be given to `Conversation.summarised`, and not for an answer.
    """

    messages: list[Any]
    view: list[MessageT]
    tokens: int
    report: FitReport | None = None
    reminder: str | None = None
    number: int = 0
    for_summary: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """How a history that was taken in relates to the known one.

    Attributes:
        kept: number of known messages that are part of it.
        dropped: number of known messages that are not.
        added: number of new messages.
    """

    kept: int
    dropped: int
    added: int

    @property
    def continued(self) -> bool:
        """Whether it continues the known history."""
        return not self.dropped

    @property
    def forked(self) -> bool:
        """Whether it continues from an earlier message."""
        return bool(self.dropped and self.kept)

    @property
    def replaced(self) -> bool:
        """Whether it is another history."""
        return bool(self.dropped and not self.kept)

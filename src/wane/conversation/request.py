"""What a conversation gives its host: requests, and how a history went on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from wane.core import FitReport
from wane.formats.base import MessageT


@dataclass(frozen=True, slots=True)
class Request(Generic[MessageT]):
    """What to send to the model next.

    Attributes:
        messages: the messages to send, as the provider takes them, the reminder last.
        view: the same without the reminder, as messages of the format.
        tokens: what they hold, overhead included.
        report: what a pass did ahead of it, and whether the budget is met; None if no pass was looked for.
        reminder: what the request says to the model at its end, for this once; None as a rule.
        number: which of the conversation's requests it is, counted from 1.
        for_summary: whether it asks for a summary, which `Conversation.summarised` takes, and not for an answer.
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
    """How a history that was taken in goes on from what was known.

    Attributes:
        kept: number of known messages that are part of it.
        dropped: number of known messages that are not.
        added: number of messages that are new.
    """

    kept: int
    dropped: int
    added: int

    @property
    def continued(self) -> bool:
        """Whether it goes on where what was known ended."""
        return not self.dropped

    @property
    def forked(self) -> bool:
        """Whether it goes on from an earlier message."""
        return bool(self.dropped and self.kept)

    @property
    def replaced(self) -> bool:
        """Whether it is another history."""
        return bool(self.dropped and not self.kept)

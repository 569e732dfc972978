"""Several conversations, distinguished by their messages, for hosts that do not name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from wane.conversation.calls import Call
from wane.conversation.conversation import Conversation
from wane.formats.base import MessageT


class Conversations(Generic[MessageT]):
    """Finds the conversation that a history continues, or begins a new one.

    Args:
        make: makes a conversation.
        limit: number of conversations kept; the least recently used one goes first.
    """

    def __init__(self, make: Callable[[], Conversation[MessageT]], limit: int = 100) -> None:
        self._make = make
        self._limit = limit
        self._all: list[Conversation[MessageT]] = []  # the latest last

    def __len__(self) -> int:
        return len(self._all)

    def of(self, history: Sequence[Any]) -> Conversation[MessageT]:
        """Return the conversation of a history, after taking the history in.

        It is the conversation that shares most messages with the history. If the history leaves it after an answer,
        a branch is made, because both may continue.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for a message that no provider would accept.
        """
        found = max(((each.shares(history), each) for each in self._all), key=lambda pair: pair[0], default=(0, None))
        shared, conversation = found
        if conversation is None or not shared:
            conversation = self._make()
        elif shared < conversation.length:
            conversation = conversation.branch(shared)
        conversation.ingest(history)
        self._all = [each for each in self._all if each is not conversation][-self._limit + 1 :]
        self._all.append(conversation)
        return conversation

    def answering(self, call: Call[Any]) -> Conversation[MessageT] | None:
        """Return the conversation whose latest answer made a call, by the call's id; None if none did."""
        return next((each for each in reversed(self._all) if each.made(call)), None)

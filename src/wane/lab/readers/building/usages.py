"""What was reported of model calls in a journal, until the answers to them stand in it.

A journal has the usage of a call before the message that answered it: the agent's right before it. A proxy's has one
for each round of a reply and a note when the reply is complete, and the messages of the rounds once the client has come
back with them; of a reply that a client dropped they never come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from wane.journal.records import UsageRecord


class Usages:
    """The usage records whose answers have not been seen yet, oldest first.

    Attributes:
        rounds: whether several calls may stand together, as the rounds of one reply; or else each stands alone.
    """

    def __init__(self) -> None:
        self.rounds = False
        self._waiting: deque[UsageRecord] = deque()
        self._complete = False

    def add(self, record: UsageRecord) -> Iterator[UsageRecord]:
        """Take in what was reported of a call; yield those before it whose answers do not come any more."""
        if self._complete or not self.rounds:
            yield from self.left()
        self._waiting.append(record)

    def complete(self) -> None:
        """The reply that they are of is complete: the next call is of another one."""
        self._complete = True

    def answered(self) -> UsageRecord | None:
        """Return what was reported of the call whose answer comes next; None if nothing was."""
        return self._waiting.popleft() if self._waiting else None

    def left(self) -> Iterator[UsageRecord]:
        """Yield those whose answers do not come any more."""
        while self._waiting:
            yield self._waiting.popleft()
        self._complete = False

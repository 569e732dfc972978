"""Usage records of a journal, kept until the answers of their calls are read.

A journal records the usage of a call before the message that answered it. An agent's has it right before. A proxy's has
one record for each round of a reply, a note when the reply is complete, and the messages of the rounds once the client
has come back with them; if the client dropped the reply, they never come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from wane.journal.records import UsageRecord


class PendingUsage:
    """Usage records whose answers have not been read yet, oldest first.

    Attributes:
        rounds: whether several calls may follow each other, as the rounds of one reply.
    """

    def __init__(self) -> None:
        self.rounds = False
        self._waiting: deque[UsageRecord] = deque()
        self._complete = False

    def add(self, record: UsageRecord) -> Iterator[UsageRecord]:
        """Add the usage of a call, and yield earlier ones whose answers will not come."""
        if self._complete or not self.rounds:
            yield from self.left()
        self._waiting.append(record)

    def complete(self) -> None:
        """Note that the reply is complete: the next call belongs to another one."""
        self._complete = True

    def answered(self) -> UsageRecord | None:
        """Return the usage of the call whose answer comes next; None if none was reported."""
        return self._waiting.popleft() if self._waiting else None

    def left(self) -> Iterator[UsageRecord]:
        """Yield those whose answers will not come."""
        while self._waiting:
            yield self._waiting.popleft()
        self._complete = False

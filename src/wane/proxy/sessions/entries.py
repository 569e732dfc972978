"""The known messages of a session's client, and how far a request agrees with them."""

from __future__ import annotations

from array import array
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice

from wane.proxy.sessions.identity import ASSISTANT, Arrival


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of the client.

    Attributes:
        digest: digest of its exact content when it was last seen.
        shape: its shape, which survives edits (`shape_of`).
        messages: number of messages of the history that it stands for: one, unless rounds are woven in.
        tokens: its tokens when it was last seen, by our own count.
    """

    digest: bytes
    shape: bytes
    messages: int = 1
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far a request agrees with the known messages.

    Attributes:
        common: number of messages at the beginning that are the same, apart from small edits.
        edited: positions of messages that the client has changed since they were last seen.
        answered: number of messages up to the session's last answer in the request, which other sessions hardly share
            by chance; 0 if the request has none of its answers.
    """

    common: int
    edited: tuple[int, ...] = ()
    answered: int = 0


class Entries:
    """The known messages of a client, in order; each takes some 100 bytes."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._shapes: list[bytes] = []
        self._answers: set[bytes] = set()  # shapes of the assistant's messages
        self._messages = array("L")
        self._tokens = array("Q")

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, number: int) -> Entry:
        return Entry(self._digests[number], self._shapes[number], self._messages[number], self._tokens[number])

    def share(self, shapes: set[bytes]) -> bool:
        """Return whether a message of the assistant has one of these shapes."""
        return not shapes.isdisjoint(self._answers)

    def shape(self, number: int) -> bytes:
        """Return the shape of a message."""
        return self._shapes[number]

    def messages(self, number: int) -> int:
        """Return the number of messages of the history that a message stands for."""
        return self._messages[number]

    def append(self, entry: Entry) -> None:
        """Take in the next message."""
        self._digests.append(entry.digest)
        self._shapes.append(entry.shape)
        if entry.shape[:1] == ASSISTANT:
            self._answers.add(entry.shape)
        self._messages.append(entry.messages)
        self._tokens.append(entry.tokens)

    def renew(self, number: int, digest: bytes, tokens: int) -> None:
        """Take in a message that its client has edited."""
        self._digests[number] = digest
        self._tokens[number] = tokens

    def align(self, arrivals: Sequence[Arrival], replied: Container[bytes] = ()) -> Alignment:
        """Return how far a request agrees with the known messages.

        An edited message with the same shape counts as the same if a later assistant's message is the same, because
        clients clear old results and remove reminders. Otherwise the user may have said something else.

        Args:
            arrivals: the request's messages.
            replied: shapes of replies that the client has received and not sent back yet.
        """
        changed, reached = [], 0
        # Up to the last assistant's message that agrees: the number of messages, and of edits.
        sure, edits = 0, 0
        for number, (arrival, digest) in enumerate(zip(arrivals, self._digests, strict=False)):
            same = arrival.digest == digest
            if not same and arrival.shape != self._shapes[number]:
                break
            if not same:
                changed.append(number)
            reached = number + 1
            if self._shapes[number][:1] == ASSISTANT:
                sure, edits = reached, len(changed)
        answered = sure
        if reached == len(self) < len(arrivals) and arrivals[reached].shape in replied:
            edits, answered = len(changed), reached + 1
        first = next(islice(changed, edits, None), None)
        common = reached if first is None else max(sure, first)
        return Alignment(common, tuple(changed[:edits]), answered)

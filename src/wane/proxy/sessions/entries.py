"""The client's messages that are known of a session, and how far a request agrees with them."""

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
        digest: of its content when it was last seen, to the letter.
        shape: what stays of it when it is edited (`shape_of`).
        messages: how many messages of the history it stands for: one, unless own rounds were woven into it.
        tokens: what it held then, by our own count.
    """

    digest: bytes
    shape: bytes
    messages: int = 1
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far a request agrees with what is known.

    Attributes:
        common: number of messages at the beginning that are the same, small edits aside.
        edited: which of them the client has changed since they were last seen.
        answered: whether an assistant's message is among them, which no other session shares by chance.
    """

    common: int
    edited: tuple[int, ...] = ()
    answered: bool = False


class Entries:
    """Known messages of a client, in order, in some 100 bytes each."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._shapes: list[bytes] = []
        self._messages = array("L")
        self._tokens = array("Q")

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, number: int) -> Entry:
        return Entry(self._digests[number], self._shapes[number], self._messages[number], self._tokens[number])

    def share(self, shapes: set[bytes]) -> bool:
        """Return whether a message is of one of these shapes."""
        return not shapes.isdisjoint(self._shapes)

    def shape(self, number: int) -> bytes:
        """Return the shape of a message."""
        return self._shapes[number]

    def messages(self, number: int) -> int:
        """Return how many messages of the history one stands for."""
        return self._messages[number]

    def append(self, entry: Entry) -> None:
        """Take in the next message."""
        self._digests.append(entry.digest)
        self._shapes.append(entry.shape)
        self._messages.append(entry.messages)
        self._tokens.append(entry.tokens)

    def renew(self, number: int, digest: bytes, tokens: int) -> None:
        """Take note of what a message has become that its client has edited."""
        self._digests[number] = digest
        self._tokens[number] = tokens

    def align(self, arrivals: Sequence[Arrival], replied: Container[bytes] = ()) -> Alignment:
        """Say how far a request agrees with what is known.

        Args:
            arrivals: the request's messages.
            replied: shapes of replies that the client was given, and has not come back with yet.

        A message that was edited but kept its shape is still the same where an assistant's message behind it is: a
        client that clears old results, or takes a reminder back, goes on with its session. Without one it may as
        well be a person who says something else than before.
        """
        changed, reached = [], 0
        # As of the latest assistant's message that agrees: how far, and with how many edits.
        sure, edits, answered = 0, 0, False
        for number, (arrival, digest) in enumerate(zip(arrivals, self._digests, strict=False)):
            same = arrival.digest == digest
            if not same and arrival.shape != self._shapes[number]:
                break
            if not same:
                changed.append(number)
            reached = number + 1
            if self._shapes[number][:1] == ASSISTANT:
                sure, edits, answered = reached, len(changed), True
        if len(changed) > edits and reached == len(self) < len(arrivals) and arrivals[reached].shape in replied:
            edits, answered = len(changed), True
        first = next(islice(changed, edits, None), None)
        common = reached if first is None else max(sure, first)
        return Alignment(common, tuple(changed[:edits]), answered)

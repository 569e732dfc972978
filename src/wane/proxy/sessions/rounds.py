"""The rounds that the client does not see, and where they are woven into its history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from wane.proxy.sessions.identity import ASSISTANT, shape_of
from wane.proxy.sessions.notes import GivenReply
from wane.proxy.wire.base import Message, Wire, WovenRound

_RECENT: Final = 64  # latest replies by which a client's session is recognised
_EMPTY: Final = shape_of([])


@dataclass(frozen=True, slots=True)
class Place:
    """Rounds that were woven in at one place.

    Attributes:
        rounds: the rounds.
        ahead: whether they come before the client's message, because it kept nothing of the reply; else they replace
            it.
    """

    rounds: tuple[WovenRound, ...]
    ahead: bool = False


class WovenRounds:
    """A session's hidden rounds: those that wait for the client to send back the reply, and those woven in.

    Args:
        wire: the client's protocol.

    Attributes:
        places: where rounds were woven in, by position of the client's message.
        recent: shapes of the latest replies to the client.
    """

    def __init__(self, wire: Wire) -> None:
        self.places: dict[int, Place] = {}
        self.recent: deque[bytes] = deque(maxlen=_RECENT)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not woven in yet

    def given(self, reply: GivenReply) -> None:
        """Take in a reply to the client, in this session or in one that it continues."""
        if not reply.inherited:
            self.recent.append(reply.shape)
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Assign waiting rounds to the client's next message.

        Args:
            number: position of the message.
            shape: its shape.
        """
        made = shape[:1] == ASSISTANT
        wanted = shape if made else _EMPTY
        found = [reply for reply in self._waiting if reply.shape == wanted]
        # Of several with the same shape the client has the latest.
        gone = [reply for reply in found if not reply.inherited]
        if not gone and wanted not in self.recent:
            # Those of another session are used in order.
            gone = found[:1]
        if not gone:
            return
        self._waiting = [reply for reply in self._waiting if all(reply is not other for other in gone)]
        self.places[number] = Place(gone[-1].rounds, ahead=not made)

    def weave(self, number: int, message: Message) -> list[Message]:
        """Return the messages of the history that a message of the client stands for.

        Args:
            number: its position.
            message: the message.
        """
        place = self.places.get(number)
        if place is None:
            return [message]
        if not place.ahead:
            return self._wire.weave(message, place.rounds)
        parts = self._wire.format.parts
        rounds = [each for woven in place.rounds for each in (woven.message, *woven.results) if parts(each)]
        return [*rounds, message]

    def inherited(self, stop: int, count: int, shape_at: Callable[[int], bytes]) -> Iterator[GivenReply]:
        """Yield the replies for a session that forks or rewrites this one.

        Args:
            stop: number of the client's messages that both share. Later rounds belong to this session only.
            count: number of the client's messages in this session.
            shape_at: returns the shape of a message of the client.
        """
        for number in sorted(self.places):
            place = self.places[number]
            if number < stop or (number == stop and place.ahead):
                yield GivenReply(_EMPTY if place.ahead else shape_at(number), place.rounds, inherited=True)
        if stop == count:
            yield from (replace(reply, inherited=True) for reply in self._waiting)

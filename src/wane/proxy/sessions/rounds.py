"""The rounds that a client was not shown, and where in its history they are woven in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from wane.proxy.sessions.identity import ASSISTANT, shape_of
from wane.proxy.sessions.notes import GivenReply
from wane.proxy.wire.base import Message, Wire, WovenRound

_RECENT: Final = 64  # replies by which a client is known that comes back with one
_EMPTY: Final = shape_of([])


@dataclass(frozen=True, slots=True)
class Place:
    """Where rounds were woven in.

    Attributes:
        rounds: the rounds.
        ahead: whether they stand ahead of the client's message, as it kept nothing of the reply; else they are in it.
    """

    rounds: tuple[WovenRound, ...]
    ahead: bool = False


class WovenRounds:
    """The rounds of a session that its client was not shown: those that wait for its reply, and those woven in.

    Args:
        wire: the protocol that the client speaks.

    Attributes:
        places: where rounds were woven in, by number of the client's message.
        recent: shapes of the latest replies that the client was given.
    """

    def __init__(self, wire: Wire) -> None:
        self.places: dict[int, Place] = {}
        self.recent: deque[bytes] = deque(maxlen=_RECENT)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not woven in yet

    def given(self, reply: GivenReply) -> None:
        """The client was given a reply, in this session or in the one that it goes on with."""
        if not reply.inherited:
            self.recent.append(reply.shape)
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Find the rounds that stand behind the client's next message; they wait for it no longer.

        Args:
            number: position of the message.
            shape: its shape.
        """
        made = shape[:1] == ASSISTANT
        wanted = shape if made else _EMPTY
        found = [reply for reply in self._waiting if reply.shape == wanted]
        # Of several that look alike the client has the latest.
        gone = [reply for reply in found if not reply.inherited]
        if not gone and wanted not in self.recent:
            # Those of another session come in their order.
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
        """Give the replies that a session takes over which goes on with this one in another way.

        Args:
            stop: how many messages of the client both begin with. Rounds behind them belong to this session alone.
            count: how many messages of the client this session has.
            shape_at: gives the shape of a message of the client.
        """
        for number in sorted(self.places):
            place = self.places[number]
            if number < stop or (number == stop and place.ahead):
                yield GivenReply(_EMPTY if place.ahead else shape_at(number), place.rounds, inherited=True)
        if stop == count:
            yield from (replace(reply, inherited=True) for reply in self._waiting)

"""A session's history as its client has just sent it, with the rounds that the client does not see inserted."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wane.conversation.history import by_message, with_more
from wane.conversation.timeline import shown_of
from wane.core import Item, Kind, chars
from wane.formats.base import Format, Outline, Part
from wane.formats.turns import required_opening
from wane.proxy.sessions.keys import ASSISTANT
from wane.proxy.sessions.messages import Entries, GivenReply, Overlap, shape_of
from wane.proxy.wire.base import AnsweredRound, Message, Wire
from wane.strategies.base import Slot, Substitute, item_of

_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(Kind)}
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})

_RECENT: Final = 64  # latest replies by which a client's session is recognised
_EMPTY: Final = shape_of([])
_GONE: Final = Part(Kind.TEXT)


class EditableOutline(Outline):
    """An outline that can match the parts of edited messages to items."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds = array("B")  # by item
        # The item of the latest call or result with an id.
        self._pairs: dict[Kind, dict[str, int]] = {Kind.CALL: {}, Kind.RESULT: {}}

    def number(self, parts: list[Part]) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content."""
        first, taken = self.item_count, super().number(parts)
        for index, (item, _) in enumerate(taken, first):
            self._kinds.append(_KIND_NUMBERS[item.kind])
            if item.call_id is not None:
                self._pairs[item.kind][item.call_id] = index
        return taken

    def matched(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """Return the item of each part of an edited message; None for parts that always stay.

        Calls and results are matched by their ids, and text of the model or the harness by its order. Text of the user
        or the system is never evicted, so it needs no item.

        Args:
            number: position of the message.
            parts: its present parts.
        """
        own = range(self.first(number), self.first(number) + self.size(number))
        said = {kind: [i for i in own if self._kinds[i] == _KIND_NUMBERS[kind]] for kind in _EVICTABLE}
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs[part.kind].get(part.call_id))
            elif part.kind in _EVICTABLE:
                # Further parts of a kind go with its last item, or with any item of the message.
                same = said[part.kind] or list(own)
                before = sum(1 for n in matched if n in same)
                matched.append(same[min(before, len(same) - 1)] if same else None)
            else:
                matched.append(None)
        return matched


@dataclass(frozen=True, slots=True)
class FullHistory:
    """A whole history as a client has just sent it, with hidden rounds inserted.

    Attributes:
        format: the messages' format.
        strategy: name of the strategy that decides the view.
        messages: its messages.
        outline: the items of each message; later requests may have added to it.
        items: number of its items.
        edited: positions of messages that were edited since they were taken in.
    """

    format: Format[Message]
    strategy: str
    messages: Sequence[Message]
    outline: EditableOutline
    items: int
    edited: frozenset[int] = frozenset()

    def shown(self, slots: Sequence[Slot]) -> list[tuple[int, Message]]:
        """Return the messages of a view with their positions in the history; whole messages are the same objects.

        Args:
            slots: the view.
        """
        outline = self.outline
        if len(slots) == outline.item_count and not any(isinstance(slot, Substitute) for slot in slots):
            return list(enumerate(self.messages))
        visible = dict(by_message(outline, slots))
        shown: list[tuple[int, Message]] = []
        # An edited message may have new text of the user, even if all of its items were evicted.
        for number in sorted(visible.keys() | self.edited) if self.edited else visible:
            message, kept, size = self.messages[number], visible.get(number, {}), outline.size(number)
            if number in self.edited:
                first = outline.first(number)
                places = outline.matched(number, self.format.parts(message))
                present = [n if place is None else kept.get(place - first) for n, place in enumerate(places)]
                kept, size = {n: slot for n, slot in enumerate(present) if slot is not None}, len(present)
            seen = shown_of(self.format, message, kept, size, self.strategy) if kept else None
            if seen is not None:
                shown.append((number, seen))
        return shown

    def opened(self, slots: Sequence[Slot], shown: Sequence[tuple[int, Message]]) -> tuple[list[Slot], int]:
        """Return a view whose current turn begins with its reasoning, and the number of tokens added for that.

        Args:
            slots: the view.
            shown: its messages, as `shown` returns them.
        """
        parts_of = self.format.parts
        needed = required_opening(
            lambda number: parts_of(self.messages[number]),
            len(self.messages),
            ((number, parts_of(message)) for number, message in reversed(shown)),
        )
        more: dict[int, int] = {}
        for number, positions in needed.items():
            given = parts_of(self.messages[number])
            places = self._places(number, given)
            more |= {
                place: given[at].item(chars, number).tokens for at in positions if (place := places[at]) is not None
            }
        for slot in slots:
            more.pop(_item(slot), None)
        return with_more(slots, more), sum(more.values())

    def parts(self) -> list[Part]:
        """Return the items with their present content.

        The parts of an edited message are matched to its items; an item of which nothing is left is an empty text.
        """
        found = [_GONE] * self.items
        for number, message in enumerate(self.messages):
            parts = self.format.parts(message)
            for part, place in zip(parts, self._places(number, parts), strict=True):
                if place is not None and place < self.items:
                    before = found[place]
                    found[place] = part if before is _GONE else replace(part, text=f"{before.text}\n\n{part.text}")
        return found

    def _places(self, number: int, parts: Sequence[Part]) -> Sequence[int | None]:
        """The item of each part of a message."""
        if number in self.edited:
            return self.outline.matched(number, parts)
        first = self.outline.first(number)
        return range(first, first + len(parts))


def _item(slot: Slot) -> int:
    index = item_of(slot)
    assert index is not None  # the proxy runs no strategy with summaries, which replace no single item
    return index


@dataclass(frozen=True, slots=True)
class Place:
    """Rounds that were inserted at one place.

    Attributes:
        rounds: the rounds.
        ahead: whether they come before the client's message, because it kept nothing of the reply; else they replace
            it.
    """

    rounds: tuple[AnsweredRound, ...]
    ahead: bool = False


class UnseenRounds:
    """A session's hidden rounds: those that wait for the client to send back the reply, and those inserted.

    Args:
        wire: the client's protocol.

    Attributes:
        places: where rounds were inserted, by position of the client's message.
        recent: the latest replies to the client, each by its place and shape.
    """

    def __init__(self, wire: Wire) -> None:
        self.places: dict[int, Place] = {}
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=_RECENT)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not inserted yet

    def given(self, reply: GivenReply) -> None:
        """Take in a reply to the client, in this session or in one that it continues."""
        if not reply.inherited:
            self.recent.append((reply.place, reply.shape))
            # Of several with the same shape the client has the latest.
            self._waiting = [each for each in self._waiting if each.inherited or each.shape != reply.shape]
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Assign waiting rounds to the client's next message.

        Args:
            number: position of the message.
            shape: its shape.
        """
        if not self._waiting:
            return
        made = shape[:1] == ASSISTANT
        wanted = shape if made else _EMPTY
        found = [reply for reply in self._waiting if reply.shape == wanted]
        own = [reply for reply in found if not reply.inherited and reply.place <= number]
        theirs = [reply for reply in found if reply.place == number and (number, wanted) not in self.recent]
        if own or theirs:
            reply = [*own, *theirs][0]
            self._waiting = [each for each in self._waiting if each is not reply]
            self.places[number] = Place(reply.rounds, ahead=not made)

    def expand(self, number: int, message: Message) -> list[Message]:
        """Return the messages of the history that a message of the client stands for.

        Args:
            number: its position.
            message: the message.
        """
        place = self.places.get(number)
        if place is None:
            return [message]
        if not place.ahead:
            return self._wire.expand(message, place.rounds)
        parts = self._wire.format.parts
        rounds = [each for round_ in place.rounds for each in (round_.message, *round_.results) if parts(each)]
        return [*rounds, message]

    def inherited(self, entries: Entries, shared: Overlap) -> Iterator[GivenReply]:
        """Yield the replies for a session that forks or rewrites this one.

        Args:
            entries: the client's messages in this session.
            shared: those that both share. Other rounds belong to this session only.
        """
        first, stop, shift = shared.theirs, shared.theirs + shared.count, shared.ours - shared.theirs
        for number in sorted(self.places):
            place = self.places[number]
            if first <= number < stop or (number == stop and place.ahead):
                shape = _EMPTY if place.ahead else entries.shape(number)
                yield GivenReply(shape, number + shift, place.rounds, inherited=True)
        for reply in self._waiting:
            if first <= reply.place <= stop:
                yield replace(reply, place=reply.place + shift, inherited=True)

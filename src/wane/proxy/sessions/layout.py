"""Where the items of a session's history stand in its messages, and what a view shows of them."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wane.core import Item, Kind, chars
from wane.formats.base import Part, is_answer, keep_some, standing
from wane.proxy.wire.base import Message, Wire
from wane.strategies.base import Slot, Substitute

_KINDS: Final = tuple(Kind)
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})


@dataclass(frozen=True, slots=True)
class History:
    """A whole history, from what a client has just sent.

    Attributes:
        messages: its messages.
        items: how many items were taken in of them.
        edited: which messages are not as they were when they were taken in.
    """

    messages: Sequence[Message]
    items: int
    edited: frozenset[int] = frozenset()


class Layout:
    """Numbers the items of a history whose content is not kept.

    Args:
        wire: the messages' protocol.

    Attributes:
        tokens: of all items, by our own count.
    """

    def __init__(self, wire: Wire) -> None:
        self.tokens = 0
        self._wire = wire
        self._first = array("L")  # by message, its first item
        self._owners = array("L")  # by item, its message
        self._kinds = array("B")  # by item
        self._answered = False
        self._pairs: dict[tuple[Kind, str], int] = {}  # by kind and id, the item of the latest call or result

    def __len__(self) -> int:
        """Number of items."""
        return len(self._owners)

    def items(self, message: Message, parts: Sequence[Part] | None = None) -> Iterator[tuple[Item, Part]]:
        """Take in the next message of the history, and give its items with their content.

        Args:
            message: the message.
            parts: the same taken apart, if it has been already.
        """
        number = len(self._first)
        self._first.append(len(self._owners))
        parts = self._wire.format.parts(message) if parts is None else list(parts)
        told = standing(parts, answered=self._answered)
        self._answered = self._answered or is_answer(parts)
        for part in told:
            item = part.item(chars, number)
            if item.call_id is not None:
                self._pairs[item.kind, item.call_id] = len(self._owners)
            self._kinds.append(_KINDS.index(item.kind))
            self._owners.append(number)
            self.tokens += item.tokens
            yield item, part

    def shown(self, history: History, slots: Sequence[Slot]) -> list[tuple[int, Message]]:
        """Return the messages of a view with their positions in the history; those that are whole are the same objects.

        Args:
            history: the history.
            slots: what the view shows.
        """
        if len(slots) == len(self._owners) and not any(isinstance(slot, Substitute) for slot in slots):
            return list(enumerate(history.messages))
        shown: list[tuple[int, Message]] = []
        by_message = self._by_message(slots)
        # An edited message may hold what the user has added since: it is looked at whatever was evicted of it.
        for number in sorted(by_message.keys() | history.edited) if history.edited else by_message:
            message, places = history.messages[number], by_message.get(number, {})
            if number in history.edited:
                shown += ((number, kept) for kept in self._kept_of_edited(number, message, places))
            else:
                shown += ((number, kept) for kept in self._kept(number, message, places))
        return shown

    def required(
        self, history: History, slots: Sequence[Slot], parts: Mapping[int, Sequence[int]]
    ) -> tuple[list[Slot], int]:
        """Return a view with more in it, and the tokens that are more.

        Args:
            history: the history.
            slots: what the view shows.
            parts: what is to be shown besides: positions in the parts of messages, by the message's number.
        """
        more: dict[int, int] = {}
        for number, positions in parts.items():
            given = self._wire.format.parts(history.messages[number])
            first = self._first[number]
            places = self._matched(number, given) if number in history.edited else range(first, first + len(given))
            more |= {
                place: given[at].item(chars, number).tokens for at in positions if (place := places[at]) is not None
            }
        known = {place for slot in slots if (place := _place(slot)) is not None}
        more = {place: more[place] for place in sorted(more.keys() - known)}
        return _merged(slots, more), sum(more.values())

    def parts(self, history: History) -> list[Part | None]:
        """Return the items of a history with their content, as the client now sends them.

        An edited message gives its calls and results by their ids, and all that the model said in it; an item of which
        nothing is left in it is None.
        """
        found: list[Part | None] = [None] * history.items
        for number, message in enumerate(history.messages):
            parts, first = self._wire.format.parts(message), self._first[number]
            places = self._matched(number, parts) if number in history.edited else range(first, first + len(parts))
            for part, place in zip(parts, places, strict=True):
                if place is not None and place < history.items:
                    before = found[place]
                    found[place] = part if before is None else replace(part, text=f"{before.text}\n\n{part.text}")
        return found

    def message_of(self, index: int) -> int:
        """Return which message of the history an item is part of."""
        return self._owners[index]

    def _by_message(self, slots: Sequence[Slot]) -> dict[int, dict[int, Slot]]:
        """What a view shows of each message, by place."""
        found: dict[int, dict[int, Slot]] = {}
        for slot in slots:
            if (place := _place(slot)) is not None:
                found.setdefault(self._owners[place], {})[place] = slot
        return found

    def _kept(self, number: int, message: Message, places: Mapping[int, Slot]) -> list[Message]:
        """What to show of a message; none if nothing but reasoning is left of it."""
        first = self._first[number]
        for place, slot in places.items():
            if isinstance(slot, Substitute):
                message = self._wire.cleared(message, place - first, slot.text)
        whole = len(places) == self._stop(number) - first
        return self._only(message, None if whole else [place - first for place in places])

    def _kept_of_edited(self, number: int, message: Message, places: Mapping[int, Slot]) -> list[Message]:
        """What to show of a message whose parts may be others than were taken in; none if nothing is left."""
        parts = self._wire.format.parts(message)
        matched = self._matched(number, parts)
        kept = [position for position, place in enumerate(matched) if place is None or place in places]
        for position in kept:
            slot = places.get(-1 if (place := matched[position]) is None else place)
            if isinstance(slot, Substitute):
                message = self._wire.cleared(message, position, slot.text)
        return self._only(message, None if len(kept) == len(parts) else kept) if kept else []

    def _only(self, message: Message, kept: Sequence[int] | None) -> list[Message]:
        """A message with some of its parts, or whole; none if those are nothing but reasoning."""
        shown = message if kept is None else keep_some(self._wire.format, message, kept)
        return [] if shown is None else [shown]

    def _matched(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """For each part of a message as it is now, the item that it was; None of what goes whenever its message does.

        Calls and results tell by their ids, what the model or the harness said by its order. What a user or the
        system says is never evicted, be it new or not.
        """
        first, stop = self._first[number], self._stop(number)
        said = {kind: [i for i in range(first, stop) if self._kinds[i] == _KINDS.index(kind)] for kind in _EVICTABLE}
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs.get((part.kind, part.call_id)))
            elif part.kind in _EVICTABLE:
                # More of a kind than there was goes with the last of it, or with whatever else there was.
                same = said[part.kind] or list(range(first, stop))
                before = sum(1 for n in matched if n in same)
                matched.append(same[min(before, len(same) - 1)] if same else None)
            else:
                matched.append(None)
        return matched

    def _stop(self, number: int) -> int:
        return self._first[number + 1] if number + 1 < len(self._first) else len(self._owners)


def _place(slot: Slot) -> int | None:
    return slot if isinstance(slot, int) else slot.index


def _merged(slots: Sequence[Slot], more: Iterable[int]) -> list[Slot]:
    """Slots with further items, which are none of theirs and in order, each in its place."""
    merged: list[Slot] = []
    waiting = deque(more)
    for slot in slots:
        place = _place(slot)
        while waiting and place is not None and waiting[0] < place:
            merged.append(waiting.popleft())
        merged.append(slot)
    return [*merged, *waiting]

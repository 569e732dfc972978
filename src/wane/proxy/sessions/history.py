"""A session's history as its client has just sent it, with woven rounds, and what a view shows of it."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wane.conversation.view import shown_of
from wane.core import Item, Kind, chars
from wane.formats.base import Format, Outline, Part
from wane.proxy.wire.base import Message
from wane.strategies.base import Slot, Substitute

_KINDS: Final = tuple(Kind)
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})


class EditableOutline(Outline):
    """An outline that finds the items again in messages which their client has edited since."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds = array("B")  # by item
        self._pairs: dict[tuple[Kind, str], int] = {}  # by kind and id, the item of the latest call or result

    def number(self, parts: list[Part], ordinal: int | None = None) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content."""
        first, taken = self.item_count, super().number(parts, ordinal)
        for index, (item, _) in enumerate(taken, first):
            self._kinds.append(_KINDS.index(item.kind))
            if item.call_id is not None:
                self._pairs[item.kind, item.call_id] = index
        return taken

    def matched(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """Return for each part of an edited message the item that it was; None of what goes only with its message.

        Calls and results tell by their ids, what the model or the harness said by its order. What a user or the
        system says is never evicted, be it new or not.

        Args:
            number: position of the message.
            parts: the same taken apart, as it is now.
        """
        own = range(self.first(number), self.first(number) + self.size(number))
        said = {kind: [i for i in own if self._kinds[i] == _KINDS.index(kind)] for kind in _EVICTABLE}
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs.get((part.kind, part.call_id)))
            elif part.kind in _EVICTABLE:
                # More of a kind than there was goes with the last of it, or with whatever else there was.
                same = said[part.kind] or list(own)
                before = sum(1 for n in matched if n in same)
                matched.append(same[min(before, len(same) - 1)] if same else None)
            else:
                matched.append(None)
        return matched


@dataclass(frozen=True, slots=True)
class WovenHistory:
    """A whole history as a client has just sent it, with the rounds woven in that the client was not shown.

    Attributes:
        format: the messages' format.
        strategy: name of the strategy that says what is shown of it.
        messages: its messages.
        outline: which items stand in which of them; later requests may have added to it.
        items: how many items were taken in of them.
        edited: which messages are not as they were when they were taken in.
    """

    format: Format[Message]
    strategy: str
    messages: Sequence[Message]
    outline: EditableOutline
    items: int
    edited: frozenset[int] = frozenset()

    def shown(self, slots: Sequence[Slot]) -> list[tuple[int, Message]]:
        """Return the messages of a view with their positions in the history; those that are whole are the same objects.

        Args:
            slots: what the view shows.
        """
        outline = self.outline
        if len(slots) == outline.item_count and not any(isinstance(slot, Substitute) for slot in slots):
            return list(enumerate(self.messages))
        by_message: dict[int, dict[int, Slot]] = {}
        first, stop, kept = 0, 0, dict[int, Slot]()
        for slot in slots:
            place = slot if isinstance(slot, int) else slot.index
            if place is None:
                continue
            if not first <= place < stop:
                number = outline.message_of(place)
                first = outline.first(number)
                stop = first + outline.size(number)
                kept = by_message.setdefault(number, {})
            kept[place - first] = slot
        shown: list[tuple[int, Message]] = []
        # An edited message may hold what the user has added since: it is looked at whatever was evicted of it.
        for number in sorted(by_message.keys() | self.edited) if self.edited else by_message:
            message, parts, size = self.messages[number], by_message.get(number, {}), outline.size(number)
            if number in self.edited:
                parts, size = self._kept_of_edited(number, message, parts)
            seen = shown_of(self.format, message, parts, size, self.strategy) if parts else None
            if seen is not None:
                shown.append((number, seen))
        return shown

    def required(self, slots: Sequence[Slot], parts: Mapping[int, Sequence[int]]) -> tuple[list[Slot], int]:
        """Return a view with more in it, and the tokens that are more.

        Args:
            slots: what the view shows.
            parts: what is to be shown besides: positions in the parts of messages, by the message's number.
        """
        more: dict[int, int] = {}
        for number, positions in parts.items():
            given = self.format.parts(self.messages[number])
            places = self._places(number, given)
            more |= {
                place: given[at].item(chars, number).tokens for at in positions if (place := places[at]) is not None
            }
        known = {place for slot in slots if (place := _place(slot)) is not None}
        more = {place: more[place] for place in sorted(more.keys() - known)}
        return _merged(slots, more), sum(more.values())

    def parts(self) -> list[Part | None]:
        """Return the items with their content, as the client now sends them.

        An edited message gives its calls and results by their ids, and all that the model said in it; an item of which
        nothing is left in it is None.
        """
        found: list[Part | None] = [None] * self.items
        for number, message in enumerate(self.messages):
            parts = self.format.parts(message)
            for part, place in zip(parts, self._places(number, parts), strict=True):
                if place is not None and place < self.items:
                    before = found[place]
                    found[place] = part if before is None else replace(part, text=f"{before.text}\n\n{part.text}")
        return found

    def _places(self, number: int, parts: Sequence[Part]) -> Sequence[int | None]:
        """For each part of a message, which item it is."""
        if number in self.edited:
            return self.outline.matched(number, parts)
        first = self.outline.first(number)
        return range(first, first + len(parts))

    def _kept_of_edited(self, number: int, message: Message, slots: Mapping[int, Slot]) -> tuple[dict[int, Slot], int]:
        """What to show of the parts of an edited message, by position, and how many parts it has now."""
        parts, first = self.format.parts(message), self.outline.first(number)
        kept: dict[int, Slot] = {}
        for position, place in enumerate(self.outline.matched(number, parts)):
            slot = position if place is None else slots.get(place - first)
            if slot is not None:
                kept[position] = slot
        return kept, len(parts)


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

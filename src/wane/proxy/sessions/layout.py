"""Where the items of a session's history stand in its messages, and what a view shows of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from wane.core import Item, Kind, chars
from wane.formats.base import Part, readable
from wane.proxy.wire.base import Message, Wire
from wane.strategies.base import Slot, Substitute

_MADE: Final = frozenset({Kind.TEXT, Kind.REASONING})


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
        self._calls: dict[str, int] = {}  # by id, the latest call's item

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
        for part in self._wire.format.parts(message) if parts is None else parts:
            item = part.item(chars, number)
            if item.kind is Kind.CALL and item.call_id is not None:
                self._calls[item.call_id] = len(self._owners)
            self._owners.append(number)
            self.tokens += item.tokens
            yield item, part

    def shown(self, history: History, slots: Sequence[Slot]) -> list[Message]:
        """Return the messages of a view; those that are whole are the same objects.

        Args:
            history: the history.
            slots: what the view shows.
        """
        if len(slots) == len(self._owners) and not any(isinstance(slot, Substitute) for slot in slots):
            return list(history.messages)
        shown: list[Message] = []
        places = ((slot if isinstance(slot, int) else slot.index, slot) for slot in slots)
        known = [(place, slot) for place, slot in places if place is not None]
        visible = frozenset(place for place, _ in known) if history.edited else frozenset()
        for number, group in groupby(known, lambda pair: self._owners[pair[0]]):
            message = history.messages[number]
            if number in history.edited:
                shown += self._kept_of_edited(message, visible)
            else:
                shown.append(self._kept(number, message, list(group)))
        return shown

    def text(self, history: History, indexes: Iterable[int]) -> str:
        """Return items as a recall gives them: readable, exact and in order, as the client now sends them.

        Of an edited message these are the calls and results by their ids, and all that the model said in it.

        Args:
            history: the history.
            indexes: the items, ascending; those beyond the history are left out.
        """
        wanted = [index for index in indexes if index < history.items]
        known = frozenset(wanted) if history.edited else frozenset()
        blocks: list[str] = []
        for number, group in groupby(wanted, self._owners.__getitem__):
            parts = self._wire.format.parts(history.messages[number])
            if number in history.edited:
                blocks += [
                    readable(part)
                    for part in parts
                    if self._calls.get(part.call_id or "") in known or part.kind in _MADE
                ]
            else:
                blocks += [readable(parts[index - self._first[number]]) for index in group]
        return "\n\n".join(blocks)

    def _kept(self, number: int, message: Message, places: Sequence[tuple[int, Slot]]) -> Message:
        first = self._first[number]
        for place, slot in places:
            if isinstance(slot, Substitute):
                message = self._wire.cleared(message, place - first, slot.text)
        stop = self._first[number + 1] if number + 1 < len(self._first) else len(self._owners)
        if len(places) == stop - first:
            return message
        return self._wire.format.keep(message, [place - first for place, _ in places])

    def _kept_of_edited(self, message: Message, visible: frozenset[int]) -> list[Message]:
        """What to show of a message whose parts may be others than were taken in: calls and results tell by id."""
        parts = self._wire.format.parts(message)
        kept = [n for n, part in enumerate(parts) if part.call_id is None or self._calls.get(part.call_id) in visible]
        if not kept:
            return []
        return [message if len(kept) == len(parts) else self._wire.format.keep(message, kept)]

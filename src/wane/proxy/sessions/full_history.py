"""A session's history as its client has just sent it, with the rounds inserted that the client does not see."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from wane.conversation.views import by_message, message_behind, visible_message, with_items
from wane.core import Item, Kind, chars
from wane.formats.message_format import Format, Outline, Part, writing
from wane.formats.turns import required_opening
from wane.proxy.sessions.client_messages import ASSISTANT, Entries, GivenReply, Overlap, shape_of
from wane.proxy.wire.wire import AnsweredRound, Message, SentHistory, ViewMessage, Wire
from wane.strategies.strategy import Slot, Substitute, item_of

_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(Kind)}
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})

_EMPTY: Final = shape_of([])
_GONE: Final = Part(Kind.TEXT)


class EditableOutline(Outline):
    """An outline that can match the parts of edited messages to items."""

    def __init__(self, format: Format[Message] | None = None) -> None:  # noqa: A002 - the field's word
        super().__init__(format=format)
        self._kinds = array("B")  # by item
        # The item of the latest call or result with an id.
        self._pairs: dict[Kind, dict[str, int]] = {Kind.CALL: {}, Kind.RESULT: {}}

    def number(self, parts: list[Part]) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content."""
        first = self.item_count
        numbered = super().number(parts)
        for index, (item, _) in enumerate(numbered, first):
            self._kinds.append(_KIND_NUMBERS[item.kind])
            if item.call_id is not None:
                self._pairs[item.kind][item.call_id] = index
        return numbered

    def match_parts(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """Return the item of each present part of an edited message; None for parts that always stay.

        Calls and results are matched by their ids, and text of the model or the harness by its order. Text of the user
        or the system is never evicted, so it needs no item.
        """
        items = range(self.first(number), self.first(number) + self.size(number))
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs[part.kind].get(part.call_id))
                continue
            if part.kind not in _EVICTABLE or not items:
                matched.append(None)
                continue
            same_kind = [item for item in items if self._kinds[item] == _KIND_NUMBERS[part.kind]]
            choices = same_kind or items
            before = sum(item in choices for item in matched)
            # Parts that were added go with the last item of their kind, or of the message.
            matched.append(choices[min(before, len(choices) - 1)])
        return matched


@dataclass(frozen=True, slots=True)
class FullHistory:
    """A whole history as a client has just sent it, with hidden rounds inserted.

    Attributes:
        strategy: name of the strategy that decides the view.
        outline: the items of each message; later requests may have added to it.
        items: number of its items.
        edited: numbers of messages that were edited since they were taken in.
        inserted: numbers of messages that the client did not send: those of hidden rounds.
    """

    format: Format[Message]
    strategy: str
    messages: Sequence[Message]
    outline: EditableOutline
    items: int
    edited: AbstractSet[int]
    inserted: AbstractSet[int]

    def render(self, slots: Sequence[Slot], head: int = 0) -> Sequence[ViewMessage]:
        """Return the messages of a view; whole messages are the same objects.

        Args:
            slots: the view.
            head: number of its leading slots that no pass may take.
        """
        outline = self.outline
        if len(slots) == outline.item_count and Substitute not in map(type, slots):
            return [*map(self._whole, range(len(self.messages)))] if self.inserted else SentHistory(self.messages)
        visible: dict[int, dict[int, Slot]] = {}
        rendered: list[ViewMessage] = []
        index: Message | None = None
        index_at = before = -1
        for number, positions in by_message(outline, slots):
            if number >= 0:
                visible[number] = positions
                if index is not None and index_at < 0:
                    index_at = number
            elif isinstance(text := positions[0], Substitute):
                index = writing(self.format, "an index of evicted content").turn(text.text)
        # An edited message may have new text of the user, even if all of its items were evicted.
        for number in sorted(visible.keys() | self.edited) if self.edited else visible:
            if index is not None and number == index_at:
                rendered.append(ViewMessage(index, number, ()))
            message = self.messages[number]
            remaining = visible.get(number, {})
            size = outline.size(number)
            if number in self.edited:
                items = outline.match_parts(number, self.format.parts(message))
                remaining = self._remaining(number, items, remaining)
                size = len(items)
            reduced = visible_message(self.format, message, remaining, size, self.strategy) if remaining else None
            if reduced is not None:
                rendered += map(self._whole, outline.empty_between(before, number))
                before = number
                whole = len(remaining) == size
                replaced = Substitute in map(type, remaining.values())
                sent = whole and number not in self.inserted and not replaced
                rendered.append(ViewMessage(reduced, number, None if whole else [*remaining], sent))
        if head:
            stop = message_behind(outline, slots, head, len(self.messages))
            # The index stands ahead of a message, as no part of it.
            leading = takewhile(lambda message: (message.number or 0) < stop and message.positions != (), rendered)
            if length := len(list(leading)):
                rendered[length - 1] = rendered[length - 1]._replace(ends_head=True)
        return rendered

    def _whole(self, number: int) -> ViewMessage:
        return ViewMessage(self.messages[number], number, None, number not in self.inserted)

    def _remaining(self, number: int, items: Sequence[int | None], visible: Mapping[int, Slot]) -> dict[int, Slot]:
        """Return the visible parts of an edited message by position, from those of the message before its edits."""
        first = self.outline.first(number)
        remaining: dict[int, Slot] = {}
        for position, item in enumerate(items):
            if item is None:
                remaining[position] = position
            elif item - first in visible:
                remaining[position] = visible[item - first]
        return remaining

    def open_turn(self, slots: Sequence[Slot], rendered: Sequence[ViewMessage]) -> tuple[list[Slot], int]:
        """Return a rendered view whose current turn begins with its reasoning, and how many tokens that adds."""
        parts_of = self.format.parts
        needed = required_opening(
            lambda number: parts_of(self.messages[number]),
            len(self.messages),
            ((shown.number or 0, parts_of(shown.message)) for shown in reversed(rendered)),
        )
        visible = {item_of(slot) for slot in slots}
        added: dict[int, int] = {}
        for number, positions in needed.items():
            parts = parts_of(self.messages[number])
            items = self._items_of(number, parts)
            for position in positions:
                item = items[position]
                if item is not None and item not in visible:
                    added[item] = parts[position].item(chars, number).tokens
        return with_items(slots, added), sum(added.values())

    def parts(self) -> list[Part]:
        """Return the items with their present content.

        The parts of an edited message are matched to its items. An item that has lost all of its content is an empty
        text.
        """
        by_item = [_GONE] * self.items
        for number, message in enumerate(self.messages):
            parts = self.format.parts(message)
            for part, item in zip(parts, self._items_of(number, parts), strict=True):
                if item is not None and item < self.items:
                    before = by_item[item]
                    by_item[item] = part if before is _GONE else replace(part, text=f"{before.text}\n\n{part.text}")
        return by_item

    def _items_of(self, number: int, parts: Sequence[Part]) -> Sequence[int | None]:
        """Return the item of each part of a message."""
        if number in self.edited:
            return self.outline.match_parts(number, parts)
        first = self.outline.first(number)
        return range(first, first + len(parts))


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rounds that were inserted at a message of the client.

    Attributes:
        rounds: the rounds.
        ahead: whether they come before that message, because the client kept nothing of the reply, or replace it.
    """

    rounds: tuple[AnsweredRound, ...]
    ahead: bool = False


class UnseenRounds:
    """A session's hidden rounds: those inserted, and those whose reply the client has not sent back yet.

    Attributes:
        insertions: the inserted rounds, by number of the client's message.
        recent: the latest replies to the client by number and shape, to recognise requests that continue them.
    """

    def __init__(self, wire: Wire) -> None:
        self.insertions: dict[int, Insertion] = {}
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=64)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not inserted yet

    def take_reply(self, reply: GivenReply) -> None:
        """Take in a reply to the client, in this session or in one that it continues."""
        if not reply.inherited:
            self.recent.append((reply.number, reply.shape))
            # The client has kept the latest reply of a shape.
            self._waiting = [earlier for earlier in self._waiting if earlier.inherited or earlier.shape != reply.shape]
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Assign waiting rounds to the client's next message, by its number and shape."""
        if not self._waiting:
            return
        is_reply = shape[:1] == ASSISTANT
        expected = shape if is_reply else _EMPTY
        matches = [reply for reply in self._waiting if reply.shape == expected]
        # A client that kept nothing of a reply goes on right there. Later, a result may be next.
        first = 0 if is_reply else number
        own = [reply for reply in matches if not reply.inherited and first <= reply.number <= number]
        inherited = [reply for reply in matches if reply.number == number and (number, expected) not in self.recent]
        if own or inherited:
            reply = own[0] if own else inherited[0]
            self._waiting = [waiting for waiting in self._waiting if waiting is not reply]
            self.insertions[number] = Insertion(reply.rounds, ahead=not is_reply)

    def expand(self, number: int, message: Message) -> list[Message]:
        """Return the messages of the history that a message of the client with this number stands for."""
        insertion = self.insertions.get(number)
        if insertion is None:
            return [message]
        if not insertion.ahead:
            return self._wire.expand(message, insertion.rounds)
        expanded: list[Message] = []
        for round_ in insertion.rounds:
            expanded += [hidden for hidden in (round_.message, *round_.results) if self._wire.format.parts(hidden)]
        return [*expanded, message]

    def behind(self, number: int, message: Message) -> tuple[AnsweredRound, ...]:
        """Return the rounds behind an answer of the client with this number: it alone, if none are inserted."""
        insertion = self.insertions.get(number)
        if insertion is not None and not insertion.ahead:
            return insertion.rounds
        return (*(insertion.rounds if insertion else ()), AnsweredRound(message, ()))

    def inherit_replies(self, entries: Entries, shared: Overlap) -> Iterator[GivenReply]:
        """Yield the replies for a session that forks or rewrites this one, by the entries that both share."""
        first = shared.other_start
        stop = first + shared.count
        shift = shared.start - first
        for number in sorted(self.insertions):
            insertion = self.insertions[number]
            if first <= number < stop or (number == stop and insertion.ahead):
                shape = _EMPTY if insertion.ahead else entries[number].shape
                yield GivenReply(shape, number + shift, insertion.rounds, inherited=True)
        for reply in self._waiting:
            if first <= reply.number <= stop:
                yield replace(reply, number=reply.number + shift, inherited=True)

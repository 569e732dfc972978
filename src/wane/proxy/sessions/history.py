"""A session's history as its client has just sent it, with the rounds that the client does not see inserted."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from wane.conversation.views import by_message, visible_message, with_items
from wane.core import Item, Kind, chars
from wane.formats.base import Format, Outline, Part, writing
from wane.formats.turns import required_opening
from wane.proxy.sessions.messages import ASSISTANT, Entries, GivenReply, Overlap, shape_of
from wane.proxy.wire.base import AnsweredRound, Message, ViewMessage, Wire
from wane.strategies.base import Slot, Substitute, item_of

_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(Kind)}
_EVICTABLE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.NOTICE})

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
        first, numbered = self.item_count, super().number(parts)
        for index, (item, _) in enumerate(numbered, first):
            self._kinds.append(_KIND_NUMBERS[item.kind])
            if item.call_id is not None:
                self._pairs[item.kind][item.call_id] = index
        return numbered

    def matched(self, number: int, parts: Sequence[Part]) -> list[int | None]:
        """Return the item of each present part of an edited message; None for parts that always stay.

        Calls and results are matched by their ids, and text of the model or the harness by its order. Text of the user
        or the system is never evicted, so it needs no item.
        """
        own = range(self.first(number), self.first(number) + self.size(number))
        by_kind = {kind: [i for i in own if self._kinds[i] == _KIND_NUMBERS[kind]] for kind in _EVICTABLE}
        matched: list[int | None] = []
        for part in parts:
            if part.call_id is not None:
                matched.append(self._pairs[part.kind].get(part.call_id))
            elif part.kind in _EVICTABLE:
                # Further parts of a kind go with its last item, or with any item of the message.
                same = by_kind[part.kind] or list(own)
                before = sum(1 for n in matched if n in same)
                matched.append(same[min(before, len(same) - 1)] if same else None)
            else:
                matched.append(None)
        return matched


@dataclass(frozen=True, slots=True)
class FullHistory:
    """A whole history as a client has just sent it, with hidden rounds inserted.

    Attributes:
        strategy: name of the strategy that decides the view.
        outline: the items of each message; later requests may have added to it.
        items: number of its items.
        edited: positions of messages that were edited since they were taken in.
        inserted: positions of messages that the client did not send: those of hidden rounds.
    """

    format: Format[Message]
    strategy: str
    messages: Sequence[Message]
    outline: EditableOutline
    items: int
    edited: AbstractSet[int]
    inserted: AbstractSet[int]

    def render(self, slots: Sequence[Slot]) -> list[ViewMessage]:
        """Return the messages of a view; whole messages are the same objects."""
        outline = self.outline
        if len(slots) == outline.item_count and not any(isinstance(slot, Substitute) for slot in slots):
            inserted = self.inserted
            return [ViewMessage(message, n, None, n not in inserted) for n, message in enumerate(self.messages)]
        visible: dict[int, dict[int, Slot]] = {}
        rendered: list[ViewMessage] = []
        index, index_at = None, -1
        for number, positions in by_message(outline, slots):
            if number >= 0:
                visible[number] = positions
                index_at = number if index is not None and index_at < 0 else index_at
            elif isinstance(text := positions[0], Substitute):
                index = writing(self.format, "an index of evicted content").turn(text.text)
        # An edited message may have new text of the user, even if all of its items were evicted.
        for number in sorted(visible.keys() | self.edited) if self.edited else visible:
            if index is not None and number == index_at:
                rendered.append(ViewMessage(index, number, ()))
            message, remaining, size = self.messages[number], visible.get(number, {}), outline.size(number)
            if number in self.edited:
                first = outline.first(number)
                items = outline.matched(number, self.format.parts(message))
                present = [n if item is None else remaining.get(item - first) for n, item in enumerate(items)]
                remaining, size = {n: slot for n, slot in enumerate(present) if slot is not None}, len(present)
            reduced = visible_message(self.format, message, remaining, size, self.strategy) if remaining else None
            if reduced is not None:
                whole = len(remaining) == size
                replaced = any(isinstance(slot, Substitute) for slot in remaining.values())
                sent = whole and number not in self.inserted and not replaced
                rendered.append(ViewMessage(reduced, number, None if whole else [*remaining], sent))
        return rendered

    def opened(self, slots: Sequence[Slot], rendered: Sequence[ViewMessage]) -> tuple[list[Slot], int]:
        """Return a rendered view whose current turn begins with its reasoning, and how many tokens that adds."""
        parts_of = self.format.parts
        needed = required_opening(
            lambda number: parts_of(self.messages[number]),
            len(self.messages),
            ((shown.number or 0, parts_of(shown.message)) for shown in reversed(rendered)),
        )
        added: dict[int, int] = {}
        for number, positions in needed.items():
            parts = parts_of(self.messages[number])
            items = self._items_of(number, parts)
            added |= {item: parts[at].item(chars, number).tokens for at in positions if (item := items[at]) is not None}
        for slot in slots:
            added.pop(-1 if (item := item_of(slot)) is None else item, None)
        return with_items(slots, added), sum(added.values())

    def parts(self) -> list[Part]:
        """Return the items with their present content.

        The parts of an edited message are matched to its items; an item of which nothing is left is an empty text.
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
        """The item of each part of a message."""
        if number in self.edited:
            return self.outline.matched(number, parts)
        first = self.outline.first(number)
        return range(first, first + len(parts))


@dataclass(frozen=True, slots=True)
class Insertion:
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

    Attributes:
        insertions: where rounds were inserted, by position of the client's message.
        recent: the latest replies to the client, each by its position and shape, which tell whose a request is.
    """

    def __init__(self, wire: Wire) -> None:
        self.insertions: dict[int, Insertion] = {}
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=64)
        self._wire = wire
        self._waiting: list[GivenReply] = []  # with rounds, not inserted yet

    def given(self, reply: GivenReply) -> None:
        """Take in a reply to the client, in this session or in one that it continues."""
        if not reply.inherited:
            self.recent.append((reply.position, reply.shape))
            # Of several with the same shape the client has the latest.
            self._waiting = [earlier for earlier in self._waiting if earlier.inherited or earlier.shape != reply.shape]
        if reply.rounds:
            self._waiting.append(reply)

    def settle(self, number: int, shape: bytes) -> None:
        """Assign waiting rounds to the client's next message, by its position and shape."""
        if not self._waiting:
            return
        is_reply = shape[:1] == ASSISTANT
        expected = shape if is_reply else _EMPTY
        matches = [reply for reply in self._waiting if reply.shape == expected]
        own = [reply for reply in matches if not reply.inherited and reply.position <= number]
        inherited = [reply for reply in matches if reply.position == number and (number, expected) not in self.recent]
        if own or inherited:
            reply = [*own, *inherited][0]
            self._waiting = [waiting for waiting in self._waiting if waiting is not reply]
            self.insertions[number] = Insertion(reply.rounds, ahead=not is_reply)

    def expand(self, number: int, message: Message) -> list[Message]:
        """Return the messages of the history that a message of the client at this position stands for."""
        insertion = self.insertions.get(number)
        if insertion is None:
            return [message]
        if not insertion.ahead:
            return self._wire.expand(message, insertion.rounds)
        parts = self._wire.format.parts
        rounds = [
            hidden for round_ in insertion.rounds for hidden in (round_.message, *round_.results) if parts(hidden)
        ]
        return [*rounds, message]

    def inherited(self, entries: Entries, shared: Overlap) -> Iterator[GivenReply]:
        """Yield the replies for a session that forks or rewrites this one, by the entries here that both share."""
        first, stop, shift = shared.other_start, shared.other_start + shared.count, shared.start - shared.other_start
        for number in sorted(self.insertions):
            insertion = self.insertions[number]
            if first <= number < stop or (number == stop and insertion.ahead):
                shape = _EMPTY if insertion.ahead else entries[number].shape
                yield GivenReply(shape, number + shift, insertion.rounds, inherited=True)
        for reply in self._waiting:
            if first <= reply.position <= stop:
                yield replace(reply, position=reply.position + shift, inherited=True)

"""The messages of a view: from slots, which are items or substitutes, back to a provider's messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, Generic

from wane.conversation.engine import Engine
from wane.formats.anthropic import last_carrier, mark_blocks, mark_end
from wane.formats.message_format import (
    Format,
    MessageT,
    Outline,
    Part,
    Transcript,
    is_native,
    keep_some,
    writes,
    writing,
)
from wane.formats.roles import NeighbourJoiner, Order
from wane.formats.turns import required_opening
from wane.strategies.strategy import Slot, Substitute, item_of


class SentMessages(Generic[MessageT]):
    """Makes the messages of requests, in the provider's form, from those of a view.

    Only messages new since the last request cost time, unless something left the view.
    """

    def __init__(self, format: Format[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._view: list[MessageT] = []  # that of the last request
        self._joiner: NeighbourJoiner[MessageT] | None = None  # its messages, if neighbours of one role were joined
        self._sendable: list[MessageT | None] = []  # the same as the provider takes them
        # The message that ended the head of the last view, its breakpoint, and the message with it.
        self._head: tuple[Any, Any, Any] = (None, None, None)

    def write(self, view: Sequence[MessageT], note: str | None, order: Order) -> list[Any]:
        """Return the messages of a request.

        Args:
            view: the messages of the view.
            note: a note to the model at their end; None for no note.
            order: the order of roles that they keep (R12b).
        """
        format_ = self._format
        if not is_native(format_):
            if not writes(format_):
                return list(view)
            messages = format_.join_roles(view, order) if order else list(view)
            if note is not None:
                messages = format_.with_note(messages, note, order=order)
            return format_.wire(messages)
        known = len(self._view)
        joined_by = Order.FREE if self._joiner is None else self._joiner.order
        if order != joined_by or len(view) < known or not all(map(is_, self._view, view)):
            self._view, self._sendable, known = [], [], 0
            self._joiner = NeighbourJoiner(format_, order) if order else None
        for message in view[known:]:
            sent = format_.is_sent(message)
            if self._joiner is None:
                self._sendable.append(format_.sendable(message) if sent else None)
            elif not sent:
                self._joiner.leave_out(message)
            else:
                position = self._joiner.add(message)
                self._sendable[position:] = map(format_.sendable, self._joiner.joined[position:])
        self._view += view[known:]
        if note is not None:
            messages = list(filter(format_.is_sent, view)) if self._joiner is None else self._joiner.joined
            sendable = map(format_.sendable, format_.with_note(messages, note, order=order))
            return format_.arrange([message for message in sendable if message is not None])
        return format_.arrange([message for message in self._sendable if message is not None])

    def write_cached(
        self, view: Sequence[Any], note: str | None, order: Order, fixed: int, mark: Mapping[str, Any]
    ) -> list[Any]:
        """Return the messages of a request to Anthropic with two breakpoints: at their end, and behind their head.

        Args:
            view: the messages of the view.
            note: a note to the model, which stands behind the breakpoint at the end.
            order: the order of roles that they keep (R12b).
            fixed: how many of them no pass may take; 0 for no breakpoint but the one at the end.
            mark: the breakpoint, such as `{"type": "ephemeral"}`.
        """
        messages = list(view)
        if carrier := last_carrier(messages[:fixed]):
            number, position = carrier
            if self._head[0] is not view[number] or self._head[1] is not mark:
                self._head = (view[number], mark, mark_blocks([view[number]], {(0, position): mark})[0])
            messages[number] = self._head[2]
        if note is None:
            return mark_end(self.write(messages, None, order), mark)
        marked: list[Any] = mark_end(messages, mark)
        return self.write(marked, note, order)


class ViewMessages(Generic[MessageT]):
    """The messages of the latest view. Only new messages cost time, unless something left the view."""

    def __init__(self, transcript: Transcript[MessageT], engine: Engine) -> None:
        self._transcript = transcript
        self._engine = engine
        self._built: list[MessageT] = []
        self._numbers: list[int | None] = []
        self._built_to = 0
        self._stale = False

    def forget(self) -> None:
        """Build the messages anew for the next view: something left it, or a message was replaced."""
        self._stale = True

    def of(self, view: Sequence[Slot], *, keep_opening: bool = False) -> tuple[list[MessageT], list[int | None]]:
        """Return the messages of the latest view and their numbers; whole messages are the same objects.

        Args:
            view: the view.
            keep_opening: whether the current turn must begin with its reasoning; see `opening`.
        """
        transcript, engine = self._transcript, self._engine
        all_visible = engine.window.index is None and len(view) == transcript.item_count
        if keep_opening and not all_visible:
            opening_items = opening(transcript, set(visible_items(view)))
            if opening_items:
                return self.read(with_items(view, opening_items))
        if not engine.evicts and any(isinstance(slot, Substitute) for slot in view):
            return self.read(view)
        if self._stale:
            self._stale = False
            self._built, self._numbers = self.read(view)
        else:
            for number in range(self._built_to, len(transcript.messages)):
                # A message without items is an empty answer; see `Outline.empty_between`.
                if all_visible or transcript.size(number) or is_native(transcript.format):
                    self._built.append(transcript.messages[number])
                    self._numbers.append(number)
        self._built_to = len(transcript.messages)
        return list(self._built), list(self._numbers)

    def count_fixed(self, numbers: Sequence[int | None]) -> int:
        """Return how many leading messages of the latest view no pass may take; 0 as long as nothing has left it.

        Args:
            numbers: the numbers of the view's messages.
        """
        transcript, engine = self._transcript, self._engine
        fixed = engine.fixed_head
        if not fixed:
            return 0
        stop = message_behind(transcript, engine.view, fixed, len(transcript.messages))
        return sum(1 for _ in takewhile(lambda number: number is not None and number < stop, numbers))

    def read(self, view: Sequence[Slot], *, keep_opening: bool = False) -> tuple[list[MessageT], list[int | None]]:
        """Return the messages of any view and their numbers; see `messages_of`.

        Args:
            view: the view.
            keep_opening: as for `of`.
        """
        if keep_opening:
            view = with_items(view, opening(self._transcript, set(visible_items(view))))
        return messages_of(self._transcript, view, self._engine.name)


def message_behind(outline: Outline, slots: Sequence[Slot], head: int, default: int) -> int:
    """Return the number of the message of the first item behind the leading slots of a view; a default if none is."""
    items = (item for slot in slots[head:] if (item := item_of(slot)) is not None)
    return next(map(outline.message_of, items), default)


def messages_of(
    transcript: Transcript[MessageT], view: Sequence[Slot], strategy: str
) -> tuple[list[MessageT], list[int | None]]:
    """Return the messages of a view, and the number in the history of each.

    Whole messages are the same objects. A substitute that replaces no single item is a message without a number. Empty
    answers stay as long as anything of their turn (`Outline.empty_between`).

    Raises:
        ConfigError: if the view has substitutes, and the format cannot write messages.
    """
    pairs = list[tuple[int | None, MessageT]]()
    if not any(isinstance(slot, Substitute) for slot in view):
        pairs += transcript.numbered_view(visible_items(view))
        if len(view) == transcript.item_count:
            return [message for _, message in pairs], [number for number, _ in pairs]
    else:
        for number, slots in by_message(transcript, view):
            if number < 0:
                for slot in slots.values():
                    if isinstance(slot, Substitute):
                        writer = writing(transcript.format, f"the strategy {strategy!r}")
                        pairs.append((None, writer.turn(slot.text)))
                continue
            message, size = transcript.messages[number], transcript.size(number)
            visible = visible_message(transcript.format, message, slots, size, strategy)
            if visible is not None:
                pairs.append((number, visible))
    messages, numbers = list[MessageT](), list[int | None]()
    before = -1
    for position, visible in [*pairs, (len(transcript.messages), None)]:
        if position is not None:
            empty = transcript.empty_between(before, position) if is_native(transcript.format) else []
            messages += [transcript.messages[at] for at in empty]
            numbers += empty
            before = position
        if visible is not None:
            messages.append(visible)
            numbers.append(position)
    return messages, numbers


def visible_message(
    format: Format[MessageT],  # noqa: A002 - the field's word
    message: MessageT,
    slots: Mapping[int, Slot],
    size: int,
    strategy: str,
) -> MessageT | None:
    """Return the visible part of a message; None if only reasoning of it is visible.

    Args:
        format: the message's format.
        message: the message.
        slots: its visible parts, by position.
        size: number of its parts.
        strategy: name of the strategy, for errors.

    Raises:
        ConfigError: if a substitute replaces a part, and the format cannot write messages.
    """
    for position, slot in slots.items():
        if isinstance(slot, Substitute):
            message = writing(format, f"the strategy {strategy!r}").clear_result(message, position, slot.text)
    return message if len(slots) == size else keep_some(format, message, [*slots])


def visible_items(view: Iterable[Slot]) -> list[int]:
    """Return the items of a view, without its substitutes."""
    return [slot for slot in view if isinstance(slot, int)]


def by_message(outline: Outline, view: Iterable[Slot]) -> Iterator[tuple[int, dict[int, Slot]]]:
    """Yield the number of each message of a view, in order, with its visible parts by position.

    Substitutes that replace no single item have the number -1, and are numbered among themselves.
    """
    number = -1
    slots: dict[int, Slot] = {}
    for slot in view:
        item = item_of(slot)
        slot_number, position = (-1, 0) if item is None else outline.locate(item)
        if slots and slot_number != number:
            yield number, slots
            slots = {}
        number = slot_number
        slots[len(slots) if item is None else position] = slot
    if slots:
        yield number, slots


def with_items(view: Iterable[Slot], items: Iterable[int]) -> list[Slot]:
    """Return a view with further items in the history's order; a substitute for no single item stays where it is."""
    added = deque(sorted(items))
    merged: list[Slot] = []
    for slot in view:
        item = item_of(slot)
        while item is not None and added and added[0] < item:
            merged.append(added.popleft())
        merged.append(slot)
    return [*merged, *added]


def opening(transcript: Transcript[MessageT], visible: Collection[int]) -> list[int]:
    """Return the items that a view must add so that the model's current turn begins with its reasoning.

    Empty if the turn begins with reasoning anyway, or began without it. See `wane.formats.turns`.
    """

    def visible_parts() -> Iterator[tuple[int, list[Part]]]:
        for number in range(len(transcript.messages) - 1, -1, -1):
            parts = enumerate(transcript.parts(number), transcript.first(number))
            yield number, [part for index, part in parts if index in visible]

    items: set[int] = set()
    required = required_opening(transcript.parts, len(transcript.messages), visible_parts())
    for number, positions in required.items():
        items.update(transcript.first(number) + position for position in positions)
    return sorted(items.difference(visible))

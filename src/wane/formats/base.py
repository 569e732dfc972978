"""The interface that a message format implements, and the transcript that keeps messages by item.

A format knows messages and nothing of eviction: it takes a message apart into parts (R1) and puts
the kept ones back together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Generic, Protocol, TypeVar

from wane.core import Counter, Item, Kind, chars
from wane.tools import class_of_call

MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message, which becomes one item.

    Attributes:
        kind: what it is.
        text: its text; for a call, see `arguments`.
        call_id: for a call and its result, the id that pairs them.
        tool: for a call, the tool's name.
        arguments: for a call, its raw JSON arguments.
        needs: parts that must stay as long as this one does, as offsets from it (R12).
        extra_tokens: tokens for what is no text, such as an image.
        system: for a notice, whether it stands where the system's words would, not a person's.
    """

    kind: Kind
    text: str = ""
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    needs: tuple[int, ...] = ()
    extra_tokens: int = 0
    system: bool = False

    def item(self, counter: Counter, message: int) -> Item:
        """Return the item of this part. A call's text is its name followed by its raw arguments."""
        text = f"{self.tool or ''}{self.arguments or ''}" if self.kind is Kind.CALL else self.text
        tokens = counter(text) + self.extra_tokens
        told = class_of_call(self.tool, self.arguments) if self.tool else None
        return Item(self.kind, tokens, self.call_id, self.tool, self.arguments, message, self.needs, told)


def standing(parts: list[Part], *, answered: bool) -> list[Part]:
    """Return the parts of a message as they stand in a history (R15).

    Args:
        parts: the parts, as a format gives them.
        answered: whether an assistant's message stands before them. If not, what stands in the system's place is the
            system's, whoever wrote it.
    """
    if answered or not any(part.system for part in parts):
        return parts
    return [replace(part, kind=Kind.SYSTEM, system=False) if part.system else part for part in parts]


def is_answer(parts: Iterable[Part]) -> bool:
    """Return whether the parts of a message are an assistant's."""
    return any(part.kind in _ANSWER for part in parts)


_ANSWER: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})


class Format(Protocol[MessageT]):
    """One message format."""

    name: str

    def recognises(self, data: object) -> bool:
        """Whether JSON data looks like a list of this format's messages."""
        ...

    def load(self, data: object) -> list[MessageT]:
        """Return the messages of JSON data.

        Raises:
            FormatError: naming the message that is not of this format.
        """
        ...

    def dump(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages as JSON-able data, the inverse of `load`."""
        ...

    def parts(self, message: MessageT) -> list[Part]:
        """Take a message apart, in order; empty parts of an assistant message give none (R1).

        System and user turns and results always give an item, be they empty: what a person or a tool
        said, even nothing, is part of the history. What a harness put where a person's or the system's words would
        stand is a notice, told by marks alone (`wane.formats.notices`).

        Raises:
            FormatError: if it is not of this format.
        """
        ...

    def keep(self, message: MessageT, kept: Sequence[int]) -> MessageT:
        """Return the message with only some of its parts, their contents unchanged.

        Args:
            message: a message of which `parts` gave more than `kept` holds.
            kept: positions in `parts(message)`, at least one, ascending.
        """
        ...


class Outline:
    """Which items of a history stand in which of its messages. It keeps no content.

    Args:
        counter: counts the tokens of a part.
    """

    def __init__(self, counter: Counter = chars) -> None:
        self._counter = counter
        self._first = array("Q")  # a message's first item
        self._owner = array("Q")  # an item's message
        self._answered: int | None = None  # the first message of an assistant

    @property
    def item_count(self) -> int:
        """Number of items so far."""
        return len(self._owner)

    def number(self, parts: list[Part], ordinal: int | None = None) -> list[tuple[Item, Part]]:
        """Take in the next message and return its items with their content.

        Args:
            parts: the message taken apart.
            ordinal: what joins its items to those of other messages of one answer; None for its place.
        """
        number = len(self._first)
        joined = number if ordinal is None else ordinal
        if self._answered is None and is_answer(parts):
            self._answered = number
        told = standing(parts, answered=self._answered is not None)
        taken = [(part.item(self._counter, joined), part) for part in told]
        self._first.append(len(self._owner))
        self._owner.extend([number] * len(taken))
        return taken

    def first(self, number: int) -> int:
        """Index of the first item of a message, or of what follows it if it has none."""
        return self._first[number]

    def size(self, number: int) -> int:
        """How many items a message has."""
        stop = self._first[number + 1] if number + 1 < len(self._first) else len(self._owner)
        return stop - self._first[number]

    def position(self, index: int) -> int:
        """Position of an item among those of its message."""
        return index - self._first[self._owner[index]]

    def message_of(self, index: int) -> int:
        """Position of the message that an item came from."""
        return self._owner[index]


class Transcript(Outline, Generic[MessageT]):
    """Messages in order, addressed by item: what turns a window's indexes back into messages.

    Args:
        format: the messages' format.
        counter: counts the tokens of a part.
    """

    def __init__(self, format: Format[MessageT], counter: Counter = chars) -> None:  # noqa: A002 - the field's word
        super().__init__(counter)
        self.format = format
        self.messages: list[MessageT] = []

    def append(self, message: MessageT) -> list[Item]:
        """Take a message in and return its items, to be added to a window in this order.

        Raises:
            FormatError: if it is not of the format; nothing has changed then.
        """
        return [item for item, _ in self.take(message)]

    def take(
        self, message: MessageT, parts: list[Part] | None = None, ordinal: int | None = None
    ) -> list[tuple[Item, Part]]:
        """Take a message in and return its items with their content.

        Args:
            message: the message.
            parts: the same taken apart, if it has been already.
            ordinal: what joins its items to those of other messages of one answer; None for its place.

        Raises:
            FormatError: if it is not of the format; nothing has changed then.
        """
        taken = self.number(self.format.parts(message) if parts is None else parts, ordinal)
        self.messages.append(message)
        return taken

    def items(self, number: int) -> list[tuple[Item, Part]]:
        """Return the items of a message with their content, as `take` gave them.

        Args:
            number: position of the message.
        """
        return [(part.item(self._counter, number), part) for part in self._parts(number)]

    def parts(self, number: int) -> list[Part]:
        """Return the parts of a message as they stand in the history (R15)."""
        return self._parts(number)

    def part(self, index: int) -> Part:
        """Return an item with its content."""
        number = self._owner[index]
        return self._parts(number)[index - self._first[number]]

    def view(self, visible: Sequence[int]) -> list[MessageT]:
        """Return the messages of some items, in order; a message that is kept whole is the same object.

        A message without items, such as an empty reply, stays only while all else does.

        Args:
            visible: item indexes, ascending.
        """
        if len(visible) == len(self._owner):
            return list(self.messages)
        return list(self._kept(visible))

    def text(self, indexes: Iterable[int]) -> str:
        """Return items as readable text, exact and in order: what a recall gives back."""
        blocks = []
        for number, group in groupby(indexes, self._owner.__getitem__):
            parts = self._parts(number)
            blocks += [readable(parts[index - self._first[number]]) for index in group]
        return "\n\n".join(blocks)

    def _parts(self, number: int) -> list[Part]:
        answered = self._answered is not None and self._answered <= number
        return standing(self.format.parts(self.messages[number]), answered=answered)

    def _kept(self, visible: Sequence[int]) -> Iterable[MessageT]:
        for number, group in groupby(visible, self._owner.__getitem__):
            first = self._first[number]
            positions = [index - first for index in group]
            message = self.messages[number]
            if len(positions) == self.size(number):
                yield message
            elif (kept := keep_some(self.format, message, positions)) is not None:
                yield kept


def keep_some(format: Format[MessageT], message: MessageT, kept: Sequence[int]) -> MessageT | None:  # noqa: A002
    """Return a message with only some of its parts; None if they are all reasoning, which providers refuse (R9).

    Args:
        format: the message's format.
        message: a message of which `format.parts` gave more than `kept` holds.
        kept: positions in its parts, at least one, ascending.
    """
    parts = format.parts(message)
    if all(parts[position].kind is Kind.REASONING for position in kept):
        return None
    return format.keep(message, kept)


def readable(part: Part) -> str:
    """Return a part as readable text, its content exact: what a recall gives back."""
    if part.kind is Kind.CALL:
        return f"[call {part.tool}] {part.arguments or ''}"
    return f"[{part.kind.value}]\n{part.text}"

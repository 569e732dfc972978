"""How a history that a host holds goes on from what is known of it: continued, forked or replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from wane.conversation.adapter import Adapter
from wane.formats.base import Format, MessageT


@dataclass(frozen=True, slots=True)
class Alignment(Generic[MessageT]):
    """How far a history agrees with what is known.

    Attributes:
        kept: how many of the messages that were taken in are still part of it, from the first one on.
        fresh: what is to be taken in behind them.
        renewed: messages that stay, but are not equal to what they were, such as in what is told of them and not to the
            model: their place, and the new message.
    """

    kept: int
    fresh: Sequence[MessageT]
    renewed: Sequence[tuple[int, MessageT]] = ()


class Aligner(Protocol[MessageT]):
    """Tells what is new in a history. One that a framework needs for its own rules remembers what it must."""

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with what is known; nothing changes."""
        ...

    def accept(self, history: Sequence[MessageT], alignment: Alignment[MessageT]) -> None:
        """A history was taken in, as it was aligned."""
        ...

    def extend(self, messages: Sequence[MessageT]) -> None:
        """Messages were taken in that stand behind what is known, and were not compared."""
        ...


class ByMessage(Generic[MessageT]):
    """Compares message by message: by object and value, by the messages' own ids, and by what they say.

    A message that is the same object is the same message; only the last known one is looked into, as hosts add to it in
    place.

    Args:
        format: the messages' format.
        adapter: knows their ids.
    """

    def __init__(self, format: Format[MessageT], adapter: Adapter[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._adapter = adapter
        self._known: list[MessageT] = []
        self._last: list[Any] = []  # what the last known message said

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with what is known."""
        known, count = self._known, len(self._known)
        begin = list(history[:count])
        # The common case, at the speed of C: a list compares its entries by object first, then by value.
        if count and count == len(begin) and _equal(known, begin):
            kept = count if self._said(begin[-1]) == self._last else count - 1
            return Alignment(kept, history[kept:])
        kept, renewed = 0, list[tuple[int, MessageT]]()
        for number, (old, new) in enumerate(zip(known, begin, strict=False)):
            if not self._same(old, new, self._last if number == count - 1 else None):
                break
            kept = number + 1
            if old is not new and not _equal(old, new):
                renewed.append((number, new))
        return Alignment(kept, history[kept:], renewed)

    def accept(self, history: Sequence[MessageT], alignment: Alignment[MessageT]) -> None:  # noqa: ARG002
        """A history was taken in."""
        for number, message in alignment.renewed:
            self._known[number] = message
        del self._known[alignment.kept :]
        self.extend(alignment.fresh)

    def extend(self, messages: Sequence[MessageT]) -> None:
        """Messages were taken in."""
        self._known += messages
        self._last = self._said(self._known[-1]) if self._known else []

    def _same(self, old: MessageT, new: MessageT, last: list[Any] | None) -> bool:
        """Whether a message is a known one; of the last one it is known what it said when it was taken in."""
        if old is not new and self._adapter.key(old) != self._adapter.key(new):
            return False
        if last is not None:
            return self._said(new) == last
        return old is new or _equal(old, new) or self._said(old) == self._said(new)

    def _said(self, message: MessageT) -> list[Any]:
        return said(self._format, message)


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a framework's own comparison may fail at anything
        return False


def said(format: Format[MessageT], message: MessageT) -> list[Any]:  # noqa: A002 - the field's word
    """Return what a message says, in a form that survives JSON: what it is known by if it has no id."""
    return [
        (part.kind.value, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
        for part in format.parts(message)
    ]

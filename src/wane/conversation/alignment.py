"""Compares a host's history with the known one: continued, forked or replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from wane.conversation.adapter import Adapter
from wane.formats.base import Format, MessageT


@dataclass(frozen=True, slots=True)
class Alignment(Generic[MessageT]):
    """How far a history agrees with the known one.

    Attributes:
        kept: number of known messages that are still part of it, from the first on.
        fresh: the messages to take in after them.
        renewed: messages that stay but are no longer equal, for example in metadata that the model does not see: their
            position and the new message.
    """

    kept: int
    fresh: Sequence[MessageT]
    renewed: Sequence[tuple[int, MessageT]] = ()


class Aligner(Protocol[MessageT]):
    """Finds what is new in a history. A framework may have its own, with its own rules."""

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with the known one; nothing changes."""
        ...

    def accept(self, history: Sequence[MessageT], alignment: Alignment[MessageT]) -> None:
        """Remember a history that was taken in, as it was aligned."""
        ...

    def extend(self, messages: Sequence[MessageT]) -> None:
        """Remember messages that were taken in after the known ones, without a comparison."""
        ...


class ByMessage(Generic[MessageT]):
    """Compares message by message: by object and value, by the messages' own ids, and by content.

    The same object is the same message, except that the last known one is always compared by content, because hosts add
    to it in place.

    Args:
        format: the messages' format.
        adapter: gives their ids.
    """

    def __init__(self, format: Format[MessageT], adapter: Adapter[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._adapter = adapter
        self._known: list[MessageT] = []
        self._last: list[Any] = []  # the content of the last known message when it was taken in

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with the known one."""
        known, count = self._known, len(self._known)
        begin = list(history[:count])
        # The common case, at the speed of C: a list compares its entries by object first, then by value.
        if count and count == len(begin) and _equal(known, begin):
            kept = count if self._content(begin[-1]) == self._last else count - 1
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
        """Remember a history that was taken in."""
        for number, message in alignment.renewed:
            self._known[number] = message
        del self._known[alignment.kept :]
        self.extend(alignment.fresh)

    def extend(self, messages: Sequence[MessageT]) -> None:
        """Remember messages that were taken in."""
        self._known += messages
        self._last = self._content(self._known[-1]) if self._known else []

    def _same(self, old: MessageT, new: MessageT, last: list[Any] | None) -> bool:
        """Whether a message is a known one; `last` is the content of the last known one when it was taken in."""
        if old is not new and self._adapter.key(old) != self._adapter.key(new):
            return False
        if last is not None:
            return self._content(new) == last
        return old is new or _equal(old, new) or self._content(old) == self._content(new)

    def _content(self, message: MessageT) -> list[Any]:
        return content_of(self._format, message)


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a framework's own comparison may fail at anything
        return False


def content_of(format: Format[MessageT], message: MessageT) -> list[Any]:  # noqa: A002 - the field's word
    """Return a message's content in a form that survives JSON; it identifies a message without an id."""
    return [
        (part.kind.value, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
        for part in format.parts(message)
    ]

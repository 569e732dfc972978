"""A host's history: how far it agrees with the known one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol

from wane.conversation.adapter import Adapter, Prepared
from wane.formats.message_format import Format, MessageT, Part


@dataclass(frozen=True, slots=True)
class Alignment(Generic[MessageT]):
    """How far a history agrees with the known one.

    Attributes:
        kept: number of known messages that it still has, from the first on.
        fresh: the messages to take in after them.
        renewed: messages that stay but are no longer equal, for example in metadata that the model does not see: the
            position and the new message of each.
    """

    kept: int
    fresh: Sequence[MessageT]
    renewed: Sequence[tuple[int, MessageT]] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """How a history that was taken in relates to the known one.

    Attributes:
        kept: number of known messages that it has.
        dropped: number of known messages that it does not have.
        added: number of new messages.
    """

    kept: int
    dropped: int
    added: int

    @property
    def continued(self) -> bool:
        """Whether it continues the known history."""
        return not self.dropped

    @property
    def forked(self) -> bool:
        """Whether it continues from an earlier message."""
        return bool(self.dropped and self.kept)

    @property
    def replaced(self) -> bool:
        """Whether it is another history."""
        return bool(self.dropped and not self.kept)


class Aligner(Protocol[MessageT]):
    """Finds what is new in a history. A framework may have its own, with its own rules."""

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with the known one; nothing changes."""
        ...

    def accept(self, history: Sequence[MessageT], alignment: Alignment[MessageT]) -> None:
        """Remember a history that was taken in, as it was aligned."""
        ...

    def extend(self, taken: Sequence[Prepared[MessageT]]) -> None:
        """Remember messages that were taken in after the known ones, without a comparison."""
        ...


class Appended(NamedTuple, Generic[MessageT]):
    """A message that was appended, as it was given, and whether it was left out of our history."""

    prepared: Prepared[MessageT]
    left_out: bool = False


class HostHistory(Generic[MessageT]):
    """The history that the host last gave, with the messages that were left out of ours (`Adapter.drops_orphans`).

    Positions in it are the aligner's.
    """

    def __init__(self, aligner: Aligner[MessageT]) -> None:
        self._aligner = aligner
        self._count = 0
        self._left_out: list[int] = []  # positions

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare another whole history with it; nothing changes."""
        return self._aligner.align(history)

    def count_taken(self, count: int) -> int:
        """Return how many of its first messages were taken in."""
        return count - bisect_left(self._left_out, count)

    def number_renewed(self, alignment: Alignment[MessageT]) -> list[tuple[int, MessageT]]:
        """Return the renewed messages, each with its position among those that were taken in."""
        renewed: list[tuple[int, MessageT]] = []
        for position, message in alignment.renewed:
            if position not in self._left_out:
                renewed.append((self.count_taken(position), message))
        return renewed

    def accept(
        self, history: Sequence[MessageT], alignment: Alignment[MessageT], fresh: Sequence[object | None]
    ) -> None:
        """Remember another history.

        Args:
            history: the history.
            alignment: how far it agrees.
            fresh: what was taken in for each of its last messages; None for one that was left out.
        """
        self._aligner.accept(history, alignment)
        # Not by the length of the history: a message that grew in place counts once for each time.
        self._count = shared = alignment.kept + len(alignment.fresh) - len(fresh)
        self._left_out = [position for position in self._left_out if position < shared]
        self._count_messages(taken is None for taken in fresh)

    def extend(self, appended: Sequence[Appended[MessageT]]) -> None:
        """Remember messages that were appended, without a comparison."""
        self._aligner.extend([message.prepared for message in appended])
        self._count_messages(message.left_out for message in appended)

    def _count_messages(self, left_out: Iterable[bool]) -> None:
        for is_left_out in left_out:
            if is_left_out:
                self._left_out.append(self._count)
            self._count += 1


class ByMessage(Generic[MessageT]):
    """Compares message by message: by object and value, by the messages' own ids, and by content.

    The same object is the same message, except that the last known one is always compared by content, because hosts add
    to it in place.
    """

    def __init__(self, format: Format[MessageT], adapter: Adapter[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._adapter = adapter
        self._known: list[MessageT] = []
        self._last: list[Any] = []  # the content of the last known message when it was taken in

    def align(self, history: Sequence[MessageT]) -> Alignment[MessageT]:
        """Compare a whole history with the known one."""
        messages = self._known
        count = len(messages)
        beginning = list(history[:count])
        # The common case, at the speed of C: a list compares its entries by object first, then by value.
        if count and count == len(beginning) and are_equal(messages, beginning):
            shared = count if self._content(beginning[-1]) == self._last else count - 1
            return Alignment(shared, history[shared:])
        shared = 0
        renewed: list[tuple[int, MessageT]] = []
        for number, (old, new) in enumerate(zip(messages, beginning, strict=False)):
            if not self._same(old, new, self._last if number == count - 1 else None):
                break
            shared = number + 1
            if old is not new and not are_equal(old, new):
                renewed.append((number, new))
        return Alignment(shared, history[shared:], renewed)

    def accept(self, history: Sequence[MessageT], alignment: Alignment[MessageT]) -> None:  # noqa: ARG002
        """Remember a history that was taken in."""
        for number, message in alignment.renewed:
            self._known[number] = message
        del self._known[alignment.kept :]
        self._known += alignment.fresh
        self._last = self._content(self._known[-1]) if self._known else []

    def extend(self, taken: Sequence[Prepared[MessageT]]) -> None:
        """Remember messages that were taken in."""
        if taken:
            self._known += [prepared.message for prepared in taken]
            self._last = content_of(taken[-1].parts)

    def _same(self, old: MessageT, new: MessageT, last: list[Any] | None) -> bool:
        """Whether a message is a known one; `last` is the content of the last known one when it was taken in."""
        if old is not new and self._adapter.key(old) != self._adapter.key(new):
            return False
        if last is not None:
            return self._content(new) == last
        return old is new or are_equal(old, new) or self._content(old) == self._content(new)

    def _content(self, message: MessageT) -> list[Any]:
        return content_of(self._format.parts(message))


def content_of(parts: Iterable[Part]) -> list[Any]:
    """Return a message's content in a form that survives JSON; it identifies a message without an id."""
    return [(part.kind.value, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens) for part in parts]


def are_equal(left: object, right: object) -> bool:
    """Return whether messages are equal, or lists of them; False if they cannot be compared."""
    try:
        return bool(left == right)
    except Exception:  # a framework's own comparison may fail in any way
        return False

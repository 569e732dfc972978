"""A host's history: what its messages say about themselves, and how far it agrees with the known history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from wane.formats.base import Format, MessageT, Part, is_answer
from wane.strategies.host import Scope


class Adapter(Generic[MessageT]):
    """Reads what messages say about themselves. This one reads nothing; a framework's adapter overrides its methods.

    Attributes:
        drops_orphans: whether results that answer no open call are left out, as the framework leaves them out of its
            requests. Otherwise they are an error.
        adds_fields: whether the framework adds fields of its own to messages of a provider's format. They stay where
            they are; only a field of another format is an error.
    """

    drops_orphans = False
    adds_fields = False

    def key(self, message: MessageT) -> Hashable | None:  # noqa: ARG002 - for subclasses
        """Return the message's own id, which does not depend on where it was read; None to compare the content."""
        return None

    def usage(self, message: MessageT) -> int:  # noqa: ARG002 - for subclasses
        """Return the tokens of the request that a message answers, including cached ones; 0 if it does not say."""
        return 0

    def time(self, message: MessageT) -> float | None:  # noqa: ARG002 - for subclasses
        """Return the time of a message, in seconds from any fixed moment; None if it does not say."""
        return None

    def cache_lifetime(self, message: MessageT) -> float | None:  # noqa: ARG002 - for subclasses
        """Return the seconds that the cache of the model that made a message lives unused; None if unknown."""
        return None

    def fixed(self, message: MessageT) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the text besides messages, such as instructions, of the request that ends with a message.

        None means that it has not changed.
        """
        return None

    def scopes(self, message: MessageT) -> Sequence[Scope] | None:  # noqa: ARG002 - for subclasses
        """Return the host's scopes in which a model made a message; None if the message does not say."""
        return None

    def answers(self, message: MessageT, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the parts are enough
        """Return whether a model made a message."""
        return is_answer(parts)


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

    def extend(self, messages: Sequence[MessageT]) -> None:
        """Remember messages that were taken in after the known ones, without a comparison."""
        ...


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

    def taken(self, count: int) -> int:
        """Return how many of its first messages were taken in."""
        return count - bisect_left(self._left_out, count)

    def renewed(self, alignment: Alignment[MessageT]) -> list[tuple[int, MessageT]]:
        """Return the renewed messages, each with its position among those that were taken in."""
        return [(self.taken(number), message) for number, message in alignment.renewed if number not in self._left_out]

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
        self._left_out = [number for number in self._left_out if number < shared]
        for prepared in fresh:
            self._note(left_out=prepared is None)

    def extend(self, messages: Sequence[MessageT], *, left_out: bool = False) -> None:
        """Remember further messages without a comparison."""
        self._aligner.extend(messages)
        for _ in messages:
            self._note(left_out=left_out)

    def _note(self, *, left_out: bool) -> None:
        if left_out:
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
        if count and count == len(beginning) and _equal(messages, beginning):
            shared = count if self._content(beginning[-1]) == self._last else count - 1
            return Alignment(shared, history[shared:])
        shared = 0
        renewed: list[tuple[int, MessageT]] = []
        for number, (old, new) in enumerate(zip(messages, beginning, strict=False)):
            if not self._same(old, new, self._last if number == count - 1 else None):
                break
            shared = number + 1
            if old is not new and not _equal(old, new):
                renewed.append((number, new))
        return Alignment(shared, history[shared:], renewed)

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


def content_of(format: Format[MessageT], message: MessageT) -> list[Any]:  # noqa: A002 - the field's word
    """Return a message's content in a form that survives JSON; it identifies a message without an id."""
    return [
        (part.kind.value, part.text, part.call_id, part.tool, part.arguments, part.extra_tokens)
        for part in format.parts(message)
    ]


def _equal(left: object, right: object) -> bool:
    try:
        return bool(left == right)
    except Exception:  # a framework's own comparison may fail in any way
        return False

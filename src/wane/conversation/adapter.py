"""Reads what a host's messages have beyond their format: ids, usage, times."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Generic

from wane.core import Kind
from wane.formats.base import MessageT, Part

_MADE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})


class Adapter(Generic[MessageT]):
    """Reads data about messages. This one finds none; a framework's adapter overrides what its messages support.

    Attributes:
        drops_orphans: whether results that answer no open call are left out, for a framework that leaves them out of
            its requests. Otherwise they are an error.
    """

    drops_orphans = False

    def key(self, message: MessageT) -> Hashable | None:  # noqa: ARG002 - for subclasses
        """Return the message's own id, which is the same wherever it is read from; None to compare its content."""
        return None

    def usage(self, message: MessageT) -> int:  # noqa: ARG002 - for subclasses
        """Return the tokens of the request that a message answers, including cached ones; 0 if it does not say."""
        return 0

    def time(self, message: MessageT) -> float | None:  # noqa: ARG002 - for subclasses
        """Return the time of a message, in seconds from any fixed moment; None if it does not say."""
        return None

    def fixed(self, message: MessageT) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the text that the request ending with a message carries besides messages, such as instructions.

        None means that it has not changed.
        """
        return None

    def group(self, message: MessageT) -> Hashable | None:  # noqa: ARG002 - for subclasses
        """Return a key shared by all messages of one answer, if an answer may be several messages; else None."""
        return None

    def answers(self, message: MessageT, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the parts are enough
        """Return whether a model made a message.

        Args:
            message: the message.
            parts: its parts.
        """
        return any(part.kind in _MADE for part in parts)

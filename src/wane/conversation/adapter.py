"""What a host knows of its messages beyond their format."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Generic

from wane.core import Kind
from wane.formats.base import MessageT, Part

_MADE: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})


class Adapter(Generic[MessageT]):
    """Small data about messages. A framework's own overrides what its messages tell; this one knows nothing.

    Attributes:
        drops_orphans: whether results that answer no open call are left out, as the framework leaves them out of its
            requests. Otherwise they are an error.
    """

    drops_orphans = False

    def key(self, message: MessageT) -> Hashable | None:  # noqa: ARG002 - it knows nothing
        """Return the message's own id, by which it is the same wherever it is read from; None to go by its content."""
        return None

    def usage(self, message: MessageT) -> int:  # noqa: ARG002 - it knows nothing
        """Return what the request that a message answers held, cached tokens included; 0 if it does not say."""
        return 0

    def time(self, message: MessageT) -> float | None:  # noqa: ARG002 - it knows nothing
        """Return when a message was made, in seconds from any fixed moment; None if it does not say."""
        return None

    def fixed(self, message: MessageT) -> str | None:  # noqa: ARG002 - it knows nothing
        """Return what the request that ends with a message carries besides messages, such as instructions.

        None says nothing: it is as it was.
        """
        return None

    def group(self, message: MessageT) -> Hashable | None:  # noqa: ARG002 - it knows nothing
        """Return what tells which answer a message is part of, where one answer may be several messages."""
        return None

    def answers(self, message: MessageT, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the parts tell
        """Return whether a model made a message.

        Args:
            message: the message.
            parts: the same taken apart.
        """
        return any(part.kind in _MADE for part in parts)

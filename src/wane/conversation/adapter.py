"""What a framework's messages say about themselves, and a message that was taken apart once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic

from wane.core.light import light_dataclass
from wane.formats.message_format import MessageT, Part, is_answer
from wane.strategies.host import HostScope


@light_dataclass(frozen=True, slots=True)
class Prepared(Generic[MessageT]):
    """A message that was taken apart: alignment, calls and history work on its parts and parse nothing again.

    Attributes:
        message: the message.
        parts: its parts, as the format gives them.
        answers: whether a model made it.
    """

    message: MessageT
    parts: list[Part]
    answers: bool


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

    def fixed_text(self, message: MessageT) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the text besides messages, such as instructions, of the request that ends with a message.

        None means that it has not changed.
        """
        return None

    def scopes(self, message: MessageT) -> Sequence[HostScope] | None:  # noqa: ARG002 - for subclasses
        """Return the host's scopes in which a model made a message; None if the message does not say."""
        return None

    def answers(self, message: MessageT, parts: Sequence[Part]) -> bool:  # noqa: ARG002 - the parts are enough
        """Return whether a model made a message."""
        return is_answer(parts)

"""What a format needs beyond taking messages apart, so that Wane can write messages itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeGuard, runtime_checkable

from wane.core.errors import ConfigError
from wane.formats.base import Format, MessageT


@runtime_checkable
class WritingFormat(Format[MessageT], Protocol[MessageT]):
    """A format in which Wane can answer calls, define tools and add messages of its own."""

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of a host's data, without checking them; messages stay the same objects.

        Args:
            data: messages; or a flat list of items, if requests have that.
        """
        ...

    def wire(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages in the form of the provider's requests, with unchanged contents."""
        ...

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Any:
        """Return the definition of a tool.

        Args:
            name: its name.
            description: what the model reads about it.
            schema: JSON schema of its arguments.
        """
        ...

    def turn(self, text: str) -> MessageT:
        """Return a message in the user's place."""
        ...

    def awaits(self, message: MessageT, position: int) -> bool:
        """Whether the application answers a call, and not the provider itself.

        Args:
            message: an assistant message.
            position: which of its parts (`parts`) is the call.
        """
        ...

    def result(self, message: MessageT, position: int, text: str) -> MessageT:
        """Return a message that answers a call.

        Args:
            message: the assistant message.
            position: which of its parts (`parts`) is the call.
            text: the result.
        """
        ...

    def cleared(self, message: MessageT, position: int, text: str) -> MessageT:
        """Return a message with one result's content replaced by a text.

        Args:
            message: a message with results.
            position: which of its parts (`parts`) is the result.
            text: the text.
        """
        ...


def writing(format: Format[MessageT], what: str) -> WritingFormat[MessageT]:  # noqa: A002 - the field's word
    """Return a format that writes messages.

    Args:
        format: the format.
        what: what needs it, for the error.

    Raises:
        ConfigError: if the format cannot write messages.
    """
    if writes(format):
        return format
    raise ConfigError(f"{what} needs messages of Wane's own, and the format {format.name!r} writes none")


def writes(format: Format[MessageT]) -> TypeGuard[WritingFormat[MessageT]]:  # noqa: A002 - the field's word
    """Whether a format writes messages. Python looks through a protocol anew each time: a third of a turn."""
    cached = _WRITES.get(type(format))
    if cached is None:
        cached = _WRITES[type(format)] = isinstance(format, WritingFormat)
    return cached


_WRITES: Final[dict[type, bool]] = {}

"""What a format offers beside taking messages apart, if Wane is to write messages of it by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from wane.formats.base import Format, MessageT


@runtime_checkable
class WritingFormat(Format[MessageT], Protocol[MessageT]):
    """A format in which Wane can answer calls, define tools and say something of its own."""

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of what a host holds, without checking them; messages stay the same objects.

        Args:
            data: messages or, where the wire has a flat list of smaller things, these.
        """
        ...

    def wire(self, messages: Sequence[MessageT]) -> list[Any]:
        """Return messages as a request of the provider takes them, their contents unchanged."""
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
        """Return a message that says something in the user's place."""
        ...

    def awaits(self, message: MessageT, position: int) -> bool:
        """Whether a call is one that the application answers, and not the provider itself.

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
        """Return a message with a text in place of one result's content.

        Args:
            message: a message with results.
            position: which of its parts (`parts`) is the result.
            text: the text.
        """
        ...

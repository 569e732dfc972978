"""What Chat Completions and Responses answer alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wane.proxy.wire.base import Body, Mending, Message
from wane.proxy.wire.openai.errors import error_body


class OpenAIWire:
    """The part of a protocol that is the same in both of OpenAI's: neither demands anything of a view."""

    def required(
        self,
        body: Body,  # noqa: ARG002 - the protocol demands nothing
        history: Sequence[Message],  # noqa: ARG002
        shown: Sequence[tuple[int, Message]],  # noqa: ARG002
    ) -> Mapping[int, Sequence[int]]:
        """Return nothing: any view will do."""
        return {}

    def foreseen(self, body: Body, sent: Body) -> Mending | None:  # noqa: ARG002 - any view will do
        """Return nothing: no view is invalid."""
        return None

    def headers(self, body: Body) -> Mapping[str, str]:  # noqa: ARG002 - the protocol has none
        """Return no headers: none depend on the body."""
        return {}

    def error(self, status: int, message: str) -> bytes:
        """Return an error body in OpenAI's shape."""
        return error_body(status, message)

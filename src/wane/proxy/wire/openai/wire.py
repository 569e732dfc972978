"""The methods that are the same for Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wane.proxy.wire.base import Body, Correction, Message
from wane.proxy.wire.openai.errors import error_body


class OpenAIWire:
    """The part of a protocol that both of OpenAI's share: neither demands anything of a view."""

    def required(
        self,
        body: Body,  # noqa: ARG002 - the protocol demands nothing
        history: Sequence[Message],  # noqa: ARG002
        shown: Sequence[tuple[int, Message]],  # noqa: ARG002
    ) -> Mapping[int, Sequence[int]]:
        """Return nothing: any view is valid."""
        return {}

    def correction_ahead(self, body: Body, sent: Body) -> Correction | None:  # noqa: ARG002 - any view is valid
        """Return None: any view is valid."""
        return None

    def headers(self, body: Body) -> Mapping[str, str]:  # noqa: ARG002 - the protocol has none
        """Return no headers: none depends on the body."""
        return {}

    def error(self, status: int, message: str) -> bytes:
        """Return an error body in OpenAI's format."""
        return error_body(status, message)

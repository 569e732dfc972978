"""What OpenAI's two protocols share: errors, and refusals of incomplete requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.core.items import Kind
from wane.testing.wire import Provider, Refused

_KINDS: Final = {"system": Kind.SYSTEM, "developer": Kind.SYSTEM, "user": Kind.USER, "assistant": Kind.TEXT}


class OpenAI(Provider):
    """A protocol of OpenAI's.

    Attributes:
        holds: the field of the body that holds the conversation.
    """

    holds: str

    def error(self, status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
        """Return OpenAI's error shape."""
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status)
        kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": param, "code": code}}

    def too_long(self, tokens: int, limit: int) -> Refused:
        """Return OpenAI's refusal of a request that exceeds the context window."""
        return Refused(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens}"
            " tokens. Please reduce the length of the messages.",
            param=self.holds,
            code="context_length_exceeded",
        )


def kind_of(role: str, param: str) -> Kind:
    """Return the kind of the text in a message of a role; raise `Refused` for an unknown one, at `param`."""
    if role not in _KINDS:
        raise Refused(f"Invalid value: '{role}'.", param=param, code="invalid_value")
    return _KINDS[role]


def require(body: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Return a required field of the body; raise `Refused` if it is missing or of another type."""
    value = body.get(name)
    if value is None:
        raise Refused(f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
    if not isinstance(value, kind):
        raise Refused(f"Invalid type for '{name}': got {type(value).__name__}.", param=name, code="invalid_type")
    return value

"""What OpenAI's two protocols share: errors, and refusals of incomplete requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.core.items import Kind
from wane.testing.wire import Provider, Refused

_KINDS: Final = {"system": Kind.SYSTEM, "developer": Kind.SYSTEM, "user": Kind.USER, "assistant": Kind.TEXT}


SHARED: Final = frozenset(
    {"model", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "store", "metadata", "user"}
    | {"temperature", "top_p", "top_logprobs", "service_tier", "moderation", "safety_identifier"}
    | {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
)
"""Fields of the body in both protocols."""


class OpenAI(Provider):
    """A protocol of OpenAI's.

    Attributes:
        holds: the field of the body that holds the conversation.
    """

    holds: str

    def unknown(self, name: str) -> Refused:
        """Return OpenAI's refusal."""
        return Refused(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return OpenAI's error shape."""
        return self.refusal(Refused(message, status=status))

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """Return OpenAI's error shape, with the part of the request that is wrong."""
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(refused.status)
        kind = kind or ("server_error" if refused.status >= 500 else "invalid_request_error")
        about = {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}
        return {"error": about}

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


def require(owner: Mapping[str, Any], name: str, kind: type | tuple[type, ...], path: str = "") -> Any:
    """Return a required field of the body or of an object in it, at `path`.

    Raises:
        Refused: if it is missing or of another type.
    """
    value = owner.get(name)
    if value is None:
        raise _missing(f"{path}{name}")
    if not isinstance(value, kind):
        where = f"{path}{name}"
        raise Refused(f"Invalid type for '{where}': got {type(value).__name__}.", param=where, code="invalid_type")
    return value


def check_contents(content: object, param: str, kinds: frozenset[str]) -> None:
    """Refuse contents of a message without a type, of one that cannot stand there, or whose text is no string.

    Args:
        content: the message's content; only a list is looked at.
        param: where it stands.
        kinds: the types that can stand there.
    """
    for number, part in enumerate(content if isinstance(content, list) else ()):
        where = f"{param}[{number}]"
        if not isinstance(part, Mapping):
            raise Refused(f"Invalid type for '{where}': expected an object.", param=where, code="invalid_type")
        kind = part.get("type")
        if kind is None:
            raise _missing(f"{where}.type")
        if kind not in kinds:
            values = ", ".join(f"'{name}'" for name in sorted(kinds))
            raise Refused(
                f"Invalid value: '{kind}'. Supported values are: {values}.", param=f"{where}.type", code="invalid_value"
            )
        if "text" in kind and not isinstance(part.get("text"), str):
            raise Refused(
                f"Invalid type for '{where}.text': expected a string.", param=f"{where}.text", code="invalid_type"
            )


def _missing(name: str) -> Refused:
    return Refused(f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")

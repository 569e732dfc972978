"""What OpenAI's two protocols share: errors, and refusals of incomplete requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        return unknown_parameter(name)

    def error(self, status: int, message: str) -> dict[str, Any]:
        return self.refusal(Refused(message, status=status))

    def refusal(self, refused: Refused) -> dict[str, Any]:
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(refused.status)
        kind = kind or ("server_error" if refused.status >= 500 else "invalid_request_error")
        about = {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}
        return {"error": about}

    def too_long(self, tokens: int, limit: int) -> Refused:
        return Refused(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens}"
            " tokens. Please reduce the length of the messages.",
            param=self.holds,
            code="context_length_exceeded",
        )


def kind_of(role: str, param: str) -> Kind:
    """Return the kind of the text in a message of a role; raise `Refused` for an unknown one, at `param`."""
    if role not in _KINDS:
        raise invalid_value(role, param)
    return _KINDS[role]


def require(owner: Mapping[str, Any], name: str, kind: type | tuple[type, ...], path: str = "") -> Any:
    """Return a required field of the body or of an object in it, at `path`.

    Raises:
        Refused: if it is missing or of another type.
    """
    value = owner.get(name)
    if value is None:
        raise missing(f"{path}{name}")
    if not isinstance(value, kind):
        raise _invalid_type(f"{path}{name}", f"got {type(value).__name__}")
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
            raise _invalid_type(where, "expected an object")
        kind = part.get("type")
        if kind is None:
            raise missing(f"{where}.type")
        if kind not in kinds:
            raise invalid_value(kind, f"{where}.type", kinds)
        if "text" in kind and not isinstance(part.get("text"), str):
            raise _invalid_type(f"{where}.text", "expected a string")


def missing(path: str) -> Refused:
    """Return the refusal of a request that lacks a field."""
    return Refused(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")


def unknown_parameter(path: str) -> Refused:
    """Return the refusal of a field that OpenAI does not know."""
    return Refused(f"Unknown parameter: '{path}'.", param=path, code="unknown_parameter")


def invalid_value(value: str, path: str, supported: Iterable[str] = ()) -> Refused:
    """Return the refusal of a value at a path, which names the supported ones if there are any."""
    names = ", ".join(f"'{name}'" for name in sorted(supported))
    hint = f" Supported values are: {names}." if names else ""
    return Refused(f"Invalid value: '{value}'.{hint}", param=path, code="invalid_value")


def empty_array(path: str) -> Refused:
    """Return the refusal of a list without elements."""
    return Refused(
        f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        param=path,
        code="empty_array",
    )


def _invalid_type(path: str, problem: str) -> Refused:
    return Refused(f"Invalid type for '{path}': {problem}.", param=path, code="invalid_type")

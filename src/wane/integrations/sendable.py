"""Makes messages that every request can carry.

Models and terminals produce two things that would make this request and all later ones fail:

- a lone surrogate, which UTF-8 cannot encode: half of an escaped character, or a byte that was not text;
- a number that is not finite, which JSON cannot write. Python reads `NaN`, `Infinity` and `1e999` as such numbers, and
  the arguments of a call are parsed and written again on their way to some providers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar

from pydantic_ai.messages import INVALID_JSON_KEY, BaseToolCallPart, ModelMessage, ModelResponse, ThinkingPart
from pydantic_core import from_json

from wane.formats.pydantic_ai import raw_arguments

BEYOND_JSON: Final = (
    "The arguments hold a number that JSON cannot write: NaN, Infinity, or one too large for a double. "
    "Call again with a finite number, with null, or without that argument."
)
"""What the model reads in place of the result of such a call."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_Value = TypeVar("_Value")


def encodable(text: str) -> str:
    """Return text that can be encoded: two halves of a character are joined, and a lone half becomes U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def with_encodable_text(value: _Value) -> _Value:
    """Return a message, or anything in one, with every text `encodable`; the same object if all are."""
    result: _Value = _encodable(value)
    return result


def beyond_json(arguments: str | dict[str, Any] | None) -> bool:
    """Whether a lenient parser reads the arguments as JSON with a number that JSON cannot write."""
    try:
        data = from_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return False  # no parser reads it as JSON
    try:
        json.dumps(data, allow_nan=False, default=str)
    except (ValueError, RecursionError):
        return True
    return False


def sendable(message: ModelMessage) -> ModelMessage:
    """Return a message that a request can carry; the same object if it needs no change.

    Arguments that are `beyond_json` are sent as text, as Pydantic AI sends malformed JSON.
    """
    message = with_encodable_text(message)
    if not isinstance(message, ModelResponse):
        return message
    parts: list[Any] = [_sendable_call(part) if isinstance(part, BaseToolCallPart) else part for part in message.parts]
    return message if _same(parts, message.parts) else replace(message, parts=parts)


def _sendable_call(call: BaseToolCallPart[Any]) -> BaseToolCallPart[Any]:
    return replace(call, args={INVALID_JSON_KEY: raw_arguments(call)}) if beyond_json(call.args) else call


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if type(value) is list or type(value) is tuple:
        entries = [_encodable(entry) for entry in value]
        return value if _same(entries, value) else type(value)(entries)
    if type(value) is dict:
        pairs = [(_encodable(key), _encodable(entry)) for key, entry in value.items()]
        return value if all(map(_same, pairs, value.items())) else dict(pairs)
    if is_dataclass(value) and not isinstance(value, type):
        return _encodable_fields(value)
    return value


def _encodable_fields(value: Any) -> Any:
    kind: Any = type(value)
    changed = {name: new for name in _field_names(kind) if (new := _encodable(old := getattr(value, name))) is not old}
    if not changed:
        return value
    if isinstance(value, ThinkingPart) and "content" in changed and not value.id:
        # The signature is bound to the original text; the provider would refuse it with another one.
        changed["signature"] = None
    return replace(value, **changed)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))

"""Dataclasses to and from JSON objects, by their annotations.

Decoding is strict: a missing field, a wrong type and an unknown field are refused, so that a record of another
version is noticed and not half understood.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_PLAIN: Final = frozenset({dict, list, str, int, float, bool, types.NoneType})


class SchemaError(ValueError):
    """An object lacks fields that its dataclass declares, has others, or has a value of the wrong type."""


def encode(value: Any) -> Any:
    """Return a dataclass, or a value of one of its fields, as plain JSON values."""
    cls = value.__class__
    if cls in _PLAIN:
        return value
    if (names := field_names(cls)) is not None:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [encode(entry) for entry in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return dict(value)
    return value


def decode(cls: type[T], data: object) -> T:
    """Return an instance of the dataclass `cls` from a JSON object.

    Raises:
        SchemaError: if a field is missing or unknown, or a value does not fit.
    """
    if not isinstance(data, dict):
        raise SchemaError(f"an object is needed, not {type(data).__name__}")
    hashable: Any = cls
    specs = _fields(hashable)
    for name in data:
        if name not in specs:
            raise SchemaError(f"unknown field {name!r}")
    values: dict[str, Any] = {}
    for name, (hint, required) in specs.items():
        if name in data:
            try:
                values[name] = _decode_value(hint, data[name])
            except SchemaError as error:
                raise SchemaError(f"{name}: {error}") from None
        elif required:
            raise SchemaError(f"the field {name!r} is missing")
    try:
        return cls(**values)
    except ValueError as error:
        raise SchemaError(str(error)) from error


@cache
def field_names(cls: type[Any]) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields, in order; None for another class."""
    if not is_dataclass(cls):
        return None
    return tuple(spec.name for spec in fields(cls))


@cache
def _fields(cls: type[Any]) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(cls)
    return {
        spec.name: (hints[spec.name], spec.default is MISSING and spec.default_factory is MISSING)
        for spec in fields(cls)
        if get_origin(hints[spec.name]) is not ClassVar
    }


@cache
def generic_parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin and the arguments of a type, which `typing` finds anew each time."""
    return get_origin(hint), get_args(hint)


def _decode_value(hint: Any, value: object) -> Any:
    if type(value) is hint:
        return value
    origin, arguments = generic_parts(hint)
    if origin is not None:
        return _GENERIC[origin](arguments, value)
    if hint is Any:
        return value
    plain: type[Any] = hint
    if is_dataclass(plain):
        return decode(plain, value)
    if plain is datetime:
        return _moment(value)
    if issubclass(plain, Enum):
        return _member(plain, value)
    # `isinstance` would take a bool for an int. An int may be a float that another JSON writer shortened.
    if type(value) is plain or (plain is float and type(value) is int):
        return plain(value)
    raise SchemaError(f"{_shorten_value(value)} is not of type {plain.__name__}")


def _literal(options: tuple[Any, ...], value: object) -> Any:
    if value not in options:
        raise SchemaError(f"{_shorten_value(value)} is not one of {', '.join(map(repr, options))}")
    return value


def _optional(options: tuple[Any, ...], value: object) -> Any:
    (hint,) = (option for option in options if option is not types.NoneType)
    return None if value is None else _decode_value(hint, value)


def _tuple(entries: tuple[Any, ...], value: object) -> Any:
    if not isinstance(value, list):
        raise SchemaError(f"{_shorten_value(value)} is not a list")
    return tuple(_decode_value(entries[0], entry) for entry in value)


def _mapping(types_: tuple[Any, ...], value: object) -> Any:
    if not isinstance(value, dict):
        raise SchemaError(f"{_shorten_value(value)} is not an object")
    if types_[1] is Any:
        return value
    return {key: _decode_value(types_[1], entry) for key, entry in value.items()}


def _counter(types_: tuple[Any, ...], value: object) -> Any:
    return Counter(_mapping((*types_, int), value))


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise SchemaError(f"{_shorten_value(value)} is not a time") from None
    if moment.tzinfo is None:
        raise SchemaError(f"{_shorten_value(value)} has no time zone")
    return moment


def _member(hint: type[Enum], value: object) -> Enum:
    try:
        return hint(value)
    except ValueError:
        raise SchemaError(f"{_shorten_value(value)} is not of type {hint.__name__}") from None


def _shorten_value(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_GENERIC: dict[Any, Callable[[tuple[Any, ...], object], Any]] = {
    Literal: _literal,
    Union: _optional,
    types.UnionType: _optional,
    tuple: _tuple,
    Mapping: _mapping,
    Counter: _counter,
}

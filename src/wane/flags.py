"""Command-line flags, declared on the fields of the options that they set.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SweepOptions:
        steps: Annotated[int | None, Flag("--steps", "Number of budgets in a range.", "N")] = None

The flag's `read`, or else the field's type, decides how the text is read: a `Literal` gives the choices, a sequence may
be given more than once, a bool takes no value. A field whose type is itself a class of options adds all of its flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wane.core.errors import ConfigError

T = TypeVar("T")

_NUMBERS: Final[dict[type, str]] = {int: "a whole number", float: "a number"}


def read_by(name: str) -> Callable[[str], Any]:
    """Return a flag's `read` by its name, `module:function`, which is imported only when there is a value to read."""

    def read(text: str) -> Any:
        return resolve_name(name)(text)

    return read


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command; or an argument, which has no dash.

    Attributes:
        spelled: its spellings, such as `-q, --quiet`; for an argument, its name in help.
        help: what it does, and its default.
        value: name of its value in help; empty for a switch.
        bare: value of the option if it is given without a value; None if it needs one.
        read: converts the text, or raises a ValueError that says what it must be. By default the field's type.
    """

    spelled: str
    help: str
    value: str = ""
    bare: str | None = None
    read: Callable[[str], Any] | None = None

    @property
    def is_option(self) -> bool:
        """Whether it is given by name, not by position."""
        return self.spelled.startswith("-")

    @property
    def usage(self) -> str:
        """Its spellings and value: `-m, --model PROVIDER:MODEL`."""
        if not self.is_option or not self.value:
            return self.spelled
        return f"{self.spelled} {self.value}" if self.bare is None else f"{self.spelled} [{self.value}]"


@dataclass(frozen=True, slots=True)
class Declared:
    """A flag as a field declares it.

    Attributes:
        flag: the flag.
        key: the field's name.
        kind: the field's type, or that of its entries if it is repeatable; bool for a switch.
        choices: the possible values; empty for any.
        repeatable: whether it may be given more than once.
        default: the field's default.
    """

    flag: Flag
    key: str
    kind: type
    choices: tuple[str, ...]
    repeatable: bool
    default: object

    def read(self, value: Any) -> Any:
        """Convert a value that was given as text; any other value stays as it is.

        Raises:
            ConfigError: for a text that is empty or cannot be converted.
        """
        if not isinstance(value, str):
            if self.repeatable:
                return [self.read(entry) for entry in value]
            return value
        name = self.flag.spelled.rpartition(", ")[2]
        if not value and self.flag.is_option and self.flag.bare is None:
            raise ConfigError(f"{name} is empty; give it a value, or leave it out")
        if self.choices and value not in self.choices:
            *others, last = self.choices
            near = get_close_matches(value, self.choices, 1, 0.7)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{name} is {value!r:.80}; it must be {', '.join(others)} or {last}{guess}")
        number = _NUMBERS.get(self.kind) if self.flag.read is None else None
        try:
            if number and not value.isascii():
                raise ValueError  # Python reads digits of other scripts, too
            return (self.flag.read or self.kind)(value)
        except ConfigError:
            raise
        except ValueError as error:
            problem = f"it must be {number}" if number else error
            raise ConfigError(f"{name} is {value!r:.80}; {problem}") from None


def declare_flags(options: type) -> Iterator[Declared]:
    """Yield the flags of a class of options, in the order of its fields."""
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        hint = hints[field.name]
        if _is_options(hint):
            yield from declare_flags(hint)
        elif get_origin(hint) is Annotated:
            # If a field puts a flag on top of a shared one, the field's own, which is the last, counts.
            kind, *_, flag = get_args(hint)
            if get_origin(kind) in (Union, UnionType):
                kind = next(alternative for alternative in get_args(kind) if alternative is not NoneType)
            repeatable = get_origin(kind) is Sequence
            if repeatable:
                kind = get_args(kind)[0]
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            if kind not in (bool, int, float, Path):
                kind = str  # flags of other types have a `read` of their own, or take the text as it is
            yield Declared(flag, field.name, kind, choices, repeatable, field.default)


def options_of(options: type[T], values: Mapping[str, Any]) -> T:
    """Make options from the values that were given, by name of the field.

    Raises:
        ConfigError: for a text that cannot be read.
    """
    read = {flag.key: flag.read(values[flag.key]) for flag in declare_flags(options) if flag.key in values}
    return _built(options, {**values, **read})


def _built(options: type[T], values: Mapping[str, Any]) -> T:
    hints = get_type_hints(options)
    nested = {name: _built(hint, values) for name, hint in hints.items() if _is_options(hint)}
    return options(**nested, **{name: values[name] for name in hints if name in values})


def _is_options(hint: object) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)

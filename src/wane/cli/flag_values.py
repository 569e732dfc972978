"""Reads the values of flags: ages, seconds, sizes, numbers, shares, tool classes. Errors say what a value must be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from wane.budgets import is_share, parse_budget_or_auto
from wane.core import parse_budget
from wane.core.errors import ConfigError

AUTO_BUDGET: Final = 0
"""Stands for the budget `auto`, which is chosen by session."""

_ANY_WINDOW: Final = 1_000_000
"""Tokens of a window of which any valid percentage is a valid budget."""

NO_SHARE: Final = "none"
"""Stands for no share of the budget: no limit, or never."""

ShareOrNone: TypeAlias = float | Literal["none"]
"""A share of the budget, or `NO_SHARE`."""

_LONGEST: Final = 36_500
"""Days of the longest span of time: a hundred years."""

_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([smhdw])", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SIZE: Final = re.compile(r"(\d{1,12})\s*([kmg]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_UNIT: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def age(text: str) -> float:
    """Return the seconds of a span of time, written as `30d`, `12h` or `2w`."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ValueError("write a number with a unit, such as 30d, 12h or 2w")
    value = float(match[1]) * _SECONDS[match[2].lower()]
    if value > _LONGEST * _SECONDS["d"]:
        raise ValueError(f"it must be at most {_LONGEST}d")
    return value


def days(text: str) -> int:
    """Return a number of days above 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _LONGEST):
        raise ValueError(f"it must be a whole number of days, from 1 to {_LONGEST}")
    return int(text)


def age_or_never(text: str) -> float:
    """Return the seconds of a span of time; 0 for `never`."""
    try:
        return 0.0 if text.strip().lower() == "never" else age(text)
    except ValueError as error:
        raise ValueError(f"{error}, or never") from None


def seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    most = _LONGEST * _SECONDS["d"]
    return _number(text, lambda value: 0 < value <= most, f"it must be a number of seconds above 0, at most {most}")


def limit(text: str) -> float:
    """Return a number above 0; 0 for `none`."""
    words = "it must be a number above 0, or none"
    return 0.0 if _is_none(text) else _number(text, lambda value: 0 < value < math.inf, words)


def size(text: str) -> int:
    """Return the bytes of a size, written as `1000000`, `128m` or `1g`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise ValueError("write a number of bytes (1000000), or a number with a unit (128m)")
    return int(match[1]) * _UNIT[match[2].lower()]


def window(text: str) -> int:
    """Return the tokens of a model's window, written as `200000` or `200k`."""
    try:
        return parse_budget(text)
    except ValueError:
        raise ValueError("it must be the tokens of the model's window, such as 200000 or 200k") from None


def session_budget(text: str) -> int | str:
    """Return the tokens of a budget; `AUTO_BUDGET` for `auto`; a percentage as it is, for each session has a window."""
    tokens = parse_budget_or_auto(text, window=_ANY_WINDOW)
    if is_share(text):
        return text.strip()
    return AUTO_BUDGET if tokens is None else tokens


def count(text: str) -> int:
    """Return a whole number above 0."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError("it must be a whole number, 1 or more")
    return int(text)


def share(text: str) -> float:
    """Return a share above 0, to 1."""
    return _share(text, lambda value: 0 < value <= 1, "it must be a share above 0 and at most 1")


def share_from_zero(text: str) -> float:
    """Return a share from 0 to 1."""
    return _share(text, lambda value: 0 <= value <= 1, "it must be a share from 0 to 1")


def share_or_none(text: str) -> ShareOrNone:
    """Return a share above 0, to 1, or `NO_SHARE`."""
    words = "it must be a share above 0 and at most 1, or none for never"
    return "none" if _is_none(text) else _share(text, lambda value: 0 < value <= 1, words)


def share_limit(text: str) -> ShareOrNone:
    """Return a share from 0 to 1, or `NO_SHARE`."""
    words = "it must be a share from 0 to 1, or none for no limit"
    return "none" if _is_none(text) else _share(text, lambda value: 0 <= value <= 1, words)


def tool_class(text: str) -> tuple[str, str]:
    """Return a tool and its class from `NAME=CLASS`."""
    name, _, value = text.rpartition("=")
    if not (name.strip() and value.strip()) or "=" in name:
        raise ValueError("write NAME=CLASS, such as read=bulk")
    return name.strip(), value.strip()


def by_tool(classes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the classes of tools by name."""
    by_name = dict[str, str]()
    for name, value in classes:
        if by_name.setdefault(name, value) != value:
            raise ConfigError(f"--tool-class gives {name!r} two classes, {by_name[name]} and {value}; give one of them")
    return by_name


def _share(text: str, fits: Callable[[float], bool], words: str) -> float:
    """Return a share, which may be written in percent."""
    number, sign, tail = text.strip().partition("%")
    if sign and not tail and number:
        return _number(number, lambda value: fits(value / 100), words) / 100
    return _number(text, fits, words)


def _number(text: str, fits: Callable[[float], bool], words: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Python also reads digits of other scripts.
    if not (text.isascii() and fits(value)):
        raise ValueError(words)
    return value


def _is_none(text: str) -> bool:
    return text.strip().lower() == NO_SHARE

"""Reads the values of flags: ages, sizes, shares, policies, tool classes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final

from wane.cli.flags import PolicyOptions
from wane.core import Policy, parse_budget
from wane.core.errors import ConfigError

NEVER: Final = "never"
"""An age that is never reached."""

NO_SHARE: Final = "none"
"""A share of the budget that means no limit."""

_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([smhdw])", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SIZE: Final = re.compile(r"(\d{1,12})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_UNIT: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def parse_age(option: str, text: str, *, never: bool = False) -> float:
    """Return the seconds of a span of time, written as `30d`, `12h` or `2w`.

    Args:
        option: what it was given for, to be named in errors.
        text: a number with a unit: s, m, h, d or w.
        never: whether `never` is possible, which is 0.

    Raises:
        ConfigError: if it is none.
    """
    if never and text.strip().lower() == NEVER:
        return 0.0
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{option} is {text!r}; write a number with a unit, such as 30d, 12h or 2w{', or never' if never else ''}"
        )
    return float(match[1]) * _SECONDS[match[2].lower()]


def check_seconds(option: str, value: float) -> float:
    """Return a number of seconds.

    Raises:
        ConfigError: if it is not above 0, or not finite.
    """
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{option} is {value:g}; it must be a number of seconds above 0")
    return value


def parse_size(text: str) -> int:
    """Return the bytes of a size, written as `1000000`, `128m` or `1g`.

    Raises:
        ConfigError: for anything else.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ConfigError(f"the size {text!r} is not understood; write bytes (1000000) or with a unit (128m)")
    return int(match[1]) * _UNIT[match[2].lower()]


def parse_window(text: str) -> int:
    """Return the tokens of a model's window, written as `200000` or `200k`.

    Raises:
        ConfigError: for anything else.
    """
    try:
        return parse_budget(text)
    except ConfigError:
        raise ConfigError(
            f"--window is {text!r:.80}; it must be the tokens of the model's window, such as 200000 or 200k"
        ) from None


def parse_tool_classes(texts: Iterable[str]) -> dict[str, str]:
    """Return classes by tool name from `NAME=CLASS`.

    Raises:
        ConfigError: for a text in another form; the core checks the class.
    """
    classes: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not (sign and name.strip() and value.strip()):
            raise ConfigError(f"tool class {text!r} is not understood; write NAME=CLASS, such as read=bulk")
        classes[name.strip()] = value.strip()
    return classes


def parse_remind_at(text: str) -> float | None:
    """Return the share of the budget at which the model is reminded; None for never.

    Raises:
        ConfigError: for anything but a share above 0 to 1, or `none`.
    """
    if text.strip().lower() == NO_SHARE:
        return None
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ConfigError(f"--remind-at is {text!r}; it must be a share of the budget, above 0 to 1, or {NO_SHARE!r}")
    return share


def choose_policy(name: str, options: PolicyOptions) -> Policy:
    """Return a policy by name, with settings that override its own.

    Args:
        name: `default` or `paper`.
        options: the settings.

    Raises:
        ConfigError: for a setting that cannot work.
    """
    given: dict[str, Any] = {key: value for key, value in asdict(options).items() if value is not None}
    if options.description_share is not None:
        given["description_share"] = _share(options.description_share)
    try:
        return replace(Policy.paper() if name == "paper" else Policy(), **given)
    except ConfigError as error:
        # Named and written as on the command line.
        told = str(error).replace("low_water", "--low-water").replace("description_share", "--description-share")
        raise ConfigError(told.replace("None", NO_SHARE)) from None


def _share(text: str) -> float | None:
    if text.strip().lower() == NO_SHARE:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"description share {text!r} is not a number from 0 to 1, or {NO_SHARE!r}") from None

"""Spans of time as people write them: `30d`, `12h`, `2w`."""

from __future__ import annotations

import re
from typing import Final

from wane.core.errors import ConfigError

NEVER: Final = "never"

_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([smhdw])", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_age(option: str, text: str, *, never: bool = False) -> float:
    """Return the seconds of a span of time.

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

"""The eviction policy's settings and the budget (paper, section 4.4; R8, R10, R11)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from wane.core.errors import ConfigError

DEFAULT_BUDGET: Final = 80_000
"""Tokens that the view may hold unless told otherwise (the paper's τ)."""

Order = Literal["paper"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a pass evicts, and how far. Vary one with `dataclasses.replace`.

    The defaults batch: every eviction moves the prompt's prefix and so costs a cache write of all
    that stands behind it. `Policy.paper()` is Algorithm 1 to the letter.

    Attributes:
        order: `"paper"`: acts before explorations, the oldest first (R8).
        low_water: a pass that runs evicts down to `budget * low_water`; above 0, at most 1 (R10).
        description_share: share of the budget that the closing pairs of removed explorations may hold,
            0 to 1; None keeps them all (R11).
        evict_when_cold: run a pass early, above low water, when the caller says that the provider's
            cache has expired and a changed prefix costs nothing.

    Raises:
        ConfigError: for a value outside these ranges.
    """

    order: Order = "paper"
    low_water: float = 0.7
    description_share: float | None = 0.2
    evict_when_cold: bool = False

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise ConfigError(f"order {self.order!r} is unknown; known: {', '.join(get_args(Order))}")
        if not _is_number(self.low_water) or not 0 < self.low_water <= 1:
            raise ConfigError(f"low_water is {self.low_water!r}; it must be above 0 and at most 1")
        share = self.description_share
        if share is not None and (not _is_number(share) or not 0 <= share <= 1):
            raise ConfigError(f"description_share is {share!r}; it must be from 0 to 1, or None for no limit")

    @classmethod
    def paper(cls) -> Policy:
        """The paper's Algorithm 1 to the letter: smallest steps, every description kept."""
        return cls(order="paper", low_water=1.0, description_share=None)

    def target(self, budget: int) -> float:
        """Tokens at which a pass that runs may stop (R10)."""
        return budget * self.low_water

    def description_limit(self, budget: int) -> float | None:
        """Tokens that closing pairs of removed episodes may hold, None for no limit (R11)."""
        return None if self.description_share is None else budget * self.description_share


_BUDGET: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM%]?)")
_UNIT: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_budget(text: str | int, *, window: int | None = None) -> int:
    """Return a budget in tokens from what a user writes.

    Args:
        text: `80000`, `80k`, `1.5m`, or a percentage of the model's window such as `50%`.
        window: the model's context window in tokens, needed for a percentage.

    Raises:
        ConfigError: for anything else, for a budget below one token, and for a percentage above 100
            or of an unknown window.
    """
    if isinstance(text, int):
        return check_budget(text)
    match = _BUDGET.fullmatch(text.strip())
    if not match:
        raise ConfigError(
            f"budget {text!r} is not understood; write tokens (80000, 80k) or a share of the window (50%)"
        )
    number, unit = float(match[1]), match[2].lower()
    if unit != "%":
        return check_budget(round(number * _UNIT[unit]))
    if window is None:
        raise ConfigError(
            f"budget {text!r} is a share of the model's window, which is not known here; give tokens (80k)"
        )
    if number > 100:
        raise ConfigError(f"budget {text!r} is more than the whole window")
    return check_budget(round(window * number / 100))


def check_budget(budget: object) -> int:
    """Return a budget that can work, in tokens.

    Raises:
        ConfigError: if it is no whole number or below 1.
    """
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise ConfigError(f"budget is {budget!r}; it must be a whole number of tokens, such as {DEFAULT_BUDGET}")
    if budget < 1:
        raise ConfigError(f"budget is {budget}; it must be at least 1 token")
    return budget


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

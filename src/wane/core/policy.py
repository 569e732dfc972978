"""The eviction policy's settings and the budget (paper, section 4.4; R8, R10, R11)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from wane.core.errors import ConfigError

DEFAULT_BUDGET: Final = 80_000
"""Tokens that the view may hold unless told otherwise (the paper's τ)."""

MAX_BUDGET: Final = 10**15
"""Most tokens that a budget may have: far above any model's window, and shares of it are still exact."""

GUARD: Final = 0.4
"""Share of the room that the newest episodes may hold by default, in any order but the paper's."""

Order = Literal["paper", "last_use"]
Prologue = Literal["turns", "whole"]
Overflow = Literal["strip", "surface"]


_CHOICES: Final = {"order": get_args(Order), "prologue": get_args(Prologue), "overflow": get_args(Overflow)}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a pass evicts, and how far. Vary one with `dataclasses.replace`.

    The defaults batch: every eviction moves the prompt's prefix and so costs a cache write of all
    that stands behind it. `Policy.paper()` is Algorithm 1 of the paper, with R6.

    Attributes:
        order: which eligible episode goes first (R8). `"paper"`: acts before explorations, the oldest first.
            `"last_use"`: the one that was used longest ago, where an exploration was last used by the latest
            act that declared it (the paper's Principle 4).
        by_level: strip level by level across the episodes, so that all lose a level before any loses the
            next one; otherwise one episode is emptied after another.
        low_water: a pass that runs evicts down to `budget * low_water`; above 0, at most 1 (R10).
        description_share: share of the budget that the closing pairs of removed explorations may hold,
            0 to 1; None keeps them all (R11).
        evict_when_cold: run a pass early, above low water, when the caller says that the provider's
            cache has expired and a changed prefix costs nothing.
        guard: share of the room, 0 to 1, that the newest episodes may hold before a pass takes of them; it
            does so only as far as the budget itself demands, not down to low water. The room is what the budget
            leaves beside that which no pass may ever take (R13). None: 0.4, but 0 in the order `paper`.
        prologue: what is protected of that which comes ahead of the first accepted start (R7). `"turns"`: the
            system's and the user's turns, as everywhere; `"whole"`: the agent's unannotated work too.
        overflow: what a pass does that finds nothing eligible while the view is over the budget (R16).
            `"strip"`: it takes the oldest exchanges of what is not finished; `"surface"`: it says so, and that is all.

    Raises:
        ConfigError: for a value outside these ranges.
    """

    order: Order = "last_use"
    low_water: float = 0.5
    description_share: float | None = 0.2
    evict_when_cold: bool = True
    by_level: bool = False
    guard: float | None = None
    prologue: Prologue = "turns"
    overflow: Overflow = "strip"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"{name} {value!r} is unknown; known: {', '.join(known)}")
        if not _is_number(self.low_water) or not 0 < self.low_water <= 1:
            raise ConfigError(f"low_water is {_shown(self.low_water)}; it must be above 0 and at most 1")
        share, guard = self.description_share, self.guard
        if share is not None and not _is_share(share):
            raise ConfigError(f"description_share is {_shown(share)}; it must be from 0 to 1, or None for no limit")
        if guard is not None and not _is_share(guard):
            raise ConfigError(f"guard is {_shown(guard)}; it must be from 0 to 1, or None for the order's own")

    @classmethod
    def paper(cls) -> Policy:
        """The paper's Algorithm 1 with R6: smallest steps, every description kept, nothing unsettled taken."""
        return cls(
            order="paper",
            low_water=1.0,
            description_share=None,
            evict_when_cold=False,
            guard=0.0,
            prologue="whole",
            overflow="surface",
        )

    def guarded(self, room: float) -> float:
        """Tokens of the newest episodes that a pass spares, of a room of so many tokens."""
        share = self.guard
        if share is None:
            share = 0.0 if self.order == "paper" else GUARD
        return share * max(0.0, room)

    def target(self, budget: int) -> float:
        """Tokens at which a pass that runs may stop (R10)."""
        return budget * self.low_water

    def description_limit(self, budget: int) -> float | None:
        """Tokens that closing pairs of removed episodes may hold, None for no limit (R11)."""
        return None if self.description_share is None else budget * self.description_share


# As many digits as a number of tokens may need; Python itself refuses to read some thousands.
_BUDGET: Final = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?\s*([kKmM%]?)")
_UNIT: Final = {"": 1, "k": 1_000, "m": 1_000_000}
# Below it, a number without a unit is taken for a slip: no agent can work in so few tokens.
_LEAST_BARE: Final = 1_000


def parse_budget(text: str | int, *, window: int | None = None) -> int:
    """Return a budget in tokens from what a user writes.

    Args:
        text: `80000`, `80k`, `1.5m`, or a percentage of the model's window such as `50%`; a whole number is
            taken as it is.
        window: the model's context window in tokens, needed for a percentage.

    Raises:
        ConfigError: for anything else, for a budget below one token or above `MAX_BUDGET`, for a text below
            1,000 without a unit, such as `80`, and for a percentage above 100 or of an unknown window.
    """
    if not isinstance(text, str):
        return check_budget(text)
    match = _BUDGET.fullmatch(text.strip())
    if not match:
        raise ConfigError(
            f"budget {_shown(text)} is not understood; write tokens (80000, 80k) or a share of the window (50%)"
        )
    whole, part, unit = match[1], match[2] or "", match[3].lower()
    # The number is number / scale: in whole numbers, so that no budget is changed by reading it.
    number, scale = int(whole + part), 10 ** len(part)
    if unit != "%":
        tokens = _rounded(number * _UNIT[unit], scale)
        if not unit and 0 < tokens < _LEAST_BARE:
            told = f"did you mean {text.strip()}k? For so few tokens write {tokens / 1_000:g}k"
            raise ConfigError(f"budget {_shown(text)} has no unit; {told}")
        return check_budget(tokens)
    if window is None:
        raise ConfigError(
            f"budget {text!r} is a share of the model's window, which is not known here; give tokens (80k)"
        )
    if number > 100 * scale:
        raise ConfigError(f"budget {text!r} is more than the whole window")
    return check_budget(_rounded(window * number, 100 * scale))


def check_budget(budget: object) -> int:
    """Return a budget that can work, in tokens.

    Raises:
        ConfigError: if it is no whole number, below 1 or above `MAX_BUDGET`.
    """
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise ConfigError(f"budget is {budget!r}; it must be a whole number of tokens, such as {DEFAULT_BUDGET}")
    if budget < 1:
        raise ConfigError(f"budget is {_shown(budget)}; it must be at least 1 token")
    if budget > MAX_BUDGET:
        raise ConfigError(f"budget is {_shown(budget)}; it must be at most {MAX_BUDGET:,} tokens")
    return budget


def check_policy(policy: object) -> Policy:
    """Return a policy.

    Raises:
        ConfigError: if it is none, such as the name of one.
    """
    if not isinstance(policy, Policy):
        raise ConfigError(f"policy is {policy!r}; it must be a Policy, such as Policy() or Policy.paper()")
    return policy


def _rounded(number: int, scale: int) -> int:
    return (2 * number + scale) // (2 * scale)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_share(value: float) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _shown(value: object) -> str:
    # Python refuses to write out a whole number of some thousands of digits.
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

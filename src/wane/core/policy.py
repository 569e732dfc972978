"""The eviction policy's settings and the budget (paper, section 4.4; R8, R10, R11)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from wane.core.errors import ConfigError
from wane.core.room import MIN_ROOM, share_of

DEFAULT_BUDGET: Final = 80_000
"""Default budget: tokens that the view may hold (the paper's τ)."""

MAX_BUDGET: Final = 10**15
"""Largest budget in tokens: far above any model's window, and shares of it are still exact."""

INDEX_SHARE: Final = 0.02
"""Default share of the budget that the index of evicted content may hold (R20)."""

GUARD: Final = 0.4
"""Default share of the room that the newest episodes may hold, in any order but the paper's."""

Order = Literal["paper", "last_use"]
Prologue = Literal["turns", "whole"]
Overflow = Literal["strip", "surface"]


_CHOICES: Final = {"order": get_args(Order), "prologue": get_args(Prologue), "overflow": get_args(Overflow)}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a pass evicts, and how far. Vary a policy with `dataclasses.replace`.

    The defaults evict in batches: every eviction changes the prompt's prefix, so everything after the change is
    written to the cache again. `Policy.paper()` is Algorithm 1 of the paper, with R6.

    Attributes:
        order: which eligible episode goes first (R8). `"paper"`: acts before explorations, the oldest first.
            `"last_use"`: the one that was used longest ago, where an exploration was last used by the latest
            act that declared it (the paper's Principle 4).
        low_water: a pass that runs evicts down to `budget * low_water`; above 0, at most 1 (R10).
        description_share: share of the budget that the closing pairs of removed explorations may hold,
            0 to 1; None keeps them all (R11).
        evict_when_cold: run a pass early, above low water, when the caller says that the provider's
            cache has expired and a changed prefix costs nothing.
        guard: the newest episodes that together hold at most this share of the room, 0 to 1, and no more than low
            water leaves, are spared unless the budget itself demands them (R10). The room is the budget less what is
            fixed (R22) and what the index may hold. None: 0.4, or 0 in the order `paper`.
        prologue: what is protected ahead of the first accepted start (R7). `"turns"`: system and user turns, as
            everywhere; `"whole"`: the agent's unannotated work too.
        overflow: what a pass does when nothing is eligible and the view is still over the budget (R16). `"strip"`:
            take the oldest exchanges and texts of unfinished work; `"surface"`: only report it.
        index_share: share of the budget that the index of evicted content may hold, 0 to 1; 0 for none (R20).
        min_room: share of the budget that is left for the work, 0 to 1: where what is fixed leaves less, a pass works
            with a larger budget, never beyond the model's window (R22). 0 for a strict budget.

    Raises:
        ConfigError: for a value outside these ranges.
    """

    order: Order = "last_use"
    low_water: float = 0.3
    description_share: float | None = 0.2
    evict_when_cold: bool = True
    guard: float | None = None
    prologue: Prologue = "turns"
    overflow: Overflow = "strip"
    index_share: float = INDEX_SHARE
    min_room: float = MIN_ROOM

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(f"{name} {value!r} is unknown; known: {', '.join(choices)}")
        if not _is_number(self.low_water) or not 0 < self.low_water <= 1:
            raise ConfigError(f"low_water is {_quote(self.low_water)}; it must be above 0 and at most 1")
        if not isinstance(self.evict_when_cold, bool):
            raise ConfigError(f"evict_when_cold is {_quote(self.evict_when_cold)}; it must be true or false")
        share, guard = self.description_share, self.guard
        if share is not None and not _is_share(share):
            raise ConfigError(f"description_share is {_quote(share)}; it must be from 0 to 1, or None for no limit")
        if guard is not None and not _is_share(guard):
            raise ConfigError(f"guard is {_quote(guard)}; it must be from 0 to 1, or None for the order's default")
        if not _is_share(self.index_share):
            raise ConfigError(f"index_share is {_quote(self.index_share)}; it must be from 0 to 1, where 0 is no index")
        if not _is_share(self.min_room):
            raise ConfigError(
                f"min_room is {_quote(self.min_room)}; it must be from 0 to 1, where 0 is a strict budget"
            )

    @classmethod
    def paper(cls) -> Policy:
        """The paper's Algorithm 1 with R6: evict as little as needed, keep all descriptions, take nothing unsettled."""
        return cls(
            order="paper",
            low_water=1.0,
            description_share=None,
            evict_when_cold=False,
            guard=0.0,
            prologue="whole",
            overflow="surface",
            index_share=0.0,
            min_room=0.0,
        )

    @property
    def guard_share(self) -> float:
        """The share of the room that the guard spares: that of the order if `guard` is None."""
        if self.guard is not None:
            return self.guard
        return 0.0 if self.order == "paper" else GUARD

    def guarded_tokens(self, budget: int, fixed: int, index: int) -> float:
        """Return the tokens of the newest episodes that a pass spares (R10).

        Args:
            budget: the budget that the pass works with.
            fixed: tokens of it that no pass may ever take (R22).
            index: tokens of it that the index may hold (R20).
        """
        room = budget - fixed - index
        return max(0.0, min(self.guard_share * room, budget * self.low_water - index - fixed))

    def description_limit(self, budget: int) -> float | None:
        """Return the tokens that the closing pairs of removed episodes may hold; None for no limit (R11)."""
        return None if self.description_share is None else budget * self.description_share

    def index_limit(self, budget: int) -> int:
        """Return the tokens that the index of evicted content may hold; 0 for none (R20)."""
        return share_of(budget, self.index_share)


# More digits than any budget needs: Python refuses to read numbers of thousands of digits.
_BUDGET: Final = re.compile(r"(-?(?:\d{1,3}(?:[,_]\d{3}){1,9}|\d{1,30}))(?:\.(\d{1,30}))?\s*([kKmM%]?)", re.ASCII)
_UNIT: Final = {"": 1, "k": 1_000, "m": 1_000_000}
# A smaller number without a unit must be a slip: no agent can work in so few tokens.
_LEAST_BARE: Final = 1_000


def parse_budget(text: str | int, *, window: int | None = None, exact: bool = False) -> int:
    """Return a budget in tokens from what a user writes.

    Args:
        text: `80000`, `80,000`, `80k`, `1.5m`, or a percentage of the model's window such as `50%`; or a number.
        window: the model's context window in tokens, needed for a percentage.
        exact: whether to accept a number without a unit, however small.

    Raises:
        ConfigError: for any other text, a budget below 1 or above `MAX_BUDGET`, one below 1,000 without a unit (such as
            `80` for 80k), and a percentage above 100 or of an unknown window.
    """
    if not isinstance(text, str):
        tokens = _check_budget(text)
        return tokens if exact else _unambiguous(tokens, tokens)
    match = _BUDGET.fullmatch(text.strip())
    if not match:
        raise ConfigError(
            f"budget {_quote(text)} is not understood; write tokens (80000, 80k) or a share (50%) of a known window"
        )
    digits, fraction, unit = re.sub("[,_]", "", match[1]), match[2] or "", match[3].lower()
    # The value is number / scale, in whole numbers, so that reading does not change a budget.
    number = int(digits + fraction)
    scale = 10 ** len(fraction)
    if unit != "%":
        tokens = _round_to(number * _UNIT[unit], scale)
        return _check_budget(tokens if unit else _unambiguous(tokens, text.strip()))
    if window is None:
        raise ConfigError(
            f"budget {text!r} is a share of the model's window, which is not known here; give tokens (80k)"
        )
    if number > 100 * scale:
        raise ConfigError(f"budget {text!r} is more than the whole window")
    return _check_budget(_round_to(window * number, 100 * scale))


def parse_window(tokens: str | int) -> int:
    """Return the size of a model's window in tokens: a number, or text such as `200k`.

    Raises:
        ConfigError: for anything else.
    """
    try:
        return parse_budget(tokens, exact=True)
    except ConfigError:
        raise ConfigError(
            f"window is {_quote(tokens)}; it must be the tokens of the model's window, such as 200000 or 200k"
        ) from None


def exact_budget(tokens: int) -> str:
    """Return a budget, however small, as text that `parse_budget` reads back exactly."""
    return f"{tokens / 1_000:.3f}k"


def _unambiguous(tokens: int, written: str | int) -> int:
    """Return a number of tokens that was written without a unit; refuse it if a `k` may be missing."""
    if 0 < tokens < _LEAST_BARE:
        quote = '"' if isinstance(written, int) else ""
        meant = f"did you mean {quote}{written}k{quote}? For that few tokens write {quote}{tokens / 1_000:g}k{quote}"
        raise ConfigError(f"budget {written!r} has no unit; {meant}")
    return tokens


def _check_budget(budget: object) -> int:
    """Return the budget, in tokens, if it can work.

    Raises:
        ConfigError: if it is not a whole number, below 1 or above `MAX_BUDGET`.
    """
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise ConfigError(f'budget is {budget!r}; it must be a whole number of tokens, or text such as "80k"')
    if budget < 1:
        raise ConfigError(f"budget is {_quote(budget)}; it must be at least 1 token")
    if budget > MAX_BUDGET:
        raise ConfigError(f"budget is {_quote(budget)}; it must be at most {MAX_BUDGET:,} tokens")
    return budget


def check_policy(policy: object) -> Policy:
    """Return the policy.

    Raises:
        ConfigError: if it is not a `Policy`, such as a policy's name.
    """
    if not isinstance(policy, Policy):
        raise ConfigError(f"policy is {policy!r}; it must be a Policy, such as Policy() or Policy.paper()")
    return policy


def _round_to(number: int, scale: int) -> int:
    return (2 * number + scale) // (2 * scale)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_share(value: float) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _quote(value: object) -> str:
    # Python refuses to print a number of thousands of digits.
    if isinstance(value, int) and abs(value) >= 10**60:
        return "a number of more than 60 digits"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

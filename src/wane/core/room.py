"""The room that a budget leaves for the work: the budget less what no pass may ever take (R22)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final

MIN_ROOM: Final = 0.6
"""Default share of the budget that is left for the work, whatever is fixed.

It is measured in `docs/decisions/default-policy.md`."""

EASY: Final = 0.4
"""Share of the advised budget that the fixed content has, so that it leaves MIN_ROOM."""

TIGHT: Final = 0.4
"""A budget that cannot leave this share for the work is warned of (measured in `research/docs/warnings.md`)."""

SYSTEM: Final = "system prompt and tools"
NOTICES: Final = "opening and standing notices"
USER: Final = "user turns"
LOADED: Final = "loaded tools"
PROLOGUE: Final = "prologue"

_GRAIN: Final = 1_000
_REMEDIES: Final = {
    SYSTEM: "load fewer tools",
    NOTICES: "load fewer instructions and skills",
    USER: "begin a new session",
    LOADED: "load fewer tools",
    PROLOGUE: 'let it go with the other work (prologue = "turns")',
}
"""What helps besides a larger budget, by what holds the most tokens."""


@dataclass(frozen=True, slots=True)
class Room:
    """A budget, and the tokens of it that no pass may take, whatever the policy.

    Attributes:
        budget: tokens that the view may hold, as set.
        system: system prompt and tool definitions, and what the provider's last report holds beyond the items.
        user: user turns, and questions to a person with their answers (R21), with all that they need (R12); 0 under a
            strategy that may take them.
        notices: notices ahead of the first assistant message, and standing ones in force (R15); 0 likewise.
        loaded: calls and results that loaded tools which are still offered (R15), with what these need; 0 likewise.
        prologue: unannotated work ahead of the first start, where the policy protects it whole (R7).
        window: tokens that the model's window holds; None if unknown.
        min_room: share of the budget that is left for the work, whatever is fixed; 0 for a strict budget.
    """

    budget: int
    system: int
    user: int = 0
    notices: int = 0
    loaded: int = 0
    prologue: int = 0
    window: int | None = None
    min_room: float = 0.0

    @property
    def fixed(self) -> int:
        """Tokens that no pass may take."""
        # A provider's report far below the estimate makes the overhead negative.
        return max(0, self.system) + self.user + self.notices + self.loaded + self.prologue

    @property
    def used(self) -> int:
        """The budget that a pass works with: what is fixed and the least room, if that is more than was set (R22).

        It is never beyond the model's window, and never below the budget that was set.
        """
        return budget_used(self.budget, self.fixed, self.min_room, self.window)

    @property
    def widened(self) -> bool:
        """Whether passes work with a larger budget than was set."""
        return self.used > self.budget

    @property
    def work(self) -> int:
        """Tokens that are left for the work; 0 if the fixed content fills the budget that is used."""
        return max(0, self.used - self.fixed)

    @property
    def tight(self) -> bool:
        """Whether the fixed content leaves too little for the work: the budget is strict, or the window ends it."""
        return self.work < share_of(self.budget, TIGHT)

    @property
    def advised(self) -> int:
        """The budget of which the fixed content takes the share EASY, rounded up to thousands."""
        return rounded_up(self.fixed / EASY)

    @property
    def attainable(self) -> bool:
        """Whether the model's window can hold the advised budget; True if the window is unknown."""
        return self.window is None or self.advised <= self.window

    @property
    def widening(self) -> str:
        """What the budget is and what is used instead, in a line; empty if the budget is used as set."""
        return self._describe_widening() if self.widened else ""

    @property
    def warning(self) -> str:
        """Two sentences on what fills the budget and which budget would help; empty if there is enough room."""
        if not self.tight:
            return ""
        fixed = ", ".join(f"{label} {tokens:,}" for label, tokens in self.holders())
        remainder = f"{self.work:,} are left for the work" if self.work else "nothing is left for the work"
        return (
            f"The budget of {self.used:,} tokens leaves too little room: {self.fixed:,} may never be evicted "
            f"({fixed}), so that {remainder}. {self._advice}"
        )

    @property
    def remark(self) -> str:
        """The warning, or else a sentence on the budget that is used instead; empty if there is room enough."""
        if self.tight or not self.widened:
            return self.warning
        holders = ", ".join(f"{label} {tokens:,}" for label, tokens in self.holders())
        return f"B{self._describe_widening(f' ({holders})')[1:]}."

    def holders(self) -> list[tuple[str, int]]:
        """Return what holds the fixed tokens, as (label, tokens), the largest first."""
        rows = [
            (SYSTEM, self.system),
            (NOTICES, self.notices),
            (USER, self.user),
            (LOADED, self.loaded),
            (PROLOGUE, self.prologue),
        ]
        return sorted([row for row in rows if row[1] > 0], key=lambda row: -row[1])

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data, with the rule's outcome; `docs/budget.md` describes the fields."""
        data = {**asdict(self), "fixed": self.fixed, "used": self.used, "work": self.work, "tight": self.tight}
        return data | {"advised": self.advised if self.tight else None, "warning": self.warning or None}

    def _describe_widening(self, held_by: str = "") -> str:
        fixed = f"{self.fixed:,} of it" if self.fixed <= self.budget else f"{self.fixed:,} tokens"
        return f"budget {self.budget:,}; {fixed} always stay{held_by}; working with {self.used:,}"

    @property
    def _advice(self) -> str:
        shrink = _REMEDIES[self.holders()[0][0]]
        if self.attainable:
            return f"Set a budget of {self.advised:,}, or {shrink}."
        return f"A budget of {self.advised:,} would help, but the model's window holds {self.window:,}: {shrink}."


def budget_used(budget: int, fixed: int, min_room: float, window: int | None) -> int:
    """Return the budget that a pass works with (R22).

    Args:
        budget: as set.
        fixed: tokens that no pass may take.
        min_room: share of the budget that is left for the work, whatever is fixed.
        window: tokens that the model's window holds; None if unknown.
    """
    if not min_room or budget - fixed >= budget * min_room:
        return budget
    used = fixed + share_of(budget, min_room)
    if window is not None:
        used = min(used, window)
    return max(budget, used)


def share_of(budget: int, share: float) -> int:
    """Return a share of a budget, rounded down. The share is a decimal: 0.29 of 100 is 29, not 28.999."""
    tokens = budget * share
    nearest = round(tokens)
    return nearest if abs(tokens - nearest) < 1e-6 else int(tokens)


def rounded_up(tokens: float) -> int:
    """Return a budget as people set it, in whole thousands."""
    return ceil(tokens / _GRAIN) * _GRAIN

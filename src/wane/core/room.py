"""The room that a budget leaves for the work: the budget less the content that no pass may take (R13)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final

TIGHT: Final = 0.5
"""Share of the budget above which the fixed content leaves too little room (measured in `docs/lab/room.md`)."""

EASY: Final = 0.4
"""Share of the advised budget that the fixed content has.

It is below TIGHT because the user's turns add to the fixed content, and because recall is worse above it."""

SYSTEM: Final = "system prompt and tools"
NOTICES: Final = "opening and standing notices"
USER: Final = "user turns"

_GRAIN: Final = 1_000
_REMEDIES: Final = {
    SYSTEM: "load fewer tools",
    NOTICES: "load fewer instructions and skills",
    USER: "begin a new session",
}
"""What helps besides a larger budget, by what holds the most tokens."""


@dataclass(frozen=True, slots=True)
class Room:
    """A budget, and the tokens of it that no pass may take, whatever the policy.

    Attributes:
        budget: tokens that the view may hold.
        system: system prompt and tool definitions, and what the provider's last report holds beyond the items.
        user: user turns; 0 under a strategy that may take them.
        notices: notices ahead of the first assistant message, and standing ones in force (R15); 0 likewise.
        window: tokens that the model's window holds; None if unknown.
    """

    budget: int
    system: int
    user: int = 0
    notices: int = 0
    window: int | None = None

    @property
    def fixed(self) -> int:
        """Tokens that no pass may take."""
        return sum(tokens for _, tokens in self._rows())

    @property
    def work(self) -> int:
        """Tokens that are left for the work; 0 if the fixed content fills the budget."""
        return max(0, self.budget - self.fixed)

    @property
    def tight(self) -> bool:
        """Whether the fixed content leaves too little for the work."""
        return self.fixed > TIGHT * self.budget

    @property
    def advised(self) -> int:
        """The budget of which the fixed content takes the share EASY, rounded up to thousands."""
        return rounded_up(self.fixed / EASY)

    @property
    def attainable(self) -> bool:
        """Whether the model's window can hold the advised budget; True if the window is unknown."""
        return self.window is None or self.advised <= self.window

    @property
    def warning(self) -> str:
        """Two sentences on what fills the budget and which budget would help; empty if there is enough room."""
        if not self.tight:
            return ""
        fixed = ", ".join(f"{label} {tokens:,}" for label, tokens in self._rows())
        remainder = f"{self.work:,} are left for the work" if self.work else "nothing is left for the work"
        return (
            f"The budget of {self.budget:,} tokens leaves too little room: {self.fixed:,} may never be evicted "
            f"({fixed}), so that {remainder}. {self._advice}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data, with the rule's outcome; `docs/lab/room.md` describes the fields."""
        data = {**asdict(self), "fixed": self.fixed, "work": self.work, "tight": self.tight}
        return data | {"advised": self.advised if self.tight else None, "warning": self.warning or None}

    @property
    def _advice(self) -> str:
        shrink = _REMEDIES[self._rows()[0][0]]
        if self.attainable:
            return f"Set a budget of {self.advised:,}, or {shrink}."
        return f"A budget of {self.advised:,} would help, but the model's window holds {self.window:,}: {shrink}."

    def _rows(self) -> list[tuple[str, int]]:
        """Return what holds tokens, as (label, tokens), the largest first."""
        rows = [(SYSTEM, self.system), (NOTICES, self.notices), (USER, self.user)]
        return sorted([row for row in rows if row[1] > 0], key=lambda row: -row[1])


def rounded_up(tokens: float) -> int:
    """Return a budget as people set it, in whole thousands."""
    return ceil(tokens / _GRAIN) * _GRAIN

"""What a pass reports: frozen records that may be kept, shown or written to a journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from wane.core.episodes import Level
from wane.core.light import light_dataclass
from wane.core.policy import Policy
from wane.core.room import LOADED, NOTICES, PROLOGUE, SYSTEM, USER, Room

_LONGEST_NAME: Final = 100
_TAIL: Final = 30
_ACTIVE: Final = "active episode"

_ORDERS: Final = {
    "paper": "work before reading, the oldest first",
    "last_use": "the longest unused first",
}
"""What goes first in an order (R8)."""

_TAKEN_BY: Final = {
    Level.REASONING: "reasoning while reading",
    Level.BULK: "searches and listings",
    Level.ARTIFACT: "reads, commands, other calls and notices",
    Level.REMOVE: "other content of removed episodes",
    Level.DESCRIPTION: "descriptions of removed episodes",
    Level.OVERFLOW: "the oldest calls and texts of unfinished work",
}
"""What a level takes (R9, R11, R16)."""


def brief(name: str) -> str:
    """Return a name for tables and sentences; one of more than 100 characters is cut in the middle."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - _TAIL - 1]}…{name[-_TAIL:]}"


@light_dataclass(frozen=True, slots=True)
class Step:
    """One level that an episode reached in a pass (R9), its closing pair (R11), or an overflow (R16).

    Attributes:
        episode: the episode's name; None for an implicit episode.
        number: its number in order of start, which identifies implicit episodes too.
        level: the level that it reached, or `OVERFLOW`.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        removed: indexes of the items that left, in order; empty for a level that removed nothing.
    """

    episode: str | None
    number: int
    level: Level
    tokens_before: int
    tokens_after: int
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pinned:
    """Tokens that no pass may take now, by what holds them (R13).

    Attributes:
        overhead: system prompt and tool definitions, and what the provider's last report holds beyond the items.
        system: system items.
        user: user items, wherever they stand; questions to a person with their answers, too (R21); and what these need
            (R12).
        notices: notices ahead of the first assistant message, and standing ones in force (R15).
        loaded: calls and results that loaded tools which are still offered (R15), and what they need.
        prologue: unannotated work ahead of the first accepted start, where the policy protects it (R7).
        active: the active episode.
        active_name: its name.
        unsettled: episodes that are closed or implicit but not yet settled, with the latest assistant message (R6).
        needed: explorations that an active or unsettled act builds on (R7), and items held by coupling (R12).
        descriptions: closing pairs of removed explorations and tasks, where the policy keeps them all (R11).
        tasks: starts and ends of tasks that are open or of which something besides closing pairs is in view (R17).
        kept: settled episodes that a person keeps (R23).
    """

    overhead: int = 0
    system: int = 0
    user: int = 0
    notices: int = 0
    loaded: int = 0
    prologue: int = 0
    active: int = 0
    active_name: str | None = None
    unsettled: int = 0
    needed: int = 0
    descriptions: int = 0
    tasks: int = 0
    kept: int = 0

    @property
    def total(self) -> int:
        """Sum of all of them."""
        return sum(tokens for _, tokens in self._rows())

    def holders(self) -> list[tuple[str, int]]:
        """Return what holds tokens, as (label, tokens), the largest first."""
        rows = [(label, tokens) for label, tokens in self._rows() if tokens > 0]
        return sorted(rows, key=lambda row: -row[1])

    def explain(self) -> str:
        """Return what holds tokens, the largest first, in words."""
        entries: list[str] = []
        for label, tokens in self.holders():
            name = f" {brief(self.active_name)!r}" if label == _ACTIVE and self.active_name else ""
            entries.append(f"{label}{name} {tokens:,}")
        return ", ".join(entries)

    def _rows(self) -> list[tuple[str, int]]:
        return [
            (SYSTEM, self.overhead + self.system),
            (USER, self.user),
            (NOTICES, self.notices),
            (LOADED, self.loaded),
            (PROLOGUE, self.prologue),
            (_ACTIVE, self.active),
            ("not yet settled", self.unsettled),
            ("needed by unfinished work", self.needed),
            ("descriptions", self.descriptions),
            ("tasks", self.tasks),
            ("kept by you", self.kept),
        ]


@dataclass(frozen=True, slots=True)
class EvictedIndex:
    """The text about evicted content that requests show, from a pass until the next one that evicts (R20).

    Attributes:
        text: the text.
        tokens: its tokens, by the counter of its writer.
        before: index of the item that it precedes.
    """

    text: str
    tokens: int
    before: int


@light_dataclass(frozen=True, slots=True)
class FitReport:
    """What `ContextWindow.fit` did.

    Attributes:
        ran: whether a pass ran.
        trace: every level that the pass reached, in order, including those that removed nothing;
            `ContextWindow.apply` repeats the pass from it.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        budget: the budget that was set, in tokens.
        budget_used: the one that the pass worked with: more than was set where what is fixed leaves too little (R22).
        overflowed: whether it had to take unfinished work, or what such work needs (R16).
        pinned: what holds the tokens, if the budget could not be met; else None.
        policy: the policy of the pass.
        index: the index of evicted content after it; None if there is none.
        room: what is fixed of the budget, if another budget was used than the one that was set; else None.
    """

    ran: bool
    trace: tuple[Step, ...]
    tokens_before: int
    tokens_after: int
    budget: int
    budget_used: int
    overflowed: bool = False
    pinned: Pinned | None = None
    policy: Policy = field(default_factory=Policy)
    index: EvictedIndex | None = None
    room: Room | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The levels that removed something, in order (R9)."""
        return tuple(step for step in self.trace if step.removed)

    @property
    def satisfied(self) -> bool:
        """Whether the view is at or under the budget that was used now."""
        return self.tokens_after <= self.budget_used

    @property
    def target(self) -> int:
        """Tokens at which a pass stops (R10)."""
        return int(self.budget_used * self.policy.low_water)

    @property
    def excess(self) -> int:
        """Tokens by which the view is over the budget that was used; 0 if it is within."""
        return max(0, self.tokens_after - self.budget_used)

    @property
    def shortfall(self) -> str:
        """A sentence that says how far the view is over the budget and what holds the tokens; empty if it is within."""
        if self.pinned is None:
            return ""
        return (
            f"{self.tokens_after:,} tokens stay, {self.excess:,} over the budget of {self.budget_used:,}, "
            f"and nothing more may be evicted: {self.pinned.explain()}."
        )

    def explain(self) -> str:
        """Return sentences on what left, in which order and why, and on what stays if the budget is not met."""
        widened = ""
        if self.room is not None:
            widened = f"B{self.room.widening[1:]}. "
        if not self.ran:
            return (
                f"{widened}Nothing had to go: the view holds {self.tokens_after:,} tokens, within the budget of "
                f"{self.budget_used:,}."
            )
        sentences = [f"{widened}{self._explain_outcome()}", *self._explain_steps()]
        if self.shortfall:
            sentences.append(self.shortfall)
        return " ".join(sentences)

    def _explain_outcome(self) -> str:
        over = self.tokens_before - self.budget_used
        text = f"The view held {self.tokens_before:,} tokens, "
        if over > 0:
            text += f"{over:,} over the budget of {self.budget_used:,}."
        else:
            text += f"within the budget of {self.budget_used:,}, but the provider's cache was cold, "
            text += "so that a changed prefix cost nothing."
        freed = self.tokens_before - self.tokens_after
        if not freed:
            return f"{text} A pass found nothing to evict."
        if not self.satisfied:
            return f"{text} A pass evicted {freed:,} of them."
        if self.target == self.budget_used:
            return f"{text} A pass evicted {freed:,} of them, no more than it had to: {self.tokens_after:,} stay."
        text += f" A pass evicts down to low water ({self.target:,}), so that passes are rare."
        text += f" This one evicted {freed:,} of them: {self.tokens_after:,} stay"
        if self.tokens_after > self.target:
            text += ", because the rest is protected"
            if not self.overflowed:
                text += " or is the newest work, which goes only if the budget demands it"
        return f"{text}."

    def _explain_steps(self) -> Iterator[str]:
        names: dict[int, str] = {}
        freed: dict[Level, int] = {}
        for step in self.steps:
            names[step.number] = brief(step.episode) if step.episode else f"unmarked work {step.number}"
            freed[step.level] = freed.get(step.level, 0) + step.tokens_before - step.tokens_after
        if not names:
            return
        removed = {step.number for step in self.steps if step.level is Level.REMOVE}
        first, *others = names.values()
        if others:
            order = f", {_ORDERS[self.policy.order]}, from {first} to {others[-1]}"
            removals = f", and removed {len(removed):,} of them" if removed else ""
            yield f"It stripped {len(names):,} episodes{order}{removals}."
        else:
            yield f"It stripped 1 episode, {first}{', and removed it' if removed else ''}."
        if self.overflowed:
            yield "That was not enough, so it took the oldest calls and texts of unfinished work, or of what it needs."
        shares = [f"{freed[level]:,} of {content}" for level, content in _TAKEN_BY.items() if level in freed]
        yield f"Tokens that went: {', '.join(shares)}."

"""What a pass reports: frozen records that may be kept, shown or written to a journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from wane.core.episodes import Level
from wane.core.policy import Policy
from wane.core.room import NOTICES, SYSTEM, USER

_MOST_SHOWN = 100
_TAIL = 30


def brief(name: str) -> str:
    """Return a name for tables and sentences: one of more than 100 characters is cut in the middle."""
    return name if len(name) <= _MOST_SHOWN else f"{name[: _MOST_SHOWN - _TAIL - 1]}…{name[-_TAIL:]}"


@dataclass(frozen=True, slots=True)
class Step:
    """One level that an episode reached in a pass (R9), its closing pair (R11), or an overflow (R16).

    Attributes:
        episode: its name; None for an implicit episode.
        number: its place in the order of starts, which identifies implicit ones too.
        level: the level that it reached, or `OVERFLOW`.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        removed: indexes of the items that went, in order; empty for a level that removed nothing.
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
        user: user items, wherever they stand.
        notices: notices ahead of the first assistant message, and standing ones in force (R15).
        prologue: unannotated work ahead of the first accepted start, where the policy protects it (R7).
        active: the active episode.
        active_name: its name.
        unsettled: episodes that are closed or implicit but not yet settled, with the latest assistant message (R6).
        needed: explorations that an active or unsettled act builds on (R7), and items held by coupling (R12).
        descriptions: closing pairs of removed explorations and tasks, where the policy keeps them all (R11).
        tasks: starts and ends of tasks that are open or of which something besides closing pairs is in view (R17).
    """

    overhead: int = 0
    system: int = 0
    user: int = 0
    notices: int = 0
    prologue: int = 0
    active: int = 0
    active_name: str | None = None
    unsettled: int = 0
    needed: int = 0
    descriptions: int = 0
    tasks: int = 0

    @property
    def total(self) -> int:
        """Sum of all of them."""
        return sum(tokens for _, tokens in self._rows())

    def holders(self) -> list[tuple[str, int]]:
        """What holds tokens, as (label, tokens), the largest first."""
        return sorted(((label, tokens) for label, tokens in self._rows() if tokens > 0), key=lambda row: -row[1])

    def explain(self) -> str:
        """What holds tokens, the largest first, for people."""
        named = f" {brief(self.active_name)!r}" if self.active_name else ""
        names = {"active episode": f"active episode{named}"}
        return ", ".join(f"{names.get(label, label)} {tokens:,}" for label, tokens in self.holders())

    def _rows(self) -> list[tuple[str, int]]:
        return [
            (SYSTEM, self.overhead + self.system),
            (USER, self.user),
            (NOTICES, self.notices),
            ("prologue", self.prologue),
            ("active episode", self.active),
            ("not yet settled", self.unsettled),
            ("needed by an unfinished act", self.needed),
            ("descriptions", self.descriptions),
            ("tasks", self.tasks),
        ]


@dataclass(frozen=True, slots=True)
class EvictedIndex:
    """What requests say of the content that has left the view, from a pass until the next one that evicts (R20).

    Attributes:
        text: the text.
        tokens: its tokens, by the counter of those who wrote it.
        before: the item ahead of which it stands.
    """

    text: str
    tokens: int
    before: int


@dataclass(frozen=True, slots=True)
class FitReport:
    """What `ContextWindow.fit` did.

    Attributes:
        ran: whether a pass ran.
        satisfied: whether the view is at or under the budget now.
        trace: every level that the pass reached, in order, including those that removed nothing;
            `ContextWindow.apply` repeats the pass from it.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        budget: the budget, in tokens.
        target: tokens at which the pass was to stop (R10).
        overflowed: whether it had to take unfinished work, or what such work needs (R16).
        pinned: what holds the tokens, if the budget could not be met; else None.
        policy: the policy of the pass.
        index: the index of evicted content that stands after it; None if there is none.
    """

    ran: bool
    satisfied: bool
    trace: tuple[Step, ...]
    tokens_before: int
    tokens_after: int
    budget: int
    target: int
    overflowed: bool = False
    pinned: Pinned | None = None
    policy: Policy = field(default_factory=Policy)
    index: EvictedIndex | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The levels that removed something, in order (R9)."""
        return tuple(step for step in self.trace if step.removed)

    @property
    def excess(self) -> int:
        """Tokens by which the view is over the budget; 0 if it is within."""
        return max(0, self.tokens_after - self.budget)

    @property
    def shortfall(self) -> str:
        """A sentence on how far the view is over the budget and what holds the tokens; empty if it is within."""
        if self.pinned is None:
            return ""
        return (
            f"{self.tokens_after:,} tokens stay, {self.excess:,} over the budget of {self.budget:,}, "
            f"and nothing more may be evicted: {self.pinned.explain()}."
        )

    def explain(self) -> str:
        """What went, in which order and why, and what stays if the budget is not met: sentences for people."""
        if not self.ran:
            return (
                f"Nothing had to go: the view holds {self.tokens_after:,} tokens, within the budget of {self.budget:,}."
            )
        return " ".join(filter(None, (self._told_outcome(), *self._told_steps(), self.shortfall)))

    def _told_outcome(self) -> str:
        freed, after = self.tokens_before - self.tokens_after, f"{self.tokens_after:,}"
        over = self.tokens_before - self.budget
        sentence = f"The view held {self.tokens_before:,} tokens, "
        sentence += (
            f"{over:,} over the budget of {self.budget:,}" if over > 0 else f"within the budget of {self.budget:,}"
        )
        cold = "" if over > 0 else ", but the provider's cache was cold, so that a changed prefix cost nothing"
        if not freed:
            return f"{sentence}{cold}. A pass found nothing to evict."
        if not self.satisfied:
            return f"{sentence}. A pass evicted {freed:,} of them."
        if self.target == self.budget:
            return f"{sentence}{cold}. A pass evicted {freed:,} of them, no more than it had to: {after} stay."
        done = f"{sentence}{cold}. A pass evicts down to low water ({self.target:,}), so that passes are rare. "
        done += f"This one evicted {freed:,} of them: {after} stay"
        if self.tokens_after <= self.target:
            return f"{done}."
        newest = "" if self.overflowed else " or is the newest work, which goes only if the budget demands it"
        return f"{done}, because the rest is protected{newest}."

    def _told_steps(self) -> Iterator[str]:
        steps = self.steps
        if not steps:
            return
        names = {step.number: brief(step.episode) if step.episode else f"unmarked work {step.number}" for step in steps}
        removed = {step.number for step in steps if step.level is Level.REMOVE}
        first, *others = names.values()
        if others:
            order = f", {_ORDERS[self.policy.order]}, from {first} to {others[-1]}"
            removals = f", and removed {len(removed):,} of them" if removed else ""
            yield f"It stripped {len(names):,} episodes{order}{removals}."
        else:
            yield f"It stripped 1 episode, {first}{', and removed it' if removed else ''}."
        if self.overflowed:
            yield "That was not enough, so it took the oldest calls and texts of unfinished work, or of what it needs."
        freed: dict[Level, int] = {}
        for step in steps:
            freed[step.level] = freed.get(step.level, 0) + step.tokens_before - step.tokens_after
        shares = [f"{freed[level]:,} of {what}" for level, what in _HELD.items() if level in freed]
        yield f"Tokens that went: {', '.join(shares)}."


_ORDERS: Final = {
    "paper": "acts before explorations, the oldest first",
    "last_use": "the longest unused first",
}
"""What goes first in an order (R8)."""
_HELD: Final = {
    Level.REASONING: "reasoning in explorations",
    Level.BULK: "searches and listings",
    Level.ARTIFACT: "reads, commands, other calls and notices",
    Level.REMOVE: "other content of removed episodes",
    Level.DESCRIPTION: "descriptions of removed explorations",
    Level.OVERFLOW: "the oldest calls and texts of unfinished work",
}
"""What a level takes (R9, R11, R16)."""

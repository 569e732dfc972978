"""What a pass reports: frozen records that may be kept, shown or written to a journal."""

from __future__ import annotations

from dataclasses import dataclass

from wane.core.episodes import Level

_MOST_SHOWN = 100
_TAIL = 30


def brief(name: str) -> str:
    """Return a name as tables and sentences have room for it: both ends of one of more than 100 characters."""
    return name if len(name) <= _MOST_SHOWN else f"{name[: _MOST_SHOWN - _TAIL - 1]}…{name[-_TAIL:]}"


@dataclass(frozen=True, slots=True)
class Step:
    """One level of one episode that removed something (R9), its closing pair (R11), or an overflow (R16).

    Attributes:
        episode: its name; None for an implicit episode.
        number: its place in the order of starts, which identifies implicit ones too.
        level: the level that was reached; `OVERFLOW` is none that an episode reaches.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        removed: indexes of the items that went, in order; none for a level that was passed over.
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
        overhead: system prompt and tool definitions sent with every request, and what the provider's last report
            holds beyond the items.
        system: system items, and notices ahead of the first assistant message (R15).
        user: user items, wherever they stand.
        prologue: unannotated work ahead of the first accepted start, where the policy protects it (R7).
        active: the active episode.
        active_name: its name.
        unsettled: what is closed or implicit but not yet settled, the latest assistant message among it (R6).
        needed: explorations that an active or unsettled act builds on (R7), and items held by coupling (R12).
        descriptions: closing pairs of removed explorations, where the policy keeps them all (R11).
    """

    overhead: int = 0
    system: int = 0
    user: int = 0
    prologue: int = 0
    active: int = 0
    active_name: str | None = None
    unsettled: int = 0
    needed: int = 0
    descriptions: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return sum(tokens for _, tokens in self.holders()) + self.overhead

    def holders(self) -> list[tuple[str, int]]:
        """What holds tokens, as (label, tokens), without what holds none and without the overhead."""
        active = f"active episode {brief(self.active_name)!r}" if self.active_name else "active episode"
        rows = [
            ("system", self.system),
            ("user turns", self.user),
            ("prologue", self.prologue),
            (active, self.active),
            ("not yet settled", self.unsettled),
            ("needed by an unfinished act", self.needed),
            ("descriptions", self.descriptions),
        ]
        return [(label, tokens) for label, tokens in rows if tokens]


@dataclass(frozen=True, slots=True)
class FitReport:
    """What `ContextWindow.fit` did.

    Attributes:
        ran: whether a pass ran.
        satisfied: whether the view is at or under the budget now.
        trace: every level that the pass reached, in order, those among them that removed nothing: what
            `ContextWindow.apply` needs to do the pass again.
        tokens_before: the view's total before.
        tokens_after: the view's total after.
        budget: the budget, in tokens.
        target: where the pass was to stop, in tokens (R10).
        overflowed: whether it had to take of what is not finished, or of what that needs (R16).
        pinned: what holds the tokens, if the budget could not be met; else None.
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

    @property
    def steps(self) -> tuple[Step, ...]:
        """What the pass took, in order; a level that removed nothing is passed over (R9)."""
        return tuple(step for step in self.trace if step.removed)

    @property
    def excess(self) -> int:
        """Tokens by which the view is over the budget, 0 if it is not."""
        return max(0, self.tokens_after - self.budget)

    def explain(self) -> str:
        """One sentence on the outcome, for people."""
        if self.pinned is None:
            verb = f"evicted {self.tokens_before - self.tokens_after:,} tokens" if self.ran else "nothing to do"
            return f"{verb}; the view holds {self.tokens_after:,} of {self.budget:,} tokens"
        rows = [("instructions and tools", max(0, self.pinned.overhead)), *self.pinned.holders()]
        held = ", ".join(f"{label} {tokens:,}" for label, tokens in rows if tokens)
        return (
            f"the view holds {self.tokens_after:,} tokens, {self.excess:,} over the budget of {self.budget:,}, "
            f"and nothing more may be evicted: {held}"
        )

"""Finds out why a request exceeds the budget: which content fills it and may not be evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.core import Item, Kind, Pinned
from wane.core.room import NOTICES
from wane.core.room import SYSTEM as FIXED
from wane.core.standing import InForce
from wane.strategies.strategy import Slot, Substitute

USER: Final = "the user's turns"
LATEST: Final = "the latest message with its results"
UNFINISHED: Final = "unfinished work"
NEEDED: Final = "what unfinished work needs"
DESCRIPTIONS: Final = "descriptions"
PROLOGUE: Final = "the protected prologue"
KEPT: Final = "what the strategy keeps"

_PINNED: Final = (FIXED, NOTICES, USER, LATEST)
ROOM: Final = "room for the work"
"""Not over the larger budget that the strategy works with where too little is left of the one that was set (R22)."""

REASONS: Final = (*_PINNED, UNFINISHED, NEEDED, DESCRIPTIONS, PROLOGUE, KEPT, ROOM)
"""Content that may fill a request."""


class Filling:
    """The content that fills the view of one run, updated by the changes since the last view.

    Args:
        items: the history.
        overhead: tokens that every request carries besides the view.
        first: index of the first assistant message's first item. Notices before it are never evicted (R15), nor are
            later standing notices until they are replaced.
    """

    def __init__(self, items: Sequence[Item], overhead: int, first: int) -> None:
        self._tokens = [item.tokens for item in items]
        self._reasons = [_reason(item, opening=index < first) for index, item in enumerate(items)]
        self._held = {**dict.fromkeys(REASONS, 0), FIXED: overhead}
        self._shown = bytearray(len(items))
        # By standing notice, the index of the one that replaces it.
        self._replaced: dict[int, int] = {}
        standing = InForce()
        for index in range(first, len(items)):
            self._replaced.update(dict.fromkeys(standing.enter(index, items[index].standing), index))

    def change(self, removed: Sequence[Slot], entered: Sequence[Slot]) -> None:
        """Take in the change from the last view to the next; a slot may leave and enter again."""
        for slot in removed:
            self._count(slot, -1)
        for slot in entered:
            self._count(slot, 1)

    def why_over(self, budget: int, latest: int, before: int, pinned: Pinned | None) -> str:
        """Return why a request exceeds the budget: one of `REASONS`.

        System prompt and tools, opening and standing notices, the user's turns, and the latest message with its results
        are added up in this order: the one with which the sum exceeds the budget is the reason. If none is, it is the
        content that holds most of the rest by the pass's report, or `KEPT` for a strategy without passes. After a pass
        of the default policy, unfinished work and what it needs are accepted `delimiter` calls and calls without a
        result (R16).

        Args:
            budget: tokens that the request may hold.
            latest: index of the latest assistant message's first item; 0 before the first one.
            before: number of items before the call.
            pinned: the content that holds the tokens, by the pass's report; None for a strategy without passes.
        """
        by_reason = dict(self._held)
        for index in range(latest, before) if latest else ():
            if self._shown[index] and self._reasons[index] == KEPT:
                by_reason[KEPT] -= self._tokens[index]
                by_reason[LATEST] += self._tokens[index]
        for index, replaced_at in self._replaced.items():
            if replaced_at < before and self._shown[index]:
                by_reason[NOTICES] -= self._tokens[index]
                by_reason[KEPT] += self._tokens[index]
        total = 0
        for reason in _PINNED:
            total += by_reason[reason]
            if total > budget:
                return reason
        if pinned is None:
            return KEPT
        remaining = {NEEDED: pinned.needed, DESCRIPTIONS: pinned.descriptions, PROLOGUE: pinned.prologue}
        remaining[UNFINISHED] = by_reason[KEPT] - sum(remaining.values())
        return max(remaining, key=remaining.__getitem__)

    def _count(self, slot: Slot, sign: int) -> None:
        if isinstance(slot, Substitute):
            self._held[KEPT] += sign * slot.tokens
            return
        self._held[self._reasons[slot]] += sign * self._tokens[slot]
        self._shown[slot] = sign > 0


def _reason(item: Item, *, opening: bool) -> str:
    if item.kind is Kind.SYSTEM:
        return FIXED
    if item.kind is Kind.NOTICE and (opening or item.standing):
        return NOTICES
    return USER if item.kind is Kind.USER else KEPT

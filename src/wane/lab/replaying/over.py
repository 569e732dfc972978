"""Tells why a request exceeds the budget: what fills it and may not be evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from wane.core import Item, Kind, Pinned
from wane.strategies.base import Slot, Substitute

FIXED: Final = "system prompt and tools"
USER: Final = "the user's turns"
LATEST: Final = "the latest message with its results"
UNFINISHED: Final = "unfinished work"
NEEDED: Final = "what an unfinished act needs"
DESCRIPTIONS: Final = "descriptions"
PROLOGUE: Final = "the protected prologue"
KEPT: Final = "what the strategy keeps"

_PINNED: Final = (FIXED, USER, LATEST)
REASONS: Final = (*_PINNED, UNFINISHED, NEEDED, DESCRIPTIONS, PROLOGUE, KEPT)
"""What may fill a request."""


def why_over(
    view: Iterable[Slot],
    items: Sequence[Item],
    overhead: int,
    budget: int,
    *,
    first: int,
    latest: int,
    pinned: Pinned | None = None,
) -> str:
    """Return why a request exceeds the budget: one of `REASONS`.

    It is the system prompt and tools if they exceed it alone, else the user's turns if both do, else the latest message
    with its results if all three do. Else it is what holds most of the rest: by the pass's report, or `KEPT` for a
    strategy without one. After a pass of the default policy, unfinished work and what it needs are texts, as no level
    takes those (R13).

    Args:
        view: what the request shows.
        items: the history.
        overhead: tokens that every request carries in addition.
        budget: tokens that the request may hold.
        first: index of the first assistant message's first item; notices before it stand for system items (R15).
        latest: index of the latest assistant message's first item; 0 before the first one.
        pinned: what the pass says holds the tokens; None for a strategy without passes.
    """
    held = dict.fromkeys(REASONS, 0)
    held[FIXED] = overhead
    for slot in view:
        if isinstance(slot, Substitute):
            held[KEPT] += slot.tokens
        else:
            opening = items[slot].kind is Kind.NOTICE and slot < first
            held[FIXED if opening else _part(items[slot].kind, newest=slot >= latest > 0)] += items[slot].tokens
    total = 0
    for reason in _PINNED:
        total += held[reason]
        if total > budget:
            return reason
    if pinned is None:
        return KEPT
    rest = {NEEDED: pinned.needed, DESCRIPTIONS: pinned.descriptions, PROLOGUE: pinned.prologue}
    rest[UNFINISHED] = held[KEPT] - sum(rest.values())
    return max(rest, key=rest.__getitem__)


def _part(kind: Kind, *, newest: bool) -> str:
    if kind is Kind.SYSTEM:
        return FIXED
    if kind is Kind.USER:
        return USER
    return LATEST if newest else KEPT

"""Tells why a request exceeds the budget: what fills it and may not be evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from wane.core import Item, Kind
from wane.strategies.base import Slot, Substitute

FIXED: Final = "system prompt and tools"
USER: Final = "the user's turns"
LATEST: Final = "the latest message with its results"
REST: Final = "the rest of the view"

REASONS: Final = (FIXED, USER, LATEST, REST)
"""What may fill a request, in the order of the check."""


def why_over(
    view: Iterable[Slot], items: Sequence[Item], overhead: int, budget: int, *, first: int, latest: int
) -> str:
    """Return the first of `REASONS` that exceeds the budget together with those before it.

    A strategy cannot shrink these any further, except `REST`: work that it keeps or may not evict yet.

    Args:
        view: what the request shows.
        items: the history.
        overhead: tokens that every request carries in addition.
        budget: tokens that the request may hold.
        first: index of the first assistant message's first item; notices before it stand for system items (R15).
        latest: index of the latest assistant message's first item; 0 before the first one.
    """
    held = dict.fromkeys(REASONS, 0)
    held[FIXED] = overhead
    for slot in view:
        if isinstance(slot, Substitute):
            held[REST] += slot.tokens
        else:
            opening = items[slot].kind is Kind.NOTICE and slot < first
            held[FIXED if opening else _part(items[slot].kind, newest=slot >= latest > 0)] += items[slot].tokens
    total = 0
    for reason in REASONS:
        total += held[reason]
        if total > budget:
            return reason
    return REST


def _part(kind: Kind, *, newest: bool) -> str:
    if kind is Kind.SYSTEM:
        return FIXED
    if kind is Kind.USER:
        return USER
    return LATEST if newest else REST

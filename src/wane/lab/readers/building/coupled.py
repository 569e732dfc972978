"""Couples the parts of one recorded answer that a provider takes only together (R12)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wane.core import Kind
from wane.formats.base import Couplings, Part


def couple_signed(parts: Sequence[Part], signed: Collection[int]) -> list[Part]:
    """Return an answer with its signed thinking coupled, as Anthropic and Google require it.

    Calls need the thinking before them, and thinking needs an item after it, because no answer may end in thinking.

    Args:
        parts: the answer.
        signed: positions of the reasoning with a signature.
    """
    couplings = Couplings()
    for here, part in enumerate(parts):
        if here in signed and here + 1 < len(parts):
            later = range(here + 1, len(parts))
            # Text is evicted last.
            couplings.add(here, next((place for place in later if parts[place].kind is Kind.TEXT), here + 1))
        if part.kind is Kind.CALL:
            couplings.add(here, *(place for place in signed if place < here))
    return [couplings.apply(here, part) for here, part in enumerate(parts)]


def couple_items(parts: Sequence[Part]) -> list[Part]:
    """Return an answer of OpenAI's Responses, in which reasoning and the item after it need each other."""
    couplings = Couplings()
    for here, part in enumerate(parts[:-1]):
        if part.kind is Kind.REASONING:
            couplings.mutual(here, here + 1)
    return [couplings.apply(here, part) for here, part in enumerate(parts)]

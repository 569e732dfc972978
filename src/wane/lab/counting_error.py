"""How far the counts of a session are from what its provider reported."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from wane.core import Kind
from wane.lab.counting import Material, reported


def relative_errors(material: Material) -> list[float]:
    """Return, for each call whose input was reported, the relative error of the counted input.

    The counted input is the overhead and all items before the call, without reasoning that the provider dropped.
    After a compaction or eviction the items no longer are the agent's view. From there on the growth since the first
    request that followed is compared; that request has no error of its own and is left out.
    """
    session = material.session
    cuts = sorted(
        {compaction.position for compaction in session.compactions}
        | {eviction.position for eviction in session.evictions}
        | {start for start in session.starts if start}
    )
    held = _held(material)
    errors: list[float] = []
    stretch, base = 0, material.overhead
    for position, total in reported(session):
        if (now := bisect_right(cuts, position)) != stretch:
            stretch, base = now, total - held[position]
            continue
        errors.append(abs(base + held[position] - total) / total)
    return errors


def _held(material: Material) -> list[int]:
    """Return, by number of items, the tokens that a request holds if only cleared reasoning leaves it."""
    items, cleared = material.items, sorted(material.session.reasoning_cleared)
    grown = [0, *accumulate(item.tokens for item in items)]
    reasoned = [0, *accumulate(item.tokens if item.kind is Kind.REASONING else 0 for item in items)]
    gone = [0] * len(grown)
    for position in cleared:
        gone[position] = reasoned[position]
    return [whole - left for whole, left in zip(grown, accumulate(gone, max), strict=True)]

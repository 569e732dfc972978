"""Which parts of a message must stay together, while a format takes it apart (R12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wane.core import Kind
from wane.formats.base import Part


class Couplings:
    """Needs between the parts of one message."""

    __slots__ = ("_needs",)

    def __init__(self) -> None:
        self._needs: dict[int, set[int]] = {}

    def add(self, part: int, *needed: int) -> None:
        """Note that one part needs others, which may stay without it."""
        if needed:
            self._needs.setdefault(part, set()).update(needed)

    def mutual(self, one: int, other: int) -> None:
        """Note that two parts need each other."""
        self.add(one, other)
        self.add(other, one)

    def apply(self, number: int, part: Part) -> Part:
        """Return a part with its needs, as offsets."""
        needed = self._needs.get(number)
        if not needed:
            return part
        needs = tuple(sorted([other - number for other in needed]))
        # Spelled out: `replace` takes three times as long, and histories are taken apart on every request.
        return Part(
            part.kind, part.text, part.call_id, part.tool, part.arguments, needs, part.extra_tokens, part.system
        )


def couple_reasoning(parts: Sequence[Part], sealed: Mapping[int, bool]) -> list[Part]:
    """Return an answer's parts with what must stay together where a provider knows its own reasoning again.

    Such reasoning is refused without the item that follows it; the calls that follow are refused without it.

    Args:
        parts: the parts.
        sealed: such reasoning, by position; True where the item right behind it is refused without it, whatever it is.
    """
    if not sealed:
        return list(parts)
    couplings, last = Couplings(), -1
    for here, part in enumerate(parts):
        if part.kind is Kind.REASONING:
            last = here if here in sealed else -1
            if last >= 0 and here + 1 < len(parts):
                couplings.add(here, here + 1)
        elif last >= 0 and (part.kind is Kind.CALL or (sealed[last] and here == last + 1)):
            couplings.add(here, last)
    return [couplings.apply(here, part) for here, part in enumerate(parts)]

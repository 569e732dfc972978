"""Which parts of a message must stay together, while a format takes it apart (R12)."""

from __future__ import annotations

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

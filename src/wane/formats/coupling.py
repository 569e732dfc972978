"""Which parts of a message must stay together, while a format takes it apart (R12)."""

from __future__ import annotations

from dataclasses import replace

from wane.formats.base import Part


class Couplings:
    """Needs between the parts of one message.

    Args:
        size: number of its parts.
    """

    __slots__ = ("_needs",)

    def __init__(self, size: int) -> None:
        self._needs: list[set[int]] = [set() for _ in range(size)]

    def add(self, part: int, *needed: int) -> None:
        """Say that one part stays only together with others, which may stay without it."""
        self._needs[part].update(needed)

    def mutual(self, one: int, other: int) -> None:
        """Say that two parts stay or go together."""
        self.add(one, other)
        self.add(other, one)

    def apply(self, number: int, part: Part) -> Part:
        """Return a part with what it needs, as offsets."""
        needs = self._needs[number]
        return replace(part, needs=tuple(sorted(other - number for other in needs))) if needs else part

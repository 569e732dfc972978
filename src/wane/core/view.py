"""The visible items, and which of them must leave together (R12)."""

from __future__ import annotations

from collections.abc import Iterable

from wane.core.episodes import Episode


class View:
    """Indexes of the visible items with their tokens, in the history's order.

    Attributes:
        tokens: tokens by index; a dict, so that removal is O(1) and the order of insertion is the history's.
        held: items whose level was reached but which something visible still needs, with their episode.
        needs: by index, what must stay as long as this item does; only for coupled items.
    """

    __slots__ = ("_needers", "held", "needs", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}
        self.held: dict[int, Episode] = {}
        self.needs: dict[int, list[int]] = {}
        self._needers: dict[int, list[int]] = {}

    def couple(self, index: int, needed: Iterable[int]) -> None:
        """Say that one item needs others."""
        for target in needed:
            self.needs.setdefault(index, []).append(target)
            self._needers.setdefault(target, []).append(index)

    def pair(self, call: int, result: int) -> None:
        """A coupled call and its result leave together, or the view would hold one without the other."""
        if call in self.needs or call in self._needers:
            self.couple(call, [result])
            self.couple(result, [call])

    def take(self, candidates: list[int], episode: Episode) -> tuple[list[int], int]:
        """Remove the candidates, but for those that something visible needs, and what waited for them.

        Returns:
            The indexes removed, in the history's order, and the tokens that they held.
        """
        if not self.needs:
            return sorted(candidates), self._remove(candidates, episode)
        going = self._closure(candidates)
        owners = {index: self.held.pop(index, episode) for index in going}
        self.held.update((index, episode) for index in candidates if index not in going)
        freed = 0
        for index, owner in owners.items():
            freed += self._remove([index], owner)
            self._uncouple(index)
        return sorted(going), freed

    def _remove(self, indexes: Iterable[int], owner: Episode) -> int:
        freed = sum(map(self.tokens.pop, indexes))
        owner.tokens -= freed
        return freed

    def _closure(self, candidates: list[int]) -> set[int]:
        """The largest set of candidates and waiting items that nothing else visible needs."""
        going, frontier = set(candidates), list(candidates)
        while frontier:
            index = frontier.pop()
            for other in (*self.needs.get(index, ()), *self._needers.get(index, ())):
                if other in self.held and other not in going:
                    going.add(other)
                    frontier.append(other)
        kept = [index for index in going if not going.issuperset(self._needers.get(index, ()))]
        while kept:
            index = kept.pop()
            if index in going:
                going.remove(index)
                kept.extend(target for target in self.needs.get(index, ()) if target in going)
        return going

    def _uncouple(self, index: int) -> None:
        for target in self.needs.pop(index, ()):
            if target in self._needers:
                self._needers[target].remove(index)
        self._needers.pop(index, None)

"""The most that summaries without text could have held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from wane.lab.loss.index import Index
from wane.strategies.base import Substitute

CHARACTERS_PER_TOKEN = 4


class Summaries:
    """What calls needed while summaries of unknown text stood in their views.

    Args:
        index: the session.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        # Keyed by identity, as two summaries of unknown text and equal length are still two; kept, so that no
        # identity is used again.
        self._wanted: dict[tuple[int, ...], tuple[list[Substitute], Counter[int]]] = {}

    def want(self, summaries: Sequence[Substitute], words: Iterable[int]) -> None:
        """Note identifiers that a call used and that its view is not known to hold.

        Args:
            summaries: the summaries without text in its view.
            words: the identifiers.
        """
        key = tuple(map(id, summaries))
        self._wanted.setdefault(key, (list(summaries), Counter()))[1].update(words)

    def held_at_best(self) -> float:
        """Return the most uses that texts of these lengths could have served.

        An identifier takes its characters and one separator, at four characters per token. The last one that fits in
        part counts in part, which only raises the bound.
        """
        return sum(self._served(summaries, wanted) for summaries, wanted in self._wanted.values())

    def _served(self, summaries: Sequence[Substitute], wanted: Counter[int]) -> float:
        room = CHARACTERS_PER_TOKEN * sum(summary.tokens for summary in summaries)
        served = 0.0
        costs = {word: self._index.lengths[word] + 1 for word in wanted}
        for word in sorted(wanted, key=lambda word: (-wanted[word] / costs[word], word)):
            share = min(1.0, room / costs[word])
            served += share * wanted[word]
            room -= costs[word]
            if room <= 0:
                break
        return served

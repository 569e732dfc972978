"""Results that an agent would have to fetch again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from wane.lab.loss.figures import Reread
from wane.lab.loss.index import Index

NOTHING: Final = Reread()


class Rereading:
    """The fetches of one run.

    A fetch brings back one whole item: the latest result that held what is needed, or the latest read of a file. The
    copy stands at the end of the view at that call. It shares the fate of its companion, the first result recorded
    after it: once the strategy evicts or changes that one, the copy is gone too, and is fetched again when it is next
    needed.

    Args:
        index: the session.
        whole: by item, 1 if the current view holds it unchanged.
    """

    def __init__(self, index: Index, whole: bytearray) -> None:
        self._index = index
        self._whole = whole
        self._back: dict[int, int | None] = {}

    def fetch(self, before: int, reads: Sequence[int], missing: Sequence[tuple[int, int]]) -> Reread:
        """Fetch what one model call needs and neither the view nor an earlier fetch holds.

        Args:
            before: number of items before the call.
            reads: items that last showed a file that the call edits, and that are not in view.
            missing: identifiers that the view does not hold, each with the number of its postings before the call.
        """
        if not self._back and not reads and not missing:
            return NOTHING
        self._back = {
            item: companion
            for item, companion in self._back.items()
            if companion is None or companion >= before or self._whole[companion]
        }
        needed = list(dict.fromkeys(item for item in reads if item not in self._back))
        self._back.update(dict.fromkeys(needed, self._companion(before)))
        # Oldest first: an old result often holds what later results held too.
        for item, word, count in sorted((self._latest(word, count), word, count) for word, count in missing):
            if item >= 0 and self._back.keys().isdisjoint(self._index.postings[word][:count]):
                self._back[item] = self._companion(before)
                needed.append(item)
        return Reread(len(needed), sum(self._index.tokens[item] for item in needed))

    def _companion(self, before: int) -> int | None:
        results = self._index.results
        position = bisect_left(results, before)
        return results[position] if position < len(results) else None

    def _latest(self, word: int, count: int) -> int:
        """Return the latest result that held an identifier; -1 if none did and no fetch brings it back."""
        is_result = self._index.is_result
        return next((item for item in reversed(self._index.postings[word][:count]) if is_result[item]), -1)

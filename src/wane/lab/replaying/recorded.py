"""Rebuilds the requests of a recorded session: the view of each call."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence

from wane.core import EvictedIndex, Kind
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.strategies.strategy import Slot, Substitute


class RecordedViews:
    """The views of a session's calls, for which `of` is called in order.

    A view holds all that no pass has removed or, after a compaction, the summary and what was kept.
    """

    def __init__(self, session: RecordedSession, kinds: Sequence[Kind]) -> None:
        self._session = session
        self._kinds = kinds
        self._compactions = sorted(session.compactions, key=lambda compaction: compaction.position)
        self._positions = [compaction.position for compaction in self._compactions]
        self._evictions = deque(sorted(session.evictions, key=lambda eviction: eviction.position))
        self._left: list[int] = []  # the parts so far without those that a pass removed
        self._index: EvictedIndex | None = None  # that of the latest pass
        self._seen = 0
        # The number makes summaries differ that were not recorded.
        self._summaries = [
            Substitute(f"{number} {compaction.summary}", 0) for number, compaction in enumerate(self._compactions)
        ]

    def of(self, call: ModelCall) -> list[Slot]:
        """Return the view of a call; a compaction's summary has no tokens in it."""
        at = bisect_right(self._positions, call.first) - 1
        compaction = self._compactions[at] if at >= 0 else None
        self._left += range(self._seen, call.first)
        self._seen = call.first
        while self._evictions and self._evictions[0].position <= call.first:
            eviction = self._evictions.popleft()
            removed, self._index = set(eviction.removed), eviction.index
            self._left = [index for index in self._left if index not in removed]
        start = bisect_left(self._left, compaction.first_kept) if compaction else 0
        view: list[Slot] = [*self._left[start:]]
        if compaction is None:
            if (index := self._index) is not None:
                view.insert(bisect_left(self._left, index.before), Substitute(index.text, index.tokens))
            return view
        system = [index for index in range(compaction.first_kept) if self._kinds[index] is Kind.SYSTEM]
        # Codex repeats its developer messages after the summary.
        first = 1 if self._session.source == "codex" else len(system)
        return [*system[:first], self._summaries[at], *system[first:], *view]

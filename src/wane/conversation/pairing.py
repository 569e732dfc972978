"""The calls of a history that have no result yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wane.core import Kind
from wane.core.errors import HistoryError
from wane.formats.base import Part


class OpenCalls:
    """Calls without a result yet, by id. An id may be reused, even before its call is answered.

    Args:
        counts: number of open calls by id.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._counts

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def copy(self) -> OpenCalls:
        """Return an independent copy."""
        return OpenCalls(self._counts)

    def pair(self, parts: Iterable[Part]) -> None:
        """Take in calls and results, in their order.

        Raises:
            HistoryError: for a result that answers no open call.
        """
        for part in parts:
            if part.call_id is None:
                continue
            if part.kind is Kind.CALL:
                self._counts[part.call_id] = self._counts.get(part.call_id, 0) + 1
            elif part.kind is Kind.RESULT:
                self._close(part.call_id)

    def answering(self, parts: Sequence[Part]) -> list[int]:
        """Take in calls and results; return the positions of all parts except results that answer no open call."""
        kept = []
        for position, part in enumerate(parts):
            if part.kind is not Kind.RESULT or part.call_id in self._counts:
                self.pair([part])
                kept.append(position)
        return kept

    def _close(self, call_id: str) -> None:
        left = self._counts.get(call_id, 0)
        if not left:
            raise HistoryError(
                f"a result answers the call {call_id!r}, but no open call before it has that id: it is an orphan, or "
                "the call was answered already"
            )
        if left == 1:
            del self._counts[call_id]
        else:
            self._counts[call_id] = left - 1

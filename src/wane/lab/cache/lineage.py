"""Views that were sent, as branches that share prefixes, and the cache entries on them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from typing import Final

from wane.strategies.base import Slot

_CHUNK: Final = 1024
_KEPT: Final = 16
"""Branches kept besides the current one. A view that returns to an older branch finds its tail cold."""
_SWEEP: Final = 128


@dataclass(slots=True)
class CachedPrefix:
    """A cached prefix.

    Attributes:
        end: number of slots that it covers.
        expires: when it expires, in seconds.
    """

    end: int
    expires: float


@dataclass(slots=True, eq=False)
class Branch:
    """One view that was sent, and the entries that end on it.

    Only the current branch holds its whole view. Every other branch begins like the current view and holds only the
    rest, because views are long and mostly change near their end.

    Attributes:
        view: its slots from `start` on.
        sums: tokens of the request before each of these slots, and of all of it.
        entries: the cached prefixes that end on it, shortest first. An entry lies on one branch, even if others share
            its prefix.
        shared: number of leading slots that it shares with the view sent last; at least `start`.
        start: number of its leading slots that it does not hold.
    """

    view: list[Slot]
    sums: list[int]
    entries: list[CachedPrefix] = field(default_factory=list)
    shared: int = 0
    start: int = 0

    def cut(self, at: int) -> Branch:
        """Move the slots after the first `at`, with their entries, into a new branch, and return it."""
        offset, last = at - self.start, bisect_right(self.entries, at, key=_end)
        remainder = Branch(self.view[offset:], self.sums[offset:], self.entries[last:], at, at)
        del self.view[offset:], self.sums[offset + 1 :], self.entries[last:]
        return remainder

    def begin_at(self, start: int, current: Branch) -> None:
        """Take over slots from the current branch, which begins alike, to hold those from `start` on."""
        if start < self.start:
            self.view[:0] = current.view[start : self.start]
            self.sums[:0] = current.sums[start : self.start]
            self.start = start

    def extend(self, slots: Sequence[Slot], tokens_of: Sequence[int]) -> None:
        """Append slots and count their tokens: a substitute has its own, an item those at its index."""
        costs = [tokens_of[slot] if isinstance(slot, int) else slot.tokens for slot in slots]
        sums = accumulate(costs, initial=self.sums[-1])
        next(sums)
        self.view += slots
        self.sums += sums

    def alive(self, limit: int, now: float) -> Iterator[CachedPrefix]:
        """Yield the live entries that end at or before `limit`, longest first."""
        for at in range(bisect_right(self.entries, limit, key=_end) - 1, -1, -1):
            if self.entries[at].expires >= now:
                yield self.entries[at]

    def expiry(self, end: int) -> float:
        """Return when the entry that ends there expires; long ago if there is none."""
        at = bisect_right(self.entries, end, key=_end)
        return self.entries[at - 1].expires if at and self.entries[at - 1].end == end else float("-inf")

    def keep(self, end: int, expires: float) -> None:
        """Add an entry, or renew the one that ends there."""
        at = bisect_right(self.entries, end, key=_end)
        if at and self.entries[at - 1].end == end:
            self.entries[at - 1].expires = expires
        else:
            self.entries.insert(at, CachedPrefix(end, expires))


class Lineage:
    """The branches of a series of requests.

    Args:
        overhead: tokens ahead of every view.

    Attributes:
        current: the view sent last.
        others: earlier views that it does not begin with and whose tails may still be cached.
    """

    def __init__(self, overhead: int) -> None:
        self.current = Branch([], [overhead])
        self.others: list[Branch] = []
        self._sweep = _SWEEP

    def advance(self, slots: list[Slot], tokens_of: Sequence[int], now: float, same: int = 0) -> int:
        """Make a view the current one, and return how many leading slots it shares with the previous one.

        Args:
            slots: the view.
            tokens_of: tokens of the items, by index.
            now: the time, in seconds.
            same: leading slots that are known to be those of the previous view.
        """
        current = self.current
        head = common_prefix(slots, current.view, same)
        current.shared = head
        for branch in self.others:
            branch.begin_at(min(branch.start, head), current)
            # Both were compared with the current view. They can share more only if they leave it at the same slot.
            shared = min(branch.shared, head)
            if branch.shared == head:
                tail = branch.view[shared - branch.start :]
                shared += common_prefix(slots[shared : shared + len(tail)], tail)
            branch.shared = shared
        base = max([current, *self.others], key=lambda branch: branch.shared)
        if head < len(current.view):
            self.others.append(current.cut(head))
        if base is not current:
            # The view returns to an older branch: its slots and entries go on here.
            first, stop = head - base.start, base.shared - base.start
            current.view += base.view[first:stop]
            current.sums += base.sums[first + 1 : stop + 1]
            at = bisect_right(base.entries, base.shared, key=_end)
            for entry in base.entries[:at]:
                current.keep(entry.end, max(entry.expires, current.expiry(entry.end)))
            del base.entries[:at]
        current.extend(slots[len(current.view) :], tokens_of)
        self._forget(now)
        return head

    def alive(self, limit: int, now: float) -> Iterator[CachedPrefix]:
        """Yield the entries that are prefixes of the current view and end at or before `limit`, longest first."""
        chains = [self.current.alive(limit, now)]
        chains += [branch.alive(min(limit, branch.shared), now) for branch in self.others]
        return chains[0] if len(chains) == 1 else merge(*chains, key=_end, reverse=True)

    def _forget(self, now: float) -> None:
        current = self.current
        if len(current.entries) > self._sweep:
            current.entries = [entry for entry in current.entries if entry.expires >= now]
            self._sweep = 2 * len(current.entries) + _SWEEP
        if self.others:
            alive = [branch for branch in self.others if any(entry.expires >= now for entry in branch.entries)]
            self.others = alive[-_KEPT:]


def common_prefix(first: Sequence[Slot], second: Sequence[Slot], start: int = 0) -> int:
    """Return how many leading slots two views share, given that the first `start` are the same."""
    stop = min(len(first), len(second))
    size = _CHUNK
    while start < stop:
        end = min(start + size, stop)
        if first[start:end] == second[start:end]:
            start = end
        elif end - start == 1:
            break
        else:
            size = (end - start) // 2
    return start


def _end(entry: CachedPrefix) -> int:
    return entry.end

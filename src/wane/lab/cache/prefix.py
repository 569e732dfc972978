"""A provider's prefix cache, simulated: how many tokens a request reads from it, writes to it, and pays in full."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Final

from wane.caches import CacheRules
from wane.core import Kind
from wane.prices import CacheUse
from wane.strategies.strategy import Slot

_CHUNK: Final = 1024
_KEPT: Final = 16
"""Number of branches besides the current one; older branches are forgotten, with what is cached of them."""
_SWEEP: Final = 128


@dataclass(slots=True)
class CachedPrefix:
    """A cached prefix: the number of slots that it covers, and when it expires, in seconds."""

    end: int
    expires: float


@dataclass(slots=True, eq=False)
class Branch:
    """One view that was sent, and the entries that end on it.

    Only the current branch holds its whole view. All others begin like the current view and hold only what follows,
    because views are long and mostly change near their end.

    Attributes:
        view: its slots from `start` on.
        sums: tokens of the request before each of these slots, and those of the whole request.
        entries: the cached prefixes that end on it, shortest first. An entry is on one branch, even if others share
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
        """Copy slots from the current branch, which begins alike, to hold those from `start` on."""
        if start < self.start:
            self.view[:0] = current.view[start : self.start]
            self.sums[:0] = current.sums[start : self.start]
            self.start = start

    def extend(self, slots: Sequence[Slot], tokens_of: Sequence[int]) -> None:
        """Append slots and count their tokens: a substitute has its own, an item those at its index."""
        total = self.sums[-1]
        for slot in slots:
            total += tokens_of[slot] if isinstance(slot, int) else slot.tokens
            self.sums.append(total)
        self.view += slots

    def is_alive(self, now: float) -> bool:
        """Return whether any entry is live."""
        return any(entry.expires >= now for entry in self.entries)

    def alive(self, limit: int, now: float) -> Iterator[CachedPrefix]:
        """Yield the live entries that end at or before `limit`, longest first."""
        for at in range(bisect_right(self.entries, limit, key=_end) - 1, -1, -1):
            if self.entries[at].expires >= now:
                yield self.entries[at]

    def keep(self, end: int, expires: float) -> None:
        """Add an entry that ends at a slot, or renew the one that there is."""
        at = bisect_right(self.entries, end, key=_end)
        if at and self.entries[at - 1].end == end:
            self.entries[at - 1].expires = max(self.entries[at - 1].expires, expires)
        else:
            self.entries.insert(at, CachedPrefix(end, expires))


class Lineage:
    """The branches of a series of requests, with an overhead of tokens ahead of every view.

    Attributes:
        current: the view sent last.
        others: earlier views, with tails that are not in the current one and may still be cached.
    """

    def __init__(self, overhead: int) -> None:
        self.current = Branch([], [overhead])
        self.others: list[Branch] = []
        self._sweep = _SWEEP

    def advance(self, slots: list[Slot], tokens_of: Sequence[int], now: float, same: int = 0) -> int:
        """Make a view the current one, and return how many leading slots it shares with the previous one.

        The first `same` slots are known to be shared.
        """
        current = self.current
        head = common_prefix(slots, current.view, same)
        current.shared = head
        for branch in self.others:
            branch.begin_at(min(branch.start, head), current)
            # It was compared with the current view before. It can share more only if both leave that at the same slot.
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
                current.keep(entry.end, entry.expires)
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
            self.others = [branch for branch in self.others if branch.is_alive(now)][-_KEPT:]


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


class PrefixCache:
    """Simulates the provider's cache over the requests of one session, in order.

    If the provider has breakpoints, one is set after the system prompt and one at the end of the view, as agents do,
    and one behind the head of the view where `wane proxy` sets it.

    Args:
        rules: the provider's rules.
        overhead: tokens ahead of every view that never change: system prompt, tool definitions.
        kinds: kinds of the items, by index; may grow while the cache is in use. Without them the lookback counts
            every slot as a position.
        system: slots at the head of every view that belong to the system prompt, unless the overhead holds it.

    Attributes:
        prefix_breaks: how many requests, without those made `aside`, did not begin with the whole previous view.
    """

    def __init__(self, rules: CacheRules, overhead: int = 0, *, kinds: Sequence[Kind] = (), system: int = 0) -> None:
        self.rules = rules
        self.prefix_breaks = 0
        self._kinds = kinds
        self._system = system
        self._lineage = Lineage(overhead)
        self._now = 0.0
        self._main_size = 0
        self._main_view: list[Slot] | None = None  # of the session's last request, if the last one was aside

    def request(
        self,
        view: Sequence[Slot],
        tokens_of: Sequence[int],
        at: float | None = None,
        *,
        aside: bool = False,
        same: int = 0,
        head: int = 0,
    ) -> CacheUse:
        """Make a request, and return the tokens that it reads and writes.

        Args:
            view: its slots.
            tokens_of: tokens of the items, by index; may hold more than the view shows.
            at: when, in seconds; None if unknown, which takes no time.
            aside: whether the strategy makes the call, for a summary for example. It uses the cache and renews its
                entries, but does not count as a request of the session.
            same: leading slots that are known to be those of the session's last request.
            head: leading slots behind which Wane sets a breakpoint, if it does for this provider; 0 for none.
        """
        slots = view if isinstance(view, list) else list(view)
        self._now = max(self._now, at or 0.0)
        if aside and self._main_view is None:
            self._main_view = list(self._lineage.current.view)
        shared = self._lineage.advance(slots, tokens_of, self._now, same if self._main_view is None else 0)
        if not aside:
            if self._main_view is not None:
                shared = common_prefix(slots, self._main_view, same)
            self.prefix_breaks += shared < self._main_size
            self._main_view, self._main_size = None, len(slots)
        return self._with_breakpoints(head) if self.rules.breakpoints else self._automatic()

    def _automatic(self) -> CacheUse:
        """Without breakpoints: read the longest prefix that an earlier request sent."""
        rules, current, now = self.rules, self._lineage.current, self._now
        current.shared = len(current.view)
        covered = -1  # slots
        for branch in (current, *self._lineage.others):
            for entry in branch.entries:
                if entry.expires >= now:
                    covered = max(covered, min(entry.end, branch.shared))
        same = current.sums[covered] if covered >= 0 else 0
        read = (same + rules.hidden) // rules.grid * rules.grid - rules.hidden
        # The whole prefix is cached from now on; entries that cover less of it add nothing.
        current.entries = [CachedPrefix(len(current.view), now + rules.lifetime)]
        return self._use(read if read >= rules.minimum else 0, current.sums[-1])

    def _with_breakpoints(self, head: int) -> CacheUse:
        """With breakpoints: read the longest entry that the lookback from a breakpoint finds."""
        current, expires = self._lineage.current, self._now + self.rules.lifetime
        last = len(current.sums) - 1
        # A prefix that is too short is not cached.
        places = {min(self._system, last), last}
        if self.rules.marks_head and head > self._system:
            places.add(min(head, last))
        marks = [mark for mark in sorted(places) if current.sums[mark] >= self.rules.minimum]
        if not marks:
            return self._use(0, 0)
        hits = [hit for hit in map(self._look_back, marks) if hit]
        longest = max(hits, key=_end, default=None)
        if longest:
            longest.expires = expires
        for mark in marks:
            current.keep(mark, expires)
        return self._use(current.sums[longest.end] if longest else 0, current.sums[marks[-1]])

    def _use(self, read: int, cached: int) -> CacheUse:
        total = self._lineage.current.sums[-1]
        written = cached - read if self.rules.charges_writes else 0
        return CacheUse(read, written, total - read - written)

    def _look_back(self, mark: int) -> CachedPrefix | None:
        """Return the longest entry that the lookback of a breakpoint reaches."""
        rules = self.rules
        checked: list[int] = []
        for entry in self._lineage.alive(mark, self._now):
            # A position holds at least one slot, so most entries are found here.
            if entry.end == mark or (rules.step != "turn" and mark - entry.end < rules.lookback):
                return entry
            checked = checked or [mark, *islice(self._back_from(mark), rules.lookback - 1)]
            if entry.end < checked[-1]:
                return None
            if rules.step != "turn" or entry.end in checked:
                return entry
        return None

    def _back_from(self, position: int) -> Iterator[int]:
        """Yield the positions before one, towards the head."""
        step = self.rules.step if self._kinds else "block"
        while position > 0:
            position -= 1
            if step == "run":
                while position > 0 and self._same_run(position):
                    position -= 1
            elif step == "turn":
                while position > 0 and not self._ends_turn(position):
                    position -= 1
            yield position

    def _same_run(self, position: int) -> bool:
        kind = self._kind(position)
        return kind in (Kind.CALL, Kind.RESULT) and kind is self._kind(position - 1)

    def _ends_turn(self, position: int) -> bool:
        kind = self._kind(position - 1)
        return kind in (Kind.USER, Kind.NOTICE) or (kind is Kind.RESULT and self._kind(position) is not Kind.RESULT)

    def _kind(self, position: int) -> Kind:
        slot = self._lineage.current.view[position]
        index = slot if isinstance(slot, int) else slot.index
        return Kind.USER if index is None else self._kinds[index]

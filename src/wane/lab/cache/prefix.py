"""A provider's prefix cache, simulated over a series of requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from wane.caches import CacheRules
from wane.core import Kind
from wane.lab.cache.lineage import CachedPrefix, Lineage, common_prefix
from wane.prices import CacheUse
from wane.strategies.base import Slot


class PrefixCache:
    """Simulates the provider's cache over the requests of one session, in order.

    If the provider has breakpoints, one stands behind the system prompt and one at the end of the view, as agents
    set them.

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
    ) -> CacheUse:
        """Make a request, and return the tokens that it reads and writes.

        Args:
            view: its slots.
            tokens_of: tokens of the items, by index; may hold more than the view shows.
            at: when, in seconds; None if unknown, which takes no time.
            aside: whether the strategy makes the call, for a summary for example. It uses the cache and renews its
                entries, but does not count as a request of the session.
            same: leading slots that are known to be those of the session's last request.
        """
        slots = view if isinstance(view, list) else list(view)
        self._now = max(self._now, at or 0.0)
        if aside and self._main_view is None:
            self._main_view = list(self._lineage.current.view)
        head = self._lineage.advance(slots, tokens_of, self._now, same if self._main_view is None else 0)
        if not aside:
            shared = head if self._main_view is None else common_prefix(slots, self._main_view, same)
            self.prefix_breaks += shared < self._main_size
            self._main_view, self._main_size = None, len(slots)
        return self._with_breakpoints() if self.rules.breakpoints else self._automatic()

    def _automatic(self) -> CacheUse:
        """Without breakpoints: read the longest prefix that an earlier request sent."""
        rules, current, now = self.rules, self._lineage.current, self._now
        alive = [current, *self._lineage.others]
        current.shared = len(current.view)
        covered = [
            min(entry.end, branch.shared) for branch in alive for entry in branch.entries if entry.expires >= now
        ]
        same = current.sums[max(covered)] if covered else 0
        read = (same + rules.hidden) // rules.grid * rules.grid - rules.hidden
        # The whole prefix is cached from now on; entries that cover less of it add nothing.
        current.entries = [CachedPrefix(len(current.view), now + rules.lifetime)]
        return self._use(read if read >= rules.minimum else 0, current.sums[-1])

    def _with_breakpoints(self) -> CacheUse:
        """With breakpoints: read the longest entry that the lookback from a breakpoint finds."""
        current, expires = self._lineage.current, self._now + self.rules.lifetime
        marks = self._marks()
        hits = [hit for mark in marks if (hit := self._look_back(mark))]
        hit = max(hits, key=lambda entry: entry.end, default=None)
        if hit:
            hit.expires = expires
        for mark in marks:
            current.keep(mark, expires)
        return self._use(current.sums[hit.end] if hit else 0, current.sums[marks[-1]] if marks else 0)

    def _use(self, read: int, cached: int) -> CacheUse:
        total = self._lineage.current.sums[-1]
        written = cached - read if self.rules.charges_writes else 0
        return CacheUse(read, written, total - read - written)

    def _marks(self) -> list[int]:
        """Return the breakpoints, ascending, without those whose prefix is too short to be cached."""
        sums = self._lineage.current.sums
        last = len(sums) - 1
        marks = sorted({min(self._system, last), last})
        return [mark for mark in marks if sums[mark] >= self.rules.minimum]

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
        """Return the kind of the slot behind a position."""
        slot = self._lineage.current.view[position]
        index = slot if isinstance(slot, int) else slot.index
        return Kind.USER if index is None else self._kinds[index]

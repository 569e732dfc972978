"""How much a better order could gain: a policy that knows what every later call will need.

At each pass of the policy that it is compared with, it evicts down to the same size, but reads the rest of the
recording to choose the items. So passes, mean view and cost are the policy's own, and only the order differs. Needs are
those that `wane.lab.loss` counts: an identifier that a call uses, and the read on which an edit rests.

It may evict what the policy might: items of settled episodes (R6), and of others those that the policy itself has
evicted (R16). System items, the user's turns and the latest assistant message with its results stay. A call leaves with
its result; other couplings (R12) are ignored, which makes the bound a little looser.

Nobody knows the best order: choosing it means packing a knapsack whose things share their worth. So these figures show
what some order reaches, not a limit. `Bound` has the orders.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from frame import OwnJob
from wane.core import Added, Item
from wane.formats.message_format import Part
from wane.lab.loss.need_index import NONE, Index
from wane.lab.replaying.strategy_replay import Subject
from wane.strategies.strategy import Fitted, Strategy, StrategySettings
from wane.strategies.window_strategy import WindowStrategy

Grain = Literal["episode", "call"]
Rank = Literal["latest", "fewest", "oldest"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A clairvoyant order."""

    grain: Grain  # what is ranked: single calls, or whole episodes, of which the last one leaves only as far as needed
    # What leaves first: `latest` what is needed last or never again; `fewest` what serves the fewest later needs per
    # token; `oldest` what is oldest, without knowing the future, to show the effect of the grain
    rank: Rank


@dataclass(frozen=True, slots=True)
class BoundJob(OwnJob):
    """A replay of `Bound` in place of the policy."""

    bound: Bound = Bound("call", "latest")

    def start(self, subject: Subject, settings: StrategySettings) -> Strategy:
        return Clairvoyant(subject, settings, self.bound)


class Future:
    """What is needed of a session's items, and when."""

    def __init__(self, index: Index) -> None:
        self._postings = index.postings
        # By item, the identifiers in it that some later call may use
        self.words: list[list[int]] = [[] for _ in index.partner]
        for word, posting in enumerate(index.postings):
            for item in posting:
                self.words[item].append(word)
        self._uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._edits: dict[int, list[int]] = defaultdict(list)
        for call in range(len(index.session.calls)):
            for word, count in index.uses(call):
                self._uses[word].append((call, count))
            for item in index.needed_reads[call]:
                self._edits[item].append(call)

    def use(self, word: int, call: int, before: int) -> float:
        """Return the next call that takes an identifier from items before `before`, and not from newer ones."""
        uses = self._uses.get(word, ())
        position = bisect_left(uses, (call, 0))
        if position == len(uses):
            return inf
        user, count = uses[position]
        return user if count <= bisect_left(self._postings[word], before) else inf

    def edit(self, item: int, call: int) -> float:
        """Return the next call with an edit that rests on a read."""
        edits = self._edits.get(item, ())
        position = bisect_left(edits, call)
        return edits[position] if position < len(edits) else inf


class Clairvoyant(Strategy):
    """Evicts when the default does, to the size that it does, in an order that knows the future."""

    name = "clairvoyant"

    def __init__(self, subject: Subject, settings: StrategySettings, bound: Bound) -> None:
        self._followed = WindowStrategy("cwl", settings, settings.policy)
        self._bound = bound
        self._future = Future(subject.index)
        self._partner = subject.index.partner
        self._tokens = [item.tokens for item in subject.material.items]
        self._added: list[Added] = []
        self._view: list[int] = []
        self._holders: Counter[int] = Counter()  # by identifier, the number of items in view that hold it
        self._call = 0

    def add(self, item: Item, part: Part) -> Added:
        added = self._followed.add(item, part)
        self._added.append(added)
        self._view.append(added.index)
        self._holders.update(self._future.words[added.index])
        return added

    def fit(self, *, cold: bool = False) -> Fitted:
        """Evict as much as the policy has evicted just now."""
        followed = self._followed.fit(cold=cold)
        if followed.ran:
            kept = {slot for slot in followed.view if isinstance(slot, int)}
            gone = self._choose_items(sum(self._tokens[item] for item in kept), kept)
            self._view = [item for item in self._view if item not in gone]
        self._call += 1
        return Fitted(self._view, followed.ran)

    def _choose_items(self, size: int, kept: set[int]) -> set[int]:
        """Choose items to evict until the view holds `size` tokens."""
        held = sum(self._tokens[item] for item in self._view)
        order: list[tuple[int, ...]] = []
        heap = [(self._rank(sum(group, ())), number, group) for number, group in enumerate(self._groups(kept))]
        heapq.heapify(heap)
        while held > size and heap:
            rank, number, group = heapq.heappop(heap)
            # Since it was ranked, other holders of its identifiers may have left. That only raises its worth.
            now = self._rank(sum(group, ()))
            if now > rank:
                heapq.heappush(heap, (now, number, group))
                continue
            for unit in sorted(group, key=self._rank):
                if held > size:
                    held -= self._weight(unit)
                    order.append(unit)
                    self._holders.subtract(word for item in unit for word in self._future.words[item])
        # The last unit may have freed too much, so that there is room again for earlier ones.
        gone = set(order)
        for unit in reversed(order):
            if held + self._weight(unit) <= size:
                held += self._weight(unit)
                gone.remove(unit)
                self._holders.update(word for item in unit for word in self._future.words[item])
        return {item for unit in gone for item in unit}

    def _groups(self, kept: set[int]) -> Iterable[list[tuple[int, ...]]]:
        """Return what may be evicted, grouped by what is ranked together."""
        groups: dict[int, list[tuple[int, ...]]] = {}
        for item in self._view:
            other = self._partner[item]
            unit = (item,) if other == NONE else (item, other)
            if item <= unit[-1] < len(self._added) and all(self._may_leave(member, kept) for member in unit):
                episode = self._added[item].episode
                key = item
                if self._bound.grain == "episode" and episode is not None:
                    key = episode.number
                groups.setdefault(key, []).append(unit)
        return groups.values()

    def _may_leave(self, item: int, kept: set[int]) -> bool:
        episode = self._added[item].episode
        return episode is not None and (episode.settled or item not in kept)

    def _rank(self, items: Sequence[int]) -> float:
        """Return the rank of some items; the least leaves first."""
        if self._bound.rank == "oldest":
            return items[0]
        own: Counter[int] = Counter()
        for item in items:
            own.update(self._future.words[item])
        needs = [self._future.edit(item, self._call) for item in items]
        for word, held in own.items():
            if self._holders[word] == held:
                needs.append(self._future.use(word, self._call, len(self._added)))
        if self._bound.rank == "latest":
            return -min(needs)
        return sum(need < inf for need in needs) / max(1, self._weight(items))

    def _weight(self, items: Iterable[int]) -> int:
        return sum(self._tokens[item] for item in items)

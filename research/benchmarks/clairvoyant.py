"""How much an order could win: a policy that knows what every later call will need.

At each pass of the policy that it is measured against, it brings the view down to the size that the policy brought it
to, and to choose what goes it reads the rest of the recording. So passes, mean view and cost are the policy's own, and
what differs is the order. What counts as a need is what `wane.lab.loss` counts: an identifier that a call uses, and the
read that an edit rests on.

It may take what the policy might take: what belongs to settled episodes (R6), and of others what the policy itself has
taken (R16). System items, the user's turns and the latest assistant message with its results stay. A call goes with its
result; other couplings (R12) are not kept, which makes the bound a little looser.

Nobody knows the best order: to choose well is to pack a knapsack whose things share their worth. So this is what some
order reaches, not what none can pass. `Bound` says which there are.
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
from wane.formats.base import Part
from wane.lab.loss.index import NONE, Index
from wane.lab.replaying.replay import Subject
from wane.strategies.base import Fitted, Settings, Strategy
from wane.strategies.window import WindowStrategy

Grain = Literal["episode", "call"]
Rank = Literal["latest", "fewest", "oldest"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Which of the clairvoyant orders."""

    grain: Grain  # what is ranked: whole episodes, the last of which goes only as far as needed, or single calls
    # What goes first: `latest` what is needed last or never again; `fewest` what serves the fewest later needs a token;
    # `oldest` what is oldest, without a look into the future, to tell what the grain does
    rank: Rank


@dataclass(frozen=True, slots=True)
class BoundJob(OwnJob):
    """A replay of `Bound` in the place of the policy."""

    bound: Bound = Bound("call", "latest")  # which one

    def start(self, subject: Subject, settings: Settings) -> Strategy:
        return Clairvoyant(subject, settings, self.bound)


class Future:
    """What is needed of a session's items, and when.

    `index`: the session.
    """

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
        """The next call that has an identifier from what stands ahead of a call, and not from anything newer."""
        uses = self._uses.get(word, ())
        place = bisect_left(uses, (call, 0))
        if place == len(uses):
            return inf
        user, count = uses[place]
        return user if count <= bisect_left(self._postings[word], before) else inf

    def edit(self, item: int, call: int) -> float:
        """The next call with an edit that rests on a read."""
        edits = self._edits.get(item, ())
        place = bisect_left(edits, call)
        return edits[place] if place < len(edits) else inf


class Clairvoyant(Strategy):
    """Evicts when the default does, down to where it does, in an order that knows the future.

    Args:
        subject: the session.
        settings: budget, overhead, and the policy whose passes it shares.
        bound: its order.
    """

    name = "clairvoyant"

    def __init__(self, subject: Subject, settings: Settings, bound: Bound) -> None:
        self._followed = WindowStrategy("cwl", settings, settings.policy)
        self._bound = bound
        self._future = Future(subject.index)
        self._partner = subject.index.partner
        self._tokens = [item.tokens for item in subject.material.items]
        self._added: list[Added] = []
        self._view: list[int] = []
        # By identifier, how many items of the view hold it.
        self._holders: Counter[int] = Counter()
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
            gone = self._evicted(sum(self._tokens[item] for item in kept), kept)
            self._view = [item for item in self._view if item not in gone]
        self._call += 1
        return Fitted(self._view, followed.ran)

    def _evicted(self, size: int, kept: set[int]) -> set[int]:
        """Choose items to go until the view holds so many tokens."""
        held = sum(self._tokens[item] for item in self._view)
        order: list[tuple[int, ...]] = []
        heap = [(self._rank(sum(group, ())), place, group) for place, group in enumerate(self._groups(kept))]
        heapq.heapify(heap)
        while held > size and heap:
            rank, place, group = heapq.heappop(heap)
            # What others held too may be held by this alone by now, which makes it worth more, never less.
            now = self._rank(sum(group, ()))
            if now > rank:
                heapq.heappush(heap, (now, place, group))
                continue
            for unit in sorted(group, key=self._rank):
                if held > size:
                    held -= self._weight(unit)
                    order.append(unit)
                    self._holders.subtract(word for item in unit for word in self._future.words[item])
        # The last unit was larger than what was over, so that there may be room again for some that went before.
        gone = set(order)
        for unit in reversed(order):
            if held + self._weight(unit) <= size:
                held += self._weight(unit)
                gone.remove(unit)
                self._holders.update(word for item in unit for word in self._future.words[item])
        return {item for unit in gone for item in unit}

    def _groups(self, kept: set[int]) -> Iterable[list[tuple[int, ...]]]:
        """What may go, by what is ranked together."""
        groups: dict[int, list[tuple[int, ...]]] = {}
        for item in self._view:
            other = self._partner[item]
            unit = (item,) if other == NONE else (item, other)
            if item <= unit[-1] < len(self._added) and all(self._may_go(it, kept) for it in unit):
                episode = self._added[item].episode
                number = item if self._bound.grain == "call" or episode is None else episode.number
                groups.setdefault(number, []).append(unit)
        return groups.values()

    def _may_go(self, item: int, kept: set[int]) -> bool:
        episode = self._added[item].episode
        return episode is not None and (episode.settled or item not in kept)

    def _rank(self, items: Sequence[int]) -> float:
        """What is least goes first."""
        if self._bound.rank == "oldest":
            return items[0]
        own = Counter(word for item in items for word in self._future.words[item])
        before = len(self._added)
        needs = [self._future.edit(item, self._call) for item in items]
        needs += [
            self._future.use(word, self._call, before) for word, held in own.items() if self._holders[word] == held
        ]
        if self._bound.rank == "latest":
            return -min(needs)
        return sum(need < inf for need in needs) / max(1, self._weight(items))

    def _weight(self, items: Iterable[int]) -> int:
        return sum(self._tokens[item] for item in items)

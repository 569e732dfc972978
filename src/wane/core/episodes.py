"""Episodes and the graph that they form (paper, section 4.3).

Vertices are episodes; an edge says that an act declared a dependency on an exploration. Three
invariants hold by construction: a dependency names a *closed* exploration, so there are no cycles;
edges go from exploration to act only; system and user turns are not in the graph. The graph is
append-only, except that an episode that was evicted whole is dropped (section 5). What is kept of it: its name
(R3), its place in the history (for recall), and its closing pair as long as that is in view. Tasks (R17) form a forest
above the episodes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Final

from wane.core.policy import Policy


class EpisodeType(StrEnum):
    """Whether an episode explores or acts.

    A `TASK` groups episodes and other tasks (R17). It is kept like an episode that holds nothing but its own two calls.
    """

    EXPL = "expl"
    ACT = "act"
    TASK = "task"


class Level(StrEnum):
    """How far an episode has been stripped (R9).

    `DESCRIPTION` means that its closing pair went too (R11). No episode reaches `OVERFLOW`: a step at this level
    took single exchanges of an unfinished episode, or of one that such an episode needs (R16).
    """

    NONE = "none"
    REASONING = "reasoning"
    BULK = "bulk"
    ARTIFACT = "artifact"
    REMOVE = "remove"
    DESCRIPTION = "description"
    OVERFLOW = "overflow"

    @property
    def rank(self) -> int:
        """Position in the order of aggressiveness, 0 for `NONE`."""
        return _RANK[self]


LEVELS: Final = tuple(Level)
_RANK: Final = {level: rank for rank, level in enumerate(LEVELS)}
REMOVE_RANK: Final = _RANK[Level.REMOVE]


@dataclass(slots=True, eq=False, repr=False)
class Episode:
    """One stretch of work: from an accepted start to its end, or unannotated work between episodes (R5).

    Treat it as read-only: the window keeps it up to date.

    Attributes:
        number: its place in the order of starts, from 0, over all episodes of the session.
        name: as the agent named it; None for an implicit episode.
        type: exploratory or acting, or a task; implicit ones are exploratory.
        task: the task that it belongs to, the innermost that was open when it started; None if there was none.
        depth: number of tasks around it.
        inferred: whether it was inferred and not marked by the agent; see `wane.core.marks`.
        host: whether the program around the model marked it (R18).
        prologue: whether it is implicit and began ahead of the first accepted start (R2).
        closed: whether it has ended.
        settled: whether it may be evicted (R6).
        latest: index of the first item of the latest assistant message that has a part in it; -1 if there is none.
        dependencies: names of the explorations that an act declared.
        description: what an exploration learned, or what came of a task, once it has ended.
        given_up: of a task, whether its end said that it was abandoned.
        tokens: its tokens in view, by the counter.
        size: tokens of all that has ever entered it, by the counter (R5).
        used: number of the latest episode that used it: itself, or an act that declares it.
        dependents: number of acts that declare it and are not removed, those of abandoned tasks aside (R7).
        inside: of a task, number of its episodes and tasks that are not removed.
        described: of a task, those of its explorations and tasks that are removed except for their closing pair.
        spans: its members' indexes in the history, as half-open ranges `[first, stop]`.
    """

    number: int
    name: str | None = None
    type: EpisodeType = EpisodeType.EXPL
    dependencies: tuple[str, ...] = ()
    task: Episode | None = None
    depth: int = 0
    given_up: bool = False
    inferred: bool = False
    host: bool = False
    prologue: bool = False
    description: str | None = None
    closed: bool = False
    settled: bool = False
    tokens: int = 0
    size: int = 0
    used: int = -1
    dependents: int = 0
    inside: int = 0
    described: list[Episode] = field(default_factory=list)
    latest: int = -1
    rank: int = 0
    open_calls: int = 0
    queued: bool = False
    spans: list[list[int]] = field(default_factory=list)
    # Visible items by the rank of the level that takes them.
    buckets: dict[int, list[int]] = field(default_factory=dict)
    # What overflow may take one by one (R16 b, c, d), with the item that leaves along: calls map to their results (None
    # until there is one), all else to itself. `loose` is empty once the episode has settled.
    loose: dict[int, int | None] = field(default_factory=dict)
    durable: dict[int, int | None] = field(default_factory=dict)
    texts: dict[int, int | None] = field(default_factory=dict)

    @property
    def implicit(self) -> bool:
        """Whether it holds unannotated work (R5)."""
        return self.name is None

    @property
    def marked(self) -> bool:
        """Whether the agent marked it."""
        return not (self.implicit or self.inferred or self.host)

    @property
    def level(self) -> Level:
        """The last level that it reached."""
        return LEVELS[self.rank]

    @property
    def stage(self) -> int:
        """Rank before that of the next level: an act skips the level of reasoning (R9)."""
        return max(self.rank, _RANK[Level.REASONING]) if self.type is EpisodeType.ACT else self.rank

    @property
    def removed(self) -> bool:
        """Whether all of it is gone, except for the closing pair of an annotated exploration."""
        return self.rank >= REMOVE_RANK

    @property
    def last(self) -> int:
        """Index of its latest member."""
        return self.spans[-1][1] - 1

    @property
    def complete(self) -> bool:
        """Closed, with a result for each of its calls."""
        return self.closed and not self.open_calls

    @property
    def is_task(self) -> bool:
        """Whether it is a task, which groups episodes (R17)."""
        return self.type is EpisodeType.TASK

    @property
    def abandoned(self) -> bool:
        """Whether it is a task that was given up, or in one (R17 a)."""
        return any(task.given_up for task in self.lineage())

    def lineage(self) -> Iterator[Episode]:
        """Yield it and the tasks that it is in, the innermost first."""
        episode: Episode | None = self
        while episode is not None:
            yield episode
            episode = episode.task

    @property
    def empty(self) -> bool:
        """Whether it is a task of which nothing is left but closing pairs that no act needs (R17 b)."""
        return self.is_task and self.settled and not self.inside and not any(e.dependents for e in self.described)

    def protected(self, latest: int) -> int:
        """Index from which on its items stay: while it is open, its own latest message may be an earlier one (R18).

        Args:
            latest: index of the first item of the latest assistant message.
        """
        return latest if self.closed or self.latest < 0 else min(latest, self.latest)

    def enter(self, index: int, tokens: int, rank: int) -> None:
        """Take an item in as a member."""
        self.tokens += tokens
        self.size += tokens
        self.buckets.setdefault(rank, []).append(index)
        if self.spans and self.spans[-1][1] == index:
            self.spans[-1][1] = index + 1
        else:
            self.spans.append([index, index + 1])

    def close(self, index: int) -> None:
        """Make a visible member the one that stays when the rest leaves, because it holds the description (R18).

        The call of a result stays with it.
        """
        calls = [call for ends in (self.loose, self.durable) for call, end in ends.items() if end == index]
        pair = sorted({index, *calls})
        for bucket in self.buckets.values():
            bucket[:] = [member for member in bucket if member not in pair]
        for ends in (self.loose, self.durable, self.texts):
            for member in pair:
                ends.pop(member, None)
        self.buckets[_RANK[Level.DESCRIPTION]] = pair

    def admit(self, index: int, tokens: int) -> None:
        """Take in an earlier item that is a member only now, and counts for no size (R15)."""
        self.tokens += tokens
        insort(self.spans, [index, index + 1])

    def owns(self, index: int) -> bool:
        """Whether an item is a member, evicted or not."""
        position = bisect_right(self.spans, index, key=itemgetter(0)) - 1
        return position >= 0 and index < self.spans[position][1]

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        kind = f"{self.type.value} {state}, {self.level.value}"
        return f"<Episode {self.number} {self.name!r} {kind}, {self.tokens} tokens>"


@dataclass(slots=True)
class OpenCall:
    """A call without a result yet: its episode, the rank of the level that takes it, its index."""

    owner: Episode
    rank: int
    index: int


Key = tuple[int, ...]

ORDERS: Final[dict[str, Callable[[Episode], Key]]] = {
    "paper": lambda episode: (episode.type is EpisodeType.EXPL, episode.number),
    "last_use": lambda episode: (episode.used, episode.number),
}
"""Sort key of each order (R8). Keys are unique because they end in the number."""


class EpisodeGraph:
    """The live episodes, their edges and the queues from which the policy picks (R7, R8).

    Attributes:
        live: the episodes and tasks that are not removed, by number.
        tasks: the tasks among them.
        archive: spans of the members of removed episodes in the history, by name.
        described: removed explorations whose closing pair is in view, by name.
        unsettled: live episodes that are not settled, by number.
        started: how many episodes and tasks were ever started.
        latest: the one that was started last, or has taken in an item since, other than a late result; it is live (R6).
        waiting: complete episodes that settle with the next assistant message.
        message: index of the latest assistant message's first item; -1 if there is none.
    """

    def __init__(self) -> None:
        self.live: dict[int, Episode] = {}
        self.tasks: dict[int, Episode] = {}
        self.latest: Episode | None = None
        self.archive: dict[str, tuple[tuple[int, int], ...]] = {}
        self.described: dict[str, Episode] = {}
        self.unsettled: dict[int, Episode] = {}
        self.started = 0
        self._by_name: dict[str, Episode] = {}
        self.waiting: list[Episode] = []
        self.message = -1
        self._queue: list[tuple[Key, Episode]] = []
        self._order: Callable[[Episode], Key] = ORDERS["paper"]
        self._whole = False

    def start(
        self,
        name: str | None = None,
        type_: EpisodeType = EpisodeType.EXPL,
        dependencies: Iterable[str] = (),
        task: Episode | None = None,
    ) -> Episode:
        """Open an episode or a task. If a dependency is already removed, this protects its closing pair (R11)."""
        episode = Episode(self.started, name, type_, tuple(dependencies), task, used=self.started)
        self.started += 1
        self.latest = episode
        if task is not None:
            task.inside += 1
            episode.depth = task.depth + 1
        self.insert(episode)
        for target in self.declared(episode):
            target.dependents += 1
            target.used = episode.number
        return episode

    def insert(self, episode: Episode) -> None:
        """Add an episode to the live ones."""
        self.live[episode.number] = episode
        if episode.is_task:
            self.tasks[episode.number] = episode
        if episode.name is not None:
            self._by_name[episode.name] = episode
        if not episode.settled:
            self.unsettled[episode.number] = episode

    def targets(self, episode: Episode) -> Iterator[Episode]:
        """The live explorations that an act depends on, unless its task was abandoned (R17 a)."""
        names = () if episode.abandoned else episode.dependencies
        return (self._by_name[name] for name in names if name in self._by_name)

    def completed(self, episode: Episode) -> None:
        """Note that an episode is complete: it settles once an assistant message stands after it (R6)."""
        if episode.last < self.message:
            self._settle(episode)
        else:
            self.waiting.append(episode)

    def message_started(self, index: int) -> None:
        """Note that an assistant message begins at an item: the model has seen all that was complete before it."""
        self.message = index
        for episode in self.waiting:
            self._settle(episode)
        self.waiting.clear()

    def needed(self) -> dict[int, Episode]:
        """The settled explorations that an unsettled act declares, by number."""
        targets = (target for episode in self.unsettled.values() for target in self.targets(episode))
        return {target.number: target for target in targets if target.settled}

    def arrange(self, policy: Policy) -> None:
        """Set the order of `pick`, and what it skips. The queue is rebuilt only if these change."""
        order, prologue_stays = ORDERS[policy.order], policy.prologue == "whole"
        if order is not self._order or prologue_stays != self._whole:
            self._order, self._whole = order, prologue_stays
            self._requeue()

    def abandon(self, task: Episode) -> None:
        """Put the episodes of a task ahead of all others, and release what its acts need (R17 a)."""
        for episode in self.live.values():
            if task in episode.lineage():
                for target in self.declared(episode):
                    target.dependents -= 1
        task.given_up = True
        self._requeue()

    def pick(self) -> Episode | None:
        """Take the first eligible episode out of the queue (R7, R8); `offer` puts it back. O(log n) amortised."""
        while self._queue:
            key, episode = heapq.heappop(self._queue)
            episode.queued = False
            if key == self._key(episode) and not episode.removed and not episode.dependents:
                return episode
            # It was used or stripped since it was queued. If an act needs it, that act's removal queues it again.
            self.offer(episode)
        return None

    def newest(self, tokens: float) -> int:
        """Number of the oldest among the newest episodes, abandoned ones aside, that together hold at most `tokens`."""
        first = self.started
        if tokens <= 0:
            return first
        for number, episode in reversed(self.live.items()):
            if episode.is_task or episode.abandoned:
                continue
            tokens -= episode.tokens
            if tokens < 0:
                break
            first = number
        return first

    def drop(self, episode: Episode) -> None:
        """Drop a removed episode from the graph and release what it depended on."""
        del self.live[episode.number]
        self.tasks.pop(episode.number, None)
        if episode.task is not None:
            episode.task.inside -= 1
        if episode.name is not None:
            del self._by_name[episode.name]
        self.archived(episode)
        for target in self.declared(episode):
            target.dependents -= 1
            self.offer(target)

    def archived(self, episode: Episode) -> None:
        """Note the members of a removed episode."""
        if episode.name is not None:
            self.archive[episode.name] = tuple((first, stop) for first, stop in episode.spans)

    def exempt(self, episode: Episode) -> bool:
        """Whether it belongs to a prologue that is protected whole (R7)."""
        return episode.prologue and self._whole

    def offer(self, episode: Episode) -> None:
        """Queue an episode if it is eligible now."""
        settled = episode.settled and not episode.removed and not episode.dependents and not episode.is_task
        if settled and not episode.queued and not self.exempt(episode):
            episode.queued = True
            heapq.heappush(self._queue, (self._key(episode), episode))

    def named(self, name: str) -> Episode | None:
        """The live episode of that name."""
        return self._by_name.get(name)

    def declared(self, episode: Episode) -> Iterator[Episode]:
        """The explorations that an act holds back and of which something is in view."""
        for name in () if episode.abandoned else episode.dependencies:
            target = self._by_name.get(name) or self.described.get(name)
            if target is not None:
                yield target

    def _key(self, episode: Episode) -> Key:
        return (not episode.abandoned, *self._order(episode))

    def _requeue(self) -> None:
        self._queue.clear()
        for episode in self.live.values():
            episode.queued = False
            self.offer(episode)

    def _settle(self, episode: Episode) -> None:
        episode.settled = True
        episode.loose.clear()
        del self.unsettled[episode.number]
        self.offer(episode)

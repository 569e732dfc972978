"""Episodes and the graph that they form (paper, section 4.3).

Vertices are episodes; an edge says that an act declared a dependency on an exploration. Three
invariants hold by construction: a dependency names a *closed* exploration, so there are no cycles;
edges go from exploration to act only; system and user turns are not in the graph. The graph is
append-only, except that it drops an episode that was evicted whole (section 5). It then keeps the episode's name
(R3), the spans of its items (for recall), and its closing pair as long as that is in view. Tasks (R17) form a forest
above the episodes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Final, Literal

from wane.core.policy import Policy


class EpisodeType(StrEnum):
    """Whether an episode explores or acts.

    A `TASK` groups episodes and other tasks (R17). The graph keeps it as an episode whose only members are its own two
    calls.
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


Choice = Literal["", "keep", "drop"]
"""What a person chooses for an episode (R23): to keep it in view, to let it go now, or neither."""


@dataclass(slots=True, eq=False, repr=False)
class Episode:
    """A stretch of work: from an accepted start to its end, or unannotated work between episodes (R5).

    Treat it as read-only: the window keeps it up to date.

    Attributes:
        number: its number in order of start, from 0, among all episodes of the session.
        name: the agent's name for it; None for an implicit episode.
        type: exploration, act or task; implicit episodes are explorations.
        task: the task that it belongs to, the innermost that was open when it started; None if there was none.
        depth: number of tasks around it.
        inferred: whether it was inferred, not marked by the agent; see `wane.core.marks`.
        host: whether the program around the model marked it (R18).
        prologue: whether it is implicit and began ahead of the first accepted start (R2).
        closed: whether it has ended.
        settled: whether it may be evicted (R6).
        latest: index of the first item of the latest assistant message that has a part in it; -1 if there is none.
        dependencies: names of the explorations that an act declared.
        description: what an exploration learned, or what came of a task, once it has ended.
        given_up: for a task, whether its end said that it was abandoned.
        tokens: its tokens in view, by the counter, without what is fixed (R21, R22).
        size: tokens of all items that ever entered it, by the counter (R5).
        used: number of the latest episode that used it: itself, or an act that declares it.
        dependents: number of acts that declare it and are not removed, without those of abandoned tasks (R7).
        inside: for a task, number of its episodes and tasks that are not removed.
        described: for a task, its explorations and tasks of which only the closing pair is in view.
        rank: rank of the last level that it reached.
        open_calls: number of its calls without a result.
        choice: what a person has chosen for it (R23); empty for nothing.
        queued: whether the graph's queue holds it.
        spans: its members' indexes in the history, as half-open ranges `[first, stop]`.
        buckets: its visible items, by rank of the level that takes them.
        loose: what overflow may take one by one (R16 b), with the item that leaves along: a call with its result (None
            until there is one), any other item with itself. Empty once the episode has settled.
        durable: likewise its durable calls (R16 c).
        texts: likewise the model's texts (R16 d).
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
    choice: Choice = ""
    queued: bool = False
    spans: list[list[int]] = field(default_factory=list)
    buckets: dict[int, list[int]] = field(default_factory=dict)
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
        """Rank below that of the next level: an act skips the level of reasoning (R9)."""
        if self.type is EpisodeType.ACT:
            return max(self.rank, _RANK[Level.REASONING])
        return self.rank

    @property
    def removed(self) -> bool:
        """Whether all of it has left the view, except for the closing pair of an annotated exploration."""
        return self.rank >= REMOVE_RANK

    @property
    def last(self) -> int:
        """Index of its latest member."""
        return self.spans[-1][1] - 1

    @property
    def complete(self) -> bool:
        """Whether it is closed and each of its calls has a result."""
        return self.closed and not self.open_calls

    @property
    def is_task(self) -> bool:
        """Whether it is a task, which groups episodes (R17)."""
        return self.type is EpisodeType.TASK

    @property
    def abandoned(self) -> bool:
        """Whether it is a task that was given up, or in such a task (R17 a)."""
        # Each episode that is queued is asked: a generator would take three times as long.
        episode: Episode | None = self
        while episode is not None and not episode.given_up:
            episode = episode.task
        return episode is not None

    def lineage(self) -> Iterator[Episode]:
        """Yield it and the tasks that it is in, the innermost first."""
        episode: Episode | None = self
        while episode is not None:
            yield episode
            episode = episode.task

    @property
    def empty(self) -> bool:
        """Whether it is a task with nothing in view but closing pairs that no act needs (R17 b)."""
        if not self.is_task or not self.settled or self.inside:
            return False
        return not any(episode.dependents for episode in self.described)

    def protect_from(self, latest: int) -> int:
        """Return the index of the first item that overflow must leave to it (R16).

        An open episode keeps its own latest message, which may be an earlier one than the session's (R18).

        Args:
            latest: index of the first item of the latest assistant message.
        """
        if self.closed or self.latest < 0:
            return latest
        return min(latest, self.latest)

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
        """Keep a visible member that holds the description when the rest leaves, a result with its call (R18)."""
        if not any(index in bucket for bucket in self.buckets.values()):
            return  # it stays without that (R21)
        pair = {index}
        for ends in (self.loose, self.durable):
            pair.update(call for call, end in ends.items() if end == index)
        for bucket in self.buckets.values():
            bucket[:] = [member for member in bucket if member not in pair]
        self.forget(pair)
        self.buckets[_RANK[Level.DESCRIPTION]] = sorted(pair)

    def forget(self, indexes: Iterable[int]) -> None:
        """Note that overflow may not take these members: they have left the view, or must stay."""
        for ends in (self.loose, self.durable, self.texts):
            for index in indexes:
                ends.pop(index, None)

    def hold(self, pair: Sequence[int]) -> None:
        """Keep a call and its result, which are members, from all levels and from overflow."""
        for rank, bucket in list(self.buckets.items()):
            bucket[:] = [index for index in bucket if index not in pair]
            if not bucket:
                del self.buckets[rank]
        self.forget(pair)

    def release(self, indexes: Sequence[int], rank: int) -> None:
        """Let members leave at a level that the episode has not reached, a result with its call."""
        self.buckets.setdefault(rank, []).extend(indexes)
        if rank == REMOVE_RANK:
            self.durable[indexes[0]] = indexes[-1]
        elif not self.settled:
            self.loose[indexes[0]] = indexes[-1]

    def admit(self, index: int) -> None:
        """Take in an earlier item that becomes a member only now and does not count towards the size (R15)."""
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
    """A call without a result: its episode, the rank of the level that takes it, its index."""

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
    """The live episodes, their edges and the queue from which the policy picks (R7, R8).

    Attributes:
        live: the episodes and tasks that are not removed, by number.
        tasks: the tasks among them.
        archive: spans of the members of removed episodes, by name.
        described: removed explorations and tasks whose closing pair is in view, by name.
        unsettled: live episodes that are not settled, by number.
        started: number of episodes and tasks that were ever started.
        latest_episode: the episode that was started last, or took in an item since, late results aside; it is live
            (R6).
        waiting: complete episodes that settle with the next assistant message.
        latest_message: index of the latest assistant message's first item; -1 if there is none.
        dropping: live episodes that a person lets go (R23), by number.
    """

    def __init__(self) -> None:
        self.live: dict[int, Episode] = {}
        self.tasks: dict[int, Episode] = {}
        self.latest_episode: Episode | None = None
        self.archive: dict[str, tuple[tuple[int, int], ...]] = {}
        self.described: dict[str, Episode] = {}
        self.unsettled: dict[int, Episode] = {}
        self.started = 0
        self._by_name: dict[str, Episode] = {}
        self.waiting: list[Episode] = []
        self.dropping: dict[int, Episode] = {}
        self.latest_message = -1
        self._queue: list[tuple[Key, Episode]] = []
        self._order: Callable[[Episode], Key] = ORDERS["paper"]
        self._prologue_stays = False

    @property
    def prologue_tokens(self) -> int:
        """Tokens of the prologue, if it is protected whole (R7); else 0."""
        tokens = 0
        for episode in self.live.values() if self._prologue_stays else ():
            if not self.exempt(episode):
                break
            tokens += episode.tokens
        return tokens

    def start(
        self,
        name: str | None = None,
        type_: EpisodeType = EpisodeType.EXPL,
        dependencies: Iterable[str] = (),
        task: Episode | None = None,
    ) -> Episode:
        """Open an episode or a task. A dependency that is already removed keeps its closing pair from now on (R11)."""
        episode = Episode(self.started, name, type_, tuple(dependencies), task, used=self.started)
        self.started += 1
        self.latest_episode = episode
        if task is not None:
            task.inside += 1
            episode.depth = task.depth + 1
        self.insert(episode)
        for target in self.declared_by(episode):
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
        if episode.choice == "drop":
            self.dropping[episode.number] = episode

    def note_complete(self, episode: Episode) -> None:
        """Note that an episode is complete: it settles once an assistant message stands after it (R6)."""
        if episode.last < self.latest_message:
            self._settle(episode)
        else:
            self.waiting.append(episode)

    def message_started(self, index: int) -> None:
        """Note that an assistant message begins at an item: the model has seen all items before it."""
        self.latest_message = index
        for episode in self.waiting:
            self._settle(episode)
        self.waiting.clear()

    def find_needed(self) -> dict[int, Episode]:
        """Return the settled explorations that an act declares which stays, and that are not removed, by number.

        An act stays as long as it is unsettled, and where a person keeps it (R23).
        """
        needed: dict[int, Episode] = {}
        kept = [one for one in self.live.values() if one.choice == "keep" and one.settled and not one.removed]
        for episode in (*self.unsettled.values(), *kept):
            for target in self.declared_by(episode):
                if target.settled and not target.removed and target.choice != "keep":
                    needed[target.number] = target
        return needed

    def arrange(self, policy: Policy) -> None:
        """Set the order of `pick`, and whether it skips the prologue. The queue is rebuilt only if these change."""
        order = ORDERS[policy.order]
        prologue_stays = policy.prologue == "whole"
        if order is not self._order or prologue_stays != self._prologue_stays:
            self._order = order
            self._prologue_stays = prologue_stays
            self._requeue()

    def abandon(self, task: Episode) -> None:
        """Put the episodes of a task ahead of all others, and release what its acts declare (R17 a)."""
        for episode in self.live.values():
            if task in episode.lineage():
                for target in self.declared_by(episode):
                    target.dependents -= 1
        task.given_up = True
        self._requeue()

    def pick(self) -> Episode | None:
        """Take the first eligible episode out of the queue (R7, R8); `offer` puts it back. O(log n) amortised."""
        while self._queue:
            key, episode = heapq.heappop(self._queue)
            episode.queued = False
            if key == self._key(episode) and self._is_eligible(episode):
                return episode
            # It was used or stripped after it was queued. If an act needs it, `drop` queues it again with the act.
            self.offer(episode)
        return None

    def newest(self, tokens: float) -> int:
        """Return the number of the oldest of the newest episodes that together hold at most `tokens`.

        Tasks and abandoned episodes do not count.
        """
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
        self.dropping.pop(episode.number, None)
        self.tasks.pop(episode.number, None)
        if episode.task is not None:
            episode.task.inside -= 1
        if episode.name is not None:
            del self._by_name[episode.name]
        self.archive_spans(episode)
        for target in self.declared_by(episode):
            target.dependents -= 1
            self.offer(target)

    def archive_spans(self, episode: Episode) -> None:
        """Keep the spans of a removed episode, for recalls of its name."""
        if episode.name is not None:
            self.archive[episode.name] = tuple((first, stop) for first, stop in episode.spans)

    def exempt(self, episode: Episode) -> bool:
        """Whether an episode belongs to a prologue that is protected whole (R7)."""
        return episode.prologue and self._prologue_stays

    def is_spared(self, episode: Episode) -> bool:
        """Whether overflow takes nothing of an episode that has not settled: it is exempt, or a person keeps it."""
        return self.exempt(episode) or episode.choice == "keep"

    def offer(self, episode: Episode) -> None:
        """Queue an episode if it is eligible (R7) and not queued yet."""
        if self._is_eligible(episode) and not episode.queued:
            episode.queued = True
            heapq.heappush(self._queue, (self._key(episode), episode))

    def choose(self, episode: Episode, choice: Choice) -> None:
        """Put a person's choice in force (R23)."""
        episode.choice = choice
        self.dropping.pop(episode.number, None)
        if choice == "drop":
            self.dropping[episode.number] = episode
        self.offer(episode)

    def find_leaving(self) -> list[Episode]:
        """Return the eligible episodes that a person lets go (R23), in order of start."""
        if not self.dropping:
            return []  # as in nearly every turn
        return [episode for _, episode in sorted(self.dropping.items()) if self._is_eligible(episode)]

    def _is_eligible(self, episode: Episode) -> bool:
        if not episode.settled or episode.removed or episode.dependents or episode.choice == "keep":
            return False
        return not episode.is_task and not self.exempt(episode)

    def find(self, name: str) -> Episode | None:
        """Return the live episode of a name."""
        return self._by_name.get(name)

    def find_owner(self, index: int) -> Episode | None:
        """Return the live episode or task that an item is a member of. The latest are looked at first."""
        return next((episode for episode in reversed(self.live.values()) if episode.owns(index)), None)

    def declared_by(self, episode: Episode) -> Iterator[Episode]:
        """Yield the explorations that an act declares and that have something in view; none if it was abandoned."""
        if episode.abandoned:
            return
        for name in episode.dependencies:
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

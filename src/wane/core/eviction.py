"""The eviction pass: Algorithm 1 of the paper, made incremental (R7 to R12, R16, R17)."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from math import inf

from wane.core.episodes import LEVELS, REMOVE_RANK, Episode, EpisodeGraph, Key, Level
from wane.core.errors import HistoryError
from wane.core.pass_report import Step
from wane.core.policy import Policy
from wane.core.standing import StandingItems
from wane.core.view import Accounting, View

_DESCRIPTION_RANK = Level.DESCRIPTION.rank

Ends = Mapping[int, int | None]
"""The items that may leave, each with the item that leaves along; None for a call without a result."""


class Eviction:
    """Strips episodes from the view. It calls no model and reads no clock.

    Attributes:
        overflowed: whether the latest pass had to take unfinished work (R16).
        closings: removed explorations and tasks whose closing pair is still visible, by number.
        closing_tokens: tokens of those pairs.
    """

    __slots__ = (
        "_accounting",
        "_graph",
        "_oldest",
        "_standing",
        "_trace",
        "_view",
        "closing_tokens",
        "closings",
        "overflowed",
    )

    def __init__(self, graph: EpisodeGraph, view: View, accounting: Accounting, standing: StandingItems) -> None:
        self._graph = graph
        self._standing = standing
        self._view = view
        self._accounting = accounting
        self._trace: list[Step] = []
        self.overflowed = False
        self.closings: dict[int, Episode] = {}
        self.closing_tokens = 0
        # The closings as a heap, the first to go on top. It may hold episodes that have lost their pair.
        self._oldest: list[tuple[Key, Episode]] = []

    def run(self, policy: Policy, budget: int, fixed: int, index: int, *, due: bool = True) -> tuple[Step, ...]:
        """Evict until the view is at or under the policy's target, or nothing is eligible.

        What a person lets go leaves first, and whole (R23).

        Args:
            policy: what to evict, and how far; its order is that of the graph (`EpisodeGraph.arrange`).
            budget: the budget that the pass works with (R22).
            fixed: tokens of the view that no pass may ever take.
            index: tokens that the index of evicted content may hold (R20); the pass makes room for it.
            due: whether anything else may leave.

        Returns:
            Every level reached, in order, including those that removed nothing.
        """
        target = budget * policy.low_water - index
        limit = policy.description_limit(budget)
        self._trace = []
        self.overflowed = False
        first_guarded = self._graph.newest(policy.guarded_tokens(budget, fixed, index) / self._accounting.ratio)
        while leaving := self._graph.find_leaving():
            self._empty(leaving[0], -inf, limit)
        if not due:
            return tuple(self._trace)
        for owner, rank, overdue in self._standing.overdue_by_step():
            if self._accounting.total > target:
                self._take_overdue(owner, rank, overdue)
        self._close_tasks(self._graph.tasks.values())
        guarded: list[Episode] = []
        while self._accounting.total > target and (episode := self._graph.pick()):
            if episode.number >= first_guarded and not episode.abandoned:
                guarded.append(episode)
                continue
            self._empty(episode, target, limit)
        for episode in guarded:
            self._graph.offer(episode)
        while self._accounting.total > budget and (episode := self._graph.pick()):
            self._empty(episode, budget, limit)
        if limit is not None:
            while self._accounting.total > budget and self._drop_oldest_description():
                pass
        if policy.overflow == "strip" and self._accounting.total > budget:
            self._overflow(target)
        return tuple(self._trace)

    def kept_descriptions(self, policy: Policy, fixed: Container[int]) -> int:
        """Estimated tokens of closing pairs that a pass may not drop (R11), without items that are fixed."""
        tokens = 0
        for episode in self.closings.values():
            if policy.description_share is None or episode.dependents:
                pair = episode.buckets[_DESCRIPTION_RANK]
                tokens += sum(self._view.tokens[index] for index in pair if index not in fixed)
        return tokens

    def keep_description(self, episode: Episode) -> None:
        """Keep the closing pair of a removed exploration or task in view, until `_drop_description` takes it."""
        assert episode.name is not None
        self._graph.described[episode.name] = episode
        self.closings[episode.number] = episode
        self.closing_tokens += sum(self._view.tokens[index] for index in episode.buckets[_DESCRIPTION_RANK])
        # Explorations go before tasks, and inner tasks before outer ones (R17 c).
        key = (1, -episode.depth, episode.number) if episode.is_task else (0, 0, episode.number)
        heapq.heappush(self._oldest, (key, episode))
        if episode.task is not None:
            episode.task.described.append(episode)

    def redo(self, trace: Iterable[Step]) -> None:
        """Repeat a recorded pass, whatever the policy is now (R14).

        Raises:
            HistoryError: if it does not fit this history.
        """
        for step in trace:
            self._trace = []
            if step.level is Level.DESCRIPTION:
                if closing := self.closings.get(step.number):
                    self._drop_description(closing)
            elif step.level is Level.OVERFLOW:
                self._take(self._find(step.number), Level.OVERFLOW, step.removed)
            elif overdue := self._overdue_at(step):
                self._take_overdue(*overdue)
            else:
                self._strip(self._find(step.number), step.level.rank)
            if [done.removed for done in self._trace] != [step.removed]:
                raise HistoryError(
                    f"the recorded pass does not fit this history: it took items {list(step.removed)} of episode "
                    f"{step.number} at level {step.level.value!r}"
                )

    def _empty(self, episode: Episode, target: float, limit: float | None) -> None:
        """Strip an episode until the target is met (R9)."""
        for rank in range(episode.stage + 1, REMOVE_RANK + 1):
            self._strip(episode, rank)
            if episode.removed:
                released = [episode, *self._graph.declared_by(episode)]
                self._close_tasks(member.task for member in released if member.task)
                if limit is not None:
                    while self._accounting.scale(self.closing_tokens) > limit and self._drop_oldest_description():
                        pass
            if self._accounting.total <= target:
                break
        self._graph.offer(episode)

    def _close_tasks(self, tasks: Iterable[Episode]) -> None:
        """Strip the tasks that are empty down to their closing pair, and then the tasks that this empties (R17 b)."""
        empty = {task.number: task for task in tasks if task.empty}
        while empty:
            task = empty.pop(min(empty))
            self._strip(task, REMOVE_RANK)
            for episode in sorted(task.described, key=lambda episode: episode.number):
                self._supersede(episode, task)
            if task.task is not None and task.task.empty:
                empty[task.task.number] = task.task

    def _supersede(self, episode: Episode, task: Episode) -> None:
        """Drop the closing pair of an episode for that of its task; if the task has none, hand it to the task above."""
        if task.number in self.closings:
            self._drop_description(episode)
            return
        episode.task = task.task
        if task.task is not None:
            task.task.described.append(episode)

    def _overflow(self, target: float) -> None:
        """Take from unfinished work and from what it needs, the oldest first (R16)."""
        before = self._accounting.total
        needed = self._graph.find_needed()
        for _, episode in sorted(needed.items()):
            for rank in range(episode.rank + 1, REMOVE_RANK):
                if self._accounting.total > target:
                    self._strip(episode, rank)
        unsettled = self._graph.unsettled.items()
        spared = self._graph.is_spared
        unfinished = {number: episode for number, episode in unsettled if not spared(episode)}
        for episode in unfinished.values():
            self._take_exchanges(episode, [episode.loose], target)
        stripped = [episode for _, episode in sorted((needed | unfinished).items())]
        for episode in stripped:
            self._take_exchanges(episode, [episode.durable, episode.loose], target)
        for episode in stripped:
            self._take_exchanges(episode, [episode.texts, episode.durable, episode.loose], target)
        self.overflowed = self._accounting.total < before

    def _take_exchanges(self, episode: Episode, ends: Sequence[Ends], target: float) -> None:
        """Take the items that the first of `ends` lists, one by one, the oldest first, as one step.

        An item may take along what any of `ends` lists.
        """
        before = self._accounting.total
        if before <= target:
            return
        protected = episode.protect_from(self._graph.latest_message)
        removed: list[int] = []
        for index in sorted(ends[0]):
            if self._accounting.total <= target:
                break
            if index in self._view.tokens:
                unit = self._exchange(index, ends, protected)
                removed += self._view.take(unit, episode)
        if removed:
            self._record(episode, Level.OVERFLOW, before, sorted(removed))

    def _exchange(self, index: int, ends: Sequence[Ends], protected: int) -> set[int]:
        """Return an item with its result and all items that need them; empty if one of them must stay."""
        unit = self._view.unit(_with_end(index, ends, protected))
        leaving: set[int] = set()
        for member in unit:
            if member in self._view.held:
                leaving.add(member)
            else:
                leaving |= _with_end(member, ends, protected)
        return unit if leaving >= unit else set()

    def _strip(self, episode: Episode, rank: int) -> None:
        """Strip an episode to a level."""
        candidates: list[int] = []
        for level in range(episode.rank + 1, rank + 1):
            # Some items may have left: taken by overflow, or as reasoning left alone in its message.
            candidates += [index for index in episode.buckets.pop(level, ()) if index in self._view.tokens]
        episode.rank = rank
        self._take(episode, LEVELS[rank], candidates)
        if rank == REMOVE_RANK:
            self._graph.drop(episode)
            if _DESCRIPTION_RANK in episode.buckets:
                self.keep_description(episode)

    def _take_overdue(self, episode: Episode, rank: int, items: Sequence[int]) -> None:
        """Take what stopped standing after its episode had passed its level (R15)."""
        for index in items:
            del self._standing.overdue[index]
        self._take(episode, LEVELS[rank], items)

    def _overdue_at(self, step: Step) -> tuple[Episode, int, list[int]] | None:
        """Return the overdue items that a recorded step took, with their episode; None if it took none."""
        for episode, rank, items in self._standing.overdue_by_step():
            if (episode.number, rank) == (step.number, step.level.rank):
                return episode, rank, items
        return None

    def _take(self, episode: Episode, level: Level, candidates: Sequence[int]) -> None:
        """Take the candidates that may leave, as one step."""
        before = self._accounting.total
        self._record(episode, level, before, self._view.take(candidates, episode))

    def _record(self, episode: Episode, level: Level, before: int, removed: list[int]) -> None:
        episode.forget(removed)
        after = self._accounting.total
        self._trace.append(Step(episode.name, episode.number, level, before, after, tuple(removed)))

    def _drop_oldest_description(self) -> bool:
        """Drop the oldest closing pair that no act needs (R11, R17 c); return whether there was one."""
        needed = []
        dropped = False
        while self._oldest and not dropped:
            entry = heapq.heappop(self._oldest)
            episode = entry[1]
            if episode.number not in self.closings:
                continue
            if episode.dependents:
                needed.append(entry)
            else:
                self._drop_description(episode)
                dropped = True
        for entry in needed:
            heapq.heappush(self._oldest, entry)
        return dropped

    def _drop_description(self, episode: Episode) -> None:
        assert episode.name is not None
        del self._graph.described[episode.name]
        del self.closings[episode.number]
        if episode.task is not None:
            episode.task.described.remove(episode)
        pair = episode.buckets.pop(_DESCRIPTION_RANK)
        self.closing_tokens -= sum(self._view.tokens[index] for index in pair)
        episode.rank = _DESCRIPTION_RANK
        self._take(episode, Level.DESCRIPTION, pair)

    def _find(self, number: int) -> Episode:
        episode = self._graph.live.get(number)
        if episode is None:
            raise HistoryError(f"the recorded pass does not fit this history: episode {number} is not live in it")
        return episode


def _with_end(index: int, ends: Sequence[Ends], protected: int) -> set[int]:
    """Return an item with the item that leaves along; empty if one of them must stay."""
    for listed in ends:
        if index in listed:
            end = listed[index]
            return set() if end is None or end >= protected else {index, end}
    return set()

"""The evictions of a replay, with time and cause, for reports."""

from __future__ import annotations

from dataclasses import dataclass

from wane.core import Added, EpisodeType
from wane.lab.counting import Material
from wane.strategies.strategy import Fitted, Slot, Substitute


@dataclass(frozen=True, slots=True)
class ViewChange:
    """How the view of one model call differs from the previous one, besides appended items.

    Attributes:
        call: number of the model call, from 0.
        removed: items no longer shown unchanged.
        back: items shown again.
        placed: new substitutes in the view.
        withdrawn: substitutes that left it.
    """

    call: int
    removed: tuple[int, ...]
    back: tuple[int, ...]
    placed: tuple[Substitute, ...]
    withdrawn: tuple[Substitute, ...] = ()


@dataclass(frozen=True, slots=True)
class Stripped:
    """The items that a pass took of an episode at one level (R9), by a person's choice or not (R23)."""

    call: int
    episode: int
    level: str
    tokens: int
    removed: tuple[int, ...]
    by_person: bool = False


@dataclass(slots=True)
class EpisodeTrace:
    """An episode over time.

    Attributes:
        number: its number in the order of starts.
        name: its name; None if it is implicit.
        type: its type.
        dependencies: names of the explorations that it declared.
        first: its first item.
        last: its last item so far.
        opened: number of the model call before which it began.
        closed: number of the model call before which it ended; None while it is open.
        inferred: whether it was inferred.
        description: an exploration's or a task's description, once it has ended.
        task: number of the task that it belongs to; None if it is in none.
        abandoned: whether it is a task that was abandoned, or in one (R17).
    """

    number: int
    name: str | None
    type: EpisodeType
    dependencies: tuple[str, ...]
    first: int
    last: int
    opened: int
    closed: int | None = None
    inferred: bool = False
    description: str | None = None
    task: int | None = None
    abandoned: bool = False


class Trace:
    """Records a replay. It holds no part of the session, so that it is cheap to send between processes.

    Attributes:
        changes: the items that left the view or came back, for each call with a change.
        stripped: the items that passes took, for strategies that evict by episode.
        episodes: the episodes, for strategies that know them.
        owners: number of the episode, by item that belongs to one.
    """

    def __init__(self, material: Material) -> None:
        self.changes: list[ViewChange] = []
        self.stripped: list[Stripped] = []
        self.episodes: dict[int, EpisodeTrace] = {}
        self.owners: dict[int, int] = {}
        self._first = [call.first for call in material.session.calls]
        self._shown: set[Slot] = set()
        self._known = 0

    def note(self, call: int, index: int, added: Added) -> None:
        """Note the effect of an item on the episodes."""
        for episode in (*added.marked.opened, *added.marked.closed, added.closed, added.episode, added.opened):
            if episode is None:
                continue
            traced = self.episodes.get(episode.number)
            if traced is None:
                traced = self.episodes[episode.number] = EpisodeTrace(
                    episode.number, episode.name, episode.type, episode.dependencies, index, index, call
                )
                traced.inferred = episode.inferred
                traced.task = None if episode.task is None else episode.task.number
            if episode is added.episode:
                traced.last = index
                self.owners[index] = episode.number
            if episode.closed and traced.closed is None:
                traced.closed = call
                traced.description = episode.description
                if episode.given_up:
                    self._abandon(traced)

    def _abandon(self, episode: EpisodeTrace) -> None:
        episode.abandoned = True
        for inner in self.episodes.values():
            if inner.task == episode.number:
                self._abandon(inner)

    def observe(self, call: int, fitted: Fitted) -> None:
        """Note the view of a model call."""
        first = self._first[call]
        fresh = set(range(self._known, first))
        view = set(fitted.view)
        removed = (self._shown | fresh) - view
        entered = view - self._shown - fresh
        self._shown, self._known = view, first
        if removed or entered:
            placed = tuple(slot for slot in fitted.view if isinstance(slot, Substitute) and slot in entered)
            substitutes = [slot for slot in removed if isinstance(slot, Substitute)]
            substitutes.sort(key=lambda text: (-1 if text.index is None else text.index, text.text))
            gone = tuple(sorted(slot for slot in removed if isinstance(slot, int)))
            back = tuple(sorted(slot for slot in entered if isinstance(slot, int)))
            self.changes.append(ViewChange(call, gone, back, placed, tuple(substitutes)))
        if fitted.report:
            for step in fitted.report.steps:
                tokens = step.tokens_before - step.tokens_after
                self.stripped.append(Stripped(call, step.number, step.level.value, tokens, step.removed))

"""What left the view in a replay, when and why: what a report draws."""

from __future__ import annotations

from dataclasses import dataclass

from wane.core import Added, EpisodeType
from wane.lab.counting import Material
from wane.strategies.base import Fitted, Slot, Substitute


@dataclass(frozen=True, slots=True)
class Change:
    """How the view of one model call differs from the one before, besides what was appended.

    Attributes:
        call: number of the model call, from 0.
        left: items that are no longer shown as they were.
        back: items that are shown again.
        placed: texts that stand in the view since then and are not in the history.
        taken: such texts that no longer stand there.
    """

    call: int
    left: tuple[int, ...]
    back: tuple[int, ...]
    placed: tuple[Substitute, ...]
    taken: tuple[Substitute, ...] = ()


@dataclass(frozen=True, slots=True)
class Stripped:
    """One level of an episode that a pass took (R9).

    Attributes:
        call: number of the model call that the pass came before.
        episode: the episode's number.
        level: the level.
        tokens: what it freed.
        removed: the items.
    """

    call: int
    episode: int
    level: str
    tokens: int
    removed: tuple[int, ...]


@dataclass(slots=True)
class Bar:
    """An episode over time.

    Attributes:
        number: its place in the order of starts.
        name: its name; None for an implicit one.
        type: whether it explores or acts.
        dependencies: names of the explorations that it declared.
        first: its first item.
        last: its last item so far.
        opened: the model call before which it began.
        closed: the model call before which it had ended; None while it goes on.
        inferred: whether it was marked in the agent's stead.
        description: what an exploration learned, once it has ended.
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


class Trace:
    """Records a replay. It holds nothing of the session itself, so that it travels between processes cheaply.

    Args:
        material: the session that is replayed.

    Attributes:
        changes: what left the view or came back, by call; only calls at which something did.
        stripped: what passes took, for strategies that evict by episode.
        bars: the episodes, for strategies that know them.
        owners: of items that belong to an episode, its number.
    """

    def __init__(self, material: Material) -> None:
        self.changes: list[Change] = []
        self.stripped: list[Stripped] = []
        self.bars: dict[int, Bar] = {}
        self.owners: dict[int, int] = {}
        self._first = [call.first for call in material.session.calls]
        self._shown: set[Slot] = set()
        self._known = 0

    def note(self, call: int, index: int, added: Added) -> None:
        """Note what an item meant to a strategy that knows episodes."""
        for episode in (added.closed, added.episode, added.opened):
            if episode is None:
                continue
            bar = self.bars.get(episode.number)
            if bar is None:
                bar = self.bars[episode.number] = Bar(
                    episode.number, episode.name, episode.type, episode.dependencies, index, index, call
                )
                bar.inferred = episode.inferred
            if episode is added.episode:
                bar.last = index
                self.owners[index] = episode.number
            if episode.closed and bar.closed is None:
                bar.closed = call
                bar.description = episode.description

    def observe(self, call: int, fitted: Fitted) -> None:
        """Note the view of a model call."""
        first = self._first[call]
        fresh = set(range(self._known, first))
        shown = set(fitted.view)
        left = (self._shown | fresh) - shown
        entered = shown - self._shown - fresh
        self._shown, self._known = shown, first
        if left or entered:
            self._change(call, fitted, left, entered)
        if fitted.report:
            self.stripped += [
                Stripped(call, step.number, step.level.value, step.tokens_before - step.tokens_after, step.removed)
                for step in fitted.report.steps
            ]

    def _change(self, call: int, fitted: Fitted, left: set[Slot], entered: set[Slot]) -> None:
        gone = tuple(sorted(slot for slot in left if isinstance(slot, int)))
        back = tuple(sorted(slot for slot in entered if isinstance(slot, int)))
        placed = tuple(slot for slot in fitted.view if isinstance(slot, Substitute) and slot in entered)
        taken = tuple(slot for slot in left if isinstance(slot, Substitute))
        taken = tuple(sorted(taken, key=lambda text: (-1 if text.index is None else text.index, text.text)))
        self.changes.append(Change(call, gone, back, placed, taken))

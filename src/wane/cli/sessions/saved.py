"""Loads a saved session for display, with the view of its next request under any strategy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wane.agent.costs import Totals
from wane.cli.terminal import layout
from wane.cli.terminal.picture import Block, Role
from wane.conversation.engine import Engine
from wane.core import Episode, Item, Kind, Mark
from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.formats import Part, Transcript, get_format
from wane.journal import (
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    Replay,
    SessionFile,
    StrategyRecord,
    UsageRecord,
    model_calls,
    read,
    replay,
)
from wane.journal.titles import TITLE_LENGTH, title_of
from wane.strategies.base import EPISODIC, Settings, Substitute

Taken = Sequence[tuple[Item, Part]]
"""The items of a message, with their contents."""

_BEGUN: Final = ("agent", "proxy")  # topics of the notes that name the strategy of a session


@dataclass(frozen=True, slots=True)
class View:
    """The view of the next request.

    Attributes:
        strategy: the last strategy of the context; None if the session does not name it.
        tokens: tokens of the view, by the provider's count as far as known.
        evicted: tokens of the history that it does not hold, by our own count.
        visible: indexes of the items that it holds unchanged.
        instead: by item, the tokens of its substitute.
    """

    strategy: str | None
    tokens: int
    evicted: int
    visible: Sequence[int]
    instead: Mapping[int, int] = field(default_factory=dict)

    @property
    def by_episode(self) -> bool:
        """Whether only whole levels of episodes can have left it."""
        return self.strategy is None or self.strategy in EPISODIC or self.strategy == "none"


def view_of(records: Sequence[Record], messages: Sequence[Taken], replayed: Replay) -> View:
    """Return the view of a session's next request.

    Args:
        records: the session's records.
        messages: the items of each of its messages.
        replayed: its window, which is the view if episodes are evicted, or nothing is.

    Raises:
        JournalError: if the records do not follow from each other, or the strategy is unknown.
    """
    window, visible = replayed.window, set(replayed.window.visible)
    items = (item for taken in messages for item, _ in taken)
    evicted = sum(item.tokens for index, item in enumerate(items) if index not in visible)
    view = View(strategy_of(records), window.tokens, evicted, window.visible)
    try:
        if view.strategy is None or view.by_episode:
            return view
        return _by_message(view.strategy, records, messages, replayed.marks)
    except (ConfigError, HistoryError, LookupError) as error:
        raise JournalError(f"the session does not replay: {error}") from error


def strategy_of(records: Iterable[Record]) -> str | None:
    """Return the last strategy of a session's context; None if no record names it."""
    strategy: str | None = None
    for record in records:
        if isinstance(record, NoteRecord) and record.topic in _BEGUN:
            named = record.data.get("strategy")
            strategy = named if isinstance(named, str) else strategy
        elif isinstance(record, StrategyRecord):
            strategy = record.strategy
        elif isinstance(record, PassRecord) and strategy not in EPISODIC:
            strategy = "cwl"
    return strategy


def _by_message(
    strategy: str, records: Iterable[Record], messages: Iterable[Taken], marks: Mapping[int, Sequence[Mark]]
) -> View:
    engine = Engine(strategy, Settings())
    coming = iter(messages)
    for record in records:
        if isinstance(record, MessageRecord):
            for item, part in next(coming):
                engine.add(item, part, marks.get(engine.item_count, ()))
        elif isinstance(record, ConfigRecord):
            engine.overhead = record.overhead
        elif isinstance(record, UsageRecord):
            engine.redo(None)
            engine.observe(record.input_tokens)
        elif isinstance(record, StrategyRecord) and record.strategy == strategy:
            engine.redo(record.done)
    engine.redo(None)  # what follows from the history alone has no record, such as folding
    slots = engine.view
    instead = {slot.index: slot.tokens for slot in slots if isinstance(slot, Substitute) and slot.index is not None}
    visible = [slot for slot in slots if isinstance(slot, int)]
    return View(strategy, engine.tokens, engine.evicted, visible, instead)


@dataclass(frozen=True, slots=True)
class Turn:
    """A user turn: the index of its item, and its beginning."""

    item: int
    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """A saved session, loaded."""

    file: SessionFile
    replayed: Replay
    items: tuple[Item, ...]
    turns: tuple[Turn, ...]
    view: View

    @property
    def blocks(self) -> list[Block]:
        """Its history as blocks; those in the view are kept."""
        kinds, tokens = [item.kind for item in self.items], [item.tokens for item in self.items]
        view = self.view
        parts = layout.blocks(kinds, tokens, self.replayed.episodes, view.visible, view.instead)
        # Instructions, tools, and differences in counting, so that the picture adds up to what the provider reported.
        besides = view.tokens - sum(part.tokens for part in parts if part.kept)
        return [Block(Role.SYSTEM, max(0, besides)), *parts]

    @property
    def whole(self) -> int:
        """Tokens of the view with everything that was evicted."""
        return self.view.tokens + self.view.evicted

    @property
    def passes(self) -> list[PassRecord]:
        """Its passes, in order."""
        return [record for record in self.file.records if isinstance(record, PassRecord)]

    @property
    def usage(self) -> Totals:
        """The usage of its model calls."""
        return Totals.of(self.file.records)

    @property
    def models(self) -> list[str]:
        """The models that answered, in order."""
        return list(dict.fromkeys(call.model for call in model_calls(self.file.records) if call.model))

    def turn_of(self, episode: Episode) -> int:
        """Number of the user turn in which an episode began, from 0; -1 before the first."""
        return bisect_right(self.turns, episode.spans[0][0], key=lambda turn: turn.item) - 1


def load_session(path: Path) -> Session:
    """Read a session and restore its window.

    Raises:
        JournalError: if it cannot be read, or does not replay.
        FormatError: if a message is not in its format.
        MissingExtraError: if its message format needs an extra that is not installed.
    """
    file = read(path)
    format_ = get_format(file.header.format)
    transcript = Transcript(format_)
    recorded = [record.message for record in file.records if isinstance(record, MessageRecord)]
    loaded = iter(format_.load(recorded))
    messages: list[Taken] = []
    turns: list[Turn] = []

    def items_of(message: Mapping[str, Any]) -> list[Item]:
        first, taken = transcript.item_count, transcript.take(next(loaded))
        messages.append(taken)
        said = next(((place, part) for place, (item, part) in enumerate(taken) if item.kind is Kind.USER), None)
        if said is not None:
            # A turn that an agent wrote for its user, in tags, is better than nothing.
            turns.append(Turn(first + said[0], title_of(message) or said[1].text[:TITLE_LENGTH]))
        return [item for item, _ in taken]

    replayed = replay(file.records, items_of)
    items = tuple(item for taken in messages for item, _ in taken)
    return Session(file, replayed, items, tuple(turns), view_of(file.records, messages, replayed))

"""The view of a saved session's next request, under any strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wane.agent.options import BY_EPISODE
from wane.conversation.engine import Engine
from wane.core import Item
from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.formats import Part
from wane.journal import (
    ConfigRecord,
    MarkedMessageRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    Replay,
    StrategyRecord,
    UsageRecord,
)
from wane.strategies.base import Annotate, Settings, Substitute

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
        return self.strategy is None or self.strategy in BY_EPISODE or self.strategy == "none"


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
        return view if view.strategy is None or view.by_episode else _by_message(view.strategy, records, messages)
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
        elif isinstance(record, PassRecord) and strategy not in BY_EPISODE:
            strategy = "cwl"
    return strategy


def _by_message(strategy: str, records: Iterable[Record], messages: Iterable[Taken]) -> View:
    records = list(records)
    annotate: Annotate = "infer" if any(isinstance(record, MarkedMessageRecord) for record in records) else "model"
    engine = Engine(strategy, Settings(annotate=annotate))
    coming = iter(messages)
    for record in records:
        if isinstance(record, MessageRecord):
            for item, part in next(coming):
                engine.follow(item, part)
        elif isinstance(record, ConfigRecord):
            engine.overhead = record.overhead
        elif isinstance(record, UsageRecord):
            engine.redo(None)
            engine.observe(record.input_tokens)
        elif isinstance(record, StrategyRecord) and record.strategy == strategy:
            engine.redo(record.done)
    slots = engine.view
    instead = {slot.index: slot.tokens for slot in slots if isinstance(slot, Substitute) and slot.index is not None}
    visible = [slot for slot in slots if isinstance(slot, int)]
    return View(strategy, engine.tokens, engine.evicted, visible, instead)

"""Rebuilds a session from its records alone, for whoever shows it or goes on with it (R14).

A message adds its items with their recorded marks, a pass is repeated step by step, and a usage record anchors the
accounting. No policy runs, and nothing is inferred again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.conversation.engine import Engine
from wane.core import ContextWindow, Counter, Episode, Item, Pinned, chars
from wane.core.errors import ConfigError, JournalError
from wane.formats import Part, StoredFormat, Transcript
from wane.journal import (
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    StrategyRecord,
    UsageRecord,
)
from wane.journal.following import follow
from wane.strategies.base import EPISODIC, Settings

_BEGUN: Final = ("agent", "proxy")  # topics of the notes that name the strategy of a session


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A session as it stands after its last record.

    Attributes:
        strategy: the last strategy of its context; None if no record names it.
        engine: its context under that strategy, with the view of the next request.
        transcript: its messages, by item.
        items: its items with their content.
        shortfalls: for each pass, in order, what held the tokens if it could not meet the budget; else None (R13).
    """

    strategy: str | None
    engine: Engine
    transcript: Transcript[Any]
    items: tuple[tuple[Item, Part], ...]
    shortfalls: tuple[Pinned | None, ...]

    @property
    def messages(self) -> list[Any]:
        """Its messages."""
        return self.transcript.messages

    @property
    def window(self) -> ContextWindow:
        """Its window; it holds the view if `by_episode`."""
        return self.engine.window

    @property
    def episodes(self) -> list[Episode]:
        """All its episodes in order of start, including removed ones."""
        return self.engine.episodes

    @property
    def by_episode(self) -> bool:
        """Whether only whole levels of episodes can have left the view."""
        return self.engine.evicts


def rebuild(
    records: Iterable[Record],
    format: StoredFormat[Any],  # noqa: A002 - the field's word
    *,
    counter: Counter = chars,
) -> Rebuilt:
    """Rebuild a session.

    Args:
        records: the session's records, in order.
        format: the format of its messages.
        counter: counts tokens, as when the session was recorded.

    Raises:
        JournalError: if the records contradict each other: a pass or usage record in the wrong place, a step that
            removes items that are not there, a mark that cannot be made. They were then written under other rules, or
            in another order. Also for a strategy that is not known.
        FormatError: if a message is not in the format.
        MissingExtraError: if the session's strategy needs a library that is not installed.
    """
    records = list(records)
    strategy = _strategy_of(records)
    recorded = [record.message for record in records if isinstance(record, MessageRecord)]
    messages = format.load(recorded)
    if len(messages) != len(recorded):
        raise JournalError("the session does not replay: its records hold parts of messages, not whole ones")
    try:
        engine = Engine(_engine_for(strategy), _settings_of(records))
    except ConfigError as error:
        raise JournalError(f"the session does not replay: {error}") from error
    fold = _Fold(engine, Transcript(format, counter), messages)
    follow(records, fold.take, lambda: engine.item_count)
    if not engine.evicts:
        engine.redo(None)  # what follows from the history alone has no record, such as folding
    return Rebuilt(strategy, engine, fold.transcript, tuple(fold.items), tuple(fold.shortfalls))


def _strategy_of(records: Iterable[Record]) -> str | None:
    strategy: str | None = None
    for record in records:
        strategy = _strategy_after(record, strategy)
    return strategy


def _strategy_after(record: Record, before: str | None) -> str | None:
    if isinstance(record, NoteRecord) and record.topic in _BEGUN:
        named = record.data.get("strategy")
        return named if isinstance(named, str) else before
    if isinstance(record, StrategyRecord):
        return record.strategy
    return "cwl" if isinstance(record, PassRecord) and before not in EPISODIC else before


def _settings_of(records: Iterable[Record]) -> Settings:
    """The settings with which a session began, as far as they are recorded; later records may change some."""
    first = next((record for record in records if isinstance(record, ConfigRecord)), None)
    settings = Settings() if first is None else Settings(first.budget, policy=first.policy)
    for record in records:
        if isinstance(record, NoteRecord) and record.topic in _BEGUN:
            infers = record.data.get("annotate") == "infer" or record.data.get("infer") is True
            settings = replace(settings, annotate="infer" if infers else "model")
    return settings


def _engine_for(strategy: str | None) -> str:
    """The strategy of the engine: `cwl` for all that evict by episode, and where nothing is managed."""
    return "cwl" if strategy is None or strategy == "none" or strategy in EPISODIC else strategy


class _Fold:
    """A session between two of its records."""

    def __init__(self, engine: Engine, transcript: Transcript[Any], messages: Iterable[Any]) -> None:
        self.engine = engine
        self.transcript = transcript
        self.items: list[tuple[Item, Part]] = []
        self.shortfalls: list[Pinned | None] = []
        self._coming = iter(messages)
        self._strategy: str | None = None  # that of the next request
        self._proxied = False
        self._anchored = -1  # number of items in the history at the last report

    def take(self, record: Record) -> None:
        self._strategy = _strategy_after(record, self._strategy)
        self._proxied |= isinstance(record, NoteRecord) and record.topic == "proxy"
        if isinstance(record, MessageRecord):
            self._add(record)
        elif isinstance(record, PassRecord):
            self._repeat(record)
        elif isinstance(record, StrategyRecord) and record.strategy == self.engine.name:
            self.engine.redo(record.done)
        elif isinstance(record, UsageRecord):
            self._observe(record)
        elif isinstance(record, ConfigRecord):
            window = self.engine.window
            window.budget, window.policy, self.engine.overhead = record.budget, record.policy, record.overhead
            window.set_tool_classes(record.tool_classes)

    def _add(self, record: MessageRecord) -> None:
        marks = record.marks_at
        for item, part in self.transcript.take(next(self._coming)):
            self.engine.add(item, part, marks.get(self.engine.item_count, ()))
            self.items.append((item, part))

    def _repeat(self, record: PassRecord) -> None:
        if self.engine.evicts:
            self.engine.redo(record.trace)
        else:  # it ran before another strategy took over, but tells what became of the episodes
            self.engine.window.apply(record.trace)
        self.shortfalls.append(None if record.satisfied else self.engine.window.pinned)

    def _observe(self, record: UsageRecord) -> None:
        # Further reports of the proxy on the same history include rounds that are not in it yet.
        if not record.input_tokens or (self._proxied and self._anchored == record.items):
            return
        self._anchored = record.items
        # The request was the view as it stands now, whether or not a pass ran before it.
        self.engine.redo(None)
        sender = _engine_for(self._strategy)
        if sender == self.engine.name:
            self.engine.observe(record.input_tokens)
        elif sender == "cwl":
            # Another strategy took over later, but the window tells what held the tokens at a pass.
            self.engine.window.apply(())
            self.engine.window.observe(record.input_tokens)

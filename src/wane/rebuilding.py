"""Rebuilds a session from its records alone, to show it or to go on with it (R14).

A message adds its items with their recorded marks, a pass is repeated step by step, and a usage record anchors the
accounting. No policy runs, and nothing is inferred again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wane.conversation.adapter import Adapter
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.from_records import follow_records
from wane.conversation.history import MessageHistory
from wane.core import ContextWindow, Counter, Episode, Item, Pinned, chars
from wane.core.errors import ConfigError, JournalError
from wane.formats import Part, StoredFormat, Transcript
from wane.journal import ConfigRecord, PassRecord, Record, UsageRecord
from wane.journal.records import settings_after
from wane.strategies.registry import repeats, traits


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A session as it stands after its last record.

    Attributes:
        strategy: the last strategy of its context; None if no record names it.
        engine: its context under that strategy, with the view of the next request.
        transcript: its messages, by item.
        items: its items with their content.
        shortfalls: for each pass, in order, the pinned tokens if it could not meet the budget, else None (R13).
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
        """Whether its strategy evicts by episode."""
        return self.engine.evicts

    @property
    def bounded(self) -> bool:
        """Whether its strategy keeps a budget."""
        return self.strategy is None or traits(self.strategy).bounded


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
            in another order. Also for an unknown strategy.
        FormatError: if a message is not in the format.
        MissingExtraError: if the session's strategy needs a library that is not installed.
    """
    records = list(records)
    last = settings_after(records)
    configs = [record for record in records if isinstance(record, ConfigRecord)]
    try:
        history = _empty(last, configs[0] if configs else last, format, counter)
    except ConfigError as error:
        raise JournalError(f"the session does not replay: {error}") from error
    items, shortfalls = list[tuple[Item, Part]](), list[Pinned | None]()
    engine = history.engine
    for record, taken_items in follow_records(history, records):
        items += [(item.item, item.part) for item in taken_items]
        if not engine.evicts and repeats(_decides(history.settings.strategy), "cwl"):
            if isinstance(record, PassRecord):
                engine.window.apply(record.trace)
            elif isinstance(record, UsageRecord) and record.anchors and record.input_tokens:
                engine.window.apply(())
                engine.window.observe(record.input_tokens)
        if isinstance(record, PassRecord):
            shortfalls.append(None if record.satisfied else engine.window.pinned)
    if not engine.evicts:
        engine.redo(None)  # what follows from the history alone has no record, such as folding
    return Rebuilt(last.strategy or None, engine, history.transcript, tuple(items), tuple(shortfalls))


def _decides(strategy: str) -> str:
    """Return the strategy that decides the view; without a budget, what was evicted by episode stays out of it."""
    if strategy and traits(strategy).bounded:
        return strategy
    return "cwl"


def _empty(
    last: ConfigRecord,
    first: ConfigRecord,
    format: StoredFormat[Any],  # noqa: A002 - the field's word
    counter: Counter,
) -> MessageHistory[Any]:
    """Return an empty history under the last strategy of a session, with the session's first settings."""
    settings = ContextSettings(
        first.budget,
        policy=first.policy,
        annotate=last.annotate,
        tasks=first.tasks,
        strategy=_decides(last.strategy),
        remind_at=None,
        counter=counter,
        window=first.window,
    )
    return MessageHistory(format, Adapter(), settings)

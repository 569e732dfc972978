"""Resuming: the window as it was, from the records alone (R14).

A replay folds over the records in order: a message adds its items, a pass is repeated step by step, a usage record
anchors the accounting. No policy runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wane.core import ContextWindow, Episode, Item, Mark, Pinned
from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.journal.codec import encode
from wane.journal.records import (
    AnnotationRecord,
    ConfigRecord,
    MarkedMessageRecord,
    MessageRecord,
    PassRecord,
    PlacedMark,
    Record,
    StrategyRecord,
    UsageRecord,
)

ItemsOf = Callable[[Mapping[str, Any]], Iterable[Item]]
"""Takes a message apart into its items (R1)."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Replay:
    """A resumed session.

    Attributes:
        window: the window, in its state after the last record.
        config: the settings last recorded; None if there are none.
        messages: the history, as recorded.
        unrecorded: annotations that the messages imply but the records lack, because the process ended
            between the two. Append them to complete the journal.
        episodes: all episodes in order of start, including removed ones, which the window drops.
        marks: the inferred marks, by index of the item that follows them.
        shortfalls: for each pass, in order, what held the tokens if it could not meet the budget; else None (R13).
    """

    window: ContextWindow
    config: ConfigRecord | None
    messages: tuple[Mapping[str, Any], ...]
    unrecorded: tuple[AnnotationRecord, ...]
    episodes: tuple[Episode, ...]
    marks: Mapping[int, tuple[Mark, ...]] = field(default_factory=dict)
    shortfalls: tuple[Pinned | None, ...] = ()


def replay(records: Iterable[Record], items_of: ItemsOf) -> Replay:
    """Rebuild the window of a session.

    Args:
        records: the session's records, in order.
        items_of: takes a message apart; called once per message, in order. The items must be the same as when the
            session was recorded, including tokens and message ordinals.

    Raises:
        JournalError: if the records contradict each other: a pass or usage record in the wrong place, a step that
            removes items that are not there, an annotation that the messages do not imply, a mark that cannot be
            made. They were then written under other rules, or in another order.
    """
    fold = _Fold(items_of)
    for number, record in enumerate(records, start=2):
        try:
            fold.take(record)
        except (HistoryError, ConfigError) as error:
            raise JournalError(f"the session does not replay: line {number} ({record.kind}): {error}") from error
    messages, unrecorded = tuple(fold.messages), tuple(fold.expected.values())
    return Replay(
        fold.window,
        fold.config,
        messages,
        unrecorded,
        tuple(fold.episodes),
        fold.marks,
        tuple(fold.shortfalls),
    )


class _Fold:
    """The state of a replay between two records."""

    def __init__(self, items_of: ItemsOf) -> None:
        self.items_of = items_of
        self.window = ContextWindow()
        self.config: ConfigRecord | None = None
        self.messages: list[Mapping[str, Any]] = []
        self.expected: dict[int, AnnotationRecord] = {}
        self.episodes: list[Episode] = []
        self.marks: dict[int, tuple[Mark, ...]] = {}
        self.shortfalls: list[Pinned | None] = []

    def take(self, record: Record) -> None:
        if isinstance(record, MessageRecord):
            self._add(record.message, record.marks if isinstance(record, MarkedMessageRecord) else ())
        elif isinstance(record, PassRecord):
            self._check_position(record.items)
            self.window.apply(record.trace)
            self.shortfalls.append(None if record.satisfied else self.window.pinned)
        elif isinstance(record, StrategyRecord):
            self._check_position(record.items)
        elif isinstance(record, UsageRecord):
            self._check_position(record.items)
            # The request was the view as it stands now, whether or not a pass ran before it.
            self.window.apply(())
            self.window.observe(record.input_tokens)
        elif isinstance(record, ConfigRecord):
            self.config, window = record, self.window
            window.budget, window.policy, window.overhead = record.budget, record.policy, record.overhead
            window.set_tool_classes(record.tool_classes)
        elif isinstance(record, AnnotationRecord):
            self._check_annotation(record)

    def _add(self, message: Mapping[str, Any], marks: Iterable[PlacedMark]) -> None:
        self.messages.append(message)
        placed: dict[int, tuple[Mark, ...]] = {}
        for entry in marks:
            placed[entry.item] = (*placed.get(entry.item, ()), entry.mark)
        self.marks |= placed
        for item in self.items_of(message):
            added = self.window.add(item, placed.pop(self.window.item_count, ()))
            if added.opened is not None:
                self.episodes.append(added.opened)
            annotation = AnnotationRecord.of(added)
            if annotation is not None:
                self.expected[annotation.item] = annotation
        if placed:
            raise HistoryError(f"it marks items {list(placed)}, which are not items of the message")

    def _check_position(self, items: int) -> None:
        if items != self.window.item_count:
            raise HistoryError(f"it was recorded after {items} items, but comes after {self.window.item_count}")

    def _check_annotation(self, record: AnnotationRecord) -> None:
        expected = self.expected.pop(record.item, None)
        if expected is None or _readable(expected) != _readable(replace(record, at=None)):
            raise HistoryError(f"the messages imply {expected!r} for item {record.item}, not {record!r}")


def _readable(record: AnnotationRecord) -> str:
    # A format may read lone surrogates back as another character: Pydantic refuses them.
    return _SURROGATES.sub("\ufffd", json.dumps(encode(record), ensure_ascii=False))

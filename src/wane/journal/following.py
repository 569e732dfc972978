"""Goes through the records of a session, and checks that each stands in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.journal.records import MessageRecord, PassRecord, Record, StrategyRecord, UsageRecord


def follow(records: Iterable[Record], take: Callable[[Record], object], item_count: Callable[[], int]) -> None:
    """Pass a session's records to `take`, in order, and check that each stands in its place.

    Args:
        records: all records of the session.
        take: repeats what a record tells.
        item_count: returns the number of items that the messages so far have given.

    Raises:
        JournalError: if the records contradict each other: one stands in the wrong place, a message has a mark at an
            item that is not its own, or `take` refused one. They were then written under other rules, or in another
            order. The error names the line.
    """
    for line, record in enumerate(records, start=2):
        before = item_count()
        try:
            if isinstance(record, PassRecord | StrategyRecord | UsageRecord) and record.items != before:
                raise HistoryError(f"it was recorded after {record.items} items, but comes after {before}")
            take(record)
            if isinstance(record, MessageRecord):
                _check_marks(record, range(before, item_count()))
        except (HistoryError, ConfigError, LookupError, TypeError, ValueError) as error:
            raise JournalError(f"the session does not replay: line {line} ({record.kind}): {error}") from error


def _check_marks(record: MessageRecord, items: range) -> None:
    if wrong := [index for index in record.marks_at if index not in items]:
        raise HistoryError(f"it marks items {wrong}, which are not items of the message")

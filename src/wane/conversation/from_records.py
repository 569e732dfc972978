"""A history from the records of a journal, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wane.conversation.adapter import Prepared
from wane.conversation.history import MessageHistory, Taken, replay
from wane.core.errors import ConfigError, JournalError
from wane.formats.message_format import Format, MessageT, StoredFormat
from wane.journal.records import MessageRecord, Record


def follow_records(
    history: MessageHistory[MessageT],
    records: Iterable[Record],
    note: Callable[[Prepared[MessageT], Prepared[MessageT] | None, list[Taken]], object] = lambda *_: None,
) -> Iterator[tuple[Record, list[Taken]]]:
    """Repeat the records of a session, without events, and yield each with what it added.

    Args:
        history: a history of the format that the session was recorded in, at its beginning.
        records: the records.
        note: called with each message as it was recorded and as it was taken in (None if it was left out), and its
            items.

    Raises:
        ConfigError: if messages of the format cannot be read from JSON.
        FormatError: if a message is not in the format.
        JournalError: if the records contradict each other; see `replay`.
    """
    records = list(records)
    recorded = [record.message for record in records if isinstance(record, MessageRecord)]
    messages = _check_stored(history.format).load(recorded)
    if len(messages) != len(recorded):
        raise JournalError("the session does not replay: its records hold parts of messages, not whole ones")
    coming = iter(messages)

    def step(record: Record) -> list[Taken]:
        if not isinstance(record, MessageRecord):
            return history.follow(record)
        (message,) = history.prepare([next(coming)], check=False)
        (paired,) = history.pair_results([message])
        items = [] if paired is None else history.follow(record, paired)
        note(message, paired, items)
        return items

    return replay(records, step)


def records_of(history: MessageHistory[MessageT], first: int) -> list[Record]:
    """Return the records of a history from the one numbered `first` on, with the content of its messages.

    Raises:
        ConfigError: if messages of the format cannot be written as JSON.
    """
    stored = _check_stored(history.format)
    records: list[Record] = []
    number = 0
    for position, record in enumerate(history.log):
        if isinstance(record, MessageRecord):
            message: Any = history.transcript.messages[number]
            number += 1
            if position >= first:
                data = message if isinstance(message, Mapping) else stored.dump([message])[0]
                records.append(replace(record, message=data))
        elif position >= first:
            records.append(record)
    return records


def _check_stored(format: Format[MessageT]) -> StoredFormat[MessageT]:  # noqa: A002 - the field's word
    if not isinstance(format, StoredFormat):
        raise ConfigError(f"messages of the format {format.name!r} cannot be kept as JSON")
    return format

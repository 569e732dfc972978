"""Goes back in a conversation, and on from the records of one: after a fork, under another strategy, from a journal.

What left the view at a request leaves it again, whatever the settings are now (R14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wane.conversation.history import Taken, replay
from wane.conversation.timeline import Prepared, Setup, Timeline
from wane.core.errors import ConfigError, HistoryError, JournalError
from wane.formats.base import Format, MessageT, StoredFormat
from wane.journal.records import MessageRecord, Record, UsageRecord


def answer_within(line: Timeline[MessageT], count: int) -> bool:
    """Whether a model made one of a history's first messages."""
    adapter, take = line.setup.adapter, line.setup.format.parts
    return any(adapter.answers(message, take(message)) for message in line.transcript.messages[:count])


def back_to(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> tuple[Timeline[MessageT], int]:
    """Return a timeline of the first messages and their number; it is empty if no answer is among them.

    What was done for them is repeated. If that is no longer known, their requests are made again.
    """
    return (_again(line, count, setup), count) if answer_within(line, count) else (_afresh(line, setup), 0)


def under(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    """Return a timeline of the same messages under another strategy.

    What that strategy did here before is repeated; what others did is not.
    """
    switched = _again(line, len(line.transcript.messages), setup)
    switched.shown = None
    return switched


def follow(
    line: Timeline[MessageT],
    records: Iterable[Record],
    taken_in: Callable[[MessageT, Prepared[MessageT] | None, list[Taken]], object] = lambda *_: None,
) -> Iterator[tuple[Record, list[Taken]]]:
    """Repeat the records of a session, without events, and yield each with what it added.

    Args:
        line: a timeline of the format that the session was recorded in, at its beginning.
        records: the records.
        taken_in: called with each message, as it was taken in: None if it was left out.

    Raises:
        ConfigError: if messages of the format cannot be read from JSON.
        FormatError: if a message is not in the format.
        JournalError: if the records contradict each other; see `replay`.
    """
    records = list(records)
    recorded = [record.message for record in records if isinstance(record, MessageRecord)]
    messages = _stored(line.setup.format).load(recorded)
    if len(messages) != len(recorded):
        raise JournalError("the session does not replay: its records hold parts of messages, not whole ones")
    coming = iter(messages)

    def step(record: Record) -> list[Taken]:
        if not isinstance(record, MessageRecord):
            return line.follow(record)
        message = next(coming)
        (prepared,) = line.prepare([message])
        items = [] if prepared is None else line.follow(record, prepared)
        taken_in(message, prepared, items)
        return items

    return replay(records, step)


def records(line: Timeline[MessageT], first: int) -> list[Record]:
    """Return the records of a timeline, with the content of its messages.

    Raises:
        ConfigError: if messages of the format cannot be written as JSON.
    """
    log, stored = line.history.log, _stored(line.setup.format)
    number = sum(isinstance(record, MessageRecord) for record in log[:first])
    messages = iter(line.transcript.messages[number:])

    def whole(record: MessageRecord) -> MessageRecord:
        message: Any = next(messages)
        return replace(record, message=message if isinstance(message, Mapping) else stored.dump([message])[0])

    return [whole(record) if isinstance(record, MessageRecord) else record for record in log[first:]]


def _stored(format: Format[MessageT]) -> StoredFormat[MessageT]:  # noqa: A002 - the field's word
    if not isinstance(format, StoredFormat):
        raise ConfigError(f"messages of the format {format.name!r} cannot be kept as JSON")
    return format


def _again(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
    repeated = _repeated(line, count, setup)
    if count == len(line.transcript.messages):
        # With the time of the latest request, and what a state told.
        repeated.asked, repeated.answered = line.asked, line.answered
    return repeated


def _repeated(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
    messages = line.transcript.messages[:count]
    prepared = [message for message in Timeline(setup).prepare(messages) if message is not None]
    if count >= line.base:
        try:
            return _redone(line, prepared, setup)
        except HistoryError:
            pass  # tool classes were others before a state was restored, so other items would be evicted
    repeated = _afresh(line, replace(setup, events=[]))
    for number, message in enumerate(prepared):
        repeated.take(message, at=line.times.get(number))
    repeated.setup = setup
    return repeated


def _redone(
    line: Timeline[MessageT], prepared: Sequence[Prepared[MessageT]], setup: Setup[MessageT]
) -> Timeline[MessageT]:
    same = setup.settings.strategy == line.setup.settings.strategy
    repeated = line.origin(setup) if line.origin is not None and same else Timeline(setup)
    repeated.host_overhead = line.host_overhead
    for record in _about(line, repeated.base, len(prepared)):
        if isinstance(record, MessageRecord):
            number = len(repeated.transcript.messages)
            repeated.follow(record, prepared[number], at=line.times.get(number))
        else:
            repeated.follow(record)
    repeated.host_overhead = line.host_overhead
    repeated.configure()
    return repeated


def _about(line: Timeline[MessageT], first: int, stop: int) -> Iterator[Record]:
    """The records on some messages, by their numbers, up to the request behind them."""
    number, transcript = 0, line.transcript
    items = transcript.first(stop) if stop < len(transcript.messages) else transcript.item_count + 1
    for record in line.history.log:
        message = isinstance(record, MessageRecord)
        if message and number == stop:
            return
        # The usage of the request behind them is in an answer that is not among them.
        if number >= first and not (isinstance(record, UsageRecord) and record.items >= items):
            yield record
        number += message


def _afresh(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    empty = Timeline(setup)
    empty.host_overhead = line.host_overhead
    return empty

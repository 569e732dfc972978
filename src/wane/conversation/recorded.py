"""The front of a conversation for a journal: it writes what happened as records, and goes on from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

from wane.conversation.common import Common, serialised
from wane.conversation.history import Taken, replay
from wane.conversation.timeline import Prepared, Timeline
from wane.core.errors import ConfigError, JournalError
from wane.formats.base import Format, MessageT, StoredFormat
from wane.journal.receipts import Receipts
from wane.journal.records import ConfigRecord, MessageRecord, Record


class Log(Generic[MessageT]):
    """Gives what happened as records for a journal, and goes on from them. Get it from `Conversation.log`."""

    def __init__(self, common: Common[MessageT]) -> None:
        self._common = common
        self._receipts = Receipts()
        self._followed: list[Record] = []  # the log whose first `_seen` records the receipts have taken in
        self._seen = 0

    @property
    def config(self) -> ConfigRecord:
        """The settings in force, as a record."""
        return self._common.settings.record(self._common.line.engine.overhead)

    @serialised
    def records(self, first: int = 0) -> list[Record]:
        """Return what has happened as records: another conversation can `follow` them.

        Args:
            first: number of records to leave out, because they were saved before. After a fork they begin anew.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        return records_of(self._common.line, first)

    @serialised
    def sent(self, body: bytes, url: str = "") -> None:
        """Record a request that is about to be sent, so that the journal can prove what the model saw.

        Args:
            body: the exact bytes of its body, as an event hook of your HTTP client sees them.
            url: its address; leave out a query, which may hold a key.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        log = self._common.line.history.log
        if log is not self._followed:  # after a fork the records begin anew
            self._receipts = Receipts()
            self._followed = log
            self._seen = 0
        self._receipts.follow(records_of(self._common.line, self._seen))
        self._seen = len(log)
        log.append(self._receipts.of(body, url))

    @serialised
    def follow(self, records: Iterable[Record]) -> None:
        """Go on from the records of a session, such as a journal's, as if the session had never ended (R14).

        No pass runs, nothing is inferred again, and there are no events. What another strategy did is not repeated.
        After that the conversation's own settings are in force. Call it once, on a new conversation.

        Args:
            records: the records, in order (`wane.journal`), with messages of the conversation's format.

        Raises:
            ConfigError: if messages of the format cannot be read from JSON.
            FormatError: if a message is not in the format.
            JournalError: if the records contradict each other; the error names the line. Do not use the conversation
                after that.
        """
        common = self._common

        def note(message: MessageT, prepared: Prepared[MessageT] | None, items: Sequence[Taken]) -> None:
            common.known.extend([message], left_out=prepared is None)
            if prepared is not None:
                common.judged(prepared, [item.added for item in items])

        for _ in follow(common.line, records, note):
            pass
        common.line.configure()


def follow(
    line: Timeline[MessageT],
    records: Iterable[Record],
    taken_in: Callable[[MessageT, Prepared[MessageT] | None, list[Taken]], object] = lambda *_: None,
) -> Iterator[tuple[Record, list[Taken]]]:
    """Repeat the records of a session, without events, and yield each with what it added.

    Args:
        line: a timeline of the format that the session was recorded in, at its beginning.
        records: the records.
        taken_in: called with each message, the message as it was taken in (None if it was left out), and its items.

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


def records_of(line: Timeline[MessageT], first: int) -> list[Record]:
    """Return the records of a timeline, with the content of its messages.

    Raises:
        ConfigError: if messages of the format cannot be written as JSON.
    """
    stored = _stored(line.setup.format)
    records: list[Record] = []
    number = 0
    for position, record in enumerate(line.history.log):
        if isinstance(record, MessageRecord):
            message: Any = line.transcript.messages[number]
            number += 1
            if position >= first:
                data = message if isinstance(message, Mapping) else stored.dump([message])[0]
                records.append(replace(record, message=data))
        elif position >= first:
            records.append(record)
    return records


def _stored(format: Format[MessageT]) -> StoredFormat[MessageT]:  # noqa: A002 - the field's word
    if not isinstance(format, StoredFormat):
        raise ConfigError(f"messages of the format {format.name!r} cannot be kept as JSON")
    return format

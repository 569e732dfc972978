"""The front of a conversation for a journal: what happened as records, and on from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from wane.conversation import past
from wane.conversation.common import Common, serialised
from wane.conversation.history import Taken
from wane.conversation.timeline import Prepared
from wane.formats.base import MessageT
from wane.journal.receipts import Receipts
from wane.journal.records import ConfigRecord, Record


class Log(Generic[MessageT]):
    """Gives what happened as records for a journal, and goes on from them. Get it from `Conversation.log`."""

    def __init__(self, common: Common[MessageT]) -> None:
        self._common = common
        self._receipts = Receipts()
        self._followed: list[Record] = []  # the log that they have seen, as far as `_seen`
        self._seen = 0

    @property
    def config(self) -> ConfigRecord:
        """The settings in force, as a record."""
        return self._common.settings.record(self._common.line.engine.overhead)

    @serialised
    def records(self, first: int = 0) -> list[Record]:
        """Return what has happened as records: another conversation can `follow` them.

        Args:
            first: number of records to leave out, because they were kept before. After a fork they begin anew.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        return past.records(self._common.line, first)

    @serialised
    def sent(self, body: bytes, url: str = "") -> None:
        """Record a request that is about to be sent, so that the journal can prove what the model saw.

        Args:
            body: the exact bytes of its body, such as an event hook of your HTTP client has them.
            url: where it goes, without a query, which may hold a key.

        Raises:
            ConfigError: if messages of the format cannot be written as JSON.
        """
        log = self._common.line.history.log
        if log is not self._followed:  # after a fork the records begin anew
            self._receipts, self._followed, self._seen = Receipts(), log, 0
        self._receipts.follow(past.records(self._common.line, self._seen))
        self._seen = len(log)
        log.append(self._receipts.of(body, url))

    @serialised
    def follow(self, records: Iterable[Record]) -> None:
        """Go on from the records of a session, such as a journal's, as if it had never ended (R14).

        No pass runs, nothing is inferred again, and there are no events. What another strategy did is not repeated.
        From then on the conversation's own settings are in force. Call it once, on a new conversation.

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

        for _ in past.follow(common.line, records, note):
            pass
        common.line.configure()

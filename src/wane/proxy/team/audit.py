"""The log of who did what: a document for each event, in a kind for each month. Events are never changed or deleted."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Self

from wane.proxy.store.stores import Store, StoreError

_LOGGER: Final = logging.getLogger("wane.proxy")

Action = Literal[
    "token made", "token revoked", "limits changed", "session begun", "sessions shown", "deletion", "refused"
]
"""Kinds of events."""


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the log.

    Attributes:
        at: the time, in UTC.
        by: a name, `operator`, the user and machine of a command, or `?` for a request without a valid token.
        action: what was done.
        of: the name, the sessions or the reason of the event.
    """

    at: datetime
    by: str
    action: str
    of: str

    @classmethod
    def read(cls, document: str) -> Self:
        """Return the event in a document.

        Raises:
            StoreError: if `write` did not make it.
        """
        try:
            data = json.loads(document)
            return cls(datetime.fromisoformat(data["at"]), str(data["by"]), str(data["action"]), str(data["of"]))
        except (ValueError, LookupError, TypeError) as error:
            raise StoreError(f"an event in the log cannot be read: {type(error).__name__}") from error

    def write(self) -> str:
        """Return the event as a document."""
        return json.dumps({"at": self.at.isoformat(), "by": self.by, "action": self.action, "of": self.of})


class AuditLog:
    """The log of a store."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._clock = clock

    async def write(self, by: str, action: Action, of: str) -> None:
        """Append an event.

        Raises:
            StoreError: if it cannot be stored.
        """
        event = Event(self._clock(), by, action, of)
        # The name begins with the time, so that sorting by name is sorting by time.
        name = f"{event.at:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
        await self._store.replace_document(_kind(event.at), name, None, event.write())

    async def note(self, by: str, action: Action, of: str) -> None:
        """Append an event, or write it to the proxy's own log if the store cannot be reached."""
        try:
            await self.write(by, action, of)
        except StoreError as error:
            _LOGGER.warning("not in the team's log: %s by %s, %s: %s", action, by, of, error)

    async def since(self, start: datetime) -> Sequence[Event]:
        """Return the events since a time, oldest first.

        Args:
            start: the time, in UTC.

        Raises:
            StoreError: if they cannot be read.
        """
        events: list[Event] = []
        now = self._clock()
        month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        while month <= now:
            documents = await self._store.documents(_kind(month))
            events += [Event.read(documents[name]) for name in sorted(documents)]
            month = (month + timedelta(days=31)).replace(day=1)
        return [event for event in events if event.at >= start]


def _kind(at: datetime) -> str:
    return f"event-{at:%Y-%m}"

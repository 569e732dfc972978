"""The interface of a store: sessions as logs of the journal's records, found by how they began."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from wane.core.errors import WaneError
from wane.journal import Header, Record

KEEP: Final = 30 * 86_400.0
"""Seconds after which a session that nobody wrote to is deleted, unless settings say otherwise."""


class StoreError(WaneError):
    """A store that cannot be reached, read or written."""


class SessionBusyError(StoreError):
    """A session that another process holds and will not let go."""


class SessionChangedError(StoreError):
    """A session to which another process has added since this one read it: read what is new, and decide again."""


class SessionLostError(StoreError):
    """A session that the store lost since this process last had it, in whole or from some record on.

    It expired or was deleted, or the database was emptied, failed over or restored to a former state. The log is of no
    more use, and says so at every hold: what goes on of the session is to be stored in a new one.
    """


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session in a store.

    Attributes:
        id: its id.
        written: when it was last written.
        size: bytes that it takes.
    """

    id: str
    written: datetime
    size: int


class Log(Protocol):
    """The records of one session, which are only ever added to.

    One object a session and process: the index of sessions keeps it as long as the session is in memory.

    Attributes:
        id: the session's id.
        header: what is said of the session once.
    """

    id: str
    header: Header

    def hold(self) -> AbstractAsyncContextManager[Sequence[Record]]:
        """Be the only task of this process to read and write this session.

        Entering gives the records that were appended since this log was last held, by others; all of them when it
        is held for the first time. Held for the moments that a request is made ready, or its reply recorded, never
        while a model answers.

        Raises:
            SessionBusyError: if another task holds it for longer than a request takes to be made ready.
            SessionLostError: if the session is no longer there, or what is there does not go on from where this log
                knows it to end. Where one process at a time has a session, nobody looks for that.
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Add records, all or none of them; only while it is held.

        Raises:
            SessionChangedError: if another process has added to it since it was held; nothing is added then.
            SessionLostError: if the session is no longer there.
            StoreError: if it cannot be written, such as for a full disk; if it is not held. After a hold that failed,
                the error is the one that it failed with.
        """
        ...

    def rewind(self) -> None:
        """Have the next hold give all records again, as the first one did."""
        ...

    async def settle(self) -> None:
        """Wait until what was appended is safe from a crash of the machine, where the store can tell. Not held.

        Raises:
            StoreError: if it cannot be written.
        """
        ...

    async def close(self) -> None:
        """Let go of what the process holds of it; the records stay."""
        ...


class Store(Protocol):
    """Sessions of any number of processes.

    Attributes:
        keeps: whether records are kept at all, so that a session which left memory can be brought back.
    """

    keeps: bool

    async def check(self) -> None:
        """See that sessions can be stored, as far as that can be told without storing one.

        Raises:
            StoreError: if the store cannot be reached, or is not to be written.
        """
        ...

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of the sessions that began in one way, the last written first, at most some dozens.

        Args:
            root: 24 hexadecimal digits that stand for how a session began.

        Raises:
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def create(self, root: str, message_format: str) -> Log:
        """Begin a session, which others find by its root.

        Args:
            root: how it began.
            message_format: name of the format of its messages.

        Raises:
            StoreError: if it cannot be written.
        """
        ...

    async def open(self, session_id: str) -> Log:
        """Go on with a session.

        Raises:
            SessionBusyError: if another process has it for itself.
            StoreError: if there is none of that id, or it cannot be read.
        """
        ...

    async def read(self, session_id: str) -> Sequence[Record]:
        """Return the records of a session, without going on with it, be it busy or not.

        Raises:
            StoreError: if there is none of that id, or it cannot be read.
        """
        ...

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions that nobody has written to for so many seconds, the oldest first.

        Raises:
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Delete a session, which frees the bytes that `unwritten` tells of.

        Raises:
            SessionBusyError: if another process has it for itself.
            StoreError: if there is none of that id, or it cannot be deleted.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

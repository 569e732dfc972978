"""The interface of a store: sessions as logs of journal records, found by a digest of how they began."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from wane.core.errors import WaneError
from wane.journal import Header, Record

KEEP: Final = 30 * 86_400.0
"""Seconds after its last record until a session is deleted, by default."""


class StoreError(WaneError):
    """A store cannot be reached, read or written."""


class SessionBusyError(StoreError):
    """Another process or request holds the session."""


class SessionChangedError(StoreError):
    """Another process has added to the session since this one read it: read the new records, and decide again."""


class SessionLostError(StoreError):
    """The store has lost the session, or its last records, since this process last had it.

    It expired or was deleted, or the database was emptied, failed over or restored to an earlier state. Every later
    hold of the log fails too: continue the session in a new one.
    """


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session in a store.

    Attributes:
        id: its id.
        written: when its last record was written.
        size: its size in bytes.
    """

    id: str
    written: datetime
    size: int


class Log(Protocol):
    """The records of one session, append-only.

    A process has one object for each session in memory.

    Attributes:
        id: the session's id.
        header: the session's header.
    """

    id: str
    header: Header

    def hold(self) -> AbstractAsyncContextManager[Sequence[Record]]:
        """Hold the session, so that no other task of this process can read or write it.

        Entering returns the records that other processes have appended since the last hold, or all records at the first
        hold. Hold it only while a request is prepared or a reply recorded, never while a model answers.

        Raises:
            SessionBusyError: if another task holds it for too long.
            SessionLostError: if the session is gone, or does not continue from the end that this log knows. A store
                that opens a session in one process only does not check that.
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Append records, all or none of them, while the session is held.

        Raises:
            SessionChangedError: if another process has appended since the hold began; nothing is added then.
            SessionLostError: if the session is gone.
            StoreError: if it cannot be written, such as to a full disk, or is not held. After a failed hold, its error
                is raised again.
        """
        ...

    def rewind(self) -> None:
        """Make the next hold return all records again, like the first one."""
        ...

    async def sync(self) -> None:
        """Wait until appended records would survive a crash of the machine, if the store can tell. Needs no hold.

        Raises:
            StoreError: if it cannot be written.
        """
        ...

    async def close(self) -> None:
        """Release the process's resources; the records stay."""
        ...


class Store(Protocol):
    """Sessions of any number of processes.

    Attributes:
        persistent: whether records are stored at all, so that a session which left memory can be restored.
    """

    persistent: bool

    async def check(self) -> None:
        """Check that sessions can be stored, as far as possible without storing one.

        Raises:
            StoreError: if the store cannot be reached, or is not writable.
        """
        ...

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of the sessions with a root, the last written first, at most a few dozen.

        Args:
            root: 24 hexadecimal digits, a digest of how a session began.

        Raises:
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def create(self, root: str, message_format: str) -> Log:
        """Create a session, which others can find by its root.

        Args:
            root: the digest of how it began.
            message_format: name of the format of its messages.

        Raises:
            StoreError: if it cannot be written.
        """
        ...

    async def open(self, session_id: str) -> Log:
        """Open a session to continue it.

        Raises:
            SessionBusyError: if another process has it open, and the store allows only one.
            StoreError: if there is none of that id, or it cannot be read.
        """
        ...

    async def read(self, session_id: str) -> Sequence[Record]:
        """Return the records of a session without opening it, even if it is busy.

        Raises:
            StoreError: if there is none of that id, or it cannot be read.
        """
        ...

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions whose last record is older than this many seconds, the oldest first.

        Raises:
            StoreError: if the store cannot be reached or read.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Delete a session.

        Raises:
            SessionBusyError: if another process has it open, and the store allows only one.
            StoreError: if there is none of that id, or it cannot be deleted.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

"""Sessions in memory only, for users who want nothing written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from wane.journal import Header, Record, new_header
from wane.proxy.store.base import Log, StoredSession, StoreError
from wane.proxy.store.names import checked_root, new_id
from wane.proxy.store.work import WAIT, SessionLock, not_held


class MemoryStore:
    """Stores no records. A session lives as long as the process has it in memory.

    Args:
        wait: seconds that a request waits for another one of the same session.
    """

    persistent = False

    def __init__(self, wait: float = WAIT) -> None:
        self._wait = wait

    async def check(self) -> None:
        """Do nothing."""

    async def find(self, root: str) -> Sequence[str]:
        """Return nothing: no session is stored.

        Raises:
            StoreError: for a malformed root.
        """
        checked_root(root)
        return ()

    async def create(self, root: str, message_format: str) -> Log:
        """Create a session whose records are not stored."""
        return _MemoryLog(new_header(new_id(root), cwd=Path.cwd(), message_format=message_format), self._wait)

    async def open(self, session_id: str) -> Log:
        """Raise an error: no session is stored.

        Raises:
            StoreError: always.
        """
        raise _not_stored(session_id)

    async def read(self, session_id: str) -> Sequence[Record]:
        """Raise an error: no session is stored.

        Raises:
            StoreError: always.
        """
        raise _not_stored(session_id)

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:  # noqa: ARG002
        """Return nothing: no session is stored."""
        return ()

    async def delete(self, session_id: str) -> None:
        """Raise an error: no session is stored.

        Raises:
            StoreError: always.
        """
        raise _not_stored(session_id)

    async def close(self) -> None:
        """Do nothing."""


class _MemoryLog:
    """A log that stores nothing."""

    def __init__(self, header: Header, wait: float) -> None:
        self.id = header.id
        self.header = header
        self._lock = SessionLock(header.id, wait)
        self._held = False

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        async with self._lock.held():
            self._held = True
            try:
                yield ()
            finally:
                self._held = False

    async def append(self, records: Sequence[Record]) -> None:  # noqa: ARG002
        if not self._held:
            raise not_held(self.id)

    def rewind(self) -> None:
        """Do nothing: no other process can append."""

    async def sync(self) -> None:
        """Do nothing: there is nothing to lose."""

    async def close(self) -> None:
        """Do nothing."""


def _not_stored(session_id: str) -> StoreError:
    return StoreError(f"there is no session {session_id!r:.80}: this proxy stores none")

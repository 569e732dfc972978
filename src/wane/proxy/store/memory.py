"""No store: sessions that end with the process, for those who want nothing written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from wane.journal import Header, Record, new_header
from wane.proxy.store.base import Log, StoredSession, StoreError
from wane.proxy.store.names import checked_root, new_id
from wane.proxy.store.work import WAIT, Turns, not_held


class MemoryStore:
    """Keeps no record of any session. A session lives as long as the process has it in memory.

    Args:
        wait: seconds after which a request that waits for another one of its session gives up.
    """

    keeps = False

    def __init__(self, wait: float = WAIT) -> None:
        self._wait = wait

    async def check(self) -> None:
        """Do nothing: there is memory."""

    async def find(self, root: str) -> Sequence[str]:
        """Return nothing: no session can be brought back.

        Raises:
            StoreError: if the root is none.
        """
        checked_root(root)
        return ()

    async def create(self, root: str, message_format: str) -> Log:
        """Begin a session that nothing is kept of."""
        return _MemoryLog(new_header(new_id(root), cwd=Path.cwd(), message_format=message_format), self._wait)

    async def open(self, session_id: str) -> Log:
        """Refuse: no session can be gone on with.

        Raises:
            StoreError: always.
        """
        raise _nothing_kept(session_id)

    async def read(self, session_id: str) -> Sequence[Record]:
        """Refuse: no session can be read.

        Raises:
            StoreError: always.
        """
        raise _nothing_kept(session_id)

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:  # noqa: ARG002
        """Return nothing: no session is kept."""
        return ()

    async def delete(self, session_id: str) -> None:
        """Refuse: no session is kept.

        Raises:
            StoreError: always.
        """
        raise _nothing_kept(session_id)

    async def close(self) -> None:
        """Do nothing."""


class _MemoryLog:
    """A log that forgets at once."""

    def __init__(self, header: Header, wait: float) -> None:
        self.id = header.id
        self.header = header
        self._turns = Turns(header.id, wait)
        self._held = False

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        async with self._turns.taken():
            self._held = True
            try:
                yield ()
            finally:
                self._held = False

    async def append(self, records: Sequence[Record]) -> None:  # noqa: ARG002
        if not self._held:
            raise not_held(self.id)

    def rewind(self) -> None:
        """Do nothing: no other process adds to it, so that nobody asks for this."""

    async def settle(self) -> None:
        """Do nothing: nothing is kept that could be lost."""

    async def close(self) -> None:
        """Do nothing."""


def _nothing_kept(session_id: str) -> StoreError:
    return StoreError(f"there is no session {session_id!r:.80}: this proxy keeps none")

"""Sessions in files of the journal's format: the store of one proxy process on one machine."""

from __future__ import annotations

import asyncio
import glob
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from wane.core.errors import JournalError, SessionLockedError
from wane.journal import Clock, Journal, Record, SessionStore, read, utc_now
from wane.journal.store import id_of
from wane.proxy.store.base import KEEP, Log, SessionBusyError, StoredSession, StoreError
from wane.proxy.store.names import FOUND, checked_root, is_session_id, new_id, root_of
from wane.proxy.store.work import WAIT, Turns, are_heavy, as_store_errors, beside, not_held, unbroken

_LOGGER: Final = logging.getLogger(__name__)
_PURGE_SECONDS: Final = 3600.0


class DiskStore:
    """The sessions below one directory; a session is open in one process at a time.

    Args:
        sessions: where they live.
        cwd: the directory that new sessions are filed under; the process's own if None.
        clock: tells the time, in any time zone.
        keep: seconds after which a proxy's session that nobody wrote to is deleted; 0 for never.
        wait: seconds after which a request that waits for another one of its session gives up.
        fsync: whether `settle` waits for the disk.
    """

    keeps = True

    def __init__(
        self,
        sessions: SessionStore,
        *,
        cwd: Path | None = None,
        clock: Clock = utc_now,
        keep: float = KEEP,
        wait: float = WAIT,
        fsync: bool = True,
    ) -> None:
        self._sessions = sessions
        self._cwd = Path.cwd() if cwd is None else cwd
        self._clock = clock
        self._wait = wait
        self._fsync = fsync
        self._keep = keep
        self._purged = float("-inf")

    def __repr__(self) -> str:
        return f"DiskStore({str(self._sessions.root)!r})"

    async def check(self) -> None:
        """See that files can be written where sessions belong, or the directory be made.

        Raises:
            StoreError: if not.
        """
        folder = self._sessions.directory(self._cwd)
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise StoreError(f"{there} is no directory that can be written in")

    async def find(self, root: str) -> Sequence[str]:
        """Return the sessions of a root, from the names of their files alone.

        Raises:
            StoreError: if the directory cannot be listed.
        """
        return await asyncio.to_thread(self._find, checked_root(root))

    async def create(self, root: str, message_format: str) -> Log:
        """Begin a session, in a file that its owner alone may read.

        Raises:
            StoreError: if it cannot be written.
        """
        session_id = new_id(root)
        log = await self._journal(lambda: self._create(session_id, message_format))
        if self._keep and time.monotonic() - self._purged > _PURGE_SECONDS:
            self._purged = time.monotonic()
            await asyncio.to_thread(self._purge)
        return log

    async def open(self, session_id: str) -> Log:
        """Go on with a session; a last record that was cut short is put aside, as the journal does.

        Raises:
            SessionBusyError: if another process has it open.
            StoreError: if there is none of that id, or it is damaged.
        """
        root_of(session_id)
        try:
            return await self._journal(
                lambda: Journal.open(self._path(session_id), clock=self._clock, fsync=self._fsync)
            )
        except SessionBusyError:
            raise SessionBusyError(
                f"the session {session_id} in {self._sessions.root} is open in another process. For several proxies"
                " with the same sessions, keep them in Redis or PostgreSQL"
            ) from None

    async def read(self, session_id: str) -> Sequence[Record]:
        """Return the records of a session, also while a process writes it.

        Raises:
            StoreError: if there is none of that id, or it is damaged.
        """
        root_of(session_id)
        with as_store_errors():
            return await asyncio.to_thread(lambda: read(self._path(session_id)).records)

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the proxy's sessions that nobody has written to for so many seconds, the oldest first.

        Raises:
            StoreError: if the directory cannot be listed.
        """
        with as_store_errors():
            return await asyncio.to_thread(self._unwritten, seconds)

    async def delete(self, session_id: str) -> None:
        """Delete a session's files.

        Raises:
            SessionBusyError: if a process has it open.
            StoreError: if there is none of that id, or it cannot be deleted.
        """
        root_of(session_id)
        with as_store_errors():
            await asyncio.to_thread(lambda: self._sessions.delete(self._path(session_id)))

    async def close(self) -> None:
        """Do nothing: each log has its own file."""

    def _unwritten(self, seconds: float) -> Sequence[StoredSession]:
        found = []
        for path in self._sessions.unwritten_since(self._clock() - timedelta(seconds=seconds)):
            if is_session_id(session_id := id_of(path)):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    written = datetime.fromtimestamp(status.st_mtime, UTC)
                    found.append(StoredSession(session_id, written, status.st_size))
        return found

    def _purge(self) -> None:
        try:
            for session in self._unwritten(self._keep):
                # One that a process has open is not over.
                with suppress(SessionLockedError):
                    self._sessions.delete(self._path(session.id))
        except (JournalError, StoreError) as error:
            _LOGGER.warning("expired sessions were not deleted: %s", error)

    async def _journal(self, begin: Callable[[], Journal]) -> Log:
        with as_store_errors():
            # The file and its lock must not stay with nobody, when the client goes away meanwhile.
            journal = await unbroken(asyncio.to_thread(begin), undo=Journal.close)
        if journal.repaired is not None:
            _LOGGER.warning("%s", journal.repaired)
        return _DiskLog(journal, self._wait)

    def _create(self, session_id: str, message_format: str) -> Journal:
        return self._sessions.create(
            self._cwd,
            message_format=message_format,
            session_id=session_id,
            folder=root_of(session_id),
            clock=self._clock,
            fsync=self._fsync,
            committed=False,
        )

    def _find(self, root: str) -> Sequence[str]:
        found = [(written, path) for path in self._glob(root, "*") if (written := _written(path)) is not None]
        return tuple(id_of(path) for _, path in sorted(found, reverse=True)[:FOUND])

    def _path(self, session_id: str) -> Path:
        for path in self._glob(root_of(session_id), session_id):
            return path
        raise StoreError(f"there is no session {session_id} in {self._sessions.root}")

    def _glob(self, began: str, session_id: str) -> list[Path]:
        root = self._sessions.root
        try:
            # `glob` takes a directory that it may not read for an empty one; this does not.
            next(root.iterdir(), None)
            return [Path(path) for path in glob.glob(f"{glob.escape(str(root))}/*/{began}/*Z-{session_id}.jsonl")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot list the sessions in {root}: {error.strerror or error}") from error


class _DiskLog:
    """A session in a file that this process has open."""

    def __init__(self, journal: Journal, wait: float) -> None:
        self.id = journal.header.id
        self.header = journal.header
        self._journal = journal
        self._turns = Turns(self.id, wait)
        self._held = False

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        async with self._turns.taken():
            journal = self._journal
            # Nobody else can write while the file is open here, so there is nothing new from then on.
            records, journal.found = journal.found.records, replace(journal.found, records=())
            self._held = True
            try:
                yield records
            finally:
                self._held = False

    async def append(self, records: Sequence[Record]) -> None:
        if not self._held:
            raise not_held(self.id)
        with as_store_errors():
            await beside(are_heavy(records), lambda: self._journal.extend(records))

    def rewind(self) -> None:
        """Do nothing: no other process adds to it, so that nobody asks for this."""

    async def settle(self) -> None:
        with as_store_errors():
            await asyncio.to_thread(self._journal.commit)

    async def close(self) -> None:
        self._journal.close()


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None  # removed since it was listed

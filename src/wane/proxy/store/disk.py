"""Sessions in journal files, for one proxy process on one machine."""

from __future__ import annotations

import asyncio
import glob
import logging
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final

from wane.core.errors import JournalError, SessionLockedError
from wane.journal import Header, Journal, Record, SessionStore, read, read_header, utc_now
from wane.journal.heads import id_of
from wane.journal.lines import dump_line
from wane.journal.reader import open_session
from wane.proxy.store.sqlite_files import DiskIndex, FileDatabase
from wane.proxy.store.stores import (
    KEEP,
    Matches,
    SessionBusyError,
    SessionDigests,
    SessionLog,
    SessionLostError,
    Sought,
    Store,
    StoredSession,
    StoreError,
    are_heavy,
    as_store_errors,
    checked_root,
    finish_work,
    in_thread_if,
    is_session_id,
    new_id,
    root_of,
)

_LOGGER: Final = logging.getLogger(__name__)
_PROBE: Final = 64 * 1024
"""Bytes to write to tell whether the disk takes records: some of them are that long."""

_DOCUMENTS: Final = """
CREATE TABLE IF NOT EXISTS document (
    kind TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID
"""


class DiskStore(Store):
    """Stores sessions below one directory. Only one process at a time can have a session open.

    Args:
        sessions: the directory.
        cwd: the working directory of new sessions; None for that of the process.
        keep: seconds after its last record until a proxy's session is deleted; 0 for never.
        fsync: whether `sync` waits for the disk.
    """

    persistent = True
    shared = False

    def __init__(
        self, sessions: SessionStore, *, cwd: Path | None = None, keep: float = KEEP, fsync: bool = True
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._cwd = (cwd or Path.cwd()).resolve()
        self._folder = sessions.directory(self._cwd)
        self._fsync = fsync
        self._keep = keep
        self._purged = float("-inf")
        self._index = DiskIndex(sessions.root)
        self._documents = FileDatabase(sessions.root / "proxy.sqlite3", _DOCUMENTS)

    @property
    def root(self) -> Path:
        """The directory of all its sessions."""
        return self._sessions.root

    def __repr__(self) -> str:
        return f"DiskStore({str(self._sessions.root)!r})"

    async def check(self) -> None:
        """Check that a file can be written where the sessions are or will be; rights tell nothing of a full disk."""
        await asyncio.to_thread(self._probe)

    async def find(self, root: str, sought: Sought) -> Matches:
        folders = self._list_paths(f"*/{checked_root(root)}")
        if not folders:
            return Matches()
        without_digests = await self._index.without_digests(folders)
        existing = []
        missing = []
        for match in await self._index.find(sought):
            if self._paths(match.id):
                existing.append(match)
            else:
                missing.append(match.id)
        if missing:
            await self._index.drop(missing)
        return Matches(existing, without_digests)

    async def add_digests(self, session_id: str, digests: SessionDigests) -> None:
        await self._index.put(session_id, digests, replace=False)

    async def create(self, root: str, message_format: str, owner: str = "", parent: str = "") -> SessionLog:
        """Create a session in a file that only its owner may read; once an hour, delete expired sessions."""
        with as_store_errors():
            # A thread would take longer to start than this takes.
            journal = Journal.create(
                self._folder / root,
                cwd=self._cwd,
                message_format=message_format,
                session_id=new_id(root),
                owner=owner,
                parent=parent,
                fsync=self._fsync,
                committed=False,
                dumps=_exact,
            )
        if self._keep and time.monotonic() - self._purged > 3600:
            self._purged = time.monotonic()
            await self._index.drop(await asyncio.to_thread(self._purge))
        return _DiskLog(journal, self._index)

    async def open(self, session_id: str) -> SessionLog:
        """Open a session; if its last record was cut short, the journal sets it aside."""
        try:
            with as_store_errors():
                # If the client disconnects meanwhile, the file and its lock must not stay open.
                opening = asyncio.to_thread(
                    lambda: Journal.open(self._path(session_id), fsync=self._fsync, dumps=_exact)
                )
                journal = await finish_work(opening, undo=Journal.close)
        except SessionBusyError:
            raise SessionBusyError(
                f"the session {session_id} in {self._sessions.root} is open in another process. If several proxies"
                " share sessions, store them in Redis or PostgreSQL"
            ) from None
        if journal.repaired is not None:
            _LOGGER.warning("%s", journal.repaired)
        return _DiskLog(journal, self._index)

    async def read(self, session_id: str) -> Sequence[Record]:
        with as_store_errors():
            return await asyncio.to_thread(lambda: read(self._path(session_id)).records)

    async def header(self, session_id: str) -> Header:
        with as_store_errors():
            return await asyncio.to_thread(lambda: _header(self._path(session_id)))

    async def documents(self, kind: str) -> Mapping[str, str]:
        select = "SELECT name, document FROM document WHERE kind = ?"
        return await self._documents.run(lambda connection: dict(connection.execute(select, (kind,))))

    async def document(self, kind: str, name: str) -> str | None:
        return await self._documents.run(lambda connection: _document(connection, kind, name))

    async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
        def work(connection: Connection) -> bool:
            if _document(connection, kind, name) != before:
                return False
            connection.execute("DELETE FROM document WHERE kind = ? AND name = ?", (kind, name))
            if after is not None:
                connection.execute("INSERT INTO document VALUES (?, ?, ?)", (kind, name, after))
            return True

        return await self._documents.run(work)

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        with as_store_errors():
            return await asyncio.to_thread(self._unwritten, seconds)

    async def delete(self, session_id: str) -> None:
        with as_store_errors():
            await asyncio.to_thread(lambda: self._sessions.delete(self._path(session_id)))
        await self._index.drop([session_id])

    async def close(self) -> None:
        """Close the index and the documents; each log has its own file."""
        self._index.close()
        self._documents.close()

    def _probe(self) -> None:
        existing = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        probe = existing / f".wane-probe-{secrets.token_hex(8)}"
        try:
            if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
                raise StoreError(f"{existing} is not a writable directory")
            try:
                with os.fdopen(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
                    unwritten = memoryview(bytes(_PROBE))
                    # A full disk takes a part, and the next write gives the reason.
                    while unwritten:
                        unwritten = unwritten[file.write(unwritten) :]
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write to {existing}: {error.strerror or error}") from error

    def _unwritten(self, seconds: float) -> Sequence[StoredSession]:
        sessions = []
        for path in self._sessions.unwritten_since(utc_now() - timedelta(seconds=seconds)):
            session_id = id_of(path)
            if is_session_id(session_id):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    written = datetime.fromtimestamp(status.st_mtime, UTC)
                    sessions.append(StoredSession(session_id, written, status.st_size))
        return sessions

    def _purge(self) -> Sequence[str]:
        """Delete expired sessions, and return their ids."""
        deleted = []
        try:
            for session in self._unwritten(self._keep):
                # A session that a process has open is still in use.
                with suppress(SessionLockedError):
                    self._sessions.delete(self._path(session.id))
                    deleted.append(session.id)
        except (JournalError, StoreError) as error:
            _LOGGER.warning("expired sessions were not deleted: %s", error)
        return deleted

    def _path(self, session_id: str) -> Path:
        for path in self._paths(session_id):
            return path
        raise StoreError(f"there is no session {session_id} in {self._sessions.root}")

    def _paths(self, session_id: str) -> list[Path]:
        return self._list_paths(f"*/{root_of(session_id)}/*Z-{session_id}.jsonl")

    def _list_paths(self, pattern: str) -> list[Path]:
        root = self._sessions.root
        try:
            # `glob` treats an unreadable directory as empty; this raises an error.
            next(root.iterdir(), None)
            return [Path(path) for path in glob.glob(f"{glob.escape(str(root))}/{pattern}")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot list the sessions in {root}: {error.strerror or error}") from error


def _document(connection: Connection, kind: str, name: str) -> str | None:
    row = connection.execute("SELECT document FROM document WHERE kind = ? AND name = ?", (kind, name)).fetchone()
    return None if row is None else str(row[0])


def _header(path: Path) -> Header:
    with open_session(path) as file:
        line = file.readline()
    return read_header(line, str(path))


class _DiskLog(SessionLog):
    """A session in a file that this process has open.

    `sync` writes its digests to the index, so that the client does not wait for that. If the process is killed before,
    the index knows the session by its earlier answers, and a new session by its file.
    """

    def __init__(self, journal: Journal, index: DiskIndex) -> None:
        super().__init__(journal.header)
        self._journal = journal
        self._index = index
        # Digests that are not in the index yet; the head is empty if there are none.
        self._head = ""
        self._keys: list[str] = []

    async def _news(self) -> Sequence[Record]:
        journal = self._journal
        if not os.path.exists(journal.path):
            # The system lets a process write to a deleted file, and drops the file when the process closes it.
            raise SessionLostError(f"the session {journal.path} is no longer there: it was deleted or moved")
        # No other process can write while the file is open here, so only the first hold has records.
        records = journal.contents.records
        if records:
            journal.contents = replace(journal.contents, records=())
        return records

    async def _add(self, records: Sequence[Record], digests: SessionDigests | None) -> None:
        with as_store_errors():
            await in_thread_if(are_heavy(records), lambda: self._journal.extend(records))
        if digests is not None:
            self._head = digests.head
            self._keys += digests.keys

    async def sync(self) -> None:
        await self._put_digests()
        with as_store_errors():
            await asyncio.to_thread(self._journal.commit)

    async def close(self) -> None:
        self._journal.close()
        await self._put_digests()

    async def _put_digests(self) -> None:
        if not self._head:
            return
        digests = SessionDigests(self._head, self._keys)
        self._head = ""
        self._keys = []
        try:
            await self._index.put(self.id, digests, replace=True)
        except StoreError as error:
            # The records are stored; the keys follow with the next ones.
            self._keys = [*digests.keys, *self._keys]
            _LOGGER.warning("%s", error)


def _exact(data: Any) -> bytes:
    """Return JSON that reads back unchanged: orjson writes null for numbers that JSON lacks, such as infinity."""
    # Listing, showing and deleting sessions work without the extra that this needs.
    from wane.proxy import jsons

    fast = jsons.dumps(data)
    return dump_line(data) if b"null" in fast and jsons.loads(fast) != data else fast

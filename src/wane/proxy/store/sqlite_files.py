"""SQLite files beside the sessions on disk, which several processes may use at once.

If the index of the sessions is missing, it is rebuilt from their files.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from wane.journal.heads import id_of
from wane.proxy.store.stores import SessionDigests, Sought, StoredMatch, StoreError, finish_work, is_session_id, root_of

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)
_WAIT: Final = 5.0  # seconds for other processes to end their transactions

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS session (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, root TEXT NOT NULL, head TEXT NOT NULL, written REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS session_head ON session (head);
CREATE INDEX IF NOT EXISTS session_root ON session (root);
CREATE TABLE IF NOT EXISTS key (key BLOB NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (key, session)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS key_session ON key (session);
CREATE TABLE IF NOT EXISTS folder (path TEXT PRIMARY KEY, modified INTEGER NOT NULL) WITHOUT ROWID;
"""

_MATCHES: Final = "SELECT id, head FROM session WHERE {} ORDER BY written DESC, id"


class FileDatabase:
    """A SQLite database in a file that only its owner may read, created when it is first used.

    If it can be rebuilt from other files (`remakable`), writes do not wait for the disk, and a damaged one is replaced.
    """

    def __init__(self, path: Path, statements: str, *, remakable: bool = False) -> None:
        self.path = path
        self._statements = statements
        self._remakable = remakable
        self._lock = asyncio.Lock()
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work in one transaction: at once or, if another process is writing, again in a thread that waits for it.

        Raises:
            StoreError: if the file cannot be read or written.
        """
        async with self._lock:
            try:
                return self._work(work, 0.0)
            except (sqlite3.Error, OSError) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and self._remakable:
                    self.close()
                    _LOGGER.warning("%s is damaged, and is rebuilt from the sessions", self.path)
                    for suffix in ("", "-wal", "-shm"):
                        self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
                elif code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise self._unusable(error) from error
            try:
                return await finish_work(asyncio.to_thread(self._work, work, _WAIT))
            except (sqlite3.Error, OSError) as error:
                raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _unusable(self, error: Exception) -> StoreError:
        self.close()
        return StoreError(f"{self.path} cannot be used: {error}")

    def _work(self, work: Callable[[sqlite3.Connection], T], wait: float) -> T:
        if self._connection is not None and not self.path.exists():
            # Deleted while it was open; what is written there now would be lost.
            self.close()
        if self._connection is None:
            self._connection = self._open_database()
        connection = self._connection
        connection.execute(f"PRAGMA busy_timeout = {round(wait * 1000)}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return done

    def _open_database(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=_WAIT)
        try:
            # A process that is killed loses nothing, and no request waits for the disk: as with the sessions' files.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'OFF' if self._remakable else 'NORMAL'}")
            connection.executescript(self._statements)
        except BaseException:
            connection.close()
            raise
        return connection


class DiskIndex:
    """The digests of the sessions below a directory. All methods raise a StoreError if its file cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._file = FileDatabase(directory / "index.sqlite3", _TABLES, remakable=True)

    async def put(self, session_id: str, digests: SessionDigests, *, replace: bool) -> None:
        """Note a session's digests; without `replace`, only if it has none."""
        statement = "INSERT INTO session (id, root, head, written) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO "
        statement += "UPDATE SET head = excluded.head, written = excluded.written" if replace else "NOTHING"
        row = (session_id, root_of(session_id), digests.head, time.time())

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(statement, row)
            if digests.keys:
                ((number,),) = connection.execute("SELECT number FROM session WHERE id = ?", (session_id,))
                rows = ((bytes.fromhex(key), number) for key in digests.keys)
                connection.executemany("INSERT OR IGNORE INTO key (key, session) VALUES (?, ?)", rows)

        await self._file.run(work)

    async def find(self, sought: Sought) -> Sequence[StoredMatch]:
        """Return the sessions that a request may continue."""

        def work(connection: sqlite3.Connection) -> list[StoredMatch]:
            with_key = _MATCHES.format("number IN (SELECT session FROM key WHERE key = ?)")
            for key in sought.answers:
                rows = connection.execute(with_key, (bytes.fromhex(key),)).fetchall()
                if rows:
                    return [StoredMatch(*row) for row in rows]
            matches: list[StoredMatch] = []
            for head in sought.openings:
                rows = connection.execute(_MATCHES.format("head = ?"), (head,)).fetchall()
                matches += [StoredMatch(*row) for row in rows]
            return matches

        return await self._file.run(work)

    async def without_digests(self, folders: Iterable[Path]) -> Sequence[str]:
        """Return the ids of sessions without digests in some directories; skip directories that have not changed."""

        def work(connection: sqlite3.Connection) -> list[str]:
            missing = []
            for folder in folders:
                modified = folder.stat().st_mtime_ns
                row = (str(folder), modified)
                if connection.execute("SELECT 1 FROM folder WHERE path = ? AND modified = ?", row).fetchone():
                    continue
                ids = {id_of(path) for path in folder.glob("*Z-*.jsonl")}
                known = connection.execute("SELECT id FROM session WHERE root = ?", (folder.name,))
                ids -= {session_id for (session_id,) in known}
                missing += sorted(session_id for session_id in ids if is_session_id(session_id))
                if not ids:
                    connection.execute("INSERT OR REPLACE INTO folder (path, modified) VALUES (?, ?)", row)
            return missing

        return await self._file.run(work)

    async def drop(self, session_ids: Sequence[str]) -> None:
        """Forget sessions."""
        rows = [(session_id,) for session_id in session_ids]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM key WHERE session = (SELECT number FROM session WHERE id = ?)", rows)
            connection.executemany("DELETE FROM session WHERE id = ?", rows)

        if self._file.path.exists():
            await self._file.run(work)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

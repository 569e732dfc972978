"""The index of the sessions on disk, in a file beside them. It is made again from the sessions if it is missing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Final

from wane.journal.store import id_of
from wane.proxy.store.base import is_session_id, root_of
from wane.proxy.store.files import FileDatabase
from wane.proxy.store.marks import Match, SessionDigests, Sought

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

_NOTE: Final = "INSERT INTO session (id, root, head, written) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO "
_REPLACE: Final = "UPDATE SET head = excluded.head, written = excluded.written"
_MATCHES: Final = "SELECT id, head FROM session WHERE {} ORDER BY written DESC, id"


class DiskIndex:
    """The marks of the sessions below a directory."""

    def __init__(self, directory: Path) -> None:
        self._file = FileDatabase(directory / "index.sqlite3", _TABLES, remakable=True)

    async def put(self, session_id: str, marks: SessionDigests, *, replace: bool) -> None:
        """Note a session's marks.

        Args:
            session_id: its id.
            marks: the marks.
            replace: whether the head replaces one that is already there.

        Raises:
            StoreError: if they cannot be written.
        """
        statement = _NOTE + (_REPLACE if replace else "NOTHING")
        row = (session_id, root_of(session_id), marks.head, time.time())

        def work(connection: Connection) -> None:
            connection.execute(statement, row)
            if marks.keys:
                ((number,),) = connection.execute("SELECT number FROM session WHERE id = ?", (session_id,))
                rows = ((bytes.fromhex(key), number) for key in marks.keys)
                connection.executemany("INSERT OR IGNORE INTO key (key, session) VALUES (?, ?)", rows)

        await self._file.run(work)

    async def find(self, sought: Sought) -> Sequence[Match]:
        """Return the sessions that a request may continue.

        Raises:
            StoreError: if the index cannot be read.
        """

        def work(connection: Connection) -> list[Match]:
            for key in sought.answers:
                which = _MATCHES.format("number IN (SELECT session FROM key WHERE key = ?)")
                if rows := connection.execute(which, (bytes.fromhex(key),)).fetchall():
                    return [Match(*row) for row in rows]
            heads = (connection.execute(_MATCHES.format("head = ?"), (head,)) for head in sought.openings)
            return [Match(*row) for rows in heads for row in rows]

        return await self._file.run(work)

    async def unmarked(self, folders: Iterable[Path]) -> Sequence[str]:
        """Return the ids of the sessions in some directories without marks, reading only directories that have changed.

        Raises:
            StoreError: if the index or a directory cannot be read.
        """

        def work(connection: Connection) -> list[str]:
            missing = []
            for folder in folders:
                modified = folder.stat().st_mtime_ns
                row = (str(folder), modified)
                if connection.execute("SELECT 1 FROM folder WHERE path = ? AND modified = ?", row).fetchone():
                    continue
                ids = {id_of(path) for path in folder.glob("*Z-*.jsonl")}
                marked = connection.execute("SELECT id FROM session WHERE root = ?", (folder.name,))
                ids -= {session_id for (session_id,) in marked}
                missing += sorted(filter(is_session_id, ids))
                if not ids:
                    connection.execute("INSERT OR REPLACE INTO folder (path, modified) VALUES (?, ?)", row)
            return missing

        return await self._file.run(work)

    async def drop(self, session_ids: Sequence[str]) -> None:
        """Forget sessions.

        Raises:
            StoreError: if the index cannot be written.
        """
        rows = [(session_id,) for session_id in session_ids]

        def work(connection: Connection) -> None:
            connection.executemany("DELETE FROM key WHERE session = (SELECT number FROM session WHERE id = ?)", rows)
            connection.executemany("DELETE FROM session WHERE id = ?", rows)

        if self._file.path.exists():
            await self._file.run(work)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

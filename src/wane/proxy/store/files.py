"""Small databases in files, which several processes may use at once."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from wane.proxy.store.base import StoreError, uninterrupted

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_WAIT: Final = 5.0  # seconds for other processes to end their transactions


class FileDatabase:
    """A SQLite database in a file that only its owner may read; it is made when something is first written.

    Args:
        path: the file.
        statements: make its tables.
        remakable: whether the file can be made again from others. Then nothing in it waits for the disk, and a damaged
            one is replaced.
    """

    def __init__(self, path: Path, statements: str, *, remakable: bool = False) -> None:
        self.path = path
        self._statements = statements
        self._remakable = remakable
        self._lock = asyncio.Lock()
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work in one transaction, at once or in a thread that waits for other processes.

        Args:
            work: the work; it must be safe to repeat.

        Raises:
            StoreError: if the file cannot be read or written.
        """
        async with self._lock:
            try:
                return self._work(work, 0.0)
            except (sqlite3.Error, OSError) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code in _DAMAGED and self._remakable:
                    self._remove()
                elif code not in _BUSY:
                    self.close()
                    raise self._unusable(error) from error
            try:
                return await uninterrupted(asyncio.to_thread(self._work, work, _WAIT))
            except (sqlite3.Error, OSError) as error:
                self.close()
                raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"{self.path} cannot be used: {error}")

    def _remove(self) -> None:
        self.close()
        _LOGGER.warning("%s is damaged, and is made again from the sessions", self.path)
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _work(self, work: Callable[[sqlite3.Connection], T], wait: float) -> T:
        if self._connection is not None and not self.path.exists():
            # Deleted while it was open; what is written there now would be lost.
            self.close()
        if self._connection is None:
            self._connection = self._opened()
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

    def _opened(self) -> sqlite3.Connection:
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

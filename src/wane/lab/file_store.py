"""Keeps what was read of session files in a database, until they change."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from wane.lab.readers.building.json_lines import dump_json, fast_loads
from wane.lab.readers.choice import split_choice


@dataclass(frozen=True, slots=True)
class Source:
    """A session file, or a session in a database.

    Attributes:
        path: its path, as `read_session` takes it.
        modified: when it, or a file that is read with it, was last written, in seconds since 1970 UTC.
        size: their bytes.
        stamp: a text that differs once any of them has been written to, or another file is in its place.
    """

    path: str
    modified: float
    size: int
    stamp: str

    @classmethod
    def of(cls, path: Path, modified: float, size: int) -> Source:
        """Return a file with those that are read with it: of its sub-agents, and what its agent keeps beside it."""
        beside = [path.with_name(f"{path.name}-wal")] if path.suffix == ".db" else []  # SQLite writes there first
        if path.suffix == ".jsonl":
            if (own := path.with_suffix("")).is_dir():
                beside += sorted(own.glob("subagents/**/*.jsonl"))
            beside.append(path.with_name("meta.json"))  # Mistral Vibe's
        stamps = [f"{modified} {size}", stamp_of_agents(path.parent) if path.suffix == ".jsonl" else ""]
        for file in (path, *beside):
            try:
                status = file.stat()
            except OSError:
                continue  # a session in a database; or deleted in the meantime
            stamps.append(f"{status.st_ino} {status.st_mtime_ns} {status.st_size}")
            if file is not path:
                modified, size = max(modified, status.st_mtime), size + status.st_size
        return cls(str(path), modified, size, blake2b("\n".join(stamps).encode(), digest_size=16).hexdigest())


@lru_cache(maxsize=64)
def stamp_of_agents(folder: Path) -> str:
    """Return a text that differs once a sub-agent's file in a folder has changed.

    Older versions of Claude Code left these beside all sessions of a project. A folder is looked at once, because all
    of its sessions ask.
    """
    stamps: list[str] = []
    for file in sorted(folder.glob("agent-*.jsonl")):
        with suppress(OSError):  # deleted in the meantime
            status = file.stat()
            stamps.append(f"{file.name} {status.st_mtime_ns} {status.st_size}")
    return blake2b("\n".join(stamps).encode(errors="replace"), digest_size=16).hexdigest() if stamps else ""


class FileStore:
    """Keeps JSON-able data of files in a database; one that cannot be used is as if it were empty.

    What it has of a file goes once the file is gone.

    Args:
        path: its file, which is created, and made again if it is damaged; None keeps nothing.
        patience: seconds to wait for another process that writes to it.
    """

    def __init__(self, path: Path | None, patience: float = 5.0) -> None:
        self._path, self._patience = path, patience

    def known_data(self, sources: Iterable[Source], terms: str) -> Iterator[tuple[Source, Any]]:
        """Yield the files that have not changed since data of them was kept on these terms, with that data."""
        rows = self._select("SELECT path, stamp, figures FROM kept WHERE terms = ?", terms)
        kept = {path: (stamp, figures) for path, stamp, figures in rows}
        for source in sources:
            stamp, figures = kept.get(source.path, ("", b""))
            if stamp == source.stamp:
                with suppress(ValueError, TypeError, zlib.error):  # damaged
                    yield source, fast_loads(zlib.decompress(figures))

    def keep_data(self, entries: Iterable[tuple[Source, Any]], terms: str) -> None:
        """Keep data of some files, on some terms."""
        rows = []
        for source, data in entries if self._path is not None else ():
            rows.append((source.path, source.stamp, terms, zlib.compress(dump_json(data), 1)))
        self._change("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", rows)

    def forget_gone(self) -> None:
        """Forget the files that are gone."""
        gone = []
        for (path,) in self._select("SELECT path FROM kept"):
            file, _ = split_choice(path)
            # The path of a session in a database is below the database's.
            if not file.exists() and not file.parent.is_file():
                gone.append((path,))
        if gone:
            self._change("DELETE FROM kept WHERE path = ?", gone)

    def _select(self, statement: str, *values: str) -> list[Any]:
        rows: list[Any] = []
        with self._opened() as database:
            if database is not None:
                rows = database.execute(statement, values).fetchall()
        return rows

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._opened() as database:
            if database is not None:
                database.executemany(statement, rows)
                database.commit()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection | None]:
        """Open the database; None if it cannot be used. What fails in it is given up."""
        database = None
        try:
            if self._path is not None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._path.touch(mode=0o600)  # nobody else may read it
                database = sqlite3.connect(self._path, timeout=self._patience)
                database.execute("PRAGMA secure_delete = ON")  # what is forgotten is in no free page
                database.execute(
                    "CREATE TABLE IF NOT EXISTS kept (path TEXT PRIMARY KEY, stamp TEXT, terms TEXT, figures BLOB)"
                )
        except (OSError, sqlite3.Error) as error:
            if database is not None:
                database.close()
            self._give_up(error)
            database = None
        try:
            yield database
        except sqlite3.Error as error:
            self._give_up(error)
        finally:
            if database is not None:
                database.close()

    def _give_up(self, error: Exception) -> None:
        """Remove the database if it is damaged; another process may hold it, or the disk may be full."""
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        if damaged and self._path is not None:
            with suppress(OSError):
                self._path.unlink()

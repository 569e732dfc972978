"""SQLite databases in which an agent keeps all of its sessions.

A path below the database's file names one of them: `opencode.db/ses_1a2b`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from wane.core.errors import FormatError
from wane.lab.readers.building.json_lines import Problems, first_bytes
from wane.lab.readers.building.values import sound
from wane.lab.recorded_session import RecordedSession

_MAGIC: Final = b"SQLite format 3\x00"
_NAMES: Final = ("opencode", "goose")


@dataclass(frozen=True, slots=True)
class Listed:
    """A session of a database, with its last change in seconds since 1970 UTC, and its size in characters."""

    id: str
    title: str
    cwd: str | None
    modified: float
    size: int


class DatabaseReader(Protocol):
    """Reads the sessions of one agent's database; a module."""

    NAME: str
    TABLES: frozenset[str]

    def list_sessions(self, database: sqlite3.Connection) -> Iterator[Listed]:
        """Yield the sessions, without those of sub-agents."""
        ...

    def export_session(self, database: sqlite3.Connection, session: str) -> Mapping[str, Any] | None:
        """Return a session as the agent itself exports it; None if there is no session with this id."""
        ...

    def session(self, exported: Mapping[str, Any], name: str, problems: Problems) -> RecordedSession:
        """Return the session that an export holds."""
        ...


def is_database(path: Path) -> bool:
    """Return whether a path is a SQLite database, or one session of it."""
    file = path if path.is_file() else path.parent
    return file.is_file() and first_bytes(file).startswith(_MAGIC)


def is_session(path: Path) -> bool:
    """Return whether a path names one session of a database."""
    return not path.is_file() and path.parent.is_file() and is_database(path)


def read(path: Path) -> list[RecordedSession]:
    """Return the sessions of a database, or the one that a path names.

    Raises:
        FormatError: if the database is of no known agent, damaged, or without this session.
    """
    chosen = is_session(path)
    with _open_databases(path.parent if chosen else path) as (reader, database):
        names = [path.name]
        if not chosen:
            names = [listed.id for listed in reader.list_sessions(database)]
        sessions: list[RecordedSession] = []
        for name in names:
            exported = reader.export_session(database, name)
            if exported is None:
                raise FormatError(f"it holds no session {name}")
            sessions.append(reader.session(exported, sound(name), Problems()))
    return sessions


def sessions(path: Path) -> list[Listed]:
    """Return the list of a database's sessions, without reading them.

    Raises:
        FormatError: if the database is of no known agent, or damaged.
    """
    with _open_databases(path) as (reader, database):
        return list(reader.list_sessions(database))


@contextmanager
def _open_databases(path: Path) -> Iterator[tuple[DatabaseReader, sqlite3.Connection]]:
    try:
        with closing(_connect_readonly(path)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            modules = (cast(DatabaseReader, import_module(f"wane.lab.readers.{name}")) for name in _NAMES)
            reader = next((module for module in modules if tables >= module.TABLES), None)
            if reader is None:
                raise FormatError("it is a database, but of no known agent; expected one of OpenCode or Goose")
            yield reader, database
    except (sqlite3.Error, RecursionError) as error:  # recursion: sessions that name each other as their parent
        raise FormatError(f"the database cannot be read: {error}") from error


def _connect_readonly(path: Path) -> sqlite3.Connection:
    """Open a database for reading only; the agent may be writing to it at the same time."""
    uri = path.absolute().as_uri()
    database = sqlite3.connect(f"{uri}?mode=ro", uri=True)
    try:
        database.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError:
        # In a read-only directory SQLite cannot open the write-ahead log; without it the database is still consistent.
        database.close()
        database = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
    database.row_factory = sqlite3.Row
    database.text_factory = lambda raw: raw.decode(errors="replace")
    return database

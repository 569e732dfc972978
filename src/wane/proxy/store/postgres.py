"""Sessions in PostgreSQL: a row for each session, and one for each line of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wane.core.errors import ConfigError
from wane.proxy.store.database import TIMEOUTS, DatabaseLocation, DatabaseStore, DatabaseTimeouts, End
from wane.proxy.store.stores import (
    KEEP,
    Matches,
    SessionDigests,
    Sought,
    StoredMatch,
    StoredSession,
    StoreError,
    checked_root,
    root_of,
)

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)
_PURGED_AT_ONCE: Final = 50
"""Sessions to delete at a time, few enough for one request. If there are more, the next request continues."""

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

# The statements. Each is one step, and safe to repeat.

VERSION: Final = 1
"""Version of the tables."""

HAS_TABLES: Final = "SELECT to_regclass('wane_schema') IS NOT NULL"
SCHEMA_VERSION: Final = "SELECT version FROM wane_schema"

# An arbitrary number that only Wane uses, so that it waits for no other program.
LOCK_TABLES: Final = "SELECT pg_advisory_xact_lock(8428427262005)"

TABLES: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE IF NOT EXISTS wane_session (
        id text PRIMARY KEY,
        root text NOT NULL,
        lines integer NOT NULL,
        tail text NOT NULL,
        written timestamptz NOT NULL,
        head text NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS wane_session_written ON wane_session (written)",
    "CREATE INDEX IF NOT EXISTS wane_session_head ON wane_session (root, head)",
    """
    CREATE TABLE IF NOT EXISTS wane_line (
        session text NOT NULL REFERENCES wane_session (id) ON DELETE CASCADE,
        number integer NOT NULL,
        line text NOT NULL,
        PRIMARY KEY (session, number)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS wane_key (
        key text NOT NULL,
        session text NOT NULL REFERENCES wane_session (id) ON DELETE CASCADE,
        PRIMARY KEY (key, session)
    )
    """,
    "CREATE INDEX IF NOT EXISTS wane_key_session ON wane_key (session)",
    """
    CREATE TABLE IF NOT EXISTS wane_document (
        kind text NOT NULL, name text NOT NULL, document text NOT NULL, PRIMARY KEY (kind, name)
    )
    """,
    "CREATE TABLE IF NOT EXISTS wane_schema (version integer PRIMARY KEY)",
)
DOCUMENTS: Final = "SELECT name, document FROM wane_document WHERE kind = %(kind)s"
DOCUMENT: Final = "SELECT document FROM wane_document WHERE kind = %(kind)s AND name = %(name)s"
FIRST_DOCUMENT: Final = """
INSERT INTO wane_document (kind, name, document) VALUES (%(kind)s, %(name)s, %(after)s)
ON CONFLICT DO NOTHING RETURNING 1
"""
REPLACE_DOCUMENT: Final = """
UPDATE wane_document SET document = %(after)s WHERE kind = %(kind)s AND name = %(name)s AND document = %(before)s
RETURNING 1
"""
DELETE_DOCUMENT: Final = """
DELETE FROM wane_document WHERE kind = %(kind)s AND name = %(name)s AND document = %(before)s RETURNING 1
"""

# A process that waited may not see the new table yet.
SET_VERSION: Final = "INSERT INTO wane_schema (version) VALUES (%(version)s) ON CONFLICT DO NOTHING"

FIND_KEYS: Final = """
SELECT id, head FROM wane_session WHERE id IN (
    SELECT session FROM wane_key WHERE key = (
        SELECT key FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS sought (key, place)
        WHERE EXISTS (SELECT FROM wane_key WHERE wane_key.key = sought.key)
        ORDER BY place LIMIT 1
    )
) ORDER BY written DESC, id
"""
FIND_HEADS: Final = """
SELECT id, head FROM wane_session WHERE root = %(root)s AND head = ANY(%(heads)s::text[])
ORDER BY written DESC, id
"""

BEGIN: Final = """
WITH begun AS (
    INSERT INTO wane_session (id, root, lines, tail, written, head)
    VALUES (%(id)s, %(root)s, 1, %(tail)s, clock_timestamp(), '-')
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO wane_line (session, number, line) SELECT id, 1, %(line)s FROM begun RETURNING number
"""

LINES: Final = "SELECT line FROM wane_line WHERE session = %(id)s ORDER BY number LIMIT %(limit)s"

NEWS: Final = """
SELECT lines, tail, ARRAY(SELECT line FROM wane_line WHERE session = %(id)s AND number > %(known)s ORDER BY number)
FROM wane_session WHERE id = %(id)s
"""

APPEND: Final = """
WITH grown AS (
    UPDATE wane_session
    SET lines = lines + %(count)s, tail = %(tail)s, written = clock_timestamp(), head = coalesce(%(head)s, head)
    WHERE id = %(id)s AND lines = %(known)s AND tail = %(before)s
    RETURNING id
), marked AS (
    INSERT INTO wane_key (session, key) SELECT grown.id, fresh.key FROM grown, unnest(%(keys)s::text[]) AS fresh (key)
    ON CONFLICT DO NOTHING
)
INSERT INTO wane_line (session, number, line)
SELECT grown.id, %(known)s + fresh.number, fresh.line
FROM grown, unnest(%(lines)s::text[]) WITH ORDINALITY AS fresh (line, number)
RETURNING number
"""

APPENDED: Final = "SELECT 1 FROM wane_session WHERE id = %(id)s AND lines = %(known)s + %(count)s AND tail = %(tail)s"

WAIT_FOR_DISK: Final = "SET LOCAL synchronous_commit = on"
TOUCH: Final = "UPDATE wane_session SET lines = lines WHERE id = %(id)s"

PURGE: Final = """
DELETE FROM wane_session
WHERE id IN (
    SELECT id FROM wane_session
    WHERE written < clock_timestamp() - make_interval(secs => %(expiry)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id
"""

UNWRITTEN: Final = """
SELECT id, written, (SELECT sum(octet_length(line)) FROM wane_line WHERE session = id)::bigint FROM wane_session
WHERE written < clock_timestamp() - make_interval(secs => %(seconds)s) ORDER BY written
"""

DELETE: Final = "DELETE FROM wane_session WHERE id = %(id)s RETURNING id"


class PostgresStore(DatabaseStore):
    """Stores sessions in PostgreSQL. It connects and creates its tables only when they are needed.

    Args:
        location: where the database is.
        keep: seconds after its last record until a session is deleted; 0 for never.
        timeouts: how long to wait for it.

    Raises:
        ConfigError: for an option that the client library does not know.
    """

    errors = (psycopg.Error, OSError)
    unreachable = (psycopg.OperationalError, OSError)

    def __init__(self, location: DatabaseLocation, keep: float = KEEP, timeouts: DatabaseTimeouts = TIMEOUTS) -> None:
        super().__init__(location, timeouts)
        self._keep = keep
        self._pool = Pool(_parameters(location, timeouts.limit))
        self._preparing = asyncio.Lock()
        self._prepared = False
        self._purged = float("-inf")

    async def find(self, root: str, sought: Sought) -> Matches:
        checked_root(root)
        for keys in sought.batches():
            if rows := await self._rows(FIND_KEYS, {"keys": [*keys]}):
                return Matches([StoredMatch(*row) for row in rows])
        rows = await self._rows(FIND_HEADS, {"root": root, "heads": [*sought.openings]})
        return Matches([StoredMatch(*row) for row in rows])

    async def begin(self, session_id: str, line: bytes) -> None:
        """Create a log with the line of its header; now and then, delete expired sessions."""
        values = {"id": session_id, "root": root_of(session_id), "line": line.decode("ascii"), "tail": _tail(line)}
        if not await self._rows(BEGIN, values) and await self.fetch(session_id, 1) != [line]:
            raise StoreError(f"there is already a session {session_id} in {self.name}")
        await self._purge()

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        rows = await self._rows(LINES, {"id": session_id, "limit": limit})
        return [row[0].encode("ascii") for row in rows]

    async def new_lines(self, session_id: str, known_lines: int) -> tuple[End, Sequence[bytes]] | None:
        rows = await self._rows(NEWS, {"id": session_id, "known": known_lines})
        if not rows:
            return None
        ((count, tail, lines),) = rows
        return End(count, int(tail, 16)), [line.encode("ascii") for line in lines]

    async def append(
        self, session_id: str, after: End, lines: Sequence[bytes], digests: SessionDigests | None = None
    ) -> bool:
        values = {
            "id": session_id,
            "known": after.lines,
            "before": f"{after.checksum:08x}",
            "lines": [line.decode("ascii") for line in lines],
            "count": len(lines),
            "tail": _tail(lines[-1]),
            "head": None if digests is None else digests.head,
            "keys": [] if digests is None else [*digests.keys],
        }
        # Added now, or before by an attempt whose answer was lost.
        return bool(await self._rows(APPEND, values) or await self._rows(APPENDED, values))

    async def documents(self, kind: str) -> Mapping[str, str]:
        return dict(await self._rows(DOCUMENTS, {"kind": kind}))

    async def document(self, kind: str, name: str) -> str | None:
        rows = await self._rows(DOCUMENT, {"kind": kind, "name": name})
        return rows[0][0] if rows else None

    async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
        values = {"kind": kind, "name": name, "before": before, "after": after}
        if before is not None:
            statement = DELETE_DOCUMENT if after is None else REPLACE_DOCUMENT
        elif after is not None:
            statement = FIRST_DOCUMENT
        else:
            return await self.document(kind, name) is None
        return bool(await self._rows(statement, values))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        return [StoredSession(*row) for row in await self._rows(UNWRITTEN, {"seconds": seconds})]

    async def drop(self, session_id: str) -> bool:
        return bool(await self._rows(DELETE, {"id": session_id}))

    async def sync(self, session_id: str) -> None:
        """Wait until all commits are on the server's disk, and on its synchronous standbys if it has any."""

        async def wait(connection: Connection) -> None:
            async with connection.transaction():
                # Waiting for one commit means waiting for all before it.
                await connection.execute(WAIT_FOR_DISK)
                await connection.execute(TOUCH, {"id": session_id})

        # A slow disk or a missing standby is no outage of the database.
        await self._run(wait, 10.0)

    async def close(self) -> None:
        await self._pool.close()

    async def _rows(self, statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        async def ask(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall() if cursor.description else []

        return await self._run(ask)

    async def _run(self, work: Callable[[Connection], Awaitable[T]], limit: float | None = None) -> T:
        """Do a step on a connection, after creating the tables if needed; see `_step` for the limit."""
        if not self._prepared:
            async with self._preparing:
                if not self._prepared:
                    await self._step(lambda: self._pool.run(self._prepare))
                    self._prepared = True
        return await self._step(lambda: self._pool.run(work), limit)

    async def _prepare(self, connection: Connection) -> None:
        version = await self._version(connection)
        if version < VERSION:
            async with connection.transaction():
                # One process makes the tables; others wait, and find them.
                await connection.execute(LOCK_TABLES)
                version = await self._version(connection)
                if version < VERSION:
                    for statement in TABLES:
                        await connection.execute(statement)
                    await connection.execute(SET_VERSION, {"version": VERSION})
        if version > VERSION:
            raise StoreError(
                f"the tables in {self.name} are of version {version}, but this Wane needs version {VERSION}:"
                " update Wane, or use another database or schema"
            )

    async def _version(self, connection: Connection) -> int:
        """The version of the tables; 0 if there are none."""
        cursor = await connection.execute(HAS_TABLES)
        if (await cursor.fetchall()) == [(False,)]:
            return 0
        rows = await (await connection.execute(SCHEMA_VERSION)).fetchall()
        return max((version for (version,) in rows), default=0)

    async def _purge(self) -> None:
        now = time.monotonic()
        if not self._keep or now - self._purged < 3600:
            return
        self._purged = now
        try:
            deleted = await self._rows(PURGE, {"expiry": self._keep, "limit": _PURGED_AT_ONCE})
            if len(deleted) == _PURGED_AT_ONCE:
                self._purged = float("-inf")
        except StoreError as error:
            _LOGGER.warning("expired sessions were not deleted: %s", error)


def _parameters(location: DatabaseLocation, limit: float) -> dict[str, Any]:
    try:
        parameters: dict[str, Any] = dict(conninfo_to_dict(location.url))
    except psycopg.Error:
        raise ConfigError(
            f"the store {location.name} has an option in its URL that PostgreSQL's client library does not know"
        ) from None
    # `sync` waits for commits. A pooler that would leak this setting to other clients refuses it as a start parameter.
    parameters["options"] = f"{parameters.get('options') or ''} -c synchronous_commit=off".strip()
    defaults = {
        "connect_timeout": 2,
        "keepalives_idle": 30,
        "tcp_user_timeout": round(limit * 1000),
        "application_name": "wane",
        "client_encoding": "utf8",
    }
    return defaults | parameters


def _tail(line: bytes) -> str:
    # The line's checksum, before `"}`.
    return line[-10:-2].decode("ascii")


class Pool:
    """A few connections of one process, opened when they are needed.

    psycopg's own pool connects in the background. If the server is down, requests wait for a timeout and learn no
    reason; when it is back, the pool notices only at its next attempt, and the pauses between attempts grow.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters
        self._free = asyncio.Semaphore(10)  # each is used for one statement at a time
        # The last used is taken first, so that few stay busy and the server can close the others.
        self._idle: list[Connection] = []

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do work that is safe to repeat on a connection; if an idle one turns out broken, do it again on a new one."""
        async with self._free:
            if self._idle:
                connection = self._idle.pop()
                try:
                    return await self._work(connection, work)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
                # The server went away, so all idle connections are broken.
                await self.close()
            connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
            return await self._work(connection, work)

    async def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _work(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await work(connection)
        finally:
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                self._idle.append(connection)
            else:
                await connection.close()

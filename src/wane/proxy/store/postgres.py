"""Sessions in PostgreSQL: a row for each session, and one for each line of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wane.core.errors import ConfigError
from wane.proxy.store import postgres_statements as sql
from wane.proxy.store.base import KEEP, StoredSession, StoreError
from wane.proxy.store.location import Location
from wane.proxy.store.names import FOUND, root_of
from wane.proxy.store.outage import PATIENCE, Outage, Patience
from wane.proxy.store.postgres_pool import Connection, Pool
from wane.proxy.store.shared import End, News
from wane.proxy.store.work import lost, within

T = TypeVar("T")

_LOGGER: Final = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 2
_SETTLE_SECONDS: Final = 10.0
_PURGE_SECONDS: Final = 3600.0
_PURGED_AT_ONCE: Final = 50
"""Sessions: few enough to be deleted within a request. If there were more, the next one goes on."""


class PostgresDatabase:
    """Logs of lines in PostgreSQL. No connection is made before the first one is needed, nor any table.

    Args:
        location: where it is.
        keep: seconds after which a session that nobody wrote to is deleted; 0 for never.
        patience: how long it is waited for.

    Raises:
        ConfigError: for an option that the client library does not know.
    """

    def __init__(self, location: Location, keep: float = KEEP, patience: Patience = PATIENCE) -> None:
        self.name = location.name
        self._location = location
        self._keep = keep
        self._pool = Pool(_parameters(location, patience.limit))
        self._limit = patience.limit
        self._outage = Outage(patience.pause)
        self._preparing = asyncio.Lock()
        self._prepared = False
        self._purged = float("-inf")

    def __repr__(self) -> str:
        return f"PostgresDatabase({self.name!r})"

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of a root's sessions, the last written first."""
        return tuple(row[0] for row in await self._rows(sql.FIND, {"root": root, "limit": FOUND}))

    async def begin(self, session_id: str, line: bytes) -> None:
        """Begin a log with a header's line; now and then, delete the sessions that have expired."""
        values = {"id": session_id, "root": root_of(session_id), "line": line.decode("ascii"), "tail": _tail(line)}
        if not await self._rows(sql.BEGIN, values) and await self.fetch(session_id, 1) != [line]:
            raise StoreError(f"there is already a session {session_id} in {self.name}")
        await self._purge()

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first of them."""
        rows = await self._rows(sql.LINES, {"id": session_id, "limit": limit})
        return [row[0].encode("ascii") for row in rows]

    async def news(self, session_id: str, known: int) -> News:
        """Return where a log ends, and the lines after so many known ones."""
        rows = await self._rows(sql.NEWS, {"id": session_id, "known": known})
        if not rows:
            raise lost(session_id, self.name)
        ((count, tail, lines),) = rows
        return News(End(count, int(tail, 16)), [line.encode("ascii") for line in lines])

    async def append(self, session_id: str, after: End, lines: Sequence[bytes]) -> bool:
        """Add lines to a log."""
        values = {
            "id": session_id,
            "known": after.lines,
            "before": f"{after.checksum:08x}",
            "lines": [line.decode("ascii") for line in lines],
            "count": len(lines),
            "tail": _tail(lines[-1]),
        }
        # Added now; or added before, by a try whose answer was lost.
        return bool(await self._rows(sql.APPEND, values) or await self._rows(sql.APPENDED, values))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions that nobody has written to for so many seconds."""
        return [StoredSession(*row) for row in await self._rows(sql.UNWRITTEN, {"seconds": seconds})]

    async def delete(self, session_id: str) -> bool:
        """Delete a session."""
        return bool(await self._rows(sql.DELETE, {"id": session_id}))

    async def settle(self, session_id: str) -> None:
        """Wait until what was added is on the server's disk, and wherever else the server waits for."""
        # That a disk is slow, or a standby away, is no reason not to ask for anything else.
        await self._done(lambda connection: _settled(connection, session_id), _SETTLE_SECONDS)

    async def close(self) -> None:
        """Let go of connections."""
        await self._pool.close()

    async def _rows(self, statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        async def ask(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall() if cursor.description else []

        return await self._done(ask)

    async def _done(self, work: Callable[[Connection], Awaitable[T]], apart: float | None = None) -> T:
        """Do work on a connection that has the tables; some has a limit of its own, and no outage begins with it."""
        if not self._prepared:
            async with self._preparing:
                if not self._prepared:
                    await self._served(self._prepare)
                    self._prepared = True
        return await self._served(work, apart)

    async def _served(self, work: Callable[[Connection], Awaitable[T]], apart: float | None = None) -> T:
        begun, limit = self._outage.asking(), apart or self._limit
        try:
            done = await within(limit, self._pool.run(work))
        except (psycopg.Error, OSError) as error:
            # The error itself is not passed on: what a library shows of a connection is not ours to know.
            reason = self._location.without_secrets(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                reason = f"no answer within {limit:g} seconds"
            failure = StoreError(f"the store {self.name} does not serve: {reason}")
            if isinstance(error, (psycopg.OperationalError, OSError)):
                if apart is None:
                    self._outage.failed(failure, begun)
            else:
                self._outage.over()
            raise failure from None
        self._outage.over()
        return done

    async def _prepare(self, connection: Connection) -> None:
        cursor = await connection.execute(sql.HAS_TABLES)
        if (await cursor.fetchall()) == [(False,)]:
            async with connection.transaction():
                # One process makes the tables; others wait, and find them.
                await connection.execute(sql.LOCK_TABLES)
                for statement in sql.MAKE_TABLES:
                    await connection.execute(statement)
                await connection.execute(sql.SET_VERSION, {"version": sql.VERSION})
        versions = await (await connection.execute(sql.SCHEMA_VERSION)).fetchall()
        if versions != [(sql.VERSION,)]:
            found = ", ".join(str(version) for (version,) in versions) or "none"
            raise StoreError(
                f"the tables in {self.name} are of version {found}, and this Wane knows version {sql.VERSION}:"
                " update Wane, or give it another database or schema"
            )

    async def _purge(self) -> None:
        now = time.monotonic()
        if not self._keep or now - self._purged < _PURGE_SECONDS:
            return
        self._purged = now
        try:
            deleted = await self._rows(sql.PURGE, {"expiry": self._keep, "limit": _PURGED_AT_ONCE})
            if len(deleted) == _PURGED_AT_ONCE:
                self._purged = float("-inf")
        except StoreError as error:
            _LOGGER.warning("expired sessions were not deleted: %s", error)


async def _settled(connection: Connection, session_id: str) -> None:
    async with connection.transaction():
        # Waiting for a commit is waiting for all that were made before it.
        await connection.execute(sql.WAIT_FOR_DISK)
        await connection.execute(sql.TOUCH, {"id": session_id})


def _parameters(location: Location, limit: float) -> dict[str, Any]:
    try:
        parameters: dict[str, Any] = dict(conninfo_to_dict(location.url))
    except psycopg.Error:
        raise ConfigError(
            f"the store {location.name} has an option in its URL that PostgreSQL's client library does not know"
        ) from None
    # Commits are waited for in `settle`. As a start parameter, which a pooler that would leak it to others refuses.
    parameters["options"] = f"{parameters.get('options') or ''} -c synchronous_commit=off".strip()
    defaults = {
        "connect_timeout": _CONNECT_SECONDS,
        "keepalives_idle": 30,
        "tcp_user_timeout": round(limit * 1000),
        "application_name": "wane",
        "client_encoding": "utf8",
    }
    return defaults | parameters


def _tail(line: bytes) -> str:
    # Its checksum, before `"}`.
    return line[-10:-2].decode("ascii")

"""Sessions in Redis or a compatible server: a list of lines for each session, and a sorted set for each root.

    <prefix>:{<root>}:ids            sorted set: ids of the root's sessions, by the time of their last record (ms)
    <prefix>:{<root>}:<id>:lines     list: the line of the header, and one for each record

The braces are part of the keys: a cluster keeps keys with the same text in braces on one node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as GoneError
from redis.exceptions import TimeoutError as SlowError

from wane.core.errors import ConfigError
from wane.proxy.store.base import KEEP, MAX_FOUND, StoredSession, StoreError, checked_root, root_of
from wane.proxy.store.database import TIMEOUTS, DatabaseStore, End, Timeouts
from wane.proxy.store.location import Location

_CONNECTIONS: Final = 32
_CONNECT_SECONDS: Final = 2.0

# A line ends with its checksum, eight hexadecimal digits, and then `"}`.
_CHECKSUM: Final = """
local function checksum_at(place)
  local line = redis.call('LINDEX', lines, place)
  return line and string.sub(line, -10, -3) or ''
end
"""

_WRITTEN: Final = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', ids, ms, id)
if expiry > 0 then
  redis.call('PEXPIRE', lines, expiry)
  redis.call('PEXPIRE', ids, expiry)
  redis.call('ZREMRANGEBYSCORE', ids, '-inf', ms - expiry)
else
  redis.call('PERSIST', lines)
  redis.call('PERSIST', ids)
end
return 1
"""

BEGIN: Final = f"""
local lines, ids = KEYS[1], KEYS[2]
local id, expiry, header = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', lines) == 1 then
  return redis.call('LINDEX', lines, 0) == header and 1 or 0
end
redis.call('RPUSH', lines, header)
{_WRITTEN}
"""
"""Create a log. Keys: lines, ids. Arguments: id, expiry in milliseconds (0: never), the header's line. 1 if it exists
now with that header, else 0."""

NEWS: Final = f"""
local lines, known = KEYS[1], tonumber(ARGV[1])
{_CHECKSUM}
return {{redis.call('LLEN', lines), checksum_at(-1), redis.call('LRANGE', lines, known, -1)}}
"""
"""Read the new lines of a log. Keys: lines, ids. Argument: number of known lines. Returns the number of lines (0 if
there is no such log), the checksum of the last one, and the new lines."""

APPEND: Final = f"""
local lines, ids = KEYS[1], KEYS[2]
local id, expiry = ARGV[1], tonumber(ARGV[2])
local known, checksum, first = tonumber(ARGV[3]), ARGV[4], 5
{_CHECKSUM}
local count, added = redis.call('LLEN', lines), #ARGV - first + 1
if count == known + added and redis.call('LINDEX', lines, -1) == ARGV[#ARGV] then return 1 end
if count ~= known or checksum_at(-1) ~= checksum then return 0 end
for place = first, #ARGV do redis.call('RPUSH', lines, ARGV[place]) end
{_WRITTEN}
"""
"""Append lines to a log. Keys: lines, ids. Arguments: id, expiry, the number of its lines and the checksum of the last
one, the new lines. 1 if they are in it now, 0 if the log ends differently."""

DELETE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
"""
"""Delete a session. Keys: lines, ids. Argument: id. 1 if it existed."""


class RedisStore(DatabaseStore):
    """Stores sessions in Redis. It connects only when a connection is needed.

    Args:
        location: where the database is.
        keep: seconds after its last record until a session is deleted; 0 for never.
        timeouts: how long to wait for it; the option `socket_timeout` in the URL overrides its limit.

    Raises:
        ConfigError: for an option that the client library does not know.
    """

    errors = (RedisError, OSError)
    unreachable = (GoneError, SlowError, OSError)
    late = (SlowError, TimeoutError)

    def __init__(self, location: Location, keep: float = KEEP, timeouts: Timeouts = TIMEOUTS) -> None:
        super().__init__(location, timeouts)
        self._expiry = round(keep * 1000)
        pool = _pool(location, timeouts.limit)
        self._limit = pool.connection_kwargs["socket_timeout"]
        # `Any`, because the library's methods are typed for both its synchronous and its asynchronous client.
        self._client: Any = Redis(connection_pool=pool)
        self._scripts = {script: self._client.register_script(script) for script in (BEGIN, NEWS, APPEND, DELETE)}

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of a root's sessions, the last written first, without expired ones."""
        key = self._key(checked_root(root), "ids")
        ids = [raw.decode() for raw in await self._query(lambda: self._client.zrevrange(key, 0, MAX_FOUND - 1))]
        exist = await self._query(lambda: self._exist(root, ids)) if ids else ()
        return tuple(session_id for session_id, exists in zip(ids, exist, strict=True) if exists)

    async def begin(self, session_id: str, line: bytes) -> None:
        """Create a log with the line of its header."""
        if not await self._run(BEGIN, session_id, session_id, self._expiry, line):
            raise StoreError(f"there is already a session {session_id} in {self.name}")

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first `limit` of them."""
        key = self._key(root_of(session_id), session_id, "lines")
        last = -1 if limit is None else limit - 1
        lines: Sequence[bytes] = await self._query(lambda: self._client.lrange(key, 0, last))
        return lines

    async def new_lines(self, session_id: str, known: int) -> tuple[End, Sequence[bytes]] | None:
        """Return the end of a log, and the lines after the known ones."""
        count, checksum, lines = await self._run(NEWS, session_id, known)
        return (End(count, int(checksum, 16)), lines) if count else None

    async def append(self, session_id: str, after: End, lines: Sequence[bytes]) -> bool:
        """Add lines to a log."""
        end = (after.lines, f"{after.checksum:08x}")
        return bool(await self._run(APPEND, session_id, session_id, self._expiry, *end, *lines))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions whose last record is older than this many seconds, the oldest first."""
        whole, microseconds = await self._query(self._client.time)
        found, now = [], whole + microseconds / 1_000_000
        roots = f"{self._location.prefix}:{{*}}:ids"

        async def keys() -> Sequence[bytes]:
            return sorted([key async for key in self._client.scan_iter(roots, 1000)])

        for key in await self._query(keys):
            for raw, milliseconds in await self._query(partial(self._client.zrange, key, 0, -1, withscores=True)):
                session_id, written = raw.decode(), milliseconds / 1000
                lines = self._key(root_of(session_id), session_id, "lines")
                if now - written > seconds and (size := await self._query(partial(self._client.memory_usage, lines))):
                    found.append(StoredSession(session_id, datetime.fromtimestamp(written, UTC), size))
        return sorted(found, key=lambda session: session.written)

    async def drop(self, session_id: str) -> bool:
        """Delete a session."""
        return bool(await self._run(DELETE, session_id, session_id))

    async def sync(self, session_id: str) -> None:
        """Do nothing: the server's settings decide how durable its writes are."""

    async def close(self) -> None:
        """Close all connections."""
        await self._client.connection_pool.disconnect()

    def _key(self, root: str, *names: str) -> str:
        return ":".join((self._location.prefix, f"{{{root}}}", *names))

    async def _run(self, script: str, session_id: str, *args: bytes | float | str) -> Any:
        root = root_of(session_id)
        keys = [self._key(root, session_id, "lines"), self._key(root, "ids")]
        return await self._query(lambda: self._scripts[script](keys=keys, args=args))

    async def _exist(self, root: str, ids: Sequence[str]) -> Sequence[int]:
        pipeline = self._client.pipeline(transaction=False)
        for session_id in ids:
            pipeline.exists(self._key(root, session_id, "lines"))
        exist: Sequence[int] = await pipeline.execute()
        return exist

    async def _query(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def work() -> Any:
            try:
                return await ask()
            except GoneError as error:
                if isinstance(error, AuthenticationError):
                    raise
                # The connection broke while it was idle, and so did others. Every step is safe to repeat.
                await self._client.connection_pool.disconnect(inuse_connections=False)
                return await ask()

        return await self._step(work)


def _pool(location: Location, limit: float) -> BlockingConnectionPool:
    try:
        pool = BlockingConnectionPool.from_url(
            location.url,
            max_connections=_CONNECTIONS,
            timeout=limit,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=limit,
            retry=Retry(NoBackoff(), 0),
        )
        # This does not connect; it only checks the options.
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, RedisError):
        raise ConfigError(
            f"the store {location.name} has an option in its URL that the Redis client does not know, or whose value it"
            " does not accept. Wane's own option is prefix"
        ) from None
    return pool

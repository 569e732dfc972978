"""Sessions in Redis or a compatible server: lists for each session, and sorted sets for each root.

    <prefix>:{<root>}:ids            sorted set: ids of the root's sessions, by the time of their last record (ms)
    <prefix>:{<root>}:keys           sorted set: `<key> <id>` for each answer of a session
    <prefix>:{<root>}:heads          sorted set: `<head> <id>` for each session with digests
    <prefix>:{<root>}:<id>:lines     list: the line of the header, and one for each record
    <prefix>:documents:<kind>        hash: small texts that all processes share, such as what they have spent
    <prefix>:{<root>}:<id>:marks     list: the session's head, and its keys, to delete them from these sets

The braces are part of the keys: a cluster keeps keys with the same text in braces on one node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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

# A line ends with its checksum, eight hexadecimal digits, and then `"}`.
_CHECKSUM: Final = """
local function checksum_at(place)
  local line = redis.call('LINDEX', lines, place)
  return line and string.sub(line, -10, -3) or ''
end
"""

# This list outlives its session, so that the sets can be cleaned up after the session has expired.
_UNMARK: Final = """
local function unmark(marks, id)
  for number, key in ipairs(redis.call('LRANGE', marks, 0, -1)) do
    redis.call('ZREM', number == 1 and heads or keys, key .. ' ' .. id)
  end
  redis.call('DEL', marks)
end
"""

_MARK: Final = """
local function mark(head, first)
  local old = redis.call('LINDEX', marks, 0)
  if old ~= head then
    if old then
      redis.call('ZREM', heads, old .. ' ' .. id)
      redis.call('LSET', marks, 0, head)
    else
      redis.call('RPUSH', marks, head)
    end
    redis.call('ZADD', heads, 0, head .. ' ' .. id)
  end
  for place = first, #ARGV do
    if redis.call('ZADD', keys, 0, ARGV[place] .. ' ' .. id) == 1 then redis.call('RPUSH', marks, ARGV[place]) end
  end
end
"""

_WRITTEN: Final = f"""
{_UNMARK}
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', ids, ms, id)
if expiry > 0 then
  redis.call('PEXPIRE', lines, expiry)
  for _, name in ipairs({{ids, keys, heads}}) do redis.call('PEXPIRE', name, 2 * expiry) end
  redis.call('PEXPIRE', marks, 3 * expiry)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', ids, '-inf', ms - expiry)) do
    unmark(string.sub(ids, 1, -4) .. gone .. ':marks', gone)
    redis.call('ZREM', ids, gone)
  end
else
  for _, name in ipairs(KEYS) do redis.call('PERSIST', name) end
end
return 1
"""

_KEYS: Final = "local lines, marks, ids, keys, heads = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]\n"

BEGIN: Final = f"""
{_KEYS}
local id, expiry, header = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', lines) == 1 then
  return redis.call('LINDEX', lines, 0) == header and 1 or 0
end
redis.call('RPUSH', lines, header)
{_MARK}
mark('-', #ARGV + 1)
{_WRITTEN}
"""
"""Create a log. Keys: those of `_KEYS`, as in all scripts. Arguments: id, expiry in milliseconds (0: never), the line
of the header. 1 if it exists now with that header, else 0."""

NEWS: Final = f"""
{_KEYS}
local known = tonumber(ARGV[1])
{_CHECKSUM}
return {{redis.call('LLEN', lines), checksum_at(-1), redis.call('LRANGE', lines, known, -1)}}
"""
"""Read the new lines of a log. Argument: number of known lines. Returns the number of lines (0 if
there is no such log), the checksum of the last one, and the new lines."""

APPEND: Final = f"""
{_KEYS}
local id, expiry = ARGV[1], tonumber(ARGV[2])
local known, checksum, added, first = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), 6
local head, last = ARGV[first + added], first + added - 1
{_CHECKSUM}
{_MARK}
local count = redis.call('LLEN', lines)
if count == known + added and redis.call('LINDEX', lines, -1) == ARGV[last] then return 1 end
if count ~= known or checksum_at(-1) ~= checksum then return 0 end
for place = first, last do redis.call('RPUSH', lines, ARGV[place]) end
if head then mark(head, last + 2) end
{_WRITTEN}
"""
"""Append lines to a log. Arguments: id, expiry, the number of its lines and the checksum of the last one, the number of
new lines, these lines, and if it has new digests its head and its further keys. 1 if the lines are in it now, 0 if the
log ends differently."""

FIND: Final = f"""
{_KEYS}
local function all(name, from)
  local ids = {{}}
  for place = from, #ARGV do
    for _, member in ipairs(redis.call('ZRANGEBYLEX', name, '[' .. ARGV[place] .. ' ', '[' .. ARGV[place] .. '!')) do
      ids[#ids + 1] = string.sub(member, #ARGV[place] + 2)
    end
    if #ids > 0 and name == keys then break end
  end
  return ids
end
local matched = {{}}
for _, id in ipairs(all(ARGV[1] == 'keys' and keys or heads, 2)) do
  local stem = string.sub(ids, 1, -4) .. id
  if redis.call('EXISTS', stem .. ':lines') == 1 then
    matched[#matched + 1] = {{id, redis.call('LINDEX', stem .. ':marks', 0), redis.call('ZSCORE', ids, id) or '0'}}
  end
end
return matched
"""
"""Find sessions: those with the first of some keys that any session has, or those with one of some heads. Arguments:
`keys` or `heads`, and these. Returns id, head and time of each."""

DELETE: Final = f"""
{_KEYS}
{_UNMARK}
unmark(marks, ARGV[1])
redis.call('ZREM', ids, ARGV[1])
return redis.call('DEL', lines)
"""
"""Delete a session. Argument: id. 1 if it existed."""

REPLACE: Final = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""
"""Replace a document. Key: that of its kind. Arguments: its name, the known and the new text, each empty for none. 1 if
it was replaced, 0 if it had another text."""


class RedisStore(DatabaseStore):
    """Stores sessions in Redis. It connects only when a connection is needed.

    Args:
        location: where the database is.
        keep: seconds after its last record until a session is deleted; 0 for never.
        timeouts: how long to wait for the database; the option `socket_timeout` in the URL overrides the limit.

    Raises:
        ConfigError: for an option that the client library does not know.
    """

    errors = (RedisError, OSError)
    unreachable = (GoneError, SlowError, OSError)
    late = (SlowError, TimeoutError)

    def __init__(self, location: DatabaseLocation, keep: float = KEEP, timeouts: DatabaseTimeouts = TIMEOUTS) -> None:
        super().__init__(location, timeouts)
        self._expiry = round(keep * 1000)
        pool = _pool(location, timeouts.limit)
        self._limit = pool.connection_kwargs["socket_timeout"]
        # `Any`, because the library's methods are typed for both its synchronous and its asynchronous client.
        self._client: Any = Redis(connection_pool=pool)
        scripts = (BEGIN, NEWS, APPEND, FIND, DELETE, REPLACE)
        self._scripts = {script: self._client.register_script(script) for script in scripts}

    async def find(self, root: str, sought: Sought) -> Matches:
        checked_root(root)
        any_id = f"{root}-{'0' * 16}"
        rows: list[Any] = []
        for keys in sought.batches():
            rows = await self._run(FIND, any_id, "keys", *keys)
            if rows:
                break
        if not rows:
            rows = await self._run(FIND, any_id, "heads", *sought.openings)
        rows.sort(key=lambda row: float(row[2]), reverse=True)
        return Matches([StoredMatch(row[0].decode(), (row[1] or b"").decode()) for row in rows])

    async def begin(self, session_id: str, line: bytes) -> None:
        if not await self._run(BEGIN, session_id, session_id, self._expiry, line):
            raise StoreError(f"there is already a session {session_id} in {self.name}")

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        key = self._key(root_of(session_id), session_id, "lines")
        last = -1 if limit is None else limit - 1
        lines: Sequence[bytes] = await self._query(lambda: self._client.lrange(key, 0, last))
        return lines

    async def new_lines(self, session_id: str, known_lines: int) -> tuple[End, Sequence[bytes]] | None:
        count, checksum, lines = await self._run(NEWS, session_id, known_lines)
        return (End(count, int(checksum, 16)), lines) if count else None

    async def append(
        self, session_id: str, after: End, lines: Sequence[bytes], digests: SessionDigests | None = None
    ) -> bool:
        end = (after.lines, f"{after.checksum:08x}", len(lines))
        written = () if digests is None else (digests.head, *digests.keys)
        return bool(await self._run(APPEND, session_id, session_id, self._expiry, *end, *lines, *written))

    async def documents(self, kind: str) -> Mapping[str, str]:
        documents = await self._query(lambda: self._client.hgetall(self._documents_key(kind)))
        return {name.decode(): document.decode() for name, document in documents.items()}

    async def document(self, kind: str, name: str) -> str | None:
        document = await self._query(lambda: self._client.hget(self._documents_key(kind), name))
        return None if document is None else document.decode()

    async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
        keys = [self._documents_key(kind)]
        args = (name, before or "", after or "")
        return bool(await self._query(lambda: self._scripts[REPLACE](keys=keys, args=args)))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        now_seconds, microseconds = await self._query(self._client.time)
        latest = now_seconds + microseconds / 1_000_000 - seconds
        pattern = f"{self._location.prefix}:{{*}}:ids"

        async def keys() -> Sequence[bytes]:
            return sorted([key async for key in self._client.scan_iter(pattern, 1000)])

        sessions = []
        for key in await self._query(keys):
            for raw, milliseconds in await self._query(partial(self._client.zrange, key, 0, -1, withscores=True)):
                session_id = raw.decode()
                written = milliseconds / 1000
                if written >= latest:
                    continue
                lines = self._key(root_of(session_id), session_id, "lines")
                size = await self._query(partial(self._client.memory_usage, lines))
                if size:  # else it has expired
                    sessions.append(StoredSession(session_id, datetime.fromtimestamp(written, UTC), size))
        return sorted(sessions, key=lambda session: session.written)

    async def drop(self, session_id: str) -> bool:
        return bool(await self._run(DELETE, session_id, session_id))

    async def sync(self, session_id: str) -> None:
        """Do nothing: the server's settings decide how durable its writes are."""

    async def close(self) -> None:
        await self._client.connection_pool.disconnect()

    def _documents_key(self, kind: str) -> str:
        return f"{self._location.prefix}:documents:{kind}"

    def _key(self, root: str, *names: str) -> str:
        return ":".join((self._location.prefix, f"{{{root}}}", *names))

    async def _run(self, script: str, session_id: str, *args: bytes | float | str) -> Any:
        root = root_of(session_id)
        keys = [self._key(root, session_id, name) for name in ("lines", "marks")]
        keys += [self._key(root, name) for name in ("ids", "keys", "heads")]
        return await self._query(lambda: self._scripts[script](keys=keys, args=args))

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


def _pool(location: DatabaseLocation, limit: float) -> BlockingConnectionPool:
    try:
        pool = BlockingConnectionPool.from_url(
            location.url,
            max_connections=32,
            timeout=limit,
            socket_connect_timeout=2.0,
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

"""Sessions in Redis, or what speaks its protocol: a list of lines for each, and a sorted set for each root.

    <prefix>:{<root>}:ids            sorted set: ids of the root's sessions, by when they were written, in milliseconds
    <prefix>:{<root>}:<id>:lines     list: the header's line, and one for each record

The braces are in the keys themselves: by them a cluster keeps in one place what belongs together.
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
from wane.proxy.store.base import KEEP, StoredSession, StoreError
from wane.proxy.store.location import Location
from wane.proxy.store.names import FOUND, root_of
from wane.proxy.store.outage import PATIENCE, Outage, Patience
from wane.proxy.store.redis_scripts import APPEND, BEGIN, DELETE, NEWS
from wane.proxy.store.shared import End, News
from wane.proxy.store.work import lost, within

_CONNECTIONS: Final = 32
_CONNECT_SECONDS: Final = 2.0


class RedisDatabase:
    """Logs of lines in Redis. No connection is made before the first one is needed.

    Args:
        location: where it is.
        keep: seconds after which a session that nobody wrote to is deleted; 0 for never.
        patience: how long it is waited for; the option `socket_timeout` of the URL goes before its limit.

    Raises:
        ConfigError: for an option that the client library does not know.
    """

    def __init__(self, location: Location, keep: float = KEEP, patience: Patience = PATIENCE) -> None:
        self.name = location.name
        self._location = location
        self._expiry = round(keep * 1000)
        # Its types promise both an answer and one that is waited for.
        pool = _pool(location, patience.limit)
        self._limit: float = pool.connection_kwargs["socket_timeout"]
        self._outage = Outage(patience.pause)
        self._client: Any = Redis(connection_pool=pool)
        self._scripts = {script: self._client.register_script(script) for script in (BEGIN, NEWS, APPEND, DELETE)}

    def __repr__(self) -> str:
        return f"RedisDatabase({self.name!r})"

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of a root's sessions, the last written first; those that have expired are left out."""
        key = self._key(root, "ids")
        ids = [raw.decode() for raw in await self._asked(lambda: self._client.zrevrange(key, 0, FOUND - 1))]
        there = await self._asked(lambda: self._there(root, ids)) if ids else ()
        return tuple(session_id for session_id, exists in zip(ids, there, strict=True) if exists)

    async def begin(self, session_id: str, line: bytes) -> None:
        """Begin a log with a header's line."""
        if not await self._run(BEGIN, session_id, ("lines", "ids"), session_id, self._expiry, line):
            raise StoreError(f"there is already a session {session_id} in {self.name}")

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first of them."""
        key = self._key(root_of(session_id), session_id, "lines")
        last = -1 if limit is None else limit - 1
        lines: Sequence[bytes] = await self._asked(lambda: self._client.lrange(key, 0, last))
        return lines

    async def news(self, session_id: str, known: int) -> News:
        """Return where a log ends, and the lines after so many known ones."""
        count, checksum, lines = await self._run(NEWS, session_id, ("lines",), known)
        if not count:
            raise lost(session_id, self.name)
        return News(End(count, int(checksum, 16)), lines)

    async def append(self, session_id: str, after: End, lines: Sequence[bytes]) -> bool:
        """Add lines to a log."""
        end = (after.lines, f"{after.checksum:08x}")
        return bool(await self._run(APPEND, session_id, ("lines", "ids"), session_id, self._expiry, *end, *lines))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions that nobody has written to for so many seconds."""
        whole, microseconds = await self._asked(self._client.time)
        found, now = [], whole + microseconds / 1_000_000
        for key in await self._asked(self._every_root):
            for raw, milliseconds in await self._asked(partial(self._client.zrange, key, 0, -1, withscores=True)):
                session_id, written = raw.decode(), milliseconds / 1000
                lines = self._key(root_of(session_id), session_id, "lines")
                if now - written > seconds and (size := await self._asked(partial(self._client.memory_usage, lines))):
                    found.append(StoredSession(session_id, datetime.fromtimestamp(written, UTC), size))
        return sorted(found, key=lambda session: session.written)

    async def delete(self, session_id: str) -> bool:
        """Delete a session."""
        return bool(await self._run(DELETE, session_id, ("lines", "ids"), session_id))

    async def settle(self, session_id: str) -> None:
        """Do nothing: how safe a write is that was answered, is a matter of the server's settings."""

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.connection_pool.disconnect()

    async def _every_root(self) -> Sequence[bytes]:
        return sorted([key async for key in self._client.scan_iter(f"{self._location.prefix}:{{*}}:ids", 1000)])

    def _key(self, root: str, *names: str) -> str:
        return ":".join((self._location.prefix, f"{{{root}}}", *names))

    async def _run(self, script: str, session_id: str, names: Sequence[str], *args: bytes | float | str) -> Any:
        root = root_of(session_id)
        keys = [self._key(root, name) if name == "ids" else self._key(root, session_id, name) for name in names]
        return await self._asked(lambda: self._scripts[script](keys=keys, args=args))

    async def _there(self, root: str, ids: Sequence[str]) -> Sequence[int]:
        pipeline = self._client.pipeline(transaction=False)
        for session_id in ids:
            pipeline.exists(self._key(root, session_id, "lines"))
        there: Sequence[int] = await pipeline.execute()
        return there

    async def _asked(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        begun = self._outage.asking()
        try:
            answer = await within(self._limit, self._answer(ask))
        except (RedisError, OSError) as error:
            # The error itself is not passed on: what a library shows of a connection is not ours to know.
            reason = self._location.without_secrets(error) or type(error).__name__
            if isinstance(error, (TimeoutError, SlowError)):
                reason = f"no answer within {self._limit:g} seconds"
            failure = StoreError(f"the store {self.name} does not serve: {reason}")
            if isinstance(error, (GoneError, SlowError, OSError)):
                self._outage.failed(failure, begun)
            else:
                self._outage.over()
            raise failure from None
        self._outage.over()
        return answer

    async def _answer(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await ask()
        except GoneError as error:
            if isinstance(error, AuthenticationError):
                raise
            # It broke while it was idle, and others with it. Every step is safe to repeat.
            await self._client.connection_pool.disconnect(inuse_connections=False)
            return await ask()


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
        # Not connected: it only shows whether its options are known.
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, RedisError):
        raise ConfigError(
            f"the store {location.name} has an option in its URL that the Redis client does not know, or with a value"
            " that it does not take. Wane's own is prefix"
        ) from None
    return pool

"""A few connections to PostgreSQL, made when they are needed.

Not psycopg's own pool: that one connects in the background, so that a request which needs a server that is down waits
for a time to run out and learns no reason, and a server that is back is found only at the next of ever rarer tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import psycopg

T = TypeVar("T")

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

LIMIT: Final = 10
"""Connections that a process has at most; none is kept for longer than a statement."""


class Pool:
    """Connections of one process.

    Args:
        parameters: of a connection, as psycopg names them.
        limit: how many there are at most.
    """

    def __init__(self, parameters: dict[str, Any], limit: int = LIMIT) -> None:
        self._parameters = parameters
        self._free = asyncio.Semaphore(limit)
        # The last used first, so that few are kept busy and others can be closed by the server.
        self._idle: list[Connection] = []

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do work on a connection; once more on a new one, if it was one that broke while it was idle.

        Args:
            work: what to do, safe to be done twice.

        Raises:
            psycopg.Error: if no connection can be made, or the work fails.
        """
        async with self._free:
            if self._idle:
                connection = self._idle.pop()
                try:
                    return await self._work(connection, work)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
                # The server went away, and with it all others.
                await self.close()
            return await self._work(await self._connect(), work)

    async def close(self) -> None:
        """Let go of the connections that are not in use."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _work(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            done = await work(connection)
        except BaseException:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                await connection.close()
            else:
                self._idle.append(connection)
            raise
        self._idle.append(connection)
        return done

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)

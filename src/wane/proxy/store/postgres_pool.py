"""A few connections to PostgreSQL, opened when they are needed.

psycopg's own pool connects in the background. If the server is down, requests wait for a timeout and learn no reason,
and when it is back, the pool notices only at its next attempt, each later than the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import psycopg

T = TypeVar("T")

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

LIMIT: Final = 10
"""The most connections of a process; each is used for one statement at a time."""


class Pool:
    """Connections of one process.

    Args:
        parameters: psycopg's parameters of a connection.
        limit: the most connections.
    """

    def __init__(self, parameters: dict[str, Any], limit: int = LIMIT) -> None:
        self._parameters = parameters
        self._free = asyncio.Semaphore(limit)
        # The last used first, so that few stay busy and the server can close the others.
        self._idle: list[Connection] = []

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do work on a connection; if an idle connection turns out broken, do it again on a new one.

        Args:
            work: the work; it must be safe to repeat.

        Raises:
            psycopg.Error: if no connection can be opened, or the work fails.
        """
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
            return await self._work(await self._connect(), work)

    async def close(self) -> None:
        """Close the idle connections."""
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

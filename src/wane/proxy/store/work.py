"""Work that is not cut short, turns within a process, and what is too much for the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from wane.core.errors import JournalError, SessionLockedError
from wane.journal import MessageRecord, NoteRecord, Record
from wane.proxy.store.base import SessionBusyError, SessionLostError, StoreError

T = TypeVar("T")

HEAVY: Final = 1 << 16
"""Characters from which on reading or writing records is worth a thread: some tenths of a millisecond of work."""

WAIT: Final = 15.0
"""Seconds after which a request that waits for another one of its session, in the same process, gives up."""

_GRACE: Final = 0.2


async def unbroken(work: Awaitable[T], undo: Callable[[T], object] | None = None) -> T:
    """Wait for work that runs to its end even if the caller is cancelled, who is told so only then.

    What was written, and what is known of it, thus never differ because a client went away.

    Args:
        work: what to do.
        undo: takes the result back if the caller, being cancelled, will not see it.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled() and task.exception() is None and undo is not None:
            undo(task.result())
        raise


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Wait for work for some seconds at most, even if it takes its time to end when it is cancelled.

    Raises:
        TimeoutError: if it is not done by then.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            task.add_done_callback(_ignored)
            task.cancel()
            # A client library that asks the server to end a statement waits for that as well, until told once more.
            asyncio.get_running_loop().call_later(_GRACE, task.cancel)


def _ignored(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def beside(heavy: bool, work: Callable[[], T]) -> T:
    """Do work in a thread if it is heavy, and at once if it is not; to its end in either case."""
    return await unbroken(asyncio.to_thread(work)) if heavy else work()


def are_heavy(records: Iterable[Record]) -> bool:
    """Whether records hold so much that writing them would keep the event loop from others."""
    rest: list[Any] = [_content(record) for record in records]
    size = len(rest)
    while rest and size < HEAVY:
        value = rest.pop()
        if isinstance(value, (str, Mapping, list, tuple)):
            size += len(value)
        if size < HEAVY and not isinstance(value, str):
            rest.extend(value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ())
    return size >= HEAVY


def _content(record: Record) -> object:
    if isinstance(record, MessageRecord):
        return record.message
    return record.data if isinstance(record, NoteRecord) else None


@contextmanager
def as_store_errors() -> Iterator[None]:
    """Turn what the journal refuses into what a store refuses; its messages name the session."""
    try:
        yield
    except SessionLockedError as error:
        raise SessionBusyError(str(error)) from error
    except JournalError as error:
        raise StoreError(str(error)) from error


class Turns:
    """One after the other: who holds a session, of the tasks of this process.

    Args:
        session_id: the session.
        wait: seconds after which waiting is given up.
    """

    def __init__(self, session_id: str, wait: float) -> None:
        self._session_id = session_id
        self._wait = wait
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for one's turn, and have it.

        Raises:
            SessionBusyError: if it does not come.
        """
        try:
            async with asyncio.timeout(self._wait):
                await self._lock.acquire()
        except TimeoutError:
            raise SessionBusyError(
                f"the session {self._session_id} was held by another request of this process"
                f" for more than {self._wait:g} seconds"
            ) from None
        try:
            yield
        finally:
            self._lock.release()


def lost(session_id: str, name: str) -> SessionLostError:
    """Return the error of a session that was there before, in a store of some name."""
    return SessionLostError(f"the session {session_id} is no longer in {name}: it expired, or was deleted")


def not_held(session_id: str) -> StoreError:
    """Return the error of an append to a session that is not held."""
    return StoreError(f"the session {session_id} is not held, so nothing can be added to it")

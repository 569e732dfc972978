"""Async helpers of the stores: work that cancellation does not interrupt, locks, and threads for heavy work."""

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
"""Characters above which reading or writing records is worth a thread; it takes some tenths of a millisecond."""

WAIT: Final = 15.0
"""Seconds that a request waits for another one of the same session in the same process."""

_GRACE: Final = 0.2


async def uninterrupted(work: Awaitable[T], undo: Callable[[T], object] | None = None) -> T:
    """Wait for work that runs to its end even if the caller is cancelled; the cancellation is raised after it.

    So a client that disconnects cannot make memory and store differ.

    Args:
        work: the work.
        undo: undoes the result if the caller was cancelled and will not see it.
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
    """Wait for work with a time limit, even if the work is slow to end when it is cancelled.

    Raises:
        TimeoutError: if it is not done in time.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            # Nobody awaits the task any more, so its error is retrieved here.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()
            # A client library may wait for the server to cancel the statement, until it is cancelled again itself.
            asyncio.get_running_loop().call_later(_GRACE, task.cancel)


async def in_thread_if(heavy: bool, work: Callable[[], T]) -> T:
    """Do work in a thread if it is heavy, else at once; cancellation does not interrupt it."""
    return await uninterrupted(asyncio.to_thread(work)) if heavy else work()


def are_heavy(records: Iterable[Record]) -> bool:
    """Whether records are so large that writing them would block the event loop noticeably."""
    rest: list[Any] = [list(_content(record).values()) for record in records]
    size = len(rest)
    while rest and size < HEAVY:
        value = rest.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, (dict, list)):
            size += len(value)
            rest += value if isinstance(value, list) else value.values()
    return size >= HEAVY


def _content(record: Record) -> Mapping[str, Any]:
    if isinstance(record, MessageRecord):
        return record.message
    return record.data if isinstance(record, NoteRecord) else {}


@contextmanager
def as_store_errors() -> Iterator[None]:
    """Turn errors of the journal into errors of a store; their messages name the session."""
    try:
        yield
    except SessionLockedError as error:
        raise SessionBusyError(str(error)) from error
    except JournalError as error:
        raise StoreError(str(error)) from error


class SessionLock:
    """Lets one task of this process at a time hold a session.

    Args:
        session_id: the session.
        wait: seconds to wait for it.
    """

    def __init__(self, session_id: str, wait: float) -> None:
        self._session_id = session_id
        self._wait = wait
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the lock, and hold it.

        Raises:
            SessionBusyError: if another task holds it for too long.
        """
        try:
            async with asyncio.timeout(self._wait):
                await self._lock.acquire()
        except TimeoutError:
            raise SessionBusyError(
                f"another request of this process held the session {self._session_id} for more than {self._wait:g}"
                " seconds"
            ) from None
        try:
            yield
        finally:
            self._lock.release()


def lost(session_id: str, name: str) -> SessionLostError:
    """Return the error for a session that is gone from a store of this name."""
    return SessionLostError(f"the session {session_id} is no longer in {name}: it expired, or was deleted")


def not_held(session_id: str) -> StoreError:
    """Return the error for an append to a session that is not held."""
    return StoreError(f"the session {session_id} is not held, so nothing can be added to it")

"""The interface of stores, the log of a session, and the simplest store, which keeps sessions in memory only."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from wane.core.errors import JournalError, SessionLockedError, WaneError
from wane.journal import Header, Record, new_header

T = TypeVar("T")

KEEP: Final = 30 * 86_400.0
"""Seconds after its last record until a session is deleted, by default."""

DELETED: Final = "deleted"
"""Kind of the documents about sessions that were deleted from a database (`wane.journal.store.Deleted`)."""

CHECKED: Final = "checked"
"""Kind of the document that a check of a database writes."""

WORKERS: Final = "worker"
"""Kind of the documents with a process's figures each."""

_ROOT: Final = re.compile(r"[0-9a-f]{24}")
_SESSION: Final = re.compile(r"([0-9a-f]{24})-[0-9a-f]{16}")


class StoreError(WaneError):
    """A store cannot be reached, read or written."""


class SessionBusyError(StoreError):
    """Another process or request holds the session."""


class SessionChangedError(StoreError):
    """Another process has added to the session since this one read it; read the new records, and decide again."""


class SessionLostError(StoreError):
    """The store has lost the session, or its last records, since this process last held it.

    It expired or was deleted, or the database was emptied, failed over or restored to an earlier state. Every later
    hold of the log fails too, so continue the session in a new one.
    """


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session in a store."""

    id: str
    written: datetime
    size: int


@dataclass(frozen=True, slots=True)
class SessionDigests:
    """Digests by which a store finds a session, besides its root.

    Attributes:
        head: 32 hexadecimal digits for the present history; they replace the earlier head.
        keys: 16 hexadecimal digits for each new answer, which cover everything before it too.
    """

    head: str
    keys: Sequence[str] = ()


class Sought:
    """What a store looks for: digests of the history in a request whose session is unknown.

    They may be computed when they are first asked for, which a store without a session of their root does not do.

    Args:
        answers: keys of its answers, the latest first.
        openings: heads of the parts of the history that end before its first answer, the longest first.
    """

    def __init__(self, answers: Sequence[str] = (), openings: Sequence[str] = ()) -> None:
        self._answers, self._openings = answers, openings

    @property
    def answers(self) -> Sequence[str]:
        """Keys of its answers, the latest first."""
        return self._answers

    @property
    def openings(self) -> Sequence[str]:
        """Heads of the parts of the history that end before its first answer, the longest first."""
        return self._openings

    def batches(self) -> Iterator[Sequence[str]]:
        """Yield the keys of the answers in a few growing batches, since a session usually has one of the first."""
        start = 0
        size = 64
        while start < len(self.answers):
            yield self.answers[start : start + size]
            start += size
            size *= 4


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """A stored session that a request may continue."""

    id: str
    head: str


@dataclass(frozen=True, slots=True)
class Matches:
    """The stored sessions that a request may continue.

    Attributes:
        sessions: the sessions that share the latest answer of the request that any session has; if none has any, the
            sessions that end before its first answer. The last written comes first.
        without_digests: ids of sessions with the same root whose digests are unknown, such as of copied files.
    """

    sessions: Sequence[StoredMatch] = ()
    without_digests: Sequence[str] = ()


class SessionLog:
    """The records of one session, append-only. This class stores none; subclasses override `_news` and `_add`.

    A process has one object for each session in memory.
    """

    def __init__(self, header: Header, wait: float = 15.0) -> None:
        self.id = header.id
        self.header = header
        self._wait = wait
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[Any] | None = None
        self._failure: StoreError | None = None  # of the last hold

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        """Hold the session, so that no other task of this process can read or write it.

        Entering returns the records that other processes have appended since the last hold, or all records at the first
        hold. Hold it only while preparing a request or recording a reply, never while a model answers.

        Raises:
            SessionBusyError: if another task holds it for too long.
            SessionLostError: if the session is gone, or its records do not continue those that this log knows. A store
                that opens a session in one process only does not check the latter.
            StoreError: if the store cannot be reached or read.
        """
        try:
            async with asyncio.timeout(self._wait):
                await self._lock.acquire()
        except TimeoutError:
            raise SessionBusyError(
                f"another request of this process held the session {self.id} for more than {self._wait:g} seconds"
            ) from None
        try:
            self._failure = None
            news = await self._news()
            self._holder = asyncio.current_task()
            yield news
        except StoreError as error:
            if self._holder is None:
                self._failure = error.with_traceback(None)
            raise
        finally:
            self._holder = None
            self._lock.release()

    async def append(self, records: Sequence[Record], digests: SessionDigests | None = None) -> None:
        """Append records, all or none of them, while this task holds the session.

        Args:
            records: the records.
            digests: the digests by which the store finds the session from now on, or after the next `sync`; None if
                they have not changed.

        Raises:
            SessionChangedError: if another process has appended since the hold began; nothing is added then.
            SessionLostError: if the session is gone.
            StoreError: if it cannot be written, such as to a full disk, or is not held. After a failed hold, the error
                of the hold is raised again.
        """
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        # If this task has waited too long, another one may hold it.
        if self._holder is not asyncio.current_task():
            raise StoreError(f"the session {self.id} is not held, so nothing can be added to it")
        await self._add(records, digests)

    def rewind(self) -> None:
        """Make the next hold return all records again, like the first one, if other processes can append."""

    async def sync(self) -> None:
        """Wait until appended records would survive a crash of the machine, if the store can tell. Needs no hold.

        From then on, the store finds the session by its latest digests.
        """

    async def close(self) -> None:
        """Release the process's resources; the records stay."""

    async def _news(self) -> Sequence[Record]:
        """Return the records that other processes have appended since the last hold; all at the first one."""
        return ()

    async def _add(self, records: Sequence[Record], digests: SessionDigests | None) -> None:
        """Append records and note digests while the session is held."""


class Store:
    """Sessions of any number of processes. This class stores none; subclasses override what needs their storage.

    All methods raise a StoreError if the store cannot be reached, read or written.

    Attributes:
        persistent: whether records are stored, so that a session that has left memory can be restored.
        shared: whether several processes can have a session open.
    """

    persistent = False
    shared = False

    def __init__(self) -> None:
        self._memory: dict[str, dict[str, str]] = {}  # the documents of each kind, by name

    async def check(self) -> None:
        """Check that sessions can be stored, by writing something that is none.

        Raises:
            StoreError: if they cannot, such as on a full disk.
        """

    async def find(self, root: str, sought: Sought) -> Matches:  # noqa: ARG002
        """Return the sessions that a request may continue, without reading records.

        The root is 24 hexadecimal digits for the beginning of a session; all digests that are sought cover it.
        """
        checked_root(root)
        return Matches()

    async def add_digests(self, session_id: str, digests: SessionDigests) -> None:
        """Note the digests of a session that has none."""

    async def create(self, root: str, message_format: str, owner: str = "", parent: str = "") -> SessionLog:
        """Create a session, which other processes find by its root.

        It may belong to an owner. The parent of a sub-agent's session is the id of the session that started it.
        """
        return SessionLog(
            new_header(new_id(root), cwd=Path.cwd(), message_format=message_format, owner=owner, parent=parent)
        )

    async def open(self, session_id: str) -> SessionLog:
        """Open a session to continue it.

        Raises:
            SessionBusyError: if another process has it open, and the store allows only one.
            StoreError: if there is none of that id, or it cannot be read.
        """
        raise _stored_none(session_id)

    async def read(self, session_id: str) -> Sequence[Record]:
        """Return the records of a session without opening it, even if it is busy."""
        raise _stored_none(session_id)

    async def header(self, session_id: str) -> Header:
        """Return the header of a session, even if it is busy."""
        raise _stored_none(session_id)

    async def documents(self, kind: str) -> Mapping[str, str]:
        """Return the documents of a kind, by name: small texts that all processes share."""
        return dict(self._memory.get(kind, {}))

    async def document(self, kind: str, name: str) -> str | None:
        """Return a document; None if there is none."""
        return self._memory.get(kind, {}).get(name)

    async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
        """Replace a document; return False if it is no longer `before`. None stands for no document.

        If the answer of a database was lost, this may return False although the document was replaced: read it again.
        """
        documents = self._memory.setdefault(kind, {})
        if documents.get(name) != before:
            return False
        documents.pop(name, None)
        if after is not None:
            documents[name] = after
        return True

    async def change_document(
        self, kind: str, name: str, change: Callable[[str | None], str | None], what: str
    ) -> str | None:
        """Change a document by a function, and return the new one.

        Args:
            kind: the kind of the document.
            name: its name.
            change: returns the new document for the present one; None stands for no document. It is called again if
                another process has changed the document in the meantime.
            what: what the document is, for the error after too many changes by other processes.
        """
        for _ in range(100):
            before = await self.document(kind, name)
            after = change(before)
            if after == before or await self.replace_document(kind, name, before, after):
                return after
            await asyncio.sleep(0)
        raise StoreError(f"other processes keep changing {what}; try again")

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:  # noqa: ARG002
        """Return the sessions whose last record is older than this many seconds, the oldest first."""
        return ()

    async def delete(self, session_id: str) -> None:
        """Delete a session.

        Raises:
            SessionBusyError: if another process has it open, and the store allows only one.
            StoreError: if there is none of that id, or it cannot be deleted.
        """
        raise _stored_none(session_id)

    async def close(self) -> None:
        """Close all connections."""


class MemoryStore(Store):
    """Stores no records. A session lives as long as the process has it in memory."""


def _stored_none(session_id: str) -> StoreError:
    return StoreError(f"there is no session {session_id!r:.80}: this proxy stores none")


def new_id(root: str) -> str:
    """Return the id of a new session, which begins with its root."""
    return f"{checked_root(root)}-{secrets.token_hex(8)}"


def is_session_id(text: str) -> bool:
    """Return whether an id is that of a proxy's session."""
    return _SESSION.fullmatch(text) is not None


def checked_root(root: str) -> str:
    """Return a root that is safe in patterns and keys; any other text is a StoreError."""
    if not _ROOT.fullmatch(root):
        raise StoreError(f"{root!r:.80} is not a session's root, which has 24 hexadecimal digits")
    return root


def root_of(session_id: str) -> str:
    """Return the root in an id that is safe in patterns and keys; any other text is a StoreError."""
    match = _SESSION.fullmatch(session_id)
    if match is None:
        raise StoreError(f"there is no session {session_id!r:.80}: that is not an id of the proxy")
    return match[1]


async def finish_work(work: Awaitable[T], undo: Callable[[T], object] | None = None) -> T:
    """Do work to its end even if the caller is cancelled, and raise the cancellation afterwards.

    So a client that disconnects cannot make memory and store differ. `undo` gets the result if the caller is cancelled.
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


async def in_thread_if(heavy: bool, work: Callable[[], T]) -> T:
    """Do work in a thread if it is heavy, or else at once; cancellation does not interrupt it."""
    return await finish_work(asyncio.to_thread(work)) if heavy else work()


def are_heavy(records: Sequence[Record]) -> bool:
    """Return whether writing so many records would block the event loop noticeably.

    Their sizes do not matter: a thread that encodes one record blocks the event loop too, however long it is.
    """
    return len(records) > 500


@contextmanager
def as_store_errors() -> Iterator[None]:
    """Raise errors of the journal, whose messages name the session, as errors of a store."""
    try:
        yield
    except SessionLockedError as error:
        raise SessionBusyError(str(error)) from error
    except JournalError as error:
        raise StoreError(str(error)) from error

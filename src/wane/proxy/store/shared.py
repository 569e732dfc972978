"""Sessions that many processes share: a log of lines in a database, added to by compare-and-append.

What a database must do, each in one step, is a `Database`. How a session is read and added to is the same for all:

- Nobody locks a session. Who adds to it says where it ended when they read it, and the database adds nothing if it
  has grown since: the process then reads what is new and decides again. A process that was stopped, killed or cut off
  thus blocks nobody, and cannot add what it decided on old knowledge.
- Every step may be done twice with the effect of once, so that it is safe to try again when an answer was lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from wane.journal import (
    Clock,
    DamagedLineError,
    Header,
    OtherVersionLineError,
    Record,
    checksum_of,
    new_header,
    read_header,
    read_lines,
    utc_now,
    write_line,
    write_lines,
)
from wane.proxy.store.base import Log, SessionChangedError, SessionLostError, StoredSession, StoreError
from wane.proxy.store.names import checked_root, new_id, root_of
from wane.proxy.store.work import HEAVY, WAIT, Turns, are_heavy, as_store_errors, beside, lost, not_held, unbroken

_NOBODY: Final = "0" * 24
"""A root that no session has."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a log ends.

    Attributes:
        lines: how many lines it has, with the header's.
        checksum: of the last one.
    """

    lines: int
    checksum: int


@dataclass(frozen=True, slots=True)
class News:
    """What a database tells of a log to who knows its beginning.

    Attributes:
        end: where the log ends.
        lines: those that follow the known ones, without newlines.
    """

    end: End
    lines: Sequence[bytes]


class Database(Protocol):
    """What keeps logs of lines. Each method is one step: done as a whole, or not at all.

    Lines are the journal's without their newlines, so that what the database prints line by line is a session's file.
    All of them raise a StoreError if the database cannot be reached, or refuses.

    Attributes:
        name: what it is called in errors; nothing in it is secret.
    """

    name: str

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of a root's sessions, the last written first."""
        ...

    async def begin(self, session_id: str, line: bytes) -> None:
        """Begin a log with a header's line, found by the id's root from then on."""
        ...

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first of them; none if there is no such session."""
        ...

    async def news(self, session_id: str, known: int) -> News:
        """Return where a log ends, and the lines after so many known ones.

        Raises:
            SessionLostError: if there is no such session.
        """
        ...

    async def append(self, session_id: str, after: End, lines: Sequence[bytes]) -> bool:
        """Add lines to a log that ends so; False, and nothing is added, if it ends otherwise."""
        ...

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions that nobody has written to for so many seconds, the oldest first."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a session; False if there is none of that id."""
        ...

    async def settle(self, session_id: str) -> None:
        """Wait until what was added is safe from a crash of the database's machine, if the database can tell."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class SharedStore:
    """Sessions in a database, of any number of processes.

    Args:
        database: where their lines are kept.
        cwd: the directory that new sessions are said to be of; the process's own if None.
        clock: tells the time of records, in any time zone.
    """

    keeps = True

    def __init__(self, database: Database, *, cwd: Path | None = None, clock: Clock = utc_now) -> None:
        self._database = database
        self._cwd = Path.cwd() if cwd is None else cwd
        self._clock = clock

    def __repr__(self) -> str:
        return f"SharedStore({self._database.name!r})"

    async def check(self) -> None:
        """See that the database answers, and has what is needed.

        Raises:
            StoreError: if it does not.
        """
        await self._database.find(_NOBODY)

    async def find(self, root: str) -> Sequence[str]:
        """Return the sessions of a root.

        Raises:
            StoreError: if the database cannot be reached.
        """
        return await self._database.find(checked_root(root))

    async def create(self, root: str, message_format: str) -> Log:
        """Begin a session.

        Raises:
            StoreError: if the database cannot be reached, or is full.
        """
        header = new_header(new_id(root), cwd=self._cwd, message_format=message_format, clock=self._clock)
        line = write_line(header)
        await self._database.begin(header.id, line[:-1])
        return self._log(header, line)

    async def open(self, session_id: str) -> Log:
        """Go on with a session; that another process has it too is no obstacle.

        Raises:
            StoreError: if there is none of that id, or it is damaged.
        """
        (line,) = await self._fetch(session_id, 1)
        return self._log(self._header(session_id, line), line)

    async def read(self, session_id: str) -> Sequence[Record]:
        """Return the records of a session.

        Raises:
            StoreError: if there is none of that id, or it is damaged.
        """
        first, *rest = await self._fetch(session_id)
        self._header(session_id, first)
        return await _records(rest, checksum_of(first), 2, _place(session_id, self._database))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions that nobody has written to for so many seconds, the oldest first.

        Raises:
            StoreError: if the database cannot be reached.
        """
        return await self._database.unwritten(seconds)

    async def delete(self, session_id: str) -> None:
        """Delete a session; a process that has it in memory finds that it is lost, and stores it anew.

        Raises:
            StoreError: if there is none of that id, or the database cannot be reached.
        """
        root_of(session_id)
        if not await self._database.delete(session_id):
            raise StoreError(f"there is no {_place(session_id, self._database)}")

    async def close(self) -> None:
        """Let go of connections."""
        await self._database.close()

    def _log(self, header: Header, line: bytes) -> Log:
        return _SharedLog(self._database, header, End(1, checksum_of(line)), self._clock)

    async def _fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        root_of(session_id)
        lines = await self._database.fetch(session_id, limit)
        if not lines:
            raise StoreError(f"there is no {_place(session_id, self._database)}; it may have expired")
        return [line + b"\n" for line in lines]

    def _header(self, session_id: str, line: bytes) -> Header:
        try:
            return read_header(line)
        except (DamagedLineError, OtherVersionLineError) as error:
            raise StoreError(f"cannot read the {_place(session_id, self._database)}: {error}") from None


class _SharedLog:
    """A session in a database, as one process knows it."""

    def __init__(self, database: Database, header: Header, end: End, clock: Clock) -> None:
        self.id = header.id
        self.header = header
        self._database = database
        self._first = self._end = end
        self._turns = Turns(header.id, WAIT)
        self._clock = clock
        self._held = False
        self._failure: StoreError | None = None

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        async with self._turns.taken():
            try:
                records, self._end = await unbroken(self._read())
            except StoreError as error:
                self._failure = error.with_traceback(None)
                raise
            self._held, self._failure = True, None
            try:
                yield records
            finally:
                self._held = False

    async def append(self, records: Sequence[Record]) -> None:
        if not self._held:
            raise type(self._failure)(*self._failure.args) if self._failure else not_held(self.id)
        if records:
            await unbroken(self._append(records))

    def rewind(self) -> None:
        self._end = self._first

    async def settle(self) -> None:
        await self._database.settle(self.id)

    async def close(self) -> None:
        """Do nothing: between two holds, a process has nothing of a session."""

    async def _read(self) -> tuple[Sequence[Record], End]:
        known = self._end
        news = await self._database.news(self.id, known.lines)
        end = news.end
        if end.lines != known.lines + len(news.lines) or (not news.lines and end != known):
            raise SessionLostError(
                f"the {_place(self.id, self._database)} ends with line {end.lines}, but not as this process left it"
                f" with line {known.lines}: the database lost some of it, or went back to a former state"
            )
        lines = [line + b"\n" for line in news.lines]
        try:
            return await _records(lines, known.checksum, known.lines + 1, _place(self.id, self._database)), end
        except StoreError as error:
            # Damaged, or added after the database went back and forgot the line that ours was.
            raise SessionLostError(
                f"{error}; what is new of the session does not go on from line {known.lines}"
            ) from None

    async def _append(self, records: Sequence[Record]) -> None:
        end = self._end
        with as_store_errors():
            lines = await beside(are_heavy(records), lambda: write_lines(records, end.checksum, self._clock))
        if not await self._database.append(self.id, end, [line[:-1] for line in lines]):
            if not await self._database.fetch(self.id, 1):
                raise lost(self.id, self._database.name)
            raise SessionChangedError(
                f"nothing was added to the {_place(self.id, self._database)}: another process has added to it since"
                " it was read"
            )
        self._end = End(end.lines + len(lines), checksum_of(lines[-1]))


async def _records(lines: Sequence[bytes], after: int, first: int, place: str) -> Sequence[Record]:
    heavy = sum(map(len, lines)) >= HEAVY
    with as_store_errors():
        return await beside(heavy, lambda: read_lines(lines, after, first=first, place=f"the {place}"))


def _place(session_id: str, database: Database) -> str:
    return f"session {session_id} in {database.name}"

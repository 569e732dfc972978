"""Sessions that many processes share: a log of lines in a database, and a lease on it for who holds it.

What a database must do, each in one step, is a `Shelf`; how a session is held, read and added to is the same for all:

- A holder has a lease, under a token of its own, and renews it while it holds the session. A process that was killed
  thus blocks nobody for longer than a lease.
- A process whose lease was lost, because it was stopped or cut off, cannot add anything: the shelf checks the token,
  and that the log still ends where the process believes that it does.
- Who waits gets the next turn, however soon the process that had the session wants it again.
- Every step may be done twice with the effect of once, so that it is safe to try again when an answer was lost.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
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
from wane.proxy.store.base import Log, SessionBusyError, SessionLostError, StoreError
from wane.proxy.store.names import checked_root, new_id, root_of
from wane.proxy.store.work import HEAVY, Turns, are_heavy, as_store_errors, beside, lost, not_held, unbroken

LEASE: Final = 5.0
"""Seconds for which a holder has a session without renewing its lease."""

WAIT: Final = 15.0
"""Seconds after which a request that waits for a session gives up; more than a lease, which may have to run out."""

TURN: Final = 1.0
"""Seconds for which a session that was let go is kept for who waits; they ask more often than that."""

_NOBODY: Final = "0" * 24
"""A root that no session has."""

_POLLS: Final = (0.002, 0.025)


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
class Taken:
    """What a shelf tells the new holder of a session.

    Attributes:
        end: where its log ends.
        lines: those that follow the ones which the holder knows, without newlines.
    """

    end: End
    lines: Sequence[bytes]


class Shelf(Protocol):
    """A database that keeps logs of lines. Each method is one step: done as a whole, or not at all.

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

    async def take(self, session_id: str, token: str, known: int, lease: float) -> Taken | None:
        """Give a session to a holder who knows so many lines of it, for so many seconds; None if another has it.

        Who is refused has the next turn, if nobody else has, and asks again within `TURN` seconds.
        """
        ...

    async def renew(self, session_id: str, token: str, lease: float) -> None:
        """Prolong a lease to so many seconds from now, unless it was lost."""
        ...

    async def push(self, session_id: str, token: str, after: End, lines: Sequence[bytes]) -> bool:
        """Add lines to a log that ends so, for its holder; False if it is not its holder, or it ends otherwise."""
        ...

    async def drop(self, session_id: str, token: str) -> None:
        """End a lease unless it was lost, and give up a turn."""
        ...

    async def settle(self, session_id: str) -> None:
        """Wait until what was added is safe from a crash of the database's machine, if the database can tell."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class LeasedStore:
    """Sessions on a shelf.

    Args:
        shelf: where their lines are kept.
        cwd: the directory that new sessions are said to be of; the process's own if None.
        clock: tells the time of records, in any time zone.
        lease: seconds for which a holder has a session without renewing its lease.
        wait: seconds after which a request that waits for a session gives up.
    """

    keeps = True

    def __init__(
        self, shelf: Shelf, *, cwd: Path | None = None, clock: Clock = utc_now, lease: float = LEASE, wait: float = WAIT
    ) -> None:
        self._shelf = shelf
        self._cwd = Path.cwd() if cwd is None else cwd
        self._clock = clock
        self._lease = lease
        self._wait = wait

    def __repr__(self) -> str:
        return f"LeasedStore({self._shelf.name!r})"

    async def check(self) -> None:
        """See that the database answers, and has what is needed.

        Raises:
            StoreError: if it does not.
        """
        await self._shelf.find(_NOBODY)

    async def find(self, root: str) -> Sequence[str]:
        """Return the sessions of a root.

        Raises:
            StoreError: if the database cannot be reached.
        """
        return await self._shelf.find(checked_root(root))

    async def create(self, root: str, message_format: str) -> Log:
        """Begin a session.

        Raises:
            StoreError: if the database cannot be reached, or is full.
        """
        header = new_header(new_id(root), cwd=self._cwd, message_format=message_format, clock=self._clock)
        line = write_line(header)
        await self._shelf.begin(header.id, line[:-1])
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
        return await _records(rest, checksum_of(first), 2, _place(session_id, self._shelf))

    async def close(self) -> None:
        """Let go of connections."""
        await self._shelf.close()

    def _log(self, header: Header, line: bytes) -> Log:
        turns = Turns(header.id, self._wait)
        return _LeasedLog(self._shelf, header, End(1, checksum_of(line)), turns, self._clock, self._lease, self._wait)

    async def _fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        root_of(session_id)
        lines = await self._shelf.fetch(session_id, limit)
        if not lines:
            raise StoreError(f"there is no {_place(session_id, self._shelf)}; it may have expired")
        return [line + b"\n" for line in lines]

    def _header(self, session_id: str, line: bytes) -> Header:
        try:
            return read_header(line)
        except (DamagedLineError, OtherVersionLineError) as error:
            raise StoreError(f"cannot read the {_place(session_id, self._shelf)}: {error}") from None


class _LeasedLog:
    """A session on a shelf, as one process knows it."""

    def __init__(
        self, shelf: Shelf, header: Header, end: End, turns: Turns, clock: Clock, lease: float, wait: float
    ) -> None:
        self.id = header.id
        self.header = header
        self._shelf = shelf
        self._end = end
        self._turns = turns
        self._clock = clock
        self._lease = lease
        self._wait = wait
        self._token: str | None = None
        # Of a hold that failed, and may have a lease all the same.
        self._left: str | None = None
        self._failure: StoreError | None = None

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sequence[Record]]:
        async with self._turns.taken():
            token, self._left = self._left or secrets.token_hex(8), None
            held = False
            try:
                records = await self._begin(token)
                held = True
                renewing = asyncio.create_task(self._renew(token))
                try:
                    yield records
                finally:
                    self._token = None
                    renewing.cancel()
            finally:
                try:
                    await unbroken(self._shelf.drop(self.id, token))
                except StoreError:
                    # The lease ends by itself: what was added is there. Not a token that a late write may come with.
                    self._left = None if held else token

    async def append(self, records: Sequence[Record]) -> None:
        if self._token is None:
            raise type(self._failure)(*self._failure.args) if self._failure else not_held(self.id)
        if records:
            await unbroken(self._append(self._token, records))

    async def settle(self) -> None:
        await self._shelf.settle(self.id)

    async def close(self) -> None:
        """Do nothing: between two holds, a process has nothing of a session."""

    async def _begin(self, token: str) -> Sequence[Record]:
        try:
            taken = await self._take(token)
            records = await self._new(taken)
        except StoreError as error:
            self._failure = error.with_traceback(None)
            raise
        self._token, self._end, self._failure = token, taken.end, None
        return records

    async def _take(self, token: str) -> Taken:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._wait, _POLLS[0]
        while (taken := await unbroken(self._shelf.take(self.id, token, self._end.lines, self._lease))) is None:
            if loop.time() >= deadline:
                raise SessionBusyError(
                    f"the {_place(self.id, self._shelf)} was held by another process"
                    f" for more than {self._wait:g} seconds"
                )
            # Not in step with others who wait.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
            pause = min(1.5 * pause, _POLLS[1])
        return taken

    async def _new(self, taken: Taken) -> Sequence[Record]:
        known, end = self._end, taken.end
        if end.lines != known.lines + len(taken.lines) or (not taken.lines and end != known):
            raise SessionLostError(
                f"the {_place(self.id, self._shelf)} ends with line {end.lines}, but not as this process left it with"
                f" line {known.lines}: the database lost some of it, or went back to a former state"
            )
        lines = [line + b"\n" for line in taken.lines]
        try:
            return await _records(lines, known.checksum, known.lines + 1, _place(self.id, self._shelf))
        except StoreError as error:
            # Damaged, or added after the database went back and forgot the line that ours was.
            raise SessionLostError(
                f"{error}; what is new of the session does not go on from line {known.lines}"
            ) from None

    async def _renew(self, token: str) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with suppress(StoreError):
                await self._shelf.renew(self.id, token, self._lease)

    async def _append(self, token: str, records: Sequence[Record]) -> None:
        end = self._end
        with as_store_errors():
            lines = await beside(are_heavy(records), lambda: write_lines(records, end.checksum, self._clock))
        if not await self._shelf.push(self.id, token, end, [line[:-1] for line in lines]):
            if not await self._shelf.fetch(self.id, 1):
                raise lost(self.id, self._shelf.name)
            raise SessionBusyError(
                f"nothing was added to the {_place(self.id, self._shelf)}: this process held it for more than"
                f" {self._lease:g} seconds without a sign of life, so it is no longer its own"
            )
        self._end = End(end.lines + len(lines), checksum_of(lines[-1]))


async def _records(lines: Sequence[bytes], after: int, first: int, place: str) -> Sequence[Record]:
    heavy = sum(map(len, lines)) >= HEAVY
    with as_store_errors():
        return await beside(heavy, lambda: read_lines(lines, after, first=first, place=f"the {place}"))


def _place(session_id: str, shelf: Shelf) -> str:
    return f"session {session_id} in {shelf.name}"

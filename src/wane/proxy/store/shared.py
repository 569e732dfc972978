"""Sessions shared by several processes: logs of lines in a database, with compare-and-append.

`Database` lists the steps that a database must provide. All databases share the rest:

- Sessions are not locked. A process appends together with the end that it read, and the database appends nothing if the
  log has grown since; the process then reads the new lines and decides again. So a stopped, killed or disconnected
  process blocks no other, and cannot append outdated decisions.
- Every step is idempotent, so that it can be repeated if its answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wane.journal import (
    DamagedLineError,
    Header,
    OtherVersionLineError,
    Record,
    checksum_of,
    new_header,
    read_header,
    read_lines,
    write_line,
    write_lines,
)
from wane.proxy.store.base import (
    HEAVY,
    HeldLog,
    Log,
    SessionChangedError,
    SessionLostError,
    StoredSession,
    StoreError,
    are_heavy,
    as_store_errors,
    checked_root,
    in_thread_if,
    lost,
    new_id,
    root_of,
    uninterrupted,
)
from wane.proxy.store.database import Database, End

_UNUSED_ROOT: Final = "0" * 24
"""A root that no session has."""


class SharedStore:
    """Stores sessions of any number of processes in a database.

    Args:
        database: stores their lines.
    """

    persistent = True

    def __init__(self, database: Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"SharedStore({self._database.name!r})"

    async def check(self) -> None:
        """Check that the database works.

        Raises:
            StoreError: if it does not.
        """
        await self._database.find(_UNUSED_ROOT)

    async def find(self, root: str) -> Sequence[str]:
        """Return the sessions of a root.

        Raises:
            StoreError: if the database cannot be reached.
        """
        return await self._database.find(checked_root(root))

    async def create(self, root: str, message_format: str) -> Log:
        """Create a session.

        Raises:
            StoreError: if the database cannot be reached, or is full.
        """
        header = new_header(new_id(root), cwd=Path.cwd(), message_format=message_format)
        line = write_line(header)
        await self._database.begin(header.id, line[:-1])
        return self._log(header, line)

    async def open(self, session_id: str) -> Log:
        """Open a session; other processes may have it open too.

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
        return await _records(rest, checksum_of(first), 2, _name(session_id, self._database))

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions whose last record is older than this many seconds, the oldest first.

        Raises:
            StoreError: if the database cannot be reached.
        """
        return await self._database.unwritten(seconds)

    async def delete(self, session_id: str) -> None:
        """Delete a session. A process that has it in memory finds it lost, and stores it again.

        Raises:
            StoreError: if there is none of that id, or the database cannot be reached.
        """
        root_of(session_id)
        if not await self._database.delete(session_id):
            raise StoreError(f"there is no {_name(session_id, self._database)}")

    async def close(self) -> None:
        """Close all connections."""
        await self._database.close()

    def _log(self, header: Header, line: bytes) -> Log:
        return _SharedLog(self._database, header, End(1, checksum_of(line)))

    async def _fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        root_of(session_id)
        lines = await self._database.fetch(session_id, limit)
        if not lines:
            raise StoreError(f"there is no {_name(session_id, self._database)}; it may have expired")
        return [line + b"\n" for line in lines]

    def _header(self, session_id: str, line: bytes) -> Header:
        try:
            return read_header(line)
        except (DamagedLineError, OtherVersionLineError) as error:
            raise StoreError(f"cannot read the {_name(session_id, self._database)}: {error}") from None


class _SharedLog(HeldLog):
    """One process's view of a session in a database."""

    def __init__(self, database: Database, header: Header, end: End) -> None:
        super().__init__(header)
        self._database = database
        self._first = self._end = end

    def rewind(self) -> None:
        self._end = self._first

    async def sync(self) -> None:
        await self._database.sync(self.id)

    async def _news(self) -> Sequence[Record]:
        records, self._end = await uninterrupted(self._read())
        return records

    async def _add(self, records: Sequence[Record]) -> None:
        if records:
            await uninterrupted(self._append(records))

    async def _read(self) -> tuple[Sequence[Record], End]:
        known = self._end
        new = await self._database.new_lines(self.id, known.lines)
        end = new.end
        if end.lines != known.lines + len(new.lines) or (not new.lines and end != known):
            raise SessionLostError(
                f"the {_name(self.id, self._database)} ends with line {end.lines}, but does not continue line"
                f" {known.lines} of this process: the database lost some of it, or went back to an earlier state"
            )
        lines = [line + b"\n" for line in new.lines]
        try:
            return await _records(lines, known.checksum, known.lines + 1, _name(self.id, self._database)), end
        except StoreError as error:
            # Damaged, or appended after the database went back to a state without our last line.
            raise SessionLostError(f"{error}; the session's new lines do not continue line {known.lines}") from None

    async def _append(self, records: Sequence[Record]) -> None:
        end = self._end
        with as_store_errors():
            lines = await in_thread_if(are_heavy(records), lambda: write_lines(records, end.checksum))
        if not await self._database.append(self.id, end, [line[:-1] for line in lines]):
            if not await self._database.fetch(self.id, 1):
                raise lost(self.id, self._database.name)
            raise SessionChangedError(
                f"nothing was added to the {_name(self.id, self._database)}: another process has added to it in the"
                " meantime"
            )
        self._end = End(end.lines + len(lines), checksum_of(lines[-1]))


async def _records(lines: Sequence[bytes], after: int, first: int, place: str) -> Sequence[Record]:
    heavy = sum(map(len, lines)) >= HEAVY
    with as_store_errors():
        return await in_thread_if(heavy, lambda: read_lines(lines, after, first=first, place=f"the {place}"))


def _name(session_id: str, database: Database) -> str:
    return f"session {session_id} in {database.name}"

"""Headers and records as chained lines, wherever a session is kept: in a file or in a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Final

from wane.core.errors import CorruptJournalError, JournalError, JournalVersionError
from wane.journal.lines import DamagedLineError, OtherVersionLineError, checksum_of, read_record, write_line
from wane.journal.records import VERSION, Header, Record

Clock = Callable[[], datetime]

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def new_header(session_id: str, *, cwd: Path, message_format: str, clock: Clock = utc_now) -> Header:
    """Return the header of a session that begins now.

    Args:
        session_id: 1 to 64 letters, digits, `-` and `_`.
        cwd: the directory that the agent works in.
        message_format: name of the messages' format.
        clock: gives the time, in any time zone.

    Raises:
        JournalError: if the id is malformed.
    """
    if not _SESSION_ID.fullmatch(session_id):
        raise JournalError(f"session id {session_id!r} is not 1 to 64 letters, digits, '-' and '_'")
    return Header(VERSION, session_id, _to_milliseconds(clock()), str(cwd.absolute()), message_format, _wane_version())


def write_lines(records: Iterable[Record], after: int, clock: Clock = utc_now) -> list[bytes]:
    """Return records as lines, each with its newline, stamped with the time unless they have one.

    Args:
        records: the records.
        after: checksum of the line before the first.
        clock: gives the time, in any time zone.

    Raises:
        JournalError: if a record cannot be written as JSON.
    """
    lines: list[bytes] = []
    now = _to_milliseconds(clock())
    for record in records:
        stamped = replace(record, at=now) if record.at is None else record
        try:
            lines.append(write_line(stamped, after))
        except ValueError as error:
            raise JournalError(f"a record of kind {record.kind!r} cannot be written as JSON: {error}") from error
        after = checksum_of(lines[-1])
    return lines


def read_lines(lines: Sequence[bytes], after: int, *, first: int, place: str) -> list[Record]:
    """Return the records of lines.

    Args:
        lines: whole lines, each with its newline.
        after: checksum of the line before the first.
        first: number of the first line; the header's is 1.
        place: name of the session in errors.

    Raises:
        CorruptJournalError: if a line is damaged, or does not continue the one before it.
        JournalVersionError: if another version of Wane wrote a record.
    """
    records: list[Record] = []
    for number, line in enumerate(lines, start=first):
        try:
            records.append(read_record(line, after))
        except OtherVersionLineError as error:
            raise JournalVersionError(f"{place}, line {number}: {error}") from None
        except DamagedLineError as error:
            raise CorruptJournalError(f"{place}, line {number} is damaged: {error}") from None
        after = checksum_of(line)
    return records


def _to_milliseconds(moment: datetime) -> datetime:
    # The precision of a line, so that a record read back equals the one written.
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


@cache  # it takes half a millisecond to read
def _wane_version() -> str:
    try:
        return distribution_version("wane")
    except PackageNotFoundError:
        return "unknown"

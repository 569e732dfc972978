"""Reading a session file: every record, or a clear reason why not. Reading changes nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from wane.core.errors import CorruptJournalError, JournalError, JournalVersionError, SessionNotFoundError
from wane.journal.lines import (
    DamagedLineError,
    OtherVersionLineError,
    begins_whole,
    checksum_of,
    read_header,
    read_record,
)
from wane.journal.records import Header, Record


@dataclass(frozen=True, slots=True)
class SessionFile:
    """What a session file held when it was read.

    Attributes:
        path: the file.
        header: its first line.
        records: all whole records after it, in order.
        size: bytes of the header and the whole records.
        checksum: of the last whole line, from which the next one's continues.
        torn_bytes: bytes after them, of a last record whose writing was cut short; 0 as a rule.
    """

    path: Path
    header: Header
    records: tuple[Record, ...]
    size: int
    checksum: int
    torn_bytes: int = 0

    @property
    def torn(self) -> bool:
        """Whether the last record was cut short."""
        return self.torn_bytes > 0


def read(path: Path) -> SessionFile:
    """Read a session, also while another process writes it.

    A last line that was cut short is left out and told in `torn_bytes`.

    Raises:
        SessionNotFoundError: if there is no such file.
        CorruptJournalError: if it is no session, or a line in the middle is damaged.
        JournalVersionError: if another version of Wane wrote it, or a record in it.
        JournalError: if it cannot be read.
    """
    with open_session(path) as stream:
        return read_stream(stream, path)


@contextmanager
def open_session(path: Path) -> Iterator[BinaryIO]:
    """Open a session file for reading, with errors in the terms of a session.

    Raises:
        SessionNotFoundError: if there is no such file.
        JournalError: if it cannot be read.
    """
    try:
        # Not a pipe or a device, which could keep us waiting for ever.
        if path.exists() and not path.is_file():
            raise JournalError(f"cannot read the session {path}: it is not a file")
        with path.open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise SessionNotFoundError(f"there is no session file {path}") from None
    except OSError as error:
        raise JournalError(f"cannot read the session {path}: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, path: Path) -> SessionFile:
    """Read a session from its open file, which `path` names in errors.

    Raises:
        CorruptJournalError: if it is no session, or a line in the middle is damaged.
        JournalVersionError: if another version of Wane wrote it, or a record in it.
    """
    header, checksum = read_header_of(stream, path)
    size, number = stream.tell(), 1
    records: list[Record] = []
    while line := stream.readline():
        number += 1
        try:
            records.append(read_record(line, checksum))
        except OtherVersionLineError as error:
            _refuse_other_version(path, number, error)
        except DamagedLineError as error:
            # Only the line that was being written can be half there: damage further up has another cause.
            if stream.read(1) or begins_whole(line, checksum):
                _refuse_damaged(path, number, error)
            return SessionFile(path, header, tuple(records), size, checksum, torn_bytes=len(line))
        size += len(line)
        checksum = checksum_of(line)
    return SessionFile(path, header, tuple(records), size, checksum)


def read_header_of(stream: BinaryIO, path: Path) -> tuple[Header, int]:
    """Read the first line of a session from its open file, which `path` names in errors, and its checksum.

    Raises:
        CorruptJournalError: if it is not the header of a session.
        JournalVersionError: if another version of Wane wrote it.
    """
    line = stream.readline()
    if not line:
        raise CorruptJournalError(f"{path} is empty: the session was never begun; delete the file")
    try:
        return read_header(line), checksum_of(line)
    except OtherVersionLineError as error:
        _refuse_other_version(path, 1, error)
    except DamagedLineError as error:
        raise CorruptJournalError(f"{path} is not a session of Wane, or its first line is damaged: {error}") from None


def _refuse_other_version(path: Path, number: int, error: OtherVersionLineError) -> NoReturn:
    raise JournalVersionError(f"{path}, line {number}: {error}") from None


def _refuse_damaged(path: Path, number: int, error: DamagedLineError) -> NoReturn:
    raise CorruptJournalError(
        f"{path}, line {number} is damaged: {error}. The file was not changed. The {number - 1} lines before it are"
        f" whole; to go on from there, copy them to another file (head -n {number - 1}) in the same directory"
    ) from None

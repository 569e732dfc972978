"""Reads a session file: every record, or a clear reason why not. Reading changes nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from wane.core.errors import CorruptJournalError, JournalError, SessionNotFoundError
from wane.journal.lines import begins_whole, breaks_off, checksum_of, read_header, read_record
from wane.journal.records import Header, Record

End = Literal["whole", "cut short", "cut off", "damaged"]
"""How a session file ends; see `SessionFile`."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The header and all whole records of a session file when it was read.

    Attributes:
        size: their bytes.
        checksum: that of the last whole line.
        torn_bytes: bytes after that, of a last record that was cut short while it was written; usually 0.
        end: how the file ends: `whole`; `cut short`, before the newline, which is written last; `cut off`, where the
            beginning of a record has a newline, so that something else than a crash of Wane took the rest; or
            `damaged`, with any other line.
    """

    path: Path
    header: Header
    records: tuple[Record, ...]
    size: int
    checksum: int
    torn_bytes: int = 0
    end: End = "whole"

    @property
    def torn(self) -> bool:
        """Whether the last record was cut short."""
        return self.torn_bytes > 0


def read(path: Path) -> SessionFile:
    """Read a session, which another process may be writing. A last line that was cut short is left out.

    Raises:
        SessionNotFoundError: if there is no such file.
        CorruptJournalError: if it is not a session, or a line in the middle is damaged.
        JournalVersionError: if another version of Wane wrote it, or a record in it.
        JournalError: if it cannot be read.
    """
    with open_session(path) as stream:
        return read_stream(stream, path)


@contextmanager
def open_session(path: Path) -> Iterator[BinaryIO]:
    """Open a session file for reading, with errors of the journal.

    Raises:
        SessionNotFoundError: if there is no such file.
        JournalError: if it cannot be read.
    """
    try:
        # A pipe or a device could block for ever.
        if not path.is_file() and path.exists():
            raise JournalError(f"cannot read the session {path}: it is not a file")
        with path.open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise SessionNotFoundError(f"there is no session file {path}") from None
    except OSError as error:
        raise JournalError(f"cannot read the session {path}: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, path: Path) -> SessionFile:
    """Read a session from its open file, with the errors of `read`."""
    header, checksum = read_header_of(stream, path)
    size, number = stream.tell(), 1
    records: list[Record] = []
    while line := stream.readline():
        number += 1
        try:
            records.append(read_record(line, checksum, f"{path}, line {number}"))
        except CorruptJournalError as error:
            # Only the last line can be half written: damage anywhere else has another cause.
            if stream.read(1) or begins_whole(line, checksum):
                raise CorruptJournalError(
                    f"{error}. The file was not changed. The {number - 1} lines before it are whole; to go on from"
                    f" there, copy them to another file (head -n {number - 1}) in the same directory"
                ) from None
            end: End = "cut off" if breaks_off(line) else "damaged"
            if not line.endswith(b"\n"):
                end = "cut short"
            return SessionFile(path, header, tuple(records), size, checksum, len(line), end)
        size += len(line)
        checksum = checksum_of(line)
    return SessionFile(path, header, tuple(records), size, checksum)


def read_header_of(stream: BinaryIO, path: Path) -> tuple[Header, int]:
    """Return the header of a session's open file and its line's checksum, with the errors of `read_header`."""
    line = stream.readline()
    if not line:
        raise CorruptJournalError(f"{path} is empty: the session never began; delete the file")
    return read_header(line, str(path)), checksum_of(line)

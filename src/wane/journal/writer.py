"""Writes a session file: one writer, one `write` per record, nothing rewritten.

Guarantees:

- When `append` has returned, the operating system has the record: `kill -9` of this process loses at most the record
  being written.
- When `commit` has returned, everything appended is on the disk (with `fsync`, the default): a power failure loses
  nothing that was committed. Agents commit before each model call.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from filelock import FileLock, Timeout

from wane.core.errors import JournalError, SessionLockedError, SessionNotFoundError
from wane.journal.lines import Clock, Dumps, checksum_of, dump_line, new_header, utc_now, write_line, write_lines
from wane.journal.reader import SessionFile, open_session, read_header_of, read_stream
from wane.journal.records import Header, Record

# O_BINARY: without it Windows would write \r\n. Child processes do not inherit files that Python opens.
_FLAGS: Final = os.O_APPEND | os.O_RDWR | getattr(os, "O_BINARY", 0)

_LETTING_GO: Final = 1.0
"""Seconds to wait for a lock. A process that was killed while it started another leaves it held until that one runs."""


class Journal:
    """The only writer of a session file. Begin with `Journal.create` or `Journal.open`; close it when done.

    Threads may share it; a lock that ends with the process keeps other processes out.

    Attributes:
        path: the session file.
        contents: what the file held when it was opened; for a new session, its header alone.
        repaired: what was repaired when it was opened, as a sentence for the user; usually None.
    """

    def __init__(
        self, contents: SessionFile, fd: int, lock: FileLock, *, clock: Clock, fsync: bool, dumps: Dumps
    ) -> None:
        self.path = contents.path
        self.contents = contents
        self.repaired: str | None = None
        self._fd: int | None = fd
        self._lock = lock
        self._clock = clock
        self._fsync = fsync
        self._dumps = dumps
        # Size and checksum as of the last record that was appended whole, changed in one assignment.
        self._end = (contents.size, contents.checksum)
        self._uncommitted = False
        # Whether the file's name may not be on the disk yet.
        self._unnamed = False
        self._mutex = threading.Lock()
        self._commit_mutex = threading.Lock()

    @property
    def header(self) -> Header:
        """The session's header."""
        return self.contents.header

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        cwd: Path,
        message_format: str,
        session_id: str | None = None,
        clock: Clock = utc_now,
        fsync: bool = True,
        committed: bool = True,
        dumps: Dumps = dump_line,
        owner: str = "",
        parent: str = "",
    ) -> Journal:
        """Begin a session, in a directory that only its owner can read.

        Args:
            directory: where the file is, whose name is made of the time and the id; created if needed.
            cwd: the directory that the agent works in.
            message_format: name of the messages' format, such as `pydantic_ai`.
            session_id: letters, digits, `-` and `_`; random if None.
            clock: gives the time, in any time zone.
            fsync: whether `commit` waits for the disk.
            committed: whether the header is committed at once, or with the first `commit`.
            dumps: writes the records' JSON, in ASCII or UTF-8.
            owner: see `Header`.
            parent: see `Header`.

        Raises:
            JournalError: if the directory cannot be written, or the id is malformed or taken.
        """
        session_id = secrets.token_hex(6) if session_id is None else session_id
        header = new_header(session_id, cwd=cwd, message_format=message_format, clock=clock, owner=owner, parent=parent)
        path = directory / f"{header.created:%Y%m%dT%H%M%SZ}-{session_id}.jsonl"
        try:
            # Not `parents=True`, which gives the mode to the last one only; their names say what their owner works on.
            for missing in [*takewhile(lambda folder: not folder.exists(), (directory, *directory.parents))][::-1]:
                missing.mkdir(mode=0o700, exist_ok=True)
            # Not `glob`, which compiles a pattern for each id.
            if any(name.endswith(f"Z-{session_id}.jsonl") for name in os.listdir(directory)):
                raise JournalError(f"there is already a session {session_id!r} in {directory}; open it instead")
            lock = _acquire(path)
        except OSError as error:
            raise _unwritable(directory, error) from error
        with _released_on_error(lock, directory):
            fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            journal = cls(SessionFile(path, header, (), 0, 0), fd, lock, clock=clock, fsync=fsync, dumps=dumps)
            try:
                line = write_line(header)
                journal._write(line, checksum_of(line))
                size, checksum = journal._end
                journal.contents = replace(journal.contents, size=size, checksum=checksum)
                journal._unnamed = True
                if committed:
                    journal.commit()
            except BaseException:
                journal.close()
                path.unlink()
                raise
        return journal

    @classmethod
    def open(cls, path: Path, *, clock: Clock = utc_now, fsync: bool = True, dumps: Dumps = dump_line) -> Journal:
        """Continue a session. `contents` has its records; `repaired` says if its last record was cut short.

        Such a record is moved to `<file>.torn`, so that nothing is lost. A file with any other damage is refused and
        not changed. The other arguments are those of `create`.

        Raises:
            SessionNotFoundError: if there is no such file.
            SessionLockedError: if another process, or another journal of this one, writes it.
            CorruptJournalError: if it is not a session, or a line in the middle is damaged.
            JournalVersionError: if another version of Wane wrote it, or a record in it.
            JournalError: if it cannot be read or written.
        """
        # Before the lock, so that no lock file appears beside a file that is not a session.
        with open_session(path) as stream:
            read_header_of(stream, path)
        try:
            lock = _acquire(path, wait=_LETTING_GO)
        except OSError as error:
            raise _unwritable(path, error) from error
        with _released_on_error(lock, path):
            fd = os.open(path, _FLAGS)
            try:
                with os.fdopen(fd, "rb", closefd=False) as stream:
                    file = read_stream(stream, path)
                journal = cls(file, fd, lock, clock=clock, fsync=fsync, dumps=dumps)
                if file.torn:
                    journal._repair()
            except BaseException:
                os.close(fd)
                raise
        return journal

    def append(self, record: Record) -> None:
        """Write a record, stamped with the time unless it has one.

        After a JournalError no part of the record is in the file.

        Raises:
            JournalError: if the record cannot be written as JSON, the disk is full, or the journal is closed.
        """
        self.extend((record,))

    def extend(self, records: Sequence[Record]) -> None:
        """Write records with one `write`, stamped with the time unless they have one.

        After a JournalError no part of them is in the file. A crash of the machine may leave the first ones.

        Raises:
            JournalError: if a record cannot be written as JSON, the disk is full, or the journal is closed.
        """
        with self._mutex:
            lines = write_lines(records, self._end[1], self._clock, self._dumps)
            if lines:
                self._write(b"".join(lines), checksum_of(lines[-1]))

    def commit(self) -> None:
        """Wait until everything appended is on the disk, unless the journal was made with `fsync=False`.

        Raises:
            JournalError: if the disk reports an error, or the journal is closed.
        """
        # The wait holds no mutex, so that others may append meanwhile. Commits wait for each other: one may be waiting
        # for the other's records.
        with self._commit_mutex:
            with self._mutex:
                fd = self._descriptor()
                if not (self._fsync and self._uncommitted):
                    return
                fd = os.dup(fd)
            try:
                # Before the wait: records appended during it may not be covered, and set this again.
                self._uncommitted = False
                os.fsync(fd)
                if self._unnamed:
                    _sync_directory(self.path.parent)
                    self._unnamed = False
            except OSError as error:
                self._uncommitted = True
                raise JournalError(f"the disk did not take the session {self.path}: {error.strerror}") from error
            except BaseException:
                self._uncommitted = True
                raise
            finally:
                os.close(fd)

    def close(self) -> None:
        """Close the file and release its lock. Closing twice is allowed."""
        with self._mutex:
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _descriptor(self) -> int:
        if self._fd is None:
            raise JournalError(f"the session {self.path} is closed; open it again to go on with it")
        return self._fd

    def _write(self, data: bytes, checksum: int) -> None:
        fd = self._descriptor()
        size, _ = self._end
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)  # left by an append that was interrupted twice
            unwritten = memoryview(data)
            # Usually one write. A full disk takes a part, and the next write gives the reason.
            while unwritten:
                unwritten = unwritten[os.write(fd, unwritten) :]
            self._end = (size + len(data), checksum)
        except BaseException as error:
            self._take_back(fd, size)
            if isinstance(error, OSError):
                raise JournalError(f"cannot write to the session {self.path}: {error.strerror or error}") from error
            raise
        self._uncommitted = True

    def _take_back(self, fd: int, size: int) -> None:
        try:
            if self._end[0] == size:
                os.ftruncate(fd, size)
        except OSError:
            # Half a line must stay the last one, so that the next opening can repair it.
            self._let_go()

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._lock.release()

    def _repair(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.torn")
        size, torn_bytes = self.contents.size, self.contents.torn_bytes
        fd = self._descriptor()
        os.lseek(fd, size, os.SEEK_SET)
        torn = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
        # Saved before it is cut off: a crash in between leaves it twice and never loses it.
        with os.fdopen(os.open(aside, _FLAGS | os.O_CREAT, 0o600), "ab") as stream:
            stream.write(torn.rstrip(b"\n") + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.ftruncate(fd, size)
        self._uncommitted = True
        self.repaired = (
            f"the last record of {self.path} was cut short ({torn_bytes:,} bytes, kept in {aside.name});"
            " the session goes on from the record before it"
        )


def delete_session(path: Path, *, dry: bool = False) -> int:
    """Delete a session's file, what was put aside of it, and its lock; return the bytes that this frees.

    A dry run deletes nothing.

    Raises:
        SessionNotFoundError: if there is no such file.
        SessionLockedError: if a process writes it.
        JournalError: if it cannot be deleted.
    """
    if not path.exists():
        raise SessionNotFoundError(f"there is no session file {path}")
    freed = 0
    marker = Path(f"{path}.lock")
    try:
        with ExitStack() as stack:
            # Without that file no process writes the session, and a dry run leaves none behind.
            if not dry or marker.exists():
                stack.callback(_acquire(path).release)
            for part in (path, Path(f"{path}.torn")):
                if part.exists():
                    freed += part.stat().st_size
                    if not dry:
                        part.unlink()
        if not dry:
            # Whoever waits for the lock finds the session gone.
            marker.unlink(missing_ok=True)
    except OSError as error:
        raise JournalError(f"cannot delete the session {path}: {error.strerror or error}") from error
    return freed


def _acquire(path: Path, wait: float = 0) -> FileLock:
    # The lock is a file of its own, because on Windows a lock on the session would keep readers out. The operating
    # system releases it with the process. The empty file stays until the session is deleted: removing it would race
    # with other processes.
    lock = FileLock(f"{path}.lock", timeout=wait, poll_interval=0.01, thread_local=False, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise SessionLockedError(
            f"the session {path} is being written by another process; stop that process, or start another session"
        ) from None
    return lock


@contextmanager
def _released_on_error(lock: FileLock, path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"cannot write sessions to {path}: {error.strerror or error}. Make it writable,"
        " or set WANE_SESSION_DIR to a directory that is"
    )


def _sync_directory(directory: Path) -> None:
    # A new file's name is on the disk only when its directory is. Windows cannot open directories and does not need to.
    if os.name != "nt":
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

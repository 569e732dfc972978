"""Going back in a session, and forward again.

Nothing in a session is ever undone: its journal only grows. Going back begins a new session with a copy of the records
up to a turn, so that conversation and view are exactly as they were then. The session that was left stays whole, and
going forward again opens it.

Of files the journal knows what the agent's file tools changed: what a file held before its first change in a turn, and
a digest of what each change left. A file that holds something else by now was changed by somebody else since, such as
the user or a command, and is left as it is. What commands changed is not known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability, on_event
from pydantic_ai_harness.filesystem import FileChangeRequestEvent, FileWrittenEvent

from wane.account import Account
from wane.journal.codec import SchemaError, decode, encode
from wane.journal.records import FILE_NOTE, FORK_NOTE, LEFT_NOTE, MessageRecord, NoteRecord, Record

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from wane.agent.recorder import Recorder

LARGEST: Final = 1_000_000
"""Bytes of the largest file whose content is kept."""

_GONE: Final = ""
"""The digest of a file that is not there."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """What is known of a file that the agent's file tools changed.

    Attributes:
        path: its path in the session's directory.
        before: what it held before; None if there was no such file, or it is not `known`.
        known: whether that was kept; a file that is too large, or no text in UTF-8, is not.
        after: digest of what the last change left.
    """

    path: str
    before: str | None
    known: bool
    after: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of files that were to be put back: the notes on those that were, and why others were left."""

    notes: tuple[dict[str, Any], ...]
    left: dict[str, str]

    @property
    def paths(self) -> list[str]:
        """The paths of the files that were put back."""
        return [note["path"] for note in self.notes]


@dataclass
class FileHistory(AbstractCapability[Any]):
    """Notes in the journal what a file held before the agent's file tools changed it."""

    recorder: Recorder
    _before: dict[str, dict[str, Any]] = field(default_factory=dict)
    _noted: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Begin a turn: its first change of each file keeps what the file held."""
        self._before.clear()
        self._noted.clear()

    @on_event(FileChangeRequestEvent)
    async def _on_request(self, _ctx: RunContext[Any], event: FileChangeRequestEvent) -> None:
        if event.path not in self._noted:
            self._before[event.path] = _content(Path(event.root_dir, event.path))

    @on_event(FileWrittenEvent)
    async def _on_written(self, _ctx: RunContext[Any], event: FileWrittenEvent) -> None:
        self._noted.add(event.path)
        content = self._before.pop(event.path, {})
        after = _digest(Path(event.root_dir, event.path))
        self.recorder.note(FILE_NOTE, path=event.path, **content, after=after)


def records_before(records: Sequence[Record], count: int) -> list[Record]:
    """Return the records of a session up to the message with this number, counted from 0."""
    number = 0
    for at, record in enumerate(records):
        if isinstance(record, MessageRecord):
            if number == count:
                return list(records[:at])
            number += 1
    return list(records)


def fork_of(records: Iterable[Record]) -> tuple[str, int] | None:
    """Return the id of the session from which one went back, and the position of the note on it; None if it did not."""
    left = None
    for position, record in enumerate(records):
        if isinstance(record, NoteRecord) and record.topic == FORK_NOTE and isinstance(record.data.get("session"), str):
            left = record.data["session"], position
    return left


@dataclass(frozen=True, slots=True)
class _Left:
    """What a note says of sessions that were left."""

    sessions: Mapping[str, Account]


def note_on_left(accounts: Mapping[str, Account]) -> dict[str, Any]:
    """Return what a note says of sessions that were left, by what each had spent."""
    return {"sessions": {session_id: encode(account) for session_id, account in accounts.items()}}


def accounts_left(records: Iterable[Record]) -> dict[str, Account]:
    """Return what was spent in the sessions from which one came to this one, by their ids, as of then."""
    accounts: dict[str, Account] = {}
    for record in records:
        if not isinstance(record, NoteRecord):
            continue
        if record.topic == FORK_NOTE:
            accounts = {}  # what was copied with the records counts for the other session
        elif record.topic == LEFT_NOTE:
            with suppress(SchemaError):  # anybody may write a note
                accounts = dict(decode(_Left, record.data).sessions)
    return accounts


def changed_files(records: Iterable[Record]) -> list[KeptFile]:
    """Return the files that the agent's file tools changed in some records of a session, in order of the path."""
    files: dict[str, KeptFile] = {}
    for record in records:
        if not isinstance(record, NoteRecord) or record.topic != FILE_NOTE:
            continue
        path, after = str(record.data.get("path")), str(record.data.get("after"))
        first = files.get(path)
        if first is None:
            before = record.data.get("before")
            known = record.data.get("known") is True and (before is None or isinstance(before, str))
            files[path] = KeptFile(path, before if known else None, known, after)
        else:
            files[path] = KeptFile(path, first.before, first.known, after)
    return [files[path] for path in sorted(files)]


def reason_to_leave(directory: Path, file: KeptFile) -> str | None:
    """Return why a file cannot be put back; None if it can."""
    path = Path(directory, file.path)
    if path.is_symlink() or not path.parent.resolve().is_relative_to(directory.resolve()):
        return "it is a link, or lies above the directory"
    if not file.known:
        return f"what it held was not kept: it was no text in UTF-8, or larger than {LARGEST // 1_000_000} MB"
    if _digest(path) != file.after:
        return "it was changed since, by you or by a command"
    return None


def put_back(directory: Path, files: Iterable[KeptFile]) -> Restored:
    """Put files back as they were, but for those that hold something else than the agent left in them."""
    notes: list[dict[str, Any]] = []
    left: dict[str, str] = {}
    for file in files:
        path = Path(directory, file.path)
        if reason := reason_to_leave(directory, file):
            left[file.path] = reason
            continue
        content = _content(path)
        try:
            if file.before is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.before.encode())
        except OSError as error:
            left[file.path] = error.strerror or str(error)
            continue
        notes.append({"path": file.path, **content, "after": _digest(path)})
    return Restored(tuple(notes), left)


def _content(path: Path) -> dict[str, Any]:
    """Return what a note says of a file before a change."""
    try:
        if path.stat().st_size > LARGEST:
            return {"before": None, "known": False}
        return {"before": path.read_bytes().decode(), "known": True}
    except FileNotFoundError:
        return {"before": None, "known": True}
    except (OSError, UnicodeDecodeError):
        return {"before": None, "known": False}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return _GONE

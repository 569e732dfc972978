"""Reads the sessions that a user names, and lists unreadable files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from wane.core.errors import FormatError, JournalError, MissingExtraError, SessionNotFoundError
from wane.lab.names import MAX_UNPACKED
from wane.lab.readers.building.joining import join
from wane.lab.readers.claude_code import SUB_AGENT
from wane.lab.readers.kin import descendants, nest_children
from wane.lab.readers.named_files import find_files
from wane.lab.readers.reading import briefly, read_file
from wane.lab.recorded_session import ModelCall, RecordedSession

Progress = Callable[[int, int], None]
"""Called with the number of files read, and the number of all files."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A session and its file.

    Attributes:
        session: the session.
        path: the file; `-` for standard input, empty if the session was joined.
        parent: for a sub-agent's session, the name of the session that started it.
        number: its number in the file, from 1.
        of: how many sessions the file holds.
    """

    session: RecordedSession
    path: str
    parent: str | None = None
    number: int = 1
    of: int = 1


class FileReader(Protocol):
    """Reads the files of `gather` in another way than `read_file`."""

    def begin(self, files: Sequence[Path]) -> None:
        """Prepare to read some files, most of which will be read."""
        ...

    def read(self, file: Path) -> list[RecordedSession]:
        """Return the sessions of a file; see `read_file` for its errors."""
        ...


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of a folder or pattern without a readable session.

    Attributes:
        path: the file.
        why: why it has none.
        damaged: whether the file itself could not be read.
    """

    path: str
    why: str
    damaged: bool = False

    @classmethod
    def of(cls, path: str, error: Exception) -> Unread:
        """Return a file with the error that reading it ended with."""
        return cls(path, briefly(error), isinstance(error, JournalError))


@dataclass(frozen=True, slots=True)
class Gathered:
    """The sessions of the paths that a user names.

    Attributes:
        recordings: the sessions, in the order of the paths and of the files in each.
        idle: sessions without a model call, so that there is nothing to replay.
        unread: files that were skipped.
        repeated: files that several paths name; each was read once.
    """

    recordings: tuple[Recording, ...]
    idle: tuple[Recording, ...] = ()
    unread: tuple[Unread, ...] = ()
    repeated: tuple[str, ...] = ()


def read_session(
    path: str | Path,
    format: str = "auto",  # noqa: A002 - the field's word
    *,
    max_unpacked: int = MAX_UNPACKED,
) -> list[RecordedSession]:
    """Read recorded sessions; those of sub-agents are in the `sidechains` of the session that started them.

    Args:
        path: a file, a folder, a pattern or `-`, see `find_files`. Files may be compressed. Files of a folder or
            pattern without a readable session are skipped, unless there is no other.
        format: one of `reading.reader_names`, or `auto` to recognise it.
        max_unpacked: bytes that a compressed file may hold.

    Returns:
        The sessions, in the sorted order of their files. Their `problems` name what could not be read.

    Raises:
        SessionNotFoundError: if there is no such file.
        JournalError: if a file cannot be read.
        FormatError: if a file is in an unknown format, or not in the given one.
        MissingExtraError: if the format of a single file needs an extra that is not installed.
    """
    recordings, _, _ = _read_all([path], format, max_unpacked)
    return [recording.session for recording in recordings]


def gather(
    paths: Iterable[str | Path],
    format: str = "auto",  # noqa: A002 - the field's word
    *,
    sidechains: bool = False,
    joined: bool = False,
    max_unpacked: int = MAX_UNPACKED,
    progress: Progress | None = None,
    reader: FileReader | None = None,
) -> Gathered:
    """Read the sessions of some paths; a file that is named twice is read once.

    A session may begin with copies of another session's calls, as a fork does. They count once, unless sessions are
    joined.

    Args:
        paths: files, folders, patterns, or `-` for standard input.
        format: their format, see `read_session`.
        sidechains: whether sessions of sub-agents count as sessions of their own.
        joined: whether to join all sessions into one.
        max_unpacked: bytes that a compressed file may hold.
        progress: called with the number of files read, and the number of all files.
        reader: how to read each file; None for `read_file`.

    Raises:
        SessionNotFoundError: if a path matches no file.
        JournalError: if a file given by name cannot be read.
        FormatError: if a file given by name is in an unknown format, or all files of a folder or pattern are.
        MissingExtraError: if the format of a file given by name needs an extra that is not installed.
    """
    recordings, unread, repeated = _read_all(paths, format, max_unpacked, progress, reader)
    if not joined:
        recordings = _mark_branches(recordings)
    if sidechains:
        recordings = _with_sidechains(recordings)
    idle = tuple(recording for recording in recordings if not recording.session.calls)
    active = [recording for recording in recordings if recording.session.calls]
    if joined and active:
        name = f"{len(active)} sessions joined"
        active = [Recording(join([recording.session for recording in active], name), "")]
    return Gathered(tuple(active), idle, tuple(unread), tuple(repeated))


def _read_all(
    paths: Iterable[str | Path],
    format_: str,
    max_unpacked: int,
    progress: Progress | None = None,
    reader: FileReader | None = None,
) -> tuple[list[Recording], list[Unread], list[str]]:
    """Return the sessions of some paths, without those of sub-agents, the files skipped, and those named repeatedly."""
    files, named, repeated = _files(paths)
    by_file: dict[Path, list[RecordedSession]] = {}
    unread: list[Unread] = []
    read_with_parent: set[str] = set()
    # Those of sub-agents last: most of them have been read with the session that started them by then.
    if reader is not None:
        reader.begin([file for file in files if not _is_of_sub_agent(file)])
    for number, file in enumerate(sorted(files, key=_is_of_sub_agent)):
        if str(file) not in read_with_parent:
            try:
                by_file[file] = reader.read(file) if reader else read_file(file, format_, max_unpacked)
            except (FormatError, JournalError, MissingExtraError) as error:
                if file in named:
                    raise
                unread.append(Unread.of(str(file), error))
        for session in by_file.get(file, ()):
            read_with_parent.update(side.path for side in session.sidechains)
        if progress:
            progress(number + 1, len(files))
    recordings: list[Recording] = []
    for file in files:
        sessions = by_file.get(file, [])
        for number, session in enumerate(sessions, start=1):
            recordings.append(Recording(session, str(file), number=number, of=len(sessions)))
    if not recordings:
        raise FormatError(f"none of the {len(files)} files holds a session; the first of them: {unread[0].why}")
    inner = nest_children([recording.session for recording in recordings])
    recordings = [recording for position, recording in enumerate(recordings) if position not in inner]
    sides: set[tuple[str, str]] = set()
    for recording in recordings:
        sides.update((side.source, side.name) for side in recording.session.sidechains)
    outer = [recording for recording in recordings if (recording.session.source, recording.session.name) not in sides]
    return outer, unread, repeated


def _is_of_sub_agent(file: Path) -> bool:
    return file.name.startswith(SUB_AGENT) or (file.name == "wire.jsonl" and file.parent.name != "main")


def _mark_branches(recordings: Sequence[Recording]) -> list[Recording]:
    """Mark the calls that a session copied from one before it, from which it branches off; they count there.

    The one before is the one that began first: names and folders of files say nothing about that.
    """
    earlier: set[tuple[str, str]] = set()
    marked = list(recordings)
    for number in sorted(range(len(recordings)), key=lambda number: _beginning(recordings[number].session)):
        recording, session = recordings[number], recordings[number].session
        copies: list[ModelCall] = []
        for call in session.calls:
            if not call.id or (session.source, call.id) not in earlier:
                break
            copies.append(replace(call, inherited=True))
        asides = [
            replace(call, inherited=bool(call.id) and (session.source, call.id) in earlier) for call in session.asides
        ]
        earlier.update((session.source, call.id) for call in (*session.calls, *session.asides))
        if copies:
            session = replace(session, calls=copies + session.calls[len(copies) :], asides=asides)
        marked[number] = replace(recording, session=session)
    return marked


def _beginning(session: RecordedSession) -> float:
    """Return when a session's first call was made, in seconds since 1970 UTC; 0 if that is unknown."""
    return next((call.at for call in session.calls if call.at is not None), 0.0)


def _files(paths: Iterable[str | Path]) -> tuple[list[Path], set[Path], list[str]]:
    """Return all files once, in order; those of them that were given by name; and those that several paths name."""
    files: dict[Path, Path] = {}
    named: set[Path] = set()
    mentions: Counter[Path] = Counter()
    for path in paths:
        matches = find_files(path)
        resolved = [file.resolve() for file in matches]
        mentions.update(resolved)
        if matches == [Path(path)]:
            file = matches[0]
            named.add(files.setdefault(resolved[0], file))
            matches = descendants(file) if file.is_file() else []
            resolved = [child.resolve() for child in matches]
        for target, file in zip(resolved, matches, strict=True):
            files.setdefault(target, file)
    if not files:
        raise SessionNotFoundError("no session was given; give a file, a folder, a pattern, or - for standard input")
    repeated = [str(file) for resolved, file in files.items() if mentions[resolved] > 1]
    return list(files.values()), named, repeated


def _with_sidechains(recordings: Iterable[Recording]) -> list[Recording]:
    """Return each session, followed by those of its sub-agents, of theirs, and so on."""
    sessions: list[Recording] = []
    for recording in recordings:
        session = recording.session
        sides = [replace(recording, session=side, parent=session.name) for side in session.sidechains]
        sessions += [recording, *_with_sidechains(sides)]
    return sessions

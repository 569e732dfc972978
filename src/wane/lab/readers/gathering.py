"""Reads the sessions that a user names, and notes unreadable files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from wane.core.errors import FormatError, JournalError, MissingExtraError, SessionNotFoundError
from wane.lab.readers.building.joining import join
from wane.lab.readers.files import find_files
from wane.lab.readers.kin import descendants, nested
from wane.lab.readers.reading import briefly, read_file
from wane.lab.session import RecordedSession

Progress = Callable[[int, int], None]
"""Called with the number of files read, and the number of all files."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A session and its origin.

    Attributes:
        session: the session.
        path: its file; `-` for standard input, empty if it was joined.
        parent: for a sub-agent's session, the name of the session that started it.
    """

    session: RecordedSession
    path: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of a folder or pattern without a readable session."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a user's paths.

    Attributes:
        recordings: the sessions, in the order of the paths and of the files in each.
        idle: sessions without a model call, which leave nothing to replay.
        unread: files that were skipped.
        repeated: files that several paths name; each was read once.
    """

    recordings: tuple[Recording, ...]
    idle: tuple[Recording, ...] = ()
    unread: tuple[Unread, ...] = ()
    repeated: tuple[str, ...] = ()


def read_session(path: str | Path, format: str = "auto") -> list[RecordedSession]:  # noqa: A002 - the field's word
    """Read recorded sessions; those of sub-agents stay inside the session that they belong to.

    Args:
        path: a file, a folder, a pattern or `-`, see `find_files`; gzipped files too. Files of a folder or pattern
            that hold no readable session are skipped, unless none holds one.
        format: one of `READER_NAMES`, or `auto` to recognise it.

    Returns:
        The sessions, in the sorted order of their files. Their `problems` name what could not be read.

    Raises:
        SessionNotFoundError: if there is no such file.
        JournalError: if a file cannot be read.
        FormatError: if a file is of an unknown format, or not of the one asked for.
        MissingExtraError: if the format of a single file needs an extra that is not installed.
    """
    recordings, _, _ = _read_all([path], format)
    return [recording.session for recording in recordings]


def gather(
    paths: Iterable[str | Path],
    format: str = "auto",  # noqa: A002 - the field's word
    *,
    sidechains: bool = False,
    joined: bool = False,
    progress: Progress | None = None,
) -> Gathered:
    """Read the sessions of some paths; a file that is named twice is read once.

    A session may begin with copies of another one's calls, as a fork does. They count once, unless sessions are joined.

    Args:
        paths: files, folders, patterns, or `-` for standard input.
        format: their format, see `read_session`.
        sidechains: whether sessions of sub-agents count as sessions of their own.
        joined: whether to join all sessions into one.
        progress: called with the number of files read, and the number of all files.

    Raises:
        SessionNotFoundError: if a path matches no file.
        JournalError: if a file given by name cannot be read.
        FormatError: if a file given by name is in an unknown format, or all files of a folder or pattern are.
        MissingExtraError: if the format of a file given by name needs an extra that is not installed.
    """
    recordings, unread, repeated = _read_all(paths, format, progress)
    if not joined:
        recordings = _branched(recordings)
    if sidechains:
        recordings = _with_sidechains(recordings)
    idle = tuple(recording for recording in recordings if not recording.session.calls)
    active = [recording for recording in recordings if recording.session.calls]
    if joined and active:
        name = f"{len(active)} sessions joined"
        active = [Recording(join([recording.session for recording in active], name), "")]
    return Gathered(tuple(active), idle, tuple(unread), tuple(repeated))


def _read_all(
    paths: Iterable[str | Path], format_: str, progress: Progress | None = None
) -> tuple[list[Recording], list[Unread], list[str]]:
    """Return the sessions of some paths, without those of sub-agents, the files skipped, and those named repeatedly."""
    files, named, repeated = _files(paths)
    recordings: list[Recording] = []
    unread: list[Unread] = []
    for number, file in enumerate(files):
        try:
            recordings += [Recording(session, str(file)) for session in read_file(file, format_)]
        except (FormatError, JournalError, MissingExtraError) as error:
            if file in named:
                raise
            unread.append(Unread(str(file), briefly(error)))
        if progress:
            progress(number + 1, len(files))
    if not recordings:
        raise FormatError(f"none of the {len(files)} files holds a session; the first of them: {unread[0].why}")
    # A sub-agent's session stands in the one that started it.
    inner = nested([recording.session for recording in recordings])
    recordings = [recording for position, recording in enumerate(recordings) if position not in inner]
    sides = {(side.source, side.name) for recording in recordings for side in recording.session.sidechains}
    outer = [recording for recording in recordings if (recording.session.source, recording.session.name) not in sides]
    return outer, unread, repeated


def _branched(recordings: Sequence[Recording]) -> list[Recording]:
    """Mark the calls that a session copied from one before it, from which it branches off; they count there."""
    earlier: set[tuple[str, str]] = set()
    marked = []
    for recording in recordings:
        session, calls = recording.session, recording.session.calls
        ids = [(session.source, call.id) for call in calls]
        shared = sum(1 for _ in takewhile(lambda call: call[1] and call in earlier, ids))
        earlier.update(ids)
        if shared:
            copies = [replace(call, inherited=True) for call in calls[:shared]]
            session = replace(session, calls=copies + calls[shared:])
        marked.append(replace(recording, session=session))
    return marked


def _files(paths: Iterable[str | Path]) -> tuple[list[Path], set[Path], list[str]]:
    """Return all files once, in order; those of them that were given by name; and those that several paths name."""
    files: dict[Path, Path] = {}
    named: set[Path] = set()
    meant: Counter[Path] = Counter()
    for path in paths:
        means = find_files(path)
        meant.update(file.resolve() for file in means)
        if len(means) == 1 and means[0] == Path(path):
            named.add(files.setdefault(means[0].resolve(), means[0]))
            means = descendants(means[0]) if means[0].is_file() else []
        for file in means:
            files.setdefault(file.resolve(), file)
    if not files:
        raise SessionNotFoundError("no session was given; give a file, a folder, a pattern, or - for standard input")
    repeated = [str(file) for resolved, file in files.items() if meant[resolved] > 1]
    return list(files.values()), named, repeated


def _with_sidechains(recordings: Iterable[Recording]) -> list[Recording]:
    """Return each session, followed by those of its sub-agents, and of theirs."""
    sessions: list[Recording] = []
    for recording in recordings:
        sides = [
            replace(recording, session=side, parent=recording.session.name) for side in recording.session.sidechains
        ]
        sessions += [recording, *_with_sidechains(sides)]
    return sessions

"""Finds what a command line names: a counter, messages in JSON, or a session that Wane or another agent recorded.

Modules that are not needed for a file of messages are imported later, so that `wane plan` starts quickly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wane.cli.failure import InputError
from wane.cli.terminal.text import first_few, say
from wane.core import Counter, Mark
from wane.core.errors import CounterError, FormatError, JournalError, SessionNotFoundError
from wane.counters import get_counter
from wane.formats import FORMAT_NAMES, detect_format
from wane.lab.names import JOURNAL, MAX_UNPACKED
from wane.lab.readers import (
    STDIN,
    find_files,
    head,
    is_foreign,
    plain_file,
    read_plain,
    read_session,
    shown_path,
)
from wane.lab.readers.building.json_lines import LOOKED_AT, Problems
from wane.lab.readers.choice import list_titles, split_choice
from wane.lab.readers.documents import json_values
from wane.lab.readers.named_files import guess_file
from wane.lab.readers.reading import line_reader_of
from wane.lab.readers.unread import refuse_unread
from wane.lab.recorded_session import RecordedSession

_OF_PATHS: Final = "./\\*?[~"
"""Characters of files, folders and patterns, but not of ids."""
_NAMED: Final = 3
_IDS: Final = 8


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in a format of `wane.formats`, as its `load` takes them.

    Attributes:
        overhead: tokens that every request carried in addition, as far as recorded.
        marks: marks of the program around the agent (R18), by index of the item after them.
    """

    data: Any
    format: str
    overhead: int = 0
    marks: Mapping[int, tuple[Mark, ...]] = field(default_factory=dict)


def locate_session(name: str) -> str:
    """Return the path of a session of Wane or another agent by its id; a path is returned unchanged.

    The beginning of an id is enough if no other session's id begins with it.
    """
    if "://" in name and not Path(name).exists():
        raise InputError(f"{name} is an address, and Wane reads files alone: fetch it first, as with curl -O")
    if not name or set(name) & set(_OF_PATHS) or name == STDIN or Path(name).exists():
        return name
    if "#" in name:
        owner, _, choice = name.partition("#")
        return f"{locate_session(owner)}#{choice}"
    from wane.journal import SessionStore, default_root
    from wane.lab.discover import find_sessions, matching

    matches = {str(path): id_ for path, id_ in SessionStore(default_root(os.environ)).matching(name).items()}
    matches |= {str(file.path): file.id for file in matching(name, find_sessions(os.environ, Path.home()))}
    paths = [path for path, id_ in matches.items() if id_ == name] or list(matches)
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise SessionNotFoundError(
            f"there is no file or folder {name}, and no session has an id that begins with {name!r}"
            f"{guess_file(Path(name)) or '; wane sessions --all lists them'}"
        )
    names = ", ".join(sorted(matches.values())[:_IDS])
    raise SessionNotFoundError(f"{len(matches)} sessions have an id that begins with {name!r}; give more: {names}")


def sessions_here(cwd: Path) -> Iterator[tuple[str, str]]:
    """Yield the sessions of a directory, of any agent, the last written first: the path of each, and its id.

    Raises:
        InputError: if there are none.
    """
    from wane.journal import SessionInfo, SessionStore, default_root
    from wane.lab.discover import FoundSession, find_sessions, look_into

    own: list[SessionInfo | FoundSession] = [*SessionStore(default_root(os.environ)).sessions(cwd)]
    others = find_sessions(os.environ, Path.home())
    entries: list[SessionInfo | FoundSession] = [*own, *others]
    is_empty = True
    for entry in sorted(entries, key=lambda session: session.modified, reverse=True):
        if not isinstance(entry, FoundSession) or look_into(entry).cwd == str(cwd):
            is_empty = False
            yield str(entry.path), entry.id
    if is_empty:
        elsewhere: list[SessionInfo | FoundSession] = [*SessionStore(default_root(os.environ)).sessions(), *others]
        newest = max(elsewhere, key=lambda session: session.modified, default=None)
        if newest is None:
            raise InputError(
                f"no agent has a session of {cwd}, nor of another directory; work with one, as wane run claude, or "
                "see wane demo"
            )
        where = look_into(newest).cwd if isinstance(newest, FoundSession) else newest.cwd
        raise InputError(
            f"no agent has a session of {cwd}; name one of another directory. The newest is {newest.id}"
            f"{f', of {where}' if where else ''}; wane sessions --all lists them all"
        )


def newest_here() -> str:
    """Return the path of the session of this directory, of any agent, that was written last, and say which it is."""
    path, session_id = next(sessions_here(Path.cwd()))
    say(f"session {session_id}, the newest of this directory")
    return path


def usable_counter(name: str) -> Counter:
    """Return a counter by name; `chars`, with a warning, if the named one cannot work here."""
    try:
        return get_counter(name)
    except CounterError as error:
        say(f"warning: {error}. Counting with chars, one token for every four characters")
        return get_counter("chars")


def read_one(
    name: str,
    format: str,  # noqa: A002 - the field's word
    max_unpacked: int = MAX_UNPACKED,
) -> Messages | RecordedSession:
    """Return the one session that a name stands for: its messages if it holds any, else the recorded session.

    Args:
        name: a file, an id of one of Wane's own sessions, `-` for standard input, or a folder or pattern with one
            session. A file holds a JSON list of messages, a request body, a message per line, or a session of any agent
            that `wane.lab.readers` reads.
        format: one of their formats, or `auto`.
        max_unpacked: bytes that a compressed file may hold.
    """
    path = locate_session(name)
    files = find_files(path)
    if files != [Path(path)] or split_choice(path)[1]:
        return _only(read_session(path, format, max_unpacked=max_unpacked), name)
    with plain_file(files[0], max_unpacked) as plain:
        return _read(plain, format, shown_path(files[0]))


def _read(plain: Path, format_: str, name: str) -> Messages | RecordedSession:
    if is_foreign(plain):
        return _only(read_plain(plain, format_, name), name)
    beginning = head(plain) if format_ == "auto" else []
    from wane.lab.readers import journal

    if format_ == JOURNAL or journal.recognises(beginning):
        try:
            return _from_journal(plain)
        except JournalError:
            # The whole records of a damaged journal can still be read.
            format_ = JOURNAL
    if format_ in FORMAT_NAMES or (format_ == "auto" and line_reader_of(beginning) is None):
        with suppress(FormatError):
            if messages := _messages(plain, format_):
                return messages
    # A trajectory, chats in other wrappings, or the rest of a damaged file; for anything else the readers raise.
    return _only(read_plain(plain, format_, name), name)


def _messages(plain: Path, format_: str) -> Messages | None:
    """Return the messages of a file; None if some of it is damaged.

    Raises:
        FormatError: if they are of no format of messages.
    """
    problems = Problems()
    values = [value for _, value in json_values(plain, problems)]
    if problems.list_sorted():
        return None
    if format_ == "auto":
        refuse_unread(values[:LOOKED_AT])
    first = values[0]
    # An item of OpenAI Responses may also have an input, but has a type.
    is_body = isinstance(first, dict) and ("messages" in first or ("input" in first and "type" not in first))
    data: Any = values
    if len(values) == 1 and (isinstance(first, list) or is_body):
        data = first
    return Messages(data, detect_format(data).name if format_ == "auto" else format_)


def _only(sessions: list[RecordedSession], name: str) -> RecordedSession:
    if len(sessions) == 1:
        return sessions[0]
    if Path(locate_session(name)).is_file():
        raise InputError(f"{name} holds {len(sessions)} sessions; give one, such as {name}#1: {list_titles(sessions)}")
    names = first_few([session.name for session in sessions], _NAMED)
    raise InputError(f"{name} holds {len(sessions)} sessions ({names}); give one of them")


def _from_journal(path: Path) -> Messages:
    from wane.journal import ConfigRecord, MessageRecord, read

    journal = read(path)
    messages: list[Any] = []
    marks: dict[int, tuple[Mark, ...]] = {}
    overhead = 0
    for record in journal.records:
        if isinstance(record, MessageRecord):
            messages.append(record.message)
            marks.update(record.hosts_marks)
        elif isinstance(record, ConfigRecord):
            overhead = record.overhead
    return Messages(messages, journal.header.format, overhead, marks)

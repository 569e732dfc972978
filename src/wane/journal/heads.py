"""What a list shows of each session, and a cache of it in each directory, so that a list opens only what has changed.

The cache holds the beginning of what users said, so it is private as the sessions are, and goes when one of them is
deleted or loses a turn. It can be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wane.core.errors import JournalError
from wane.journal.lines import MESSAGE_PREFIX, begins_whole, follow, read_record, wane_version
from wane.journal.reader import open_session, read_header_of
from wane.journal.records import VERSION, MessageRecord

SUFFIX: Final = ".jsonl"
"""Suffix of the files of sessions."""

_NAME: Final = ".heads.json"  # hidden, because who reads a folder of sessions reads its `.json` files


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it.

    Attributes:
        id: the session's id.
        path: its file.
        modified: when it was last written.
        size: bytes of its file.
        cwd: the directory that its agent works in; None if the header cannot be read.
        created: when it began; None if the header cannot be read.
        format: name of its messages' format; None if the header cannot be read.
        parent: for a sub-agent's session of the proxy, as in its header; else empty.
        messages: number of messages.
        title: beginning of the user's first words; None if there are none, or if nobody asked for it.
        problem: why it cannot be resumed; None if no problem is known.
    """

    id: str
    path: Path
    modified: datetime
    size: int
    cwd: Path | None = None
    created: datetime | None = None
    format: str | None = None
    parent: str = ""
    messages: int = 0
    title: str | None = None
    problem: str | None = None


class Heads:
    """The sessions in some directories, each with its cache."""

    def __init__(self) -> None:
        self._caches: dict[Path, dict[str, Any]] = {}
        self._changed: dict[Path, int] = {}

    def of(self, directory: Path, paths: Iterable[tuple[Path, os.stat_result]]) -> Iterator[SessionInfo]:
        """Yield what a list shows of sessions at or below a directory, given the state of their files, in order."""
        cache = self._caches.setdefault(directory, _load_heads(directory))
        for path, status in paths:
            key = str(path)[len(str(directory)) + 1 :]  # `relative_to` takes ten times as long
            stamp = [status.st_mtime_ns, status.st_size]
            entry = cache.get(key)
            if entry is not None and entry[:2] == stamp:
                with suppress(ValueError, TypeError):
                    yield _restore_info(path, status, entry)
                    continue
            info = describe(path, status)
            # A problem names the file, and may have gone when the file is the same: another version reads it.
            if info.problem is None:
                cache[key] = [*stamp, *_export_info(info)]
                self._changed[directory] = self._changed.get(directory, 0) + 1
            yield info

    def save(self, *, existing: Iterable[Path] | None = None) -> None:
        """Write the caches of which some entries have changed; with the paths that exist, only those stay."""
        names = None if existing is None else set(map(str, existing))
        for directory, entries in self._caches.items():
            changed = self._changed.get(directory, 0)
            for key in list(entries):
                if names is not None and f"{directory}{os.sep}{key}" not in names:
                    del entries[key]
                    changed += 1
            if not changed:
                continue
            data = json.dumps({"of": _version(), "heads": entries}, separators=(",", ":")).encode()
            partial = directory / f"{_NAME}.{os.getpid()}"
            # A list that cannot be kept, such as in a read-only directory, is made again.
            with suppress(OSError):
                try:
                    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                        file.write(data)
                    partial.replace(directory / _NAME)
                finally:
                    partial.unlink(missing_ok=True)


def forget_heads(path: Path) -> None:
    """Delete what is cached of a session's directory, because a session there lost some of its content."""
    for directory in (path.parent, path.parent.parent):
        with suppress(OSError):
            (directory / _NAME).unlink(missing_ok=True)


def describe(path: Path, status: os.stat_result, *, titled: bool = True) -> SessionInfo:
    """Return what a list shows of a session, read from its file, with its title if that is wanted.

    Lines are checked by checksum, not decoded. A file that cannot be read has a `problem`.
    """
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    info: dict[str, Any] = {"id": id_of(path), "path": path, "modified": modified, "size": status.st_size}
    messages, title = 0, None
    try:
        with open_session(path) as stream:
            header, checksum = read_header_of(stream, path)
            info |= {"id": header.id, "cwd": Path(header.cwd), "created": header.created}
            info |= {"format": header.format, "parent": header.parent}
            for number, line in enumerate(stream, start=2):
                following = follow(line, checksum)
                if following is None:
                    # A last line that was cut short is not a problem: opening repairs it.
                    if stream.read(1) or begins_whole(line, checksum):
                        info["problem"] = f"{path}, line {number} is damaged"
                    break
                if line.startswith(MESSAGE_PREFIX):
                    messages += 1
                    if titled and (not title or title.startswith("/")):
                        title = _title(line, checksum, title)
                checksum = following
    except JournalError as error:
        return SessionInfo(**info, problem=str(error))
    return SessionInfo(**info, messages=messages, title=title)


def id_of(path: Path) -> str:
    """Return the id of a session by the name of its file."""
    return path.name.removesuffix(SUFFIX).partition("Z-")[2] or path.stem


def _title(line: bytes, checksum: int, title: str | None) -> str | None:
    """Return the title of a session by one more message, and the title by those before it."""
    try:
        record = read_record(line, checksum)
    except JournalError:
        return title  # opening the session reports it; a list goes on
    if not isinstance(record, MessageRecord):
        return title
    # It needs the formats, which take longer to load than a list whose heads are known.
    from wane.journal.titles import better_title, title_of

    return better_title(title, title_of(record.message))


def _version() -> list[Any]:
    # What a title is may change with any version.
    return [VERSION, wane_version()]


def _load_heads(directory: Path) -> dict[str, Any]:
    try:
        data = json.loads((directory / _NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict) or data.get("of") != _version() or not isinstance(data.get("heads"), dict):
        return {}
    return {key: entry for key, entry in data["heads"].items() if isinstance(entry, list) and len(entry) == 9}


def _export_info(info: SessionInfo) -> list[Any]:
    created = None if info.created is None else info.created.isoformat()
    return [info.id, str(info.cwd), created, info.format, info.parent, info.messages, info.title]


def _restore_info(path: Path, status: os.stat_result, entry: list[Any]) -> SessionInfo:
    _, size, session_id, cwd, created, form, parent, messages, title = entry
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    began = datetime.fromisoformat(created)
    return SessionInfo(session_id, path, modified, size, Path(cwd), began, form, parent, messages, title)

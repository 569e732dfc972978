"""Finds and lists session files.

They live in `<root>/<directory's name and hash>/<time>-<id>.jsonl`: one directory per working directory, so that
listing the sessions of a project opens no others. A proxy
looks its sessions up by how they began, so those that began alike share one more directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import platformdirs

from wane.core.errors import JournalError, SessionNotFoundError
from wane.journal.codec import decode, encode
from wane.journal.heads import SUFFIX, Heads, SessionInfo, describe, forget_heads, id_of
from wane.journal.lines import REQUEST_PREFIX, Clock, utc_now
from wane.journal.reader import open_session

if TYPE_CHECKING:
    from wane.journal.writer import Journal

SESSION_DIR_VARIABLE: Final = "WANE_SESSION_DIR"
"""Environment variable with the directory for sessions."""

_File: TypeAlias = "tuple[os.DirEntry[str], os.stat_result]"

_SLUG_LENGTH: Final = 48
_FEW: Final = 20
"""Sessions that are read without the cache when the newest one is looked for."""

_HEADER_PREFIX: Final = b'{"kind":"session",'
_CHAIN: Final = re.compile(rb'"chain":"([0-9a-f]{64})"')
_DELETED: Final = "deleted.jsonl"  # beside the directories of sessions


def default_root(environ: Mapping[str, str]) -> Path:
    """Return the directory in which all sessions live.

    `WANE_SESSION_DIR` if `environ` sets it, else `sessions` in the platform's state directory for `wane`.

    Raises:
        JournalError: if the variable names the home directory of an unknown user.
    """
    if override := environ.get(SESSION_DIR_VARIABLE):
        try:
            return Path(override).expanduser()
        except RuntimeError as error:  # the home of an unknown user
            raise JournalError(f"{SESSION_DIR_VARIABLE} is {override!r}: {error}") from error
    return platformdirs.user_state_path("wane", appauthor=False) / "sessions"


@dataclass(frozen=True, slots=True)
class SessionStore:
    """The sessions below one directory. Nothing is created on disk before the first session.

    Attributes:
        root: the directory, such as `default_root(os.environ)`.
    """

    root: Path

    def directory(self, cwd: Path) -> Path:
        """Return the directory of a working directory's sessions."""
        directory = cwd.resolve()
        slug = re.sub(r"[^A-Za-z0-9]+", "-", str(directory)).strip("-")[-_SLUG_LENGTH:].lstrip("-")
        # The slug is for people; the hash distinguishes `a/b` from `a-b`.
        digest = sha256(str(directory).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        return self.root / (f"{slug}-{digest}" if slug else digest)

    def create(
        self,
        cwd: Path,
        *,
        message_format: str,
        session_id: str | None = None,
        clock: Clock = utc_now,
        fsync: bool = True,
    ) -> Journal:
        """Begin a session for a working directory; the other arguments and the errors are those of `Journal.create`."""
        # A list of sessions needs no lock, and no library for one.
        from wane.journal.writer import Journal

        return Journal.create(
            self.directory(cwd),
            cwd=cwd.resolve(),
            message_format=message_format,
            session_id=session_id,
            clock=clock,
            fsync=fsync,
        )

    def sessions(self, cwd: Path | None = None) -> list[SessionInfo]:
        """Return the sessions of a working directory, or all if None, the last written first.

        Files that have not changed since the last list are not opened. One that cannot be read is listed with its
        `problem`.

        Raises:
            JournalError: if the directory cannot be listed.
        """
        heads = Heads()
        infos: list[SessionInfo] = []
        for directory, files in self._newest(cwd).items():
            infos += heads.of(directory, _paths(files))
        heads.save(existing=[info.path for info in infos])
        return sorted(infos, key=lambda info: (info.modified, info.path.name), reverse=True)

    def find(self, prefix: str, cwd: Path | None = None) -> Path:
        """Return the file of the only session, of a working directory or of all, whose id matches (`matching_ids`).

        Raises:
            SessionNotFoundError: if no session or several match; the message names the candidates.
            JournalError: if the directory cannot be listed.
        """
        matches = self.matching(prefix, cwd)
        if len(matches) == 1:
            return next(iter(matches))
        if not matches:
            raise SessionNotFoundError(f"no session has an id that begins with {prefix!r} in {self._folder(cwd)}")
        names = ", ".join(sorted(matches.values())[:8])
        raise SessionNotFoundError(
            f"{len(matches)} sessions have an id that begins with {prefix!r}; give more: {names}"
        )

    def matching(self, prefix: str, cwd: Path | None = None) -> dict[Path, str]:
        """Return the files and ids of the sessions, of a working directory or of all, that match (`matching_ids`).

        Raises:
            JournalError: if the directory cannot be listed.
        """
        paths = sorted(Path(entry.path) for _, entry in self._locate_files(cwd))
        ids = {path: id_of(path) for path in paths}
        matches = matching_ids(prefix, ids.values())
        return {path: id_ for path, id_ in ids.items() if id_ in matches}

    def latest(self, cwd: Path, message_format: str | None = None) -> SessionInfo:
        """Return the last written session of a working directory that has a message.

        A session that is damaged, or that another version of Wane wrote, is not skipped: it is returned with its
        `problem`. One whose header can be read is, if its messages have another format than the one that is asked for.
        It may be without its `title`, which takes longer to find than all else.

        Raises:
            SessionNotFoundError: if there is none.
            JournalError: if the directory cannot be listed.
        """
        heads = Heads()
        try:
            for directory, files in self._newest(cwd).items():
                # The newest one is nearly always the one, and to read it takes less than to load what is known of all.
                newest = (describe(path, status, titled=False) for path, status in _paths(files[:_FEW]))
                for info in chain(newest, heads.of(directory, _paths(files[_FEW:]))):
                    if message_format is not None and info.format not in (message_format, None):
                        continue
                    if info.messages or (info.problem is not None and _was_begun(info.path)):
                        return info
        finally:
            heads.save()
        raise SessionNotFoundError(f"there is no session to go on with in {self._folder(cwd)}")

    def delete(self, path: Path, *, dry: bool = False) -> int:
        """Delete a session's file, and what belongs to it, as `delete_session` does, and remember that it was there."""
        deleted = None
        if not dry:
            with suppress(JournalError), open_session(path) as lines:
                deleted = deleted_of(id_of(path), lines)
        from wane.journal.writer import delete_session

        freed = delete_session(path, dry=dry)
        if not dry:
            forget_heads(path)
        if deleted is not None:
            line = f"{deleted.to_json()}\n".encode()
            # The session is gone; that nothing tells of it is no reason to call that a failure.
            with suppress(OSError):
                handle = os.open(self.root / _DELETED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, line)
                finally:
                    os.close(handle)
        if not dry and path.parent.parent != self.root:
            with suppress(OSError):  # not empty: others began alike
                path.parent.rmdir()
        return freed

    def unwritten_since(self, time: datetime, cwd: Path | None = None) -> list[Path]:
        """Return the files of the sessions, of a working directory or of all, not written since a time; oldest first.

        Raises:
            JournalError: if the directory cannot be listed.
        """
        written = []
        for files in self._newest(cwd).values():
            written += [(status.st_mtime, path) for path, status in _paths(files)]
        return [path for written_at, path in sorted(written) if written_at < time.timestamp()]

    def _folder(self, cwd: Path | None) -> Path:
        return self.root if cwd is None else self.directory(cwd)

    def _newest(self, cwd: Path | None) -> dict[Path, list[_File]]:
        """Return the files of the sessions by their working directory's directory, each list newest first."""
        files: dict[Path, list[_File]] = {}
        for directory, entry in self._locate_files(cwd):
            with suppress(OSError):  # removed since it was listed
                files.setdefault(directory, []).append((entry, entry.stat()))
        for listed in files.values():
            listed.sort(key=lambda file: (file[1].st_mtime_ns, file[0].name), reverse=True)
        return files

    def _locate_files(self, cwd: Path | None) -> Iterator[tuple[Path, os.DirEntry[str]]]:
        """Yield the files of the sessions, each with its working directory's directory: a proxy's are one below it."""
        folder = self._folder(cwd)
        try:
            directories = [folder]
            if cwd is None:
                directories = [Path(entry) for entry in os.scandir(folder) if entry.is_dir()]
            for directory in directories:
                for entry in _entries(directory, cwd is None):
                    if entry.name.endswith(SUFFIX):
                        yield directory, entry
                    elif entry.is_dir():
                        for inner in _entries(entry.path, True):
                            if inner.name.endswith(SUFFIX):
                                yield directory, inner
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalError(f"cannot list the sessions in {folder}: {error.strerror or error}") from error


def _paths(files: Iterable[_File]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the paths of files, each made when it is needed: of 10,000 it takes longer than to sort them."""
    return ((Path(entry.path), status) for entry, status in files)


def _entries(folder: Path | str, lenient: bool) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it cannot be read and `lenient`: another one's, or gone meanwhile."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        if lenient:
            return []
        raise


def matching_ids(prefix: str, ids: Iterable[str]) -> set[str]:
    """Return the id `prefix` if it is one of these, or else the ids that begin with it.

    Sessions of a proxy that began alike share the first part of their id, so the part after the `-` is enough too.
    """
    candidates = set(ids) if prefix else set()
    if prefix in candidates:
        return {prefix}
    begin = {id_ for id_ in candidates if id_.startswith(prefix)}
    return begin or {id_ for id_ in candidates if id_.rpartition("-")[2].startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Deleted:
    """A session that was deleted, as it is remembered: without content, and without what it was found by.

    Attributes:
        id: its id; of a proxy's, the random half.
        at: when it was deleted, in UTC.
        requests: the number of its requests.
        chain: the last link of their chain; empty for none.
    """

    id: str
    at: str
    requests: int
    chain: str

    def matches(self, name: str) -> bool:
        """Whether a name is its id, or how that begins."""
        return self.id.startswith(name.rpartition("-")[2] or name)

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(encode(self))

    @classmethod
    def read(cls, lines: Iterable[bytes | str]) -> list[Deleted]:
        """Return what `to_json` wrote, as far as it can be read."""
        entries = list[Deleted]()
        for line in lines:
            with suppress(ValueError):
                entries.append(decode(cls, json.loads(line)))
        return entries


def deleted_sessions(root: Path) -> list[Deleted]:
    """Return the sessions that were deleted below a directory, the oldest first.

    Raises:
        JournalError: if their list cannot be read.
    """
    try:
        return Deleted.read((root / _DELETED).read_bytes().splitlines())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise JournalError(f"cannot read {root / _DELETED}: {error.strerror or error}") from error


def deleted_of(session_id: str, lines: Iterable[bytes]) -> Deleted:
    """Return what is remembered of a session that is deleted now; its lines may be damaged."""
    requests, last = 0, b""
    for line in lines:
        if line.startswith(REQUEST_PREFIX):
            requests, last = requests + 1, line
    chain = _CHAIN.search(last)
    at = f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"
    return Deleted(session_id.rpartition("-")[2], at, requests, "" if chain is None else chain[1].decode())


def _was_begun(path: Path) -> bool:
    """Whether a file that cannot be read is a session of Wane with a whole header line."""
    try:
        with open_session(path) as stream:
            line = stream.readline()
    except JournalError:
        return False
    return line.startswith(_HEADER_PREFIX) and line.endswith(b"\n")

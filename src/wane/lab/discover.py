"""Finds the sessions that other agents keep on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

from wane.core.errors import FormatError, MissingExtraError
from wane.journal.titles import better_title, is_command
from wane.lab.readers import claude_code, databases
from wane.lab.readers.building.json_lines import DAMAGED, is_compressed_copy, open_unpacked, plain_path
from wane.lab.readers.building.values import first_words, sound
from wane.lab.readers.kin import ids_of
from wane.lab.readers.places import Place
from wane.lab.readers.reading import session_readers

LOOKED_AT: Final = 1 << 18
"""Bytes at the start of a file that are searched for its title and directory."""


@dataclass(frozen=True, slots=True)
class SessionHead:
    """The beginning of a session file.

    Attributes:
        title: first words of the user's first turn; empty if the beginning holds none.
        cwd: its working directory, if recorded.
        problem: why the file cannot be read; None if it can.
        parent: for a sub-agent's session in a file of its own, the id of the session that started it; else empty.
    """

    title: str = ""
    cwd: str | None = None
    problem: str | None = None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session of another agent.

    Attributes:
        agent: the agent, and the name of its format: one of `AGENTS`.
        path: its file, or its path in a database (`opencode.db/ses_1a2b`).
        modified: when it was last written.
        size: its size in bytes; in a database, the characters of its content.
        id: its id, as the agent names it.
        head: its beginning, if it is known without opening a file; else see `look_into`.
    """

    agent: str
    path: Path
    modified: datetime
    size: int
    id: str
    head: SessionHead | None = None


_READERS: Final = {reader.NAME: reader for reader in session_readers() if hasattr(reader, "PLACES")}

AGENTS: Final = {name: reader.TITLE for name, reader in _READERS.items()}
"""The agents whose sessions are found: how messages call each, by its format."""

SHORT: Final = 8
"""Characters of a short id, unless more are needed to tell two apart."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_DATE: Final = re.compile(r"20\d\d-?[01]\d-?[0-3]\d(?!\d)")
_PREFIXES: Final = ("ses_", "session-", "rollout-")


def find_sessions(environ: Mapping[str, str], home: Path) -> list[FoundSession]:
    """Return the session files of other agents, by agent, newest first.

    Sessions of sub-agents are left out if their paths show what they are; they are read with the session that started
    them. No files but databases are opened.

    Args:
        environ: environment variables; `CLAUDE_CONFIG_DIR`, `CODEX_HOME`, `PI_CODING_AGENT_DIR`, `COPILOT_HOME`,
            `GEMINI_CLI_HOME` and `XDG_DATA_HOME` name the agents' directories, if they are set.
        home: the user's home directory.
    """
    files: list[FoundSession] = []
    for agent, reader in _READERS.items():
        agent_files: list[FoundSession] = []
        for place in reader.PLACES:
            agent_files += _files(agent, place, environ, home)
        files += sorted(agent_files, key=lambda file: (file.modified, file.path), reverse=True)
    return files


def look_into(file: FoundSession) -> SessionHead:
    """Return the beginning of a session file, or a problem if it cannot be read."""
    about = getattr(_READERS[file.agent], "about", None)
    if file.head is not None or about is None:
        return file.head or SessionHead()
    try:
        beginning = _beginning(file.path)
        first = next(beginning, {})
        title, cwd = about(chain([first], beginning))
        while is_command(title) and (words := about(beginning)[0]):
            title = better_title(title, words) or ""
    except (*DAMAGED, MissingExtraError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        return SessionHead(problem=f"cannot be read: {why or error}")
    _, parent = ids_of(first)
    return SessionHead(first_words(sound(title)), None if cwd is None else sound(cwd), parent=sound(parent))


def matching(prefix: str, files: Iterable[FoundSession]) -> list[FoundSession]:
    """Return the sessions whose id is `prefix`; else those whose id begins with it; else those whose file name does."""
    if not prefix:
        return []
    files = list(files)
    matches = [file for file in files if file.id.startswith(prefix) or _bare(file.id).startswith(prefix)]
    exact = [file for file in matches if prefix in (file.id, _bare(file.id))]
    return exact or matches or [file for file in files if file.path.stem.startswith(prefix)]


def short_ids(files: Sequence[FoundSession]) -> list[str]:
    """Return a short form of each session's id that no other of these sessions begins with.

    An id that begins with a date stays whole: a month or a day begins the ids of many other sessions.
    """
    names = [_bare(file.id) for file in files]
    lengths = dict.fromkeys(names, SHORT)
    lengths |= {name: len(name) for name in names if _DATE.match(name)}
    for name, following in pairwise(sorted(lengths)):
        length = SHORT
        while name[:length] == following[:length]:
            length += 1
        lengths[name] = max(lengths[name], length)
        lengths[following] = max(lengths[following], length)
    return [name[: lengths[name]] for name in names]


def _bare(name: str) -> str:
    """Return an id without the prefix that all ids of its agent share."""
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def _id_of(path: Path) -> str:
    name = path.parent.name if path.name == "events.jsonl" else plain_path(path).stem
    # Kimi Code names the folder of a session, above that of each agent.
    for named in (name, path.parent.parent.parent.name if path.name == "wire.jsonl" else ""):
        if uuid := _UUID.search(named):
            return uuid[0]
    if path.name == "messages.jsonl":  # Mistral Vibe names a folder by its time and the beginning of the id
        return path.parent.name.rpartition("_")[2]
    name = name.removesuffix(".messages")
    # Gemini CLI names a file by its time and the beginning of the id.
    return name.rpartition("-")[2] if name.startswith("session-") else name


def _files(agent: str, place: Place, environ: Mapping[str, str], home: Path) -> Iterator[FoundSession]:
    root = _directory(environ.get(place.variable, ""), home) or home / place.default
    for pattern in place.patterns:
        for path in root.glob(pattern):
            if path.name.startswith(claude_code.SUB_AGENT) and agent == claude_code.NAME:
                continue
            if is_compressed_copy(path):
                continue
            try:
                status = path.stat()
            except OSError:
                continue  # deleted in the meantime, or a dangling link
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            if hasattr(_READERS[agent], "about"):
                yield FoundSession(agent, path, modified, status.st_size, _id_of(path))
                continue
            try:
                listed = databases.sessions(path)
            except (FormatError, OSError) as error:
                problem = SessionHead(problem=str(error))
                yield FoundSession(agent, path, modified, status.st_size, path.stem, problem)
                continue
            for session in listed:
                cwd = None if session.cwd is None else sound(session.cwd)
                head = SessionHead(first_words(sound(session.title)), cwd)
                at = datetime.fromtimestamp(session.modified, UTC)
                yield FoundSession(agent, path / session.id, at, session.size, session.id, head)


def _directory(value: str, home: Path) -> Path | None:
    """Return the directory that a variable names, with `~` expanded; None if it is not set."""
    if value == "~" or value.startswith("~/"):
        return home / value[1:].lstrip("/")
    return Path(value) if value else None


def _beginning(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects on the first lines of a file, or the one that a short file holds over several lines."""
    remaining = LOOKED_AT
    lines: list[bytes] = []
    whole = True  # whether no line is an object, so that all of them may be one
    with open_unpacked(path) as file:
        while remaining > 0 and (raw := file.readline(remaining)):
            remaining -= len(raw)
            lines.append(raw)
            with suppress(ValueError, RecursionError):
                value = json.loads(raw)
                if isinstance(value, dict):
                    whole = False
                    yield value
    if whole and remaining > 0:
        with suppress(ValueError, RecursionError):
            value = json.loads(b"".join(lines))
            if isinstance(value, dict):
                yield value

"""Finds the sessions that Claude Code, Codex and pi keep on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wane.lab.readers import pi
from wane.lab.readers.building.values import first_words, sound
from wane.lab.readers.claude_code import reader as claude_code
from wane.lab.readers.codex import reader as codex

LOOKED_AT: Final = 1 << 18
"""Bytes at the start of a file that are searched for its title and directory."""

About = tuple[str, str | None]
"""The first turn that a person typed, and the working directory."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file that holds a session of another agent.

    Attributes:
        agent: `claude-code`, `codex` or `pi`; also the name of the format.
        path: the file.
        modified: when it was last written.
        size: its size in bytes.
    """

    agent: str
    path: Path
    modified: datetime
    size: int


@dataclass(frozen=True, slots=True)
class SessionHead:
    """What the beginning of a session file says.

    Attributes:
        title: first words of the user's first turn; empty if the beginning holds none.
        cwd: its working directory, if recorded.
        problem: why the file cannot be read, None if it can.
    """

    title: str = ""
    cwd: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an agent keeps its sessions.

    Attributes:
        agent: its name.
        variable: environment variable that names its directory.
        default: the directory if the variable is not set, below the user's home.
        patterns: its session files, below the directory.
        about: finds title and directory in the first lines.
    """

    agent: str
    variable: str
    default: str
    patterns: tuple[str, ...]
    about: Callable[[Iterator[Mapping[str, Any]]], About]


_PLACES: Final = (
    _Place("claude-code", "CLAUDE_CONFIG_DIR", ".claude", ("projects/*/*.jsonl",), claude_code.about),
    _Place(
        "codex",
        "CODEX_HOME",
        ".codex",
        ("sessions/**/rollout-*.jsonl", "archived_sessions/**/rollout-*.jsonl"),
        codex.about,
    ),
    _Place("pi", "PI_CODING_AGENT_DIR", ".pi/agent", ("sessions/*/*.jsonl",), pi.about),
)


def find_sessions(environ: Mapping[str, str], home: Path) -> list[SessionFile]:
    """Return the session files of other agents, by agent, newest first.

    Files of sub-agents are left out: they are read with the session that started them. No file is opened.

    Args:
        environ: environment variables; `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and `PI_CODING_AGENT_DIR` name the agents'
            directories, if they are set.
        home: the user's home directory.
    """
    return [
        file
        for place in _PLACES
        for file in sorted(_files(place, environ, home), key=lambda file: (file.modified, file.path), reverse=True)
    ]


def look_into(file: SessionFile) -> SessionHead:
    """Return what the beginning of a session file says, or a problem if it cannot be read."""
    about = next(place.about for place in _PLACES if place.agent == file.agent)
    try:
        title, cwd = about(_beginning(file.path))
    except OSError as error:
        return SessionHead(problem=f"cannot be read: {error.strerror or error}")
    return SessionHead(first_words(sound(title)), None if cwd is None else sound(cwd))


def _files(place: _Place, environ: Mapping[str, str], home: Path) -> Iterator[SessionFile]:
    root = _directory(environ.get(place.variable, ""), home) or home / place.default
    for pattern in place.patterns:
        for path in root.glob(pattern):
            if path.name.startswith(claude_code.SUB_AGENT) and place.agent == claude_code.NAME:
                continue
            try:
                status = path.stat()
            except OSError:
                continue  # deleted in the meantime, or a dangling link
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            yield SessionFile(place.agent, path, modified, status.st_size)


def _directory(value: str, home: Path) -> Path | None:
    """Return the directory that a variable names, with `~` expanded; None if it is not set."""
    if not value:
        return None
    return home / value[1:].lstrip("/") if value == "~" or value.startswith("~/") else Path(value)


def _beginning(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects on the first lines."""
    left = LOOKED_AT
    with path.open("rb") as file:
        while left > 0 and (raw := file.readline(left)):
            left -= len(raw)
            try:
                value = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value

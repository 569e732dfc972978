"""Finds the sessions that Claude Code, Codex and pi keep in their usual places on this machine."""

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
"""Bytes at the beginning of a file that are looked at for its title and its directory."""

About = tuple[str, str | None]
"""The first turn that a person typed, and the working directory."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file in which an agent keeps a session.

    Attributes:
        agent: whose it is: `claude-code`, `codex` or `pi`; also the format that reads it.
        path: the file.
        modified: when it was last written.
        size: its bytes.
    """

    agent: str
    path: Path
    modified: datetime
    size: int


@dataclass(frozen=True, slots=True)
class SessionHead:
    """What the beginning of a session file tells.

    Attributes:
        title: first words of the first turn of the user; empty if the beginning holds none.
        cwd: the directory that it was about, if recorded.
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
        variable: environment variable that says where its directory is.
        default: the directory otherwise, below the user's home.
        patterns: of the files, below it.
        about: tells what a session is about from its first lines.
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
    """Return the session files of other agents, by agent, the last written first.

    Files of sub-agents are left out: they are read with the session that started them. No file is opened.

    Args:
        environ: environment variables; `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and `PI_CODING_AGENT_DIR` say where the
            agents keep their files, if they are set.
        home: the user's home directory, below which the usual places are.
    """
    return [
        file
        for place in _PLACES
        for file in sorted(_files(place, environ, home), key=lambda file: (file.modified, file.path), reverse=True)
    ]


def look_into(file: SessionFile) -> SessionHead:
    """Return what the beginning of a session file tells; a file that cannot be read gives a problem."""
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
                continue  # it went while we looked, or is a link to nothing
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            yield SessionFile(place.agent, path, modified, status.st_size)


def _directory(value: str, home: Path) -> Path | None:
    """The directory that a variable names; `~` is the home directory. None if it is not set."""
    if not value:
        return None
    return home / value[1:].lstrip("/") if value == "~" or value.startswith("~/") else Path(value)


def _beginning(path: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of the first lines."""
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

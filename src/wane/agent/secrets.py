"""Knows files that hold secrets by their names: settings of an environment, private keys, passwords.

What Git tracks is known to everybody who has the repository. So it is not hidden, though it is asked about.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wane.agent.repositories import CREDENTIAL_FILES, GitRepository, holds_credential

_NAME: Final = re.compile(
    r"""
    \.env | \.env\..+ | \.envrc | \.netrc | \.pgpass | \.git-credentials | .*\.(pem|key|p12|pfx|keystore)
    | id_(rsa|dsa|(ed25519|ecdsa)(_sk)?) | secrets\.(json|toml|yaml|yml)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_EXAMPLES: Final = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults")

MOST_NAMES: Final = 20_000
"""Names that are looked at below a directory, from the top down."""

MOST_SECRETS: Final = 200
"""Secrets, pipes and devices that are hidden; bubblewrap takes a limited number of arguments."""

_MOST_INDEX: Final = 64 * 1024**2  # bytes


def holds_secret(path: str) -> bool:
    """Return whether a file holds a secret, by its name."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return _NAME.fullmatch(name) is not None and name.lower() not in _EXAMPLES


def read_of_project(path: Path, project: Path, most: int) -> bytes | None:
    """Return what is in a file that comes with a project, for what Wane reads of it unasked; None if it is another's.

    A link may lead to any file of the user, and to what the kernel makes: the environment has keys. So the file that is
    opened must be a regular one within the project, not in `.git`, and no secret by its name.

    Args:
        path: the file.
        project: the directory that has the project.
        most: bytes that are read at most.

    Raises:
        OSError: if it cannot be read.
    """
    real, root = os.path.realpath(path), os.path.realpath(project)
    below = os.path.relpath(real, root)
    is_within = os.path.join(root, below) == real and not below.startswith(os.pardir)
    is_secret = ".git" in below.lower().split(os.sep) or holds_secret(path.name) or holds_secret(real)
    if not is_within or is_secret or real.startswith(("/proc/", "/sys/", "/dev/")) or not os.path.isfile(real):
        return None
    # Not over a link that has taken its place since, and without waiting for a pipe.
    descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def find_hidden(root: str, repository: GitRepository | None) -> Iterator[str]:
    """Yield what is kept from a command below a directory, from the top down, without links.

    That is secrets which Git does not track, and pipes and devices: reading these may change them.
    """
    index: bytes | None = None
    waiting = deque([root])
    names = secrets = 0
    while waiting and names < MOST_NAMES and secrets < MOST_SECRETS:
        folder = waiting.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        names += len(entries)
        if {"HEAD", "objects"}.issubset(entry.name for entry in entries):
            yield from _find_passwords(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    waiting.append(entry.path)
                else:
                    yield from _find_passwords(entry.path)
                continue
            if entry.is_symlink():
                continue
            if not entry.is_file(follow_symlinks=False):
                secrets += 1
                yield entry.path
                continue
            if not _NAME.fullmatch(entry.name) or not holds_secret(entry.name):
                continue
            if index is None:
                index = _index_of(repository)
            if repository is None or not _is_tracked(entry.path, repository.top, index):
                secrets += 1
                yield entry.path


def _find_passwords(folder: str) -> Iterator[str]:
    """Yield the settings and stored credentials with passwords in a repository's own directory, copies included."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        is_settings = entry.name.startswith("config") and holds_credential(Path(entry.path))
        if entry.is_file(follow_symlinks=False) and (is_settings or entry.name in CREDENTIAL_FILES):
            yield entry.path


def _index_of(repository: GitRepository | None) -> bytes:
    if repository is None or not (repository.directory / "index").is_file():
        return b""
    try:
        with (repository.directory / "index").open("rb") as file:
            return file.read(_MOST_INDEX)
    except OSError:
        return b""


def _is_tracked(path: str, top: Path, index: bytes) -> bool:
    """Whether Git's index has a file: its name there follows its length, and ends with a zero byte."""
    name = os.fsencode(os.path.relpath(path, top))
    return struct.pack(">H", len(name)) + name + b"\0" in index

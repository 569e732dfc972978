"""Knows files that hold secrets by their names: settings of an environment, private keys, passwords.

What Git tracks is known to everybody who has the repository. So it is not hidden, though it is asked about.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wane.agent.repositories import Repository

_NAME: Final = re.compile(
    r"""
    \.env | \.env\..+ | \.envrc | \.netrc | \.pgpass | \.git-credentials | .*\.(pem|key|p12|pfx|keystore)
    | id_(rsa|ed25519|ecdsa) | secrets\.(json|toml|yaml|yml)
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


def find_hidden(root: str, repository: Repository | None) -> Iterator[str]:
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
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    waiting.append(entry.path)
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


def _index_of(repository: Repository | None) -> bytes:
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

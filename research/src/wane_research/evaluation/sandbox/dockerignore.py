"""Leaves out of a Dockerfile's folder what its `.dockerignore` names, by the rules of Docker's documentation."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAMES: Final = ("Dockerfile.dockerignore", ".dockerignore")
"""Where the patterns stand; the first one that exists counts."""

_PART: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|\\.|.", re.DOTALL)
_PARTS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line of the file."""

    expression: re.Pattern[str]  # of a whole path from the folder
    includes: bool  # whether it takes back what earlier ones leave out, as a line with an exclamation mark does


def read_patterns(text: str) -> list[Pattern]:
    patterns: list[Pattern] = []
    for line in text.removeprefix("\ufeff").splitlines():
        stripped = line.strip()
        if line.startswith("#") or not stripped:
            continue
        cleaned = posixpath.normpath(stripped.removeprefix("!").strip()).strip("/")
        if cleaned not in ("", "."):
            patterns.append(Pattern(_translate(cleaned), stripped.startswith("!")))
    return patterns


def is_ignored(path: str, patterns: list[Pattern]) -> bool:
    """Return whether a path from the folder, with slashes, is left out.

    The last pattern that names it, or a folder that it is in, decides.
    """
    parts = path.split("/")
    paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    ignored = False
    for pattern in patterns:
        if any(map(pattern.expression.fullmatch, paths)):
            ignored = not pattern.includes
    return ignored


def show_context(context: Path, home: Path) -> Path:
    """Return a folder with what a Dockerfile may copy: its own if it ignores nothing, or a copy in `home`."""
    file = next((context / name for name in NAMES if (context / name).exists()), None)
    patterns = read_patterns(file.read_text(encoding="utf-8")) if file else []
    if not patterns:
        return context
    copy = home / "context"
    copy.mkdir()
    for folder, folders, files in os.walk(context):
        for name in (*folders, *files):
            path = Path(folder, name)
            relative = path.relative_to(context)
            if not is_ignored(relative.as_posix(), patterns):
                _copy(path, copy / relative, context)
    return copy


def _copy(path: Path, target: Path, context: Path) -> None:
    # A folder that is left out itself may hold what a later pattern takes back.
    parents = [parent for parent in path.parents if parent.is_relative_to(context) and parent != context]
    for parent in reversed(parents):
        _make_folder(parent, target.parents[path.parents.index(parent)])
    if path.is_dir() and not path.is_symlink():
        _make_folder(path, target)
    elif path.is_symlink() or path.is_file():
        shutil.copy2(path, target, follow_symlinks=False)


def _make_folder(path: Path, target: Path) -> None:
    if not target.exists():
        target.mkdir()
        shutil.copystat(path, target)


def _translate(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    for part in _PART.findall(pattern):
        if part.startswith("[") and len(part) > 1:
            parts.append(part.replace("[^", "[^/", 1) if part.startswith("[^") else part)
        else:
            parts.append(_PARTS.get(part) or re.escape(part[-1]))
    return re.compile("".join(parts), re.DOTALL)

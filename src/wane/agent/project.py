"""Where a project is: the repository around a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def upwards(directory: Path) -> Iterator[Path]:
    """Yield a directory and those above it, up to the root of its repository; all of them if it is in none."""
    for path in (directory, *directory.parents):
        yield path
        if (path / ".git").exists():
            return


def repository_of(directory: Path) -> Path | None:
    """Return the root of the repository that a directory is in; None if it is in none."""
    *_, root = upwards(directory)
    return root if (root / ".git").exists() else None


def project_of(directory: Path) -> Path:
    """Return the root of the repository that a directory is in, or the directory if it is in none."""
    return repository_of(directory) or directory

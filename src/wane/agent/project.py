"""The project that a directory belongs to: the repository that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wane.agent.search_path import holds_home


def upwards(directory: Path) -> Iterator[Path]:
    """Yield a directory and those above it, up to the root of its repository; all of them if it is in none."""
    for path in (directory, *directory.parents):
        yield path
        if has_repository(path):
            return


def has_repository(directory: Path) -> bool:
    """Return whether a directory is the top of a repository. An empty `.git` makes none, and anybody can make one."""
    path = directory / ".git"
    return path.is_file() or (path / "HEAD").exists()


def project_of(directory: Path) -> Path:
    """Return the root of the repository that a directory is in, or the directory if it is in none.

    A repository that holds the user's home does not count: with it every directory there would be of one project.
    """
    *_, root = upwards(directory)
    return root if has_repository(root) and not holds_home(root) else directory

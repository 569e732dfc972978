"""Keeps folders of the project out of the PATH of this process; it is imported by every command, and imports little."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

USERS_PATH: Final = "WANE_USER_PATH"
"""The variable that keeps the user's PATH, behind the one that this process has instead."""


def holds_home(directory: Path) -> bool:
    """Return whether a directory is the user's home, or one above it: to read there is to read everything."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return home.is_relative_to(directory) or directory == Path(directory.anchor)


def find_project(directory: Path) -> Path:
    """Return the directory above which nothing belongs to the project: the top of the outermost repository.

    A repository that holds the user's home does not count.
    """
    real = Path(os.path.realpath(directory))
    tops = [folder for folder in (real, *real.parents) if os.path.lexists(folder / ".git") and not holds_home(folder)]
    return tops[-1] if tops else real


def is_of_project(path: str, project: Path) -> bool:
    """Return whether a path is relative or empty, or lies in a project, by its name or over links."""
    ways = (os.path.normpath(path), os.path.realpath(path))
    return not os.path.isabs(path) or any(Path(way).is_relative_to(project) for way in ways)


def remove_project(search_path: str, directory: Path) -> str:
    """Return a PATH without folders of the project that a directory is in, and without relative and empty ones.

    If nothing is left it is the system's: an empty one would stand for the directory.
    """
    project = find_project(directory)
    kept = [entry for entry in search_path.split(os.pathsep) if not is_of_project(entry, project)]
    return os.pathsep.join(kept) or os.defpath


def shield_path(environ: MutableMapping[str, str], directory: Path) -> None:
    """Take the project's folders out of the PATH of this process, and keep the user's for `users_environment`.

    This process has the provider's key, and libraries start programs by their names: Python's own `platform` asks
    `uname`, and the harness starts `rg`. Where the project is the user's home, what is below is the user's own, and
    only relative entries go.
    """
    path = environ.get("PATH")
    if path is None:
        return
    if holds_home(find_project(directory)):
        cleaned = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep))) or os.defpath
    else:
        cleaned = remove_project(path, directory)
    if cleaned != path:
        replace_path(environ, cleaned)


def replace_path(environ: MutableMapping[str, str], path: str) -> None:
    """Give this process another PATH, and keep the user's."""
    users = users_environment(environ).get("PATH")
    environ["PATH"] = path
    if users is not None:
        environ[USERS_PATH] = f"{path}\n{users}"


def users_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the user's own PATH, for the commands that the user or the agent runs."""
    restored = dict(environ)
    replaced, _, users = restored.pop(USERS_PATH, "").partition("\n")
    # Another one was set since, such as by the user for a Wane within Wane.
    if users and restored.get("PATH") == replaced:
        restored["PATH"] = users
    return restored

"""The git repository that a scripted agent works in: its owner makes it, checks the work and commits it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError, WaneError

_WHEN: Final = "2024-06-15T12:00:00+0000"
# No settings of the user: no hooks, no signing, no name. With fixed dates the commits are the same everywhere.
_SETTINGS: Final = {
    "commit.gpgsign": "false",
    "core.autocrlf": "false",
    "core.hooksPath": ".git/no-hooks",
    "core.fsmonitor": "false",
    "gc.auto": "0",
}


class ScriptedError(WaneError, RuntimeError):
    """The repository or the agent of a scripted run cannot be made or used."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether the repository's tests passed, and their output."""

    passed: bool
    output: str


class TaskRepository:
    """A repository with tasks to be done in it.

    Args:
        directory: its directory; it is made, or must be empty.
        name: its name, which is part of the owner's name.
        run: name of the run that works in it, for errors.

    Raises:
        ScriptedError: if there is no git, or it fails.
        ConfigError: if the directory is there and not empty, or cannot be made.
    """

    def __init__(self, directory: Path, files: Iterable[tuple[str, str]], *, name: str, run: str) -> None:
        if shutil.which("git") is None:
            raise ScriptedError(
                f"the {run} works in a git repository, and git was not found; install it (https://git-scm.com)"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise ConfigError(f"the directory {directory} is not empty; give a new one for the repository")
        except OSError as error:
            raise ConfigError(f"the repository cannot be made in {directory}: {error.strerror or error}") from error
        self.directory = directory.resolve()
        for path, text in files:
            file = self.directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("init", "--quiet", "--initial-branch=main")
        owner = {"user.name": f"The owner of {name}", "user.email": f"owner@{name}.invalid"}
        for setting, value in (owner | _SETTINGS).items():
            self.git("config", setting, value)
        self.commit(f"The beginning of {name}")

    def list_changed(self, *paths: str) -> str:
        """Return which of some files differ from their commit; "" if none does."""
        return self.git("status", "--porcelain", "--", *paths)

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def python(self, *arguments: str) -> Checked:
        """Run this interpreter in the repository, as for its tests."""
        done = self._run([sys.executable, *arguments])
        return Checked(done.returncode == 0, done.stdout + done.stderr)

    def git(self, *arguments: str) -> str:
        """Run git, and return its output.

        Raises:
            ScriptedError: if it fails.
        """
        done = self._run(["git", *arguments])
        if done.returncode:
            message = done.stderr.strip() or done.stdout.strip()
            raise ScriptedError(f"git {arguments[0]} failed in {self.directory}: {message}")
        return done.stdout.strip()

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - fixed arguments
            command,
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            # Ctrl-C must reach the run only: a check that it killed would look like a failed one.
            start_new_session=True,
        )


@contextmanager
def run_directory(keep: Path | None, prefix: str) -> Iterator[Path]:
    """Yield the directory of a run: the one to keep, or a temporary one with a prefix, which goes at the end."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def environment() -> dict[str, str]:
    """Return the environment in which commands run: no git settings but the repository's own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return inherited | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": _WHEN,
        "GIT_COMMITTER_DATE": _WHEN,
        **_PYTHON,
    }


@contextmanager
def python_for_commands() -> Iterator[None]:
    """Let the commands of the agent find this interpreter (see the repositories' `check`), and write no bytecode.

    Python judges bytecode stale by times in seconds and by sizes, and the agent edits faster than that.
    """
    before = {name: os.environ.get(name) for name in _PYTHON}
    os.environ.update(_PYTHON)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_PYTHON: Final[Mapping[str, str]] = {
    "PYTHON": sys.executable,
    "PYTHONDONTWRITEBYTECODE": "1",
    # The model sees the output of commands, so it must be the same whatever the user's settings.
    "PYTHON_COLORS": "0",
    "PYTHONSAFEPATH": "",
}

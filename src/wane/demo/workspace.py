"""The repository that the demo works in: made anew from `wane/demo/project`, with a history, and with its own tests.

The files of the template have names that end in `.txt`, so that no tool takes them for code of Wane.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError, WaneError

NOISE_FILES: Final = 24
"""Log files in the directory that git ignores, full of words that searches look for."""

_TEMPLATE: Final = "project"
_SUFFIX: Final = ".txt"
_HIDDEN: Final = "dot-"
_WHEN: Final = "2024-06-15T12:00:00+0000"
# Nothing of the user's: no hooks, no signing, no name. With fixed dates the commits are the same everywhere.
_SETTINGS: Final = {
    "user.name": "The owner of tally",
    "user.email": "owner@tally.invalid",
    "commit.gpgsign": "false",
    "core.autocrlf": "false",
    "core.hooksPath": ".git/no-hooks",
    "core.fsmonitor": "false",
}


class DemoError(WaneError, RuntimeError):
    """The demo's repository cannot be made or used."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the repository's tests said.

    Attributes:
        passed: whether all passed.
        output: what they printed.
    """

    passed: bool
    output: str


class Workspace:
    """A repository with tasks to be done in it.

    Args:
        directory: where; it is made, or must be empty.

    Raises:
        DemoError: if there is no git, or it fails.
        ConfigError: if the directory is there and not empty, or cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        if shutil.which("git") is None:
            raise DemoError(
                "the demo works in a git repository, and git was not found; install it (https://git-scm.com)"
            )
        self.directory = _made(directory)
        _copy(_template() / "repository", directory)
        _make_noise(directory / "var")
        self._git("init", "--quiet", "--initial-branch=main")
        for name, value in _SETTINGS.items():
            self._git("config", name, value)
        self._commit("tally 1.3.0")

    def give(self, number: int) -> None:
        """Put the tests of a task into the repository, as its owner does who gives the task.

        Raises:
            DemoError: if they pass already, so that they would prove nothing.
        """
        path = self._tests_of(number)
        path.write_text(_task_tests(number), encoding="utf-8")
        self._commit(f"Say what task {number} is to do")
        if self._check(f"tests.{path.stem}").passed:
            raise DemoError(f"the tests of task {number} pass before it is done")

    def verify(self, number: int) -> Checked:
        """Run all tests that the repository has by now, those of the task among them, as they were given."""
        if changed := self._git("status", "--porcelain", "--", "tests"):
            return Checked(False, f"the tests were changed: {changed}")
        if self._tests_of(number).read_text(encoding="utf-8") != _task_tests(number):
            return Checked(False, f"the tests of task {number} were changed")
        return self._check()

    def accept(self, title: str) -> None:
        """Commit what a task has changed, as the repository's owner does."""
        self._commit(title)

    def _tests_of(self, number: int) -> Path:
        return self.directory / "tests" / f"test_task_{number:02}.py"

    def _check(self, *arguments: str) -> Checked:
        command = [sys.executable, "-m", "unittest", *arguments]
        done = subprocess.run(  # noqa: S603 - this interpreter, on our own tests
            command,
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            # Ctrl-C is for the demo: a check that it has killed would look like one that failed.
            start_new_session=True,
        )
        return Checked(done.returncode == 0, done.stderr + done.stdout)

    def _commit(self, message: str) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "-m", message)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", *arguments],  # noqa: S607 - whichever git the user has
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            raise DemoError(
                f"git {arguments[0]} failed in {self.directory}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout.strip()


def environment() -> dict[str, str]:
    """Return the environment in which the demo runs commands: no git settings but the repository's own."""
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
    """Let the commands of the agent find this interpreter (see the repository's `check`), and write no bytecode.

    Bytecode is told to be stale by seconds and sizes, and the agent edits faster than that.
    """
    before = {name: os.environ.get(name) for name in _PYTHON}
    os.environ.update(_PYTHON)
    try:
        yield
    finally:
        _restore(before)


_PYTHON: Final[Mapping[str, str]] = {
    "PYTHON": sys.executable,
    "PYTHONDONTWRITEBYTECODE": "1",
    # What commands print goes to the model: the same everywhere, whatever the user has set.
    "PYTHON_COLORS": "0",
    "PYTHONSAFEPATH": "",
}


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ConfigError(f"the directory {directory} is not empty; give a new one for the demo's repository")
    except OSError as error:
        raise ConfigError(f"the demo's repository cannot be made in {directory}: {error.strerror or error}") from error
    return directory.resolve()


def _template() -> Traversable:
    return resources.files("wane.demo") / _TEMPLATE


def _task_tests(number: int) -> str:
    return (_template() / "tasks" / f"test_task_{number:02}.py{_SUFFIX}").read_text(encoding="utf-8")


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, target / entry.name)
        elif entry.name.endswith(_SUFFIX):
            name = entry.name.removesuffix(_SUFFIX)
            path = target / (f".{name.removeprefix(_HIDDEN)}" if name.startswith(_HIDDEN) else name)
            path.write_text(entry.read_text(encoding="utf-8"), encoding="utf-8")


def _make_noise(directory: Path) -> None:
    """What every project has lying about: logs that git ignores, and that a search without git's rules drowns in."""
    directory.mkdir()
    words = ("split_evenly", "balance", "parse_query", "monthly_report", "comment", "carried")
    for number in range(NOISE_FILES):
        lines = (
            f"2024-06-{day:02} 12:00:{number:02} DEBUG {words[(number + day) % len(words)]}: called {day * 17} times"
            for day in range(1, 29)
        )
        (directory / f"debug-{number:02}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")

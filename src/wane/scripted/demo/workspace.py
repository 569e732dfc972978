"""The repository of the demo, `tally`: made anew from `project`, with tests of its own.

The files of the template have names that end in `.txt`, so that no tool takes them for code of Wane.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from wane.scripted.repository import Checked, Repository, ScriptedError

NOISE_FILES: Final = 24
"""Log files in the directory that git ignores, full of words that searches look for."""

_SUFFIX: Final = ".txt"
_HIDDEN: Final = "dot-"


class Workspace(Repository):
    """The repository, and its owner's part in the demo.

    Args:
        directory: where; it is made, or must be empty.

    Raises:
        ScriptedError: if there is no git, or it fails.
        ConfigError: if the directory is there and not empty, or cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _files(), name="tally", run="demo")

    def give(self, number: int) -> None:
        """Put the tests of a task into the repository, as its owner does who gives the task.

        Raises:
            ScriptedError: if they pass already, so that they would prove nothing.
        """
        path = self._tests_of(number)
        path.write_text(_task_tests(number), encoding="utf-8")
        self.commit(f"Say what task {number} is to do")
        if self.python("-m", "unittest", f"tests.{path.stem}").passed:
            raise ScriptedError(f"the tests of task {number} pass before it is done")

    def verify(self, number: int) -> Checked:
        """Run all tests that the repository has by now, those of the task among them, as they were given."""
        if changed := self.changed("tests"):
            return Checked(False, f"the tests were changed: {changed}")
        if self._tests_of(number).read_text(encoding="utf-8") != _task_tests(number):
            return Checked(False, f"the tests of task {number} were changed")
        return self.python("-m", "unittest")

    def accept(self, title: str) -> None:
        """Commit what a task has changed, as the repository's owner does."""
        self.commit(title)

    def _tests_of(self, number: int) -> Path:
        return self.directory / "tests" / f"test_task_{number:02}.py"


def _template() -> Traversable:
    return resources.files("wane.scripted.demo") / "project"


def _task_tests(number: int) -> str:
    return (_template() / "tasks" / f"test_task_{number:02}.py{_SUFFIX}").read_text(encoding="utf-8")


def _files() -> Iterator[tuple[str, str]]:
    yield from _copied(_template() / "repository", "")
    yield from _noise()


def _copied(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _copied(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            name = entry.name.removesuffix(_SUFFIX)
            hidden = name.removeprefix(_HIDDEN)
            yield path + (name if hidden == name else f".{hidden}"), entry.read_text(encoding="utf-8")


def _noise() -> Iterator[tuple[str, str]]:
    """What every project has lying about: logs that git ignores, and that a search without git's rules drowns in."""
    words = ("split_evenly", "balance", "parse_query", "monthly_report", "comment", "carried")
    for number in range(NOISE_FILES):
        lines = (
            f"2024-06-{day:02} 12:00:{number:02} DEBUG {words[(number + day) % len(words)]}: called {day * 17} times\n"
            for day in range(1, 29)
        )
        yield f"var/debug-{number:02}.log", "".join(lines)

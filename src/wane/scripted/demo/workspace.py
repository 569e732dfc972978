"""The repository of the demo, `tally`, made anew for each run.

Its files are in `repository.txtar`, and the tests of the tasks in `tasks.txtar`: archives in the plain-text format of
the Go tools. So no tool takes them for code of Wane, and they stay small in the wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from wane.scripted.repository import Checked, Repository, ScriptedError

NOISE_FILES: Final = 24
"""Log files in the directory that git ignores, full of words that searches look for."""


class Workspace(Repository):
    """The repository, with the work of its owner in the demo."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _files(), name="tally", run="demo")

    def give(self, number: int) -> None:
        """Give a task: add its tests to the repository, and commit them.

        Raises:
            ScriptedError: if they pass already, so that they would prove nothing.
        """
        path = self._tests_of(number)
        path.write_text(_task_tests(number), encoding="utf-8")
        self.commit(f"Say what task {number} is to do")
        if self.python("-m", "unittest", f"tests.{path.stem}").passed:
            raise ScriptedError(f"the tests of task {number} pass before it is done")

    def verify(self, number: int) -> Checked:
        """Run all tests of the repository. The task's own tests must be unchanged."""
        if changed := self.changed("tests"):
            return Checked(False, f"the tests were changed: {changed}")
        if self._tests_of(number).read_text(encoding="utf-8") != _task_tests(number):
            return Checked(False, f"the tests of task {number} were changed")
        return self.python("-m", "unittest")

    def accept(self, title: str) -> None:
        """Commit the changes for a task."""
        self.commit(title)

    def _tests_of(self, number: int) -> Path:
        return self.directory / "tests" / f"test_task_{number:02}.py"


def _task_tests(number: int) -> str:
    return _archive("tasks.txtar")[f"test_task_{number:02}.py"]


def _files() -> Iterator[tuple[str, str]]:
    yield from _archive("repository.txtar").items()
    yield from _noise()


@cache
def _archive(name: str) -> dict[str, str]:
    """The files of an archive: each begins after a line with its path, such as `-- tally/money.py --`."""
    text = (resources.files("wane.scripted.demo") / name).read_text(encoding="utf-8")
    _, *pieces = re.split(r"^-- (\S+) --\n", text, flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def _noise() -> Iterator[tuple[str, str]]:
    """Logs such as every project has: git ignores them, and they flood a search that does not."""
    words = ("split_evenly", "balance", "parse_query", "monthly_report", "comment", "carried")
    for number in range(NOISE_FILES):
        lines = (
            f"2024-06-{day:02} 12:00:{number:02} DEBUG {words[(number + day) % len(words)]}: called {day * 17} times\n"
            for day in range(1, 29)
        )
        yield f"var/debug-{number:02}.log", "".join(lines)

"""The repository of the closed loop, `depot`, and its owner, who gives the test of a task when the work is done."""

from __future__ import annotations

from pathlib import Path

from wane.scripted.closed_loop.work import Task
from wane.scripted.closed_loop.world import PACKAGE, World
from wane.scripted.repository import Checked, Repository


class Owner(Repository):
    """Owns the repository that the agent works in.

    Args:
        directory: where; it is made, or must be empty.
        world: what stands in it.

    Raises:
        ScriptedError: if there is no git, or it fails.
        ConfigError: if the directory is there and not empty, or cannot be made.
    """

    def __init__(self, directory: Path, world: World) -> None:
        super().__init__(directory, world.files(), name=PACKAGE, run="closed loop")

    def verify(self, task: Task) -> Checked:
        """Give the acceptance test of a task, and run all tests that its area has by now.

        The test comes when the work is done, so that nothing of what the user said can be read from it before.
        """
        if changed := self.changed("tests", "tools", "check", "draw"):
            return Checked(False, f"tests or tools were changed: {changed}")
        test = self.directory / "tests" / task.area / f"test_task_{task.number:03}.py"
        test.write_text(task.test(), encoding="utf-8")
        return self.python("tools/check.py", task.area)

    def verify_all(self) -> Checked:
        """Run every test that there is, those of all tasks among them."""
        return self.python("tools/check.py")

    def accept(self, task: Task, *, passed: bool) -> None:
        """Commit what a task has left. What does not pass its tests is taken back, and so is its test."""
        if not passed:
            self.git("checkout", "--quiet", "--", ".")
            self.git("clean", "--quiet", "-fd")
        self.commit(f"Task {task.number}: {'add ' + task.function if passed else 'not done'}")

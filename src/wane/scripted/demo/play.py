"""One run of the demo: a session of the real agent in a real repository, task by task."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, Outcome, SessionConfig
from wane.conversation import ContextSettings
from wane.core import FitReport
from wane.journal import SessionStore
from wane.scripted.demo.demo_summary import DemoWitness, Summary, TaskResult
from wane.scripted.demo.mind import Decision, decide
from wane.scripted.demo.model import ScriptedModel
from wane.scripted.demo.moves import Task
from wane.scripted.demo.script import TASKS
from wane.scripted.repository import Checked, ScriptedError, TaskRepository, python_for_commands, run_directory
from wane.testing import Reply, Request

BUDGET: Final = 18_000
"""Tokens that the view may hold in the demo: few, so that passes must evict a lot."""

MOST_CALLS: Final = 60
"""Model calls after which a task is given up."""

NOISE_FILES: Final = 24
"""Log files in the directory that git ignores, full of words that searches look for."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How to run the demo.

    Attributes:
        store: keeps the session; None keeps none.
        keep: directory for a repository to keep; None makes one that is removed at the end.
    """

    strategy: str = "cwl"
    store: SessionStore | None = None
    keep: Path | None = None
    script: Sequence[Task] = TASKS
    budget: int = BUDGET
    most_calls: int = MOST_CALLS


class Show:
    """Shows a run as it goes on; this one shows nothing.

    Attributes:
        session: the session's id, once it has begun.
    """

    session: str | None = None

    def begins(self, session: AgentSession, witness: DemoWitness, options: DemoOptions) -> None:  # noqa: ARG002
        """The session has been made."""
        self.session = session.id

    def task_begins(self, number: int, task: Task) -> None:
        """The user gives a task."""

    def show_pass(self, report: FitReport) -> None:
        """A pass ran."""

    async def show_exchange(self, request: Request, decision: Decision | None) -> None:
        """The model is about to answer, and waits for this; a summary is no step of the work, and no decision."""

    def task_ends(self, result: TaskResult) -> None:
        """The repository's tests have been run."""


async def play(options: DemoOptions, show: Show) -> Summary:
    """Run the demo and return its summary.

    Raises:
        ScriptedError: if there is no git, or the repository cannot be used.
        ConfigError: if the place for the repository cannot be used.
        JournalError: if the session cannot be written.
    """
    started = time.monotonic()
    with python_for_commands(), run_directory(options.keep, "wane-demo-") as directory:
        run = _DemoRun(options, Workspace(directory if options.keep else directory / "tally"), show)
        try:
            for number, task in enumerate(options.script, start=1):
                run.results.append(await run.task(number, task))
        finally:
            run.session.close()
        return Summary(
            strategy=options.strategy,
            session=run.session.id,
            budget=options.budget,
            results=tuple(run.results),
            tally=run.witness.tally,
            counts=run.witness.counts,
            seconds=time.monotonic() - started,
            repository=options.keep and directory.resolve(),
        )


class Workspace(TaskRepository):
    """The repository of the demo, `tally`, made anew for each run, with the work of its owner.

    Its files are in `repository.txtar`, and the tests of the tasks in `tasks.txtar`: archives in the plain-text format
    of the Go tools. So no tool takes them for code of Wane, and they stay small in the wheel.
    """

    def __init__(self, directory: Path) -> None:
        files = dict(_archive("repository.txtar"))
        # Logs such as every project has: git ignores them, and they flood a search that does not.
        words = ("split_evenly", "balance", "parse_query", "monthly_report", "comment", "carried")
        for number in range(NOISE_FILES):
            lines = (
                f"2024-06-{day:02} 12:00:{number:02} DEBUG "
                f"{words[(number + day) % len(words)]}: called {day * 17} times\n"
                for day in range(1, 29)
            )
            files[f"var/debug-{number:02}.log"] = "".join(lines)
        super().__init__(directory, files.items(), name="tally", run="demo")

    def give(self, number: int) -> None:
        """Give a task: add its tests to the repository, and commit them.

        Raises:
            ScriptedError: if they pass already, so that they would prove nothing.
        """
        path, tests = self._tests(number)
        path.write_text(tests, encoding="utf-8")
        self.commit(f"Say what task {number} is to do")
        if self.python("-m", "unittest", f"tests.{path.stem}").passed:
            raise ScriptedError(f"the tests of task {number} pass before it is done")

    def verify(self, number: int) -> Checked:
        """Run all tests of the repository. The task's own tests must be unchanged."""
        if changed := self.list_changed("tests"):
            return Checked(False, f"the tests were changed: {changed}")
        path, tests = self._tests(number)
        if path.read_text(encoding="utf-8") != tests:
            return Checked(False, f"the tests of task {number} were changed")
        return self.python("-m", "unittest")

    def _tests(self, number: int) -> tuple[Path, str]:
        """The file with the tests of a task, and what it must hold."""
        name = f"test_task_{number:02}.py"
        return self.directory / "tests" / name, _archive("tasks.txtar")[name]


@cache
def _archive(name: str) -> dict[str, str]:
    """The files of an archive: each begins after a line with its path, such as `-- tally/money.py --`."""
    text = (resources.files("wane.scripted.demo") / name).read_text(encoding="utf-8")
    _, *pieces = re.split(r"^-- (\S+) --\n", text, flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


class _DemoRun:
    """The parts of a run."""

    def __init__(self, options: DemoOptions, workspace: Workspace, show: Show) -> None:
        self.options = options
        self.workspace = workspace
        self.show = show
        self.results: list[TaskResult] = []
        self.calls = 0
        self.decision: Decision | None = None
        settings = AgentSettings(
            model=ScriptedModel(self.answer),
            budget=options.budget,
            context=ContextSettings(strategy=options.strategy, recall=True),
            yolo=True,
        )
        config = SessionConfig(cwd=workspace.directory, settings=settings, store=options.store)
        self.session = AgentSession.create(config)
        self.witness = DemoWitness(options.budget, self.session, show.show_pass)
        show.begins(self.session, self.witness, options)

    async def task(self, number: int, task: Task) -> TaskResult:
        """Give a task to the agent, and check the result with the repository's own tests."""
        self.workspace.give(number)
        self.witness.turns.append(task.prompt)
        self.show.task_begins(number, task)
        self.calls, before = 0, self.witness.tally.input_tokens
        turn = await self.session.run(task.prompt)
        checked = self.workspace.verify(number)
        self.workspace.commit(task.title)
        why = ""
        if turn.outcome is not Outcome.DONE:
            why = turn.error or turn.outcome.value
        elif not checked.passed:
            reasons = [
                line for line in checked.output.splitlines() if line.startswith(("FAIL:", "ERROR:", "the tests"))
            ]
            why = "; ".join(reasons[:3]) or "the tests fail"
        result = TaskResult(
            number=number,
            title=task.title,
            passed=not why,
            model_calls=self.calls,
            input_tokens=self.witness.tally.input_tokens - before,
            why=why,
        )
        self.show.task_ends(result)
        return result

    async def answer(self, request: Request) -> Reply:
        """Answer a request as the scripted model does."""
        self.calls += 1
        if self.calls > self.options.most_calls:
            self.session.cancel()
        self.decision = None
        reply = self.witness.answer(request, self.decide)
        await self.show.show_exchange(request, self.decision)
        return reply

    def decide(self, request: Request) -> Reply:
        """Take the next step of the script."""
        self.decision = decide(request, self.options.script)
        self.witness.take_decision(request, self.decision)
        return self.decision.reply

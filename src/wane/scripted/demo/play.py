"""One run of the demo: a session of the real agent in a real repository, task by task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.agent.config import Settings
from wane.agent.options import Strategy
from wane.agent.session import AgentSession, Outcome, SessionConfig, TurnResult
from wane.conversation import ContextSettings
from wane.core import FitReport
from wane.journal import SessionStore
from wane.scripted.demo.mind import Decision, decide
from wane.scripted.demo.model import ScriptedModel
from wane.scripted.demo.moves import Task
from wane.scripted.demo.script import TASKS
from wane.scripted.demo.summary import Summary, TaskResult
from wane.scripted.demo.witness import Witness
from wane.scripted.demo.workspace import Workspace
from wane.scripted.repository import python_for_commands, run_directory
from wane.testing import Reply, Request

BUDGET: Final = 18_000
"""Tokens that the view may hold in the demo: few, so that passes must evict a lot."""

MOST_CALLS: Final = 60
"""Model calls after which a task is given up."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How to run the demo.

    Attributes:
        strategy: how the context is kept.
        store: keeps the session; None keeps none.
        keep: directory for a repository to keep; None makes one that is removed at the end.
        script: the tasks.
        budget: tokens that the view may hold.
        most_calls: model calls after which a task is given up.
    """

    strategy: Strategy = "cwl"
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

    def begins(self, session: AgentSession, witness: Witness, options: DemoOptions) -> None:  # noqa: ARG002
        """The session has been made."""
        self.session = session.id

    def task_begins(self, number: int, task: Task) -> None:
        """The user gives a task."""

    def evicted(self, report: FitReport) -> None:
        """A pass ran."""

    async def exchanged(self, request: Request, decision: Decision | None) -> None:
        """The model is about to answer; it waits for this.

        Args:
            request: the model's request.
            decision: the model's decision; None for a summary, which is no step of the work.
        """

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
            passes=run.witness.passes,
            had=run.witness.had,
            seconds=time.monotonic() - started,
            repository=options.keep and directory.resolve(),
        )


class _DemoRun:
    """The parts of a run."""

    def __init__(self, options: DemoOptions, workspace: Workspace, show: Show) -> None:
        self.options = options
        self.workspace = workspace
        self.show = show
        self.results: list[TaskResult] = []
        self.calls = 0
        self.decision: Decision | None = None
        settings = Settings(
            model=ScriptedModel(self.answer),
            budget=options.budget,
            context=ContextSettings(strategy=options.strategy, recall=True),
            yolo=True,
        )
        config = SessionConfig(cwd=workspace.directory, settings=settings, store=options.store)
        self.session = AgentSession.create(config)
        self.witness = Witness(options.budget, self.session, show.evicted)
        show.begins(self.session, self.witness, options)

    async def task(self, number: int, task: Task) -> TaskResult:
        """Give a task to the agent, and check the result with the repository's own tests."""
        self.workspace.give(number)
        self.witness.turns.append(task.prompt)
        self.show.task_begins(number, task)
        self.calls, before = 0, self.witness.tally.input_tokens
        turn = await self.session.run(task.prompt)
        checked = self.workspace.verify(number)
        self.workspace.accept(task.title)
        passed = checked.passed and turn.outcome is Outcome.DONE
        result = TaskResult(
            number=number,
            title=task.title,
            passed=passed,
            model_calls=self.calls,
            input_tokens=self.witness.tally.input_tokens - before,
            why="" if passed else _why(turn, checked.output),
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
        await self.show.exchanged(request, self.decision)
        return reply

    def decide(self, request: Request) -> Reply:
        """Take the next step of the script."""
        self.decision = decide(request, self.options.script)
        self.witness.decided(request, self.decision)
        return self.decision.reply


def _why(turn: TurnResult, output: str) -> str:
    if turn.outcome is not Outcome.DONE:
        return turn.error or turn.outcome.value
    reasons = [line for line in output.splitlines() if line.startswith(("FAIL:", "ERROR:", "the tests"))]
    return "; ".join(reasons[:3]) or "the tests fail"

"""Runs of a closed loop: all tasks in one session of the real agent, or each in a session of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from wane.core.errors import ConfigError
from wane.journal import PassRecord, StrategyRecord, read
from wane.scripted.repository import Checked, ScriptedError, TaskRepository, run_directory
from wane.scripted.witness import MODEL
from wane.strategies.registry import check_live, traits
from wane.testing import Reply, Request, ScriptedServer
from wane_research.closed_loop.figures import Figures, LoopOptions, TaskResult, Witness, remains
from wane_research.closed_loop.mind import decide
from wane_research.closed_loop.session import InterruptedTurnError, Session
from wane_research.closed_loop.sight import Sight
from wane_research.closed_loop.work import Task, make_work
from wane_research.closed_loop.world import PACKAGE, World

MOST_CALLS: Final = 80  # model calls after which the model gives a task up
GO_ON: Final = "Go on."  # the user's words after a restart in the middle of a task


OnTask: TypeAlias = Callable[[TaskResult], None]  # called with each task that has ended


class Owner(TaskRepository):
    """The owner of the repository that the agent works in."""

    def __init__(self, directory: Path, world: World) -> None:
        super().__init__(directory, world.files(), name=PACKAGE, run="closed loop")

    def verify(self, task: Task) -> Checked:
        """Add the acceptance test of a task, and run all tests of its area so far.

        The test is added after the work, so that the model cannot read the user's words from it.
        """
        if changed := self.list_changed("tests", "tools", "check", "draw"):
            return Checked(False, f"tests or tools were changed: {changed}")
        test = self.directory / "tests" / task.area / f"test_task_{task.number:03}.py"
        test.write_text(task.test(), encoding="utf-8")
        return self.python("tools/check.py", task.area)

    def verify_all(self) -> Checked:
        """Run every test of the repository, including those of all tasks."""
        return self.python("tools/check.py")

    def accept(self, task: Task, *, passed: bool) -> None:
        """Commit the changes of a task. If they fail its tests, discard them and the task's test."""
        if not passed:
            self.git("checkout", "--quiet", "--", ".")
            self.git("clean", "--quiet", "-fd")
        self.commit(f"Task {task.number}: {'add ' + task.function if passed else 'not done'}")


class ClosedLoop:
    """One run, not begun yet."""

    def __init__(self, options: LoopOptions, on_task: OnTask = lambda _: None) -> None:
        check_live(options.strategy)
        if options.kill_every < 0:
            raise ConfigError(f"--kill-every is {options.kill_every}; give a number above 0, or 0 for no restarts")
        self.options = options
        self.work = make_work(options.seed, tasks=options.tasks, budget=options.budget, tokens=options.tokens)
        self.witness = Witness(options.budget)
        self.on_task = on_task
        self.results: list[TaskResult] = []
        self.calls = 0
        self.owner: Owner
        self.session: Session | None = None
        self.stopped = False

    def play(self) -> Figures:
        """Run the tasks, once, and return the figures.

        Raises:
            ScriptedError: if there is no git, or the agent's process fails.
            ConfigError: if the place for the repository cannot be used.
        """
        with run_directory(self.options.keep, "wane-loop-") as directory:
            self.owner = Owner(directory / "repository", self.work.world)
            with ScriptedServer(self.answer, context_limit=self.options.window, keep=1) as server:
                return self._run(server, directory / "sessions")

    def stop(self) -> None:
        """End a run that is going on, from any thread."""
        self.stopped = True
        if self.session is not None:
            self.session.stop()

    def _run(self, server: ScriptedServer, sessions: Path) -> Figures:
        options = self.options
        order = {
            "cwd": str(self.owner.directory),
            "sessions": str(sessions),
            "url": server.url,
            "model": MODEL.partition(":")[2],
            "strategy": options.strategy,
            "budget": options.budget,
            "tasks": options.mark_tasks,
        }
        started = time.monotonic()
        session = self.session = Session(order, restart_every=options.kill_every, seed=options.seed)
        try:
            session.begin()
            for task in self.work.tasks:
                if self.stopped:
                    raise ScriptedError("the run was stopped")
                self._task(task, session)
            seconds = time.monotonic() - started
        finally:
            session.end()
        self.witness.tally.refused = len(server.refusals)
        return self._figures(session, seconds, sessions)

    def _task(self, task: Task, session: Session) -> None:
        if self.options.isolated and task.number > 1:
            session.begin()
            self.witness.begin()
        self.calls, before = 0, replace(self.witness.tally)
        prompt = self.work.alone(task) if self.options.isolated else task.prompt
        answer = self._turn(prompt, session)
        checked = self.owner.verify(task)
        passed = checked.passed and answer["outcome"] == "done"
        self.owner.accept(task, passed=passed)
        tally = self.witness.tally
        result = TaskResult(
            number=task.number,
            passed=passed,
            ties=tuple((tie.link.value, tie.distance) for tie in task.ties),
            model_calls=self.calls,
            input_tokens=tally.input_tokens - before.input_tokens,
            re_reads=tally.re_reads - before.re_reads,
            why="" if passed else _why(answer, checked.output),
        )
        self.results.append(result)
        self.on_task(result)

    def _turn(self, prompt: str, session: Session) -> dict[str, Any]:
        """Let the agent do a task, over any number of restarts."""
        while True:
            self.witness.turns.append(prompt)
            try:
                answer = session.run(prompt)
            except InterruptedTurnError as interrupted:
                self.witness.note_restart(interrupted.how)
                prompt = GO_ON
                continue
            if (how := session.settle()) is not None:
                self.witness.note_restart(how)
            return answer

    def answer(self, request: Request) -> Reply:
        return self.witness.answer(request, self.decide)

    def decide(self, request: Request) -> Reply:
        """Return the scripted model's next step, and kill the process if a restart is due."""
        assert self.session is not None, "a session sent this request"
        self.calls += 1
        if self.calls <= MOST_CALLS:
            reply = decide(request)
        else:
            task = Sight(request).task
            reply = Reply(f"{task.number if task else 0}.done I was stopped after {MOST_CALLS} calls.")
        # A ticket can be drawn only once: if the process died while drawing it, no agent could get it back.
        self.session.count_answer(spare=any("sh draw" in call.raw_arguments for call in reply.calls))
        return reply

    def _figures(self, session: Session, seconds: float, sessions: Path) -> Figures:
        journals = list(sessions.rglob("*.jsonl"))
        # Counted in the journals, as a process that was killed could not report its passes.
        passes = 0
        for path in journals:
            passes += sum(isinstance(record, PassRecord | StrategyRecord) for record in read(path).records)
        one_session = not self.options.isolated and traits(self.options.strategy).by_episode
        return Figures(
            options=self.options,
            results=tuple(self.results),
            tally=self.witness.tally,
            resumptions=tuple(self.witness.resumptions),
            life=session.life,
            all_tests_pass=self.owner.verify_all().passed,
            seconds=seconds,
            passes=passes,
            journal_bytes=sum(path.stat().st_size for path in journals),
            remains=remains(journals[0], len(self.work.tasks)) if one_session else None,
        )


def _why(answer: dict[str, Any], output: str) -> str:
    if answer["outcome"] != "done":
        return str(answer["error"] or answer["outcome"])
    reason = str(answer["output"]).partition(" ")[2]
    if "not done" in reason or "stopped" in reason or "do not see" in reason:
        return reason
    for line in output.splitlines():
        if line.startswith("FAILED"):
            return line
    return "the tests fail"


def loops(options: LoopOptions, strategies: Sequence[str], *, isolated: bool) -> list[LoopOptions]:
    """Return the options of all runs: one per strategy and, if `isolated`, one with a session per task."""
    chosen = [replace(options, strategy=name, isolated=False) for name in strategies]
    if isolated:
        # Sessions of one task stay far below the budget, where the strategy makes no difference.
        chosen.append(replace(options, strategy=strategies[0], isolated=True, kill_every=0))
    if options.keep is None:
        return chosen
    return [replace(option, keep=options.keep / option.name) for option in chosen]


def play_all(
    chosen: Sequence[LoopOptions], on_task: OnTask, on_run: Callable[[Figures], None], *, workers: int
) -> list[Figures]:
    """Do all runs, each with an agent process of its own, and return the figures in order.

    `on_task` is called from the thread of its run. The first error ends all runs, and so does Ctrl-C.
    """
    runs = [ClosedLoop(option, on_task) for option in chosen]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run.play) for run in runs]
        try:
            for future in as_completed(futures):
                on_run(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for run in runs:
                run.stop()
            raise
    return [future.result() for future in futures]

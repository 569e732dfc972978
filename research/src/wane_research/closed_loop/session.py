"""A session of the agent, seen from outside. Its process is killed or closed at times, and resumed from the journal."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from wane.scripted.repository import ScriptedError, environment

How: TypeAlias = Literal["killed while it waits", "killed while it works", "closed"]
"""How a process ends before its session does: while it waits for the model's answer, at any moment after that answer
(it reads the stream, runs tools, writes its journal), or in good order between two tasks."""

_HOW: Final[tuple[How, ...]] = ("killed while it waits", "killed while it works", "closed")
_GRACE: Final = 0.12  # seconds after an answer within which a process that works is killed


class InterruptedTurnError(Exception):
    """The process was killed in the middle of a task. It is resumed; the task is not."""

    def __init__(self, how: How) -> None:
        super().__init__(how)
        self.how: How = how


class GoneError(Exception):
    """The process has ended before it answered."""


class AgentProcess:
    """A process of `wane_research.closed_loop.worker`.

    `order`: where and how it works; see `Worker`.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        keys = {name: value for name, value in environment().items() if not name.endswith("_API_KEY")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wane_research.closed_loop.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=keys,
            # Ctrl-C is for the run, which then ends this process.
            start_new_session=True,
        )
        try:
            self.ask(order)
        except GoneError:
            self._process.kill()
            raise ScriptedError("the agent's process could not be started; see its standard error above") from None

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Give an order and return the answer.

        Raises:
            GoneError: if the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError):  # it is gone, or its standard input was closed
            line = ""
        if not line.endswith("\n"):
            raise GoneError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        with contextlib.suppress(GoneError):
            self.ask({"close": True})
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise ScriptedError("the agent's process did not end when it was asked to") from error


@dataclass(slots=True)
class Life:
    """Figures of a session's processes."""

    items: int = 0
    memory: int | None = None  # peak memory of the largest process, in bytes; None if the system does not report it
    resume_seconds: float = 0.0  # the longest time that resuming took
    views_changed: int = 0  # restarts between tasks after which the window was not the same


class Session:
    """One session for its user, spread over any number of processes.

    `order`: where and how the agent works; see `Worker`.
    `restart_every`: approximate number of model calls between two restarts; 0 for none.
    """

    def __init__(self, order: dict[str, Any], *, restart_every: int, seed: int) -> None:
        self.state: dict[str, Any] = {}  # the process's last report
        self.life = Life()
        self._order = order
        self._every = restart_every
        self._pick = random.Random(f"{seed}:restarts")  # noqa: S311 - a seed is to give the same again
        self._stopped = False
        self._killer: threading.Timer | None = None
        self._ending: How | None = None
        self._plan()
        self._agent = AgentProcess(order)

    # The user's side

    def begin(self) -> None:
        """Begin a session, in the same process if there was one before."""
        self._ask({"open": None})

    def run(self, prompt: str) -> dict[str, Any]:
        """Let the agent do a task, and return the result.

        Raises:
            InterruptedTurnError: if it was killed on the way; it has been resumed.
            ScriptedError: if the process has ended by itself, or the run was stopped.
        """
        try:
            return self._ask({"run": prompt})
        except GoneError:
            raise InterruptedTurnError(self._revive()) from None

    def settle(self) -> How | None:
        """Between two tasks, resume a session that was killed after its task, or restart one if that is due.

        Returns:
            How its process ended; None if it is still the same.
        """
        if self._killer is not None:
            self._killer.join()
        if self._ending is None and self._due and self._how == "closed":
            self._ending = "closed"
        if self._ending is None:
            return None
        before = self.state["view"]
        how = self._revive()
        self.life.views_changed += self.state["view"] != before
        return how

    def end(self) -> None:
        self._agent.end()

    def stop(self) -> None:
        """Kill the process, from any thread."""
        self._stopped = True
        self._agent.kill()

    # Restarts

    def count_answer(self, *, spare: bool) -> None:
        """Count a model call that is being answered, and kill the process if that is due.

        `spare`: whether the process must survive this answer.
        """
        self._calls += 1
        if not self._due or spare or self._ending is not None or self._how == "closed":
            return
        self._ending = self._how
        if self._how == "killed while it waits":
            self._agent.kill()
        else:
            self._killer = threading.Timer(self._pick.uniform(0, _GRACE), self._agent.kill)
            self._killer.start()

    # The process

    def _plan(self) -> None:
        self._calls = 0
        self._after = self._pick.randint(max(1, self._every // 2), max(1, self._every * 3 // 2))
        self._how: How = self._pick.choice(_HOW)

    @property
    def _due(self) -> bool:
        return self._every > 0 and self._calls >= self._after

    def _revive(self) -> How:
        how = self._ending
        if how is None or self._stopped:
            what = "was stopped" if self._stopped else "has ended by itself; see its standard error above"
            raise ScriptedError(f"the agent's process {what}")
        if self._killer is not None:
            self._killer.join()
        self._agent.end()
        journal = self.state["journal"]
        self._ending = self._killer = None
        self._plan()
        self._agent = AgentProcess(self._order)
        self._ask({"open": journal})
        self.life.resume_seconds = max(self.life.resume_seconds, self.state["seconds"])
        return how

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        if self._stopped:
            raise ScriptedError("the run was stopped")
        answer = self._agent.ask(order)
        self.state |= answer
        self.life.items = answer["items"]
        if answer["memory"] is not None:
            self.life.memory = max(self.life.memory or 0, answer["memory"])
        return answer

"""The agent's process, seen from the side of the one who starts it, asks it and kills it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import Any

from wane.scripted.repository import ScriptedError, environment


class GoneError(Exception):
    """The process has ended before it answered."""


class AgentProcess:
    """A process of `wane.scripted.closed_loop.worker`.

    Args:
        order: where and how it works; see `Worker`.

    Raises:
        ScriptedError: if it cannot be started.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        keys = {name: value for name, value in environment().items() if not name.endswith("_API_KEY")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wane.scripted.closed_loop.worker"],
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
            raise ScriptedError("the agent's process could not be started; what it said is on standard error") from None

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
        """Kill it, at once."""
        self._process.kill()

    def end(self) -> None:
        """Have it end, however it is.

        Raises:
            ScriptedError: if it does not.
        """
        with contextlib.suppress(GoneError):
            self.ask({"close": True})
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise ScriptedError("the agent's process did not end when it was asked to") from error

"""Asks Git what Wane itself wants to know, in the sandbox where there is one.

What Git reads may be somebody else's: files, an index, settings. So even a question that should start nothing is asked
where nothing could be written or sent.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from wane.agent.repositories import GIT
from wane.agent.sandbox.wall import Sandbox, supervisor_argv
from wane.agent.search_path import remove_project

TIMEOUT: Final = 3.0
"""Seconds that Git may take for its answers: a slow repository must not delay every request."""

_ENDED: Final = 128 + 9  # by SIGKILL, as a shell says it


@dataclass(frozen=True, slots=True)
class OwnGit:
    """Git as Wane starts it for itself, in one directory.

    Attributes:
        sandbox: where it runs; directly if none is in force.
        environ: its environment, with the user's settings of Git.
    """

    sandbox: Sandbox
    environ: Mapping[str, str]

    def ask(self, arguments: Sequence[str]) -> str | None:
        """Return what Git says to some arguments, which name all paths whole; None if it fails or takes too long."""
        try:
            (answer,) = self.ask_all(("-C", os.sep, *arguments))
        except TimeoutError:
            return None
        return answer

    def ask_all(self, *questions: Sequence[str]) -> list[str | None]:
        """Return what Git says to each of some questions; None for one at which it fails.

        Raises:
            TimeoutError: if it takes longer than `TIMEOUT`.
        """
        commands = [[*GIT, *question] for question in questions]
        try:
            if self.sandbox.in_force:
                return self._ask_confined(commands)
            answers: list[str | None] = []
            search_path = remove_project(self.environ.get("PATH", os.defpath), self.sandbox.directory)
            for command in commands:
                done = _run(command, self.sandbox.directory, {**self.environ, "PATH": search_path})
                answers.append(done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None)
            return answers
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"git took more than {TIMEOUT:g} seconds") from None
        except OSError:
            return [None] * len(commands)  # there is no Git

    def _ask_confined(self, commands: Sequence[Sequence[str]]) -> list[str | None]:
        # One sandbox for all questions, and behind each answer a mark that nothing in it can have.
        mark = secrets.token_hex(16)
        line = "; ".join(f"{shlex.join(command)}; echo {mark} $?" for command in commands)
        with TemporaryDirectory(prefix="wane-git-") as temporary:
            spec = self.sandbox.specification(line, self.environ, temporary, own=True)
            spec |= {"tied": False, "seconds": TIMEOUT}
            environ = self.sandbox.own_environment(self.environ, self.sandbox.temporary(Path(temporary)))
            done = _run(supervisor_argv(spec), self.sandbox.directory, environ)
        if done.returncode == _ENDED:
            raise TimeoutError(f"git took more than {TIMEOUT:g} seconds")
        rest = done.stdout.decode("utf-8", "replace")
        answers: list[str | None] = []
        for _ in commands:
            text, found, rest = rest.partition(f"{mark} ")
            code, _, rest = rest.partition("\n")
            answers.append(text if found and code == "0" else None)
        return answers


def _run(command: Sequence[str], directory: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - no shell, and arguments of our own
        command,
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT + 1,
        check=False,
    )

"""A command that the user runs, not the agent: `!make` at the prompt."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.agent.tools import ripgrep

MAX_KEPT: Final = 8_000
"""Characters of the output that the model is given: the end of it."""

_NOTICE: Final = "local-command-stdout"  # R15
_PATIENCE: Final = 2.0
"""Seconds that a command has to end after it was interrupted."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended.

    Attributes:
        command: the command line.
        output: the end of what it printed.
        code: its exit code; below 0 for a signal.
    """

    command: str
    output: str
    code: int

    @property
    def notice(self) -> str:
        """What the model reads with the user's next words: a notice (R15), so that it can be evicted."""
        # What would end the notice early must not stand in it.
        output = self.output.rstrip("\n") or "(no output)"
        ended = f"\n[exit code: {self.code}]" if self.code else ""
        told = f"The user ran: {self.command}\n{output}{ended}".replace(f"</{_NOTICE}>", f"<\\/{_NOTICE}>")
        return f"<{_NOTICE}>\n{told}\n</{_NOTICE}>"


async def run_own(command: str, directory: Path, on_output: Callable[[str], object], stopping: asyncio.Event) -> Ran:
    """Run a command in the user's shell, and return how it ended.

    Args:
        command: the command line.
        directory: where it runs.
        on_output: told what it prints, as it comes.
        stopping: set to interrupt it, and to kill it if that does not end it.
    """
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=directory,
        env=ripgrep.undone(os.environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    stopper = asyncio.create_task(_stop(process.pid, stopping))
    decoder, kept = codecs.getincrementaldecoder("utf-8")("replace"), ""
    try:
        while chunk := await process.stdout.read(8_192):
            text = decoder.decode(chunk)
            kept = f"{kept}{text}"[-MAX_KEPT:]
            on_output(text)
        await process.wait()
    finally:
        stopper.cancel()
    return Ran(command, kept, process.returncode or 0)


async def _stop(group: int, stopping: asyncio.Event) -> None:
    await stopping.wait()
    for name in ("SIGINT", "SIGKILL"):
        # Windows has neither groups nor a way to kill harder.
        with suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(group, getattr(signal, name))
            else:
                os.kill(group, signal.SIGTERM)
        await asyncio.sleep(_PATIENCE)

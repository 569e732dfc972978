"""The user's own commands: `/name` sends the text of `name.md`, and `!make` runs in their shell."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.agent.config import user_file
from wane.agent.project import project_of
from wane.agent.sandbox.wall import specify_command, supervisor_argv
from wane.agent.secrets import read_of_project
from wane.agent.tools import ripgrep

FOLDERS: Final = (".wane/commands", ".claude/commands")
"""Where a project has its commands, below its root or the directory of the session."""

MAX_BYTES: Final = 100_000
"""Bytes of a file that are read."""

_NAME: Final = re.compile(r"[\w-]+")
_HEAD: Final = re.compile(r"---\r?\n(?P<head>.*?)\r?\n---\r?\n", re.DOTALL)
_DESCRIPTION: Final = re.compile(r"^description:\s*(?P<text>.+)$", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\$(ARGUMENTS|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a file."""

    name: str
    help: str
    text: str

    def fill_arguments(self, arguments: str) -> str:
        """Return what it sends, with the arguments in place of `$ARGUMENTS` and `$1` to `$9`, or else after it."""
        words = arguments.split()

        def argument(match: re.Match[str]) -> str:
            if match[1] == "ARGUMENTS":
                return arguments
            number = int(match[1])
            return words[number - 1] if number <= len(words) else ""

        filled, replaced = _VARIABLE.subn(argument, self.text)
        if arguments and not replaced:
            return f"{filled}\n\n{arguments}"
        return filled


def custom_commands(directory: Path, environ: Mapping[str, str]) -> list[CustomCommand]:
    """Return the user's commands, sorted by name. Of one name the nearest counts: directory, project, user."""
    project = project_of(directory)
    folders = [root / folder for root in dict.fromkeys((directory, project)) for folder in FOLDERS]
    commands: dict[str, CustomCommand] = {}
    for folder in (*folders, user_file(environ).with_name("commands")):
        for path in sorted(folder.glob("*.md")):
            command = _read(path, project if folder in folders else None)
            if command is not None:
                commands.setdefault(command.name, command)
    return sorted(commands.values(), key=lambda command: command.name)


def _read(path: Path, project: Path | None) -> CustomCommand | None:
    """Read a command of a project, or of the user, whose files may be links to anywhere."""
    if not _NAME.fullmatch(path.stem):
        return None
    try:
        content = read_of_project(path, project or Path(os.path.realpath(path)).parent, MAX_BYTES)
    except OSError:
        return None
    text = (content or b"").decode("utf-8-sig", "replace")
    head = _HEAD.match(text)
    body = text[head.end() :].strip() if head else text.strip()
    if not body:
        return None
    description = _DESCRIPTION.search(head["head"]) if head else None
    help_text = description["text"].strip("\"' \r") if description else body.split("\n")[0]
    return CustomCommand(f"/{path.stem}", help_text, body)


MAX_KEPT: Final = 8_000
"""Characters of the output that the model is given: the end of it."""

_NOTICE: Final = "local-command-stdout"  # R15
_PATIENCE: Final = 2.0
"""Seconds that a command has to end after it was interrupted."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    command: str
    output: str
    code: int

    @property
    def notice(self) -> str:
        """What the model reads with the user's next words: a notice (R15), so that it can be evicted."""
        # The output must not end the notice early.
        output = self.output.rstrip("\n") or "(no output)"
        ended = f"\n[exit code: {self.code}]" if self.code else ""
        text = f"The user ran: {self.command}\n{output}{ended}".replace(f"</{_NOTICE}>", f"<\\/{_NOTICE}>")
        return f"<{_NOTICE}>\n{text}\n</{_NOTICE}>"


async def run_own(command: str, directory: Path, on_output: Callable[[str], object], stopping: asyncio.Event) -> Ran:
    """Run a command in the user's shell, and return how it ended.

    Once `stopping` is set, the command is interrupted, and killed if that does not end it.
    """
    # By the supervisor, which ends the command if this program is killed.
    shell = ["/bin/sh", "-c", command] if os.name == "posix" else [os.environ.get("COMSPEC", "cmd.exe"), "/c", command]
    process = await asyncio.create_subprocess_exec(
        *(supervisor_argv(specify_command(shell)) if os.name == "posix" else shell),
        cwd=directory,
        env=ripgrep.undone(os.environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    stopper = asyncio.create_task(_stop(process, stopping))
    decoder, output = codecs.getincrementaldecoder("utf-8")("replace"), ""
    try:
        while chunk := await process.stdout.read(8_192):
            text = decoder.decode(chunk)
            output = f"{output}{text}"[-MAX_KEPT:]
            on_output(text)
        await process.wait()
    finally:
        stopper.cancel()
    return Ran(command, output, process.returncode or 0)


async def _stop(process: asyncio.subprocess.Process, stopping: asyncio.Event) -> None:
    await stopping.wait()
    if os.name != "posix":
        process.kill()
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    await asyncio.sleep(_PATIENCE)
    # Then its supervisor takes this program to be gone, and ends all that the command has started.
    assert process.stdin is not None
    process.stdin.close()

"""The user's own commands: `/name` sends what stands in `name.md`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.agent.approval.rules import project_of
from wane.agent.config import user_file

FOLDERS: Final = (".wane/commands", ".claude/commands")
"""Where a project has its commands, below its root or the directory of the session."""

MAX_BYTES: Final = 100_000
"""Bytes of a file that are read."""

_NAME: Final = re.compile(r"[\w-]+")
_HEAD: Final = re.compile(r"---\r?\n(?P<head>.*?)\r?\n---\r?\n", re.DOTALL)
_DESCRIPTION: Final = re.compile(r"^description:\s*(?P<text>.+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"\$(ARGUMENTS|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a file.

    Attributes:
        name: its name, with the slash.
        help: what it does: its description, or its first line.
        text: what it sends.
    """

    name: str
    help: str
    text: str

    def filled(self, arguments: str) -> str:
        """Return what it sends, with the arguments in place of `$ARGUMENTS` and `$1` to `$9`, or else after it."""
        words = arguments.split()

        def place(match: re.Match[str]) -> str:
            if match[1] == "ARGUMENTS":
                return arguments
            number = int(match[1])
            return words[number - 1] if number <= len(words) else ""

        filled, places = _PLACE.subn(place, self.text)
        return filled if places or not arguments else f"{filled}\n\n{arguments}"


def custom_commands(directory: Path, environ: Mapping[str, str]) -> list[CustomCommand]:
    """Return the user's commands, by name. The nearest counts: the directory's, the project's, the user's own.

    Args:
        directory: where the session works.
        environ: the environment, which may say where the user's settings are.
    """
    places = [path / folder for path in dict.fromkeys((directory, project_of(directory))) for folder in FOLDERS]
    found: dict[str, CustomCommand] = {}
    for folder in (*places, user_file(environ).with_name("commands")):
        for path in sorted(folder.glob("*.md")):
            command = _read(path)
            if command is not None:
                found.setdefault(command.name, command)
    return sorted(found.values(), key=lambda command: command.name)


def _read(path: Path) -> CustomCommand | None:
    if not _NAME.fullmatch(path.stem):
        return None
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return None
    head = _HEAD.match(text)
    body = (text[head.end() :] if head else text).strip()
    if not body:
        return None
    described = _DESCRIPTION.search(head["head"]) if head else None
    return CustomCommand(f"/{path.stem}", described["text"].strip("\"' \r") if described else body.split("\n")[0], body)

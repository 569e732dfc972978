"""Splits a command line into the simple commands that it runs. The result decides what rules of the user allow."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from itertools import takewhile

from wane.agent.approval.grammar import (
    Line,
    Redirection,
    Simple,
    UnreadableError,
    is_assignment,
    read_line,
    simple_commands,
)


@dataclass(frozen=True, slots=True)
class ShellPart:
    """A simple command, an assignment, or a redirection from or to a file.

    Attributes:
        text: its text in the line.
        words: its words without quotes; None for one that the shell does not leave as it is, such as `$x` or `*.py`.
            The words of a redirection are `<` or `>` and the file, those of an assignment its text.
    """

    text: str
    words: tuple[str | None, ...]


def parts_of(line: str) -> tuple[ShellPart, ...] | None:
    """Return all that a command line runs, reads or writes, each once; None if it cannot be read with certainty."""
    try:
        return parts_of_line(read_line(line))
    except UnreadableError:
        return None


def parts_of_line(line: Line) -> tuple[ShellPart, ...]:
    """Return all that a line runs, reads or writes, each once."""
    parts = (part_of(command) for command in simple_commands(line.script))
    return tuple(dict.fromkeys(part for part in parts if part is not None))


def part_of(command: Simple | Redirection) -> ShellPart | None:
    """Return a command or redirection as a part; None if it does nothing."""
    if isinstance(command, Redirection):
        path = command.target.literal
        if path == "/dev/null":
            return None
        target = None if path is None else posixpath.normpath(path)
        return ShellPart(f"{command.operator} {command.target.source}", (command.operator, target))
    if not command.words:
        return None
    assignments = [word.source for word in takewhile(is_assignment, command.words)]
    return ShellPart(command.text, (*assignments, *(word.literal for word in command.words[len(assignments) :])))

"""Splits a command line into the simple commands that it runs. The result decides what rules of the user allow."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from wane.agent.approval.grammar import (
    CommandLine,
    Compound,
    CompoundForm,
    Redirection,
    Script,
    SimpleCommand,
    UnreadableError,
    is_assignment,
    read_line,
    simple_commands,
)
from wane.tools.programs import word_set

CHANGES_SHELL: Final = word_set("""
    alias unalias export declare typeset local readonly unset shopt enable hash builtin eval exec source . trap read
    mapfile readarray getopts let umask pushd popd ulimit function bind complete
""")
"""Commands after which a later word, or a program's name, may mean something else."""

_MOVES: Final = word_set("cd pushd popd")
_CARRIES: Final = word_set("time command -p --")
"""Words in front of a command that the shell itself runs."""


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


def parts_of_line(line: CommandLine) -> tuple[ShellPart, ...]:
    """Return all that a line runs, reads or writes, each once."""
    parts = (part_of(command) for command in simple_commands(line.script))
    return tuple(dict.fromkeys(part for part in parts if part is not None))


def part_of(command: SimpleCommand | Redirection) -> ShellPart | None:
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


def find_bound_parts(line: CommandLine) -> frozenset[ShellPart]:
    """Return the parts of which another part of the line says what they do, whatever their own words say.

    In a line that changes the shell, such as its directory, these are all parts. In others they are those that get
    their input from the line: behind a pipe, or from a here-document.
    """
    parts = parts_of_line(line)
    if len(parts) > 1 and _changes_shell(line.script):
        return frozenset(parts)
    return frozenset(_fed_parts(line.script, is_fed=False))


def _fed_parts(script: Script, *, is_fed: bool) -> Iterator[ShellPart]:
    fed = is_fed or script.fed
    match script:
        case SimpleCommand():
            part = part_of(script)
            if fed and part is not None:
                yield part
            for nested in script.nested:
                yield from _fed_parts(nested, is_fed=fed)
        case Compound():
            for value in script.values:
                for nested in value.nested:
                    yield from _fed_parts(nested, is_fed=fed)
            for redirection in script.redirections:
                for nested in redirection.target.nested:
                    yield from _fed_parts(nested, is_fed=fed)
            is_pipe = script.form is CompoundForm.APART
            for number, child in enumerate(script.children):
                yield from _fed_parts(child, is_fed=fed or (is_pipe and number > 0))


def _changes_shell(script: Script) -> bool:
    """Whether a part of a script changes what another one does: the directory, a variable, a name."""
    if isinstance(script, Compound):
        nested = [inner for value in script.values for inner in value.nested]
        return script.form is CompoundForm.FUNCTION or any(map(_changes_shell, (*script.children, *nested)))
    if any(map(_changes_shell, script.nested)):
        return True
    words = [word.literal for word in script.words]
    carried = next((word for word in words if word not in _CARRIES), "")
    is_set = bool(script.words) and is_assignment(script.words[0])
    return is_set or carried is None or carried in CHANGES_SHELL or not _MOVES.isdisjoint(words)

"""The vocabulary of the demo's script: tasks, steps, their actions and their needs.

A script states goals and holds no knowledge: each fact that a step must know is a *need*. The model looks for it in the
messages that it was sent, and looks it up again if it is not there (`wane.scripted.demo.mind`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from wane.scripted.model_calls import shell
from wane.testing import Call

# The needs of a step


@dataclass(frozen=True, slots=True)
class Definition:
    """The present text of a definition: from the line that begins with `anchor` as far as it is indented.

    Attributes:
        anchor: beginning of its first line, without indentation, such as `def split_evenly(`.
    """

    path: str
    anchor: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file, to be seen in a read, a search or an edit of one's own.

    Attributes:
        text: the whole line, or several.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something known by a pattern, wherever it is seen: in a file, a command's output, a description.

    Attributes:
        name: texts of the script write `«name»` for the match of the pattern's group 1.
        path: the file to read if the fact is not in view.
        episode: the episode whose output holds it; only output under that name counts, and it is recalled if it
            is not in view.
        otherwise: the command that finds it out anew if nothing can be recalled.
    """

    name: str
    pattern: str
    path: str = ""
    episode: str = ""
    otherwise: str = ""


Need: TypeAlias = Definition | SourceLine | Fact


# The actions of a step


@dataclass(frozen=True, slots=True)
class Look:
    """Look at things; those that are in view already need no call."""

    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Run tests. If they fail, the script knows no way on."""

    command: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Put new text in the place of a definition, a line, or several."""

    old: Definition | SourceLine
    new: str


Move: TypeAlias = Call | Look | Check | Replace
"""A call; `«name»` in its texts stands for the value of that fact."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One reply of the model: its words and its calls.

    Attributes:
        needs: its needs besides those of its edits and looks.
    """

    say: str
    moves: tuple[Move, ...] = ()
    think: str = ""
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One task, as the user gives it, and how the scripted model goes about it.

    Attributes:
        title: its name for the picture and the summary.
        steps: the model's replies; the last one is its answer.
    """

    title: str
    prompt: str
    steps: tuple[ScriptStep, ...]


# Shorthand for scripts


def block(path: str, *anchors: str) -> tuple[Definition, ...]:
    """Return definitions of one file."""
    return tuple(Definition(path, anchor) for anchor in anchors)


def check(tests: str = "") -> Check:
    """Return a run of the repository's tests, all of them or some, which must pass."""
    return Check(f"sh check {tests}".rstrip())


def try_out(tests: str) -> Call:
    """Return a run of tests that are expected to fail as yet."""
    return shell(f"sh check {tests}")


def rewrite(path: str, anchor: str, new: str) -> Replace:
    """Return a move that replaces a definition."""
    return Replace(Definition(path, anchor), new.strip("\n"))


def swap(path: str, old: str, new: str) -> Replace:
    """Return a move that replaces a line, or several."""
    return Replace(SourceLine(path, old.strip("\n")), new.strip("\n"))

"""Which files a tool call shows and edits, and the reads that a session's edits rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wane.core import DEFAULT_TOOL_CLASSES, Kind, ToolClass
from wane.formats.base import Part
from wane.identifiers import spoken
from wane.lab.session import ModelCall, RecordedSession
from wane.tools.calls import SHELL_TOOLS, judge_call
from wane.tools.paths import FileMap, basename
from wane.tools.programs import INTERPRETERS
from wane.tools.shell import Simple, parse

_SHOWING: Final = frozenset(["cat", "head", "tail", "less", "more", "bat", "batcat", "nl", "tac", "sed"])
_EDITING: Final = INTERPRETERS | frozenset(["sed", "gsed", "ed", "ex", "patch", "apply_patch", "applypatch", "tee"])
_SAYING: Final = frozenset(["echo", "printf"])
_STANDS_FOR_PATHS: Final = frozenset("$*")
_DEEPEST: Final = 3


@dataclass(frozen=True, slots=True)
class Touched:
    """The effect of one call on files.

    Attributes:
        read: files whose content its result shows.
        edited: files whose content it writes, in whole or in part.
    """

    read: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()


def touched(call: Part) -> Touched:
    """Return which files a call shows and which it edits, as far as its arguments tell.

    The annotator decides which files a call reads and writes. Of these, only reads that show content count (not a
    search, a line count or a listing), and only writes of content that the call itself gives (not a copy, a removal,
    a change of mode or the output of a program).
    """
    tool = (call.tool or "").rpartition("__")[2].rpartition(".")[2].lower()
    judgement = judge_call(call.tool or "", call.arguments)
    if tool not in SHELL_TOOLS:
        searches = DEFAULT_TOOL_CLASSES.get(tool) is ToolClass.BULK
        return Touched(() if searches else judgement.reads, judgement.writes)
    if not judgement.files:
        return Touched()
    texts = spoken(call)
    # Some harnesses pass a command line word by word.
    lines = [*texts, " ".join(texts)] if len(texts) > 1 else texts
    commands = [command for line in lines for command in _commands(line)]
    return Touched(
        tuple(path for path in judgement.reads if _named(path) and any(_shows(command, path) for command in commands)),
        tuple(path for path in judgement.writes if _named(path) and any(_edits(command, path) for command in commands)),
    )


class Files:
    """Walks a session's model calls in order and keeps, by file, the result that showed it last."""

    def __init__(self, session: RecordedSession) -> None:
        self._parts = session.parts
        self._walked = 0
        self._latest: FileMap[int] = FileMap()
        self._asked: dict[str | None, tuple[str, ...]] = {}

    def reads_needed(self, call: ModelCall) -> list[int]:
        """Return, for each file that a call edits and that had been read before, the result that read it last."""
        self._walk(call.first)
        edited = [
            path
            for part in self._parts[call.first : call.stop]
            if part.kind is Kind.CALL
            for path in touched(part).edited
        ]
        reads = ((path, self._latest.get(path)) for path in dict.fromkeys(edited))
        return [read for _, read in reads if read is not None]

    def _walk(self, stop: int) -> None:
        for index in range(self._walked, stop):
            part = self._parts[index]
            if part.kind is Kind.CALL:
                self._asked[part.call_id] = touched(part).read
            elif part.kind is Kind.RESULT:
                for path in self._asked.pop(part.call_id, ()):
                    self._latest[path] = index
        self._walked = stop


def _named(path: str) -> bool:
    """Whether it is a path, not a variable or pattern that the shell expands."""
    return _STANDS_FOR_PATHS.isdisjoint(path)


def _commands(line: str, depth: int = 0) -> Iterator[Simple]:
    """Yield the simple commands of a line, and of the lines that they pass to another shell."""
    for command in parse(line):
        yield command
        if depth < _DEEPEST:
            for inner in command.words:
                if " " in inner and any(flag.startswith("-") and flag.endswith("c") for flag in command.words):
                    yield from _commands(inner, depth + 1)


def _shows(command: Simple, path: str) -> bool:
    name = basename(path)
    words = [basename(word) for word in command.words]
    at = next((position for position, word in enumerate(words) if word in _SHOWING), len(words))
    return name in words[at + 1 :] or (at < len(words) and name in map(basename, command.reads))


def _edits(command: Simple, path: str) -> bool:
    name = basename(path)
    words = [basename(word) for word in command.words]
    if name in map(basename, command.writes):
        return command.heredoc is not None or not _SAYING.isdisjoint(words)
    edits = not _EDITING.isdisjoint(words) or ("git" in words and not {"apply", "am"}.isdisjoint(words))
    return edits and any(name in text for text in [*command.words, command.heredoc or ""])

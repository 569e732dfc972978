"""What a session's model calls needed, and which files they showed and edited: an index, built once for all runs."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from wane.core import DEFAULT_TOOL_CLASSES, DELIMITER, Kind, ToolClass
from wane.formats.message_format import Part
from wane.identifiers import candidates, identifiers, spoken
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.tools.calls import SHELL_TOOLS, bare_name, judge_call
from wane.tools.paths import FileMap, basename
from wane.tools.programs import INTERPRETERS
from wane.tools.shell import ShellCommand, parse

_SHOWING: Final = frozenset(["cat", "head", "tail", "less", "more", "bat", "batcat", "nl", "tac", "sed"])
_EDITING: Final = INTERPRETERS | frozenset(["sed", "gsed", "ed", "ex", "patch", "apply_patch", "applypatch", "tee"])
_SAYING: Final = frozenset(["echo", "printf"])
_EXPANDED: Final = frozenset("$*")
_DEEPEST: Final = 3


@dataclass(frozen=True, slots=True)
class Touched:
    """The files whose content a call shows in its result, and those whose content it writes, in whole or in part."""

    read: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()


def touched_files(call: Part) -> Touched:
    """Return which files a call shows and which it edits, judging by its arguments.

    Of the files that a call reads and writes by its judgement, only those count whose content it shows (not a search,
    a line count or a listing), and those whose new content the call itself gives (not a copy, a removal, a change of
    mode or the output of a program).
    """
    tool = bare_name(call.tool or "")
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
    return Touched(_matching(judgement.reads, commands, _shows), _matching(judgement.writes, commands, _edits))


def _matching(
    paths: Iterable[str], commands: Sequence[ShellCommand], touches: Callable[[ShellCommand, str], bool]
) -> tuple[str, ...]:
    """Return the paths that any command touches, without variables and patterns that the shell expands."""
    matches: list[str] = []
    for path in paths:
        expands = not _EXPANDED.isdisjoint(path)
        if not expands and any(touches(command, path) for command in commands):
            matches.append(path)
    return tuple(matches)


class Files:
    """Follows a session's model calls in order, with the result that last showed each file."""

    def __init__(self, session: RecordedSession) -> None:
        self._parts = session.parts
        self._walked = 0
        self._latest: FileMap[int] = FileMap()
        self._asked: dict[str | None, Part] = {}

    def reads_needed(self, call: ModelCall) -> list[int]:
        """Return the latest results that showed the files that a call edits; without files never read before."""
        for index in range(self._walked, call.first):
            part = self._parts[index]
            if part.kind is Kind.CALL:
                self._asked[part.call_id] = part
            elif part.kind is Kind.RESULT:
                asked = self._asked.pop(part.call_id, None)
                # A command line may have shown a file before it failed.
                if asked and (not part.shows_nothing or bare_name(asked.tool or "") in SHELL_TOOLS):
                    for path in touched_files(asked).read:
                        self._latest[path] = index
        self._walked = call.first
        calls = [part for part in self._parts[call.first : call.stop] if part.kind is Kind.CALL]
        edited = dict.fromkeys(path for part in calls for path in touched_files(part).edited)
        reads = [self._latest.get(path) for path in edited]
        return [read for read in reads if read is not None]


def _commands(line: str, depth: int = 0) -> Iterator[ShellCommand]:
    """Yield the simple commands of a line, and of the lines that they pass to another shell."""
    for command in parse(line):
        yield command
        passes_line = any(word.startswith("-") and word.endswith("c") for word in command.words)
        if passes_line and depth < _DEEPEST:
            for word in command.words:
                if " " in word:
                    yield from _commands(word, depth + 1)


def _shows(command: ShellCommand, path: str) -> bool:
    name = basename(path)
    words = [basename(word) for word in command.words]
    for position, word in enumerate(words, start=1):
        if word in _SHOWING:
            return name in words[position:] or name in map(basename, command.reads)
    return False


def _edits(command: ShellCommand, path: str) -> bool:
    name = basename(path)
    words = [basename(word) for word in command.words]
    if name in map(basename, command.writes):
        return command.heredoc is not None or not _SAYING.isdisjoint(words)
    edits = not _EDITING.isdisjoint(words) or ("git" in words and not {"apply", "am"}.isdisjoint(words))
    return edits and any(name in text for text in [*command.words, command.heredoc or ""])


NONE = -1


class Index:
    """The identifiers, edits, pairs and user turns of a session. Runs share it, so do not change it.

    It has only identifiers that the output of some call uses, so its memory grows with the model's output, not with the
    output of tools.

    Attributes:
        session: the session.
        tokens: tokens of each part.
        users: items that are user turns, ascending.
        results: items that are results, ascending.
        is_result: by item, 1 for a result, else 0.
        partner: by item, a call's result or a result's call; `NONE` for other items and open calls.
        needed_reads: by model call, the items that last showed the files that it edits.
        repeats: by model call, the latest results of those of its tool calls that had been made before.
        lengths: by identifier, its length in characters.
        postings: by identifier, the items that hold it, ascending.
    """

    def __init__(self, session: RecordedSession, tokens: Sequence[int]) -> None:
        self.session = session
        self.tokens = tokens
        parts = session.parts
        self.users = [index for index, part in enumerate(parts) if part.kind is Kind.USER]
        self.results = [index for index, part in enumerate(parts) if part.kind is Kind.RESULT]
        self.is_result = bytearray(part.kind is Kind.RESULT for part in parts)
        self.partner = _partners(session)
        self._ids: dict[str, int] = {}
        self.postings: list[array[int]] = []
        self.lengths = array("i")
        self._use_ids = array("i")
        self._use_counts = array("i")
        self._use_bounds = array("q", [0])
        self._index_words()
        files = Files(session)
        self.needed_reads = [files.reads_needed(call) for call in session.calls]
        self.repeats = _repeats(session, self.partner)

    def uses(self, call: int) -> Iterator[tuple[int, int]]:
        """Return the identifiers that a model call uses and that occurred before, with the number of earlier items."""
        start, stop = self._use_bounds[call], self._use_bounds[call + 1]
        return zip(self._use_ids[start:stop], self._use_counts[start:stop], strict=True)

    def holds(self, text: str) -> frozenset[int]:
        """Return the identifiers in a text that any call uses."""
        ids = self._ids
        return frozenset(ids[word] for words in candidates(text) for word in ids.keys() & words)

    def _index_words(self) -> None:
        ids, parts, calls = self._ids, self.session.parts, self.session.calls
        used: list[array[int]] = []
        for call in calls:
            output_words: set[str] = set()
            for part in parts[call.first : call.stop]:
                for text in spoken(part):
                    output_words.update(identifiers(text))
            # Sorted, so that every run gives the same numbers.
            used.append(array("i", [ids.setdefault(word, len(ids)) for word in sorted(output_words)]))
        self.postings = [array("i") for _ in self._ids]
        for index, part in enumerate(parts):
            for text in spoken(part):
                for word in self.holds(text):
                    posting = self.postings[word]
                    if not posting or posting[-1] != index:
                        posting.append(index)
        for call, words in zip(calls, used, strict=True):
            for word in words:
                before = bisect_left(self.postings[word], call.first)
                if before:
                    self._use_ids.append(word)
                    self._use_counts.append(before)
            self._use_bounds.append(len(self._use_ids))
        self.lengths = array("i", map(len, ids))
        # Identifiers that no call uses again are not looked up.
        used_before = set(self._use_ids)
        nothing = array("i")
        for word in range(len(self.postings)):
            if word not in used_before:
                self.postings[word] = nothing
        self._ids = {text: word for text, word in ids.items() if word in used_before}


def _repeats(session: RecordedSession, partner: Sequence[int]) -> dict[int, list[int]]:
    # Calls that change something, such as edits, and marks do not count: they are made again on purpose.
    latest: dict[tuple[str, str], int] = {}
    repeats: dict[int, list[int]] = {}
    for number, call in enumerate(session.calls):
        for index in range(call.first, call.stop):
            part = session.parts[index]
            tool = (part.tool or "").lower()
            if part.kind is not Kind.CALL or DEFAULT_TOOL_CLASSES.get(tool) is ToolClass.DURABLE or tool == DELIMITER:
                continue
            arguments = part.arguments or ""
            with suppress(ValueError, RecursionError):
                # Spaces and the order of keys make no difference.
                arguments = json.dumps(json.loads(arguments), sort_keys=True)
            key = tool, arguments
            if (earlier := latest.get(key)) is not None:
                repeats.setdefault(number, []).append(earlier)
            if partner[index] != NONE:
                latest[key] = partner[index]
    return repeats


def _partners(session: RecordedSession) -> array[int]:
    partner = array("i", [NONE]) * len(session.parts)
    waiting: dict[str | None, int] = {}
    for index, part in enumerate(session.parts):
        if part.kind is Kind.CALL:
            waiting[part.call_id] = index
        elif part.kind is Kind.RESULT and part.call_id in waiting:
            call = waiting.pop(part.call_id)
            partner[call], partner[index] = index, call
    return partner

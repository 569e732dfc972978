"""Assembles the entries of a Claude Code transcript into a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer
from wane.lab.readers.building.json_lines import Problems, name_abandoned, path_to
from wane.lab.readers.claude_code.entries import ANSWER, LINK, USER, TranscriptLine, What
from wane.lab.readers.claude_code.requests import RequestLog
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

_SAID: Final = frozenset({What.USER, What.ANSWER, What.SUMMARY, What.BOUNDARY})
_CALL: Final = Kind.CALL
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>(?:.*?<command-args>(.*?)</command-args>)?", re.DOTALL)
_SHELL: Final = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_CHARACTERS_PER_TOKEN: Final = 8
"""More than any text has. Output with more characters per token was counted when the answer began, and is not final."""


def assemble(builder: SessionBuilder, entries: Sequence[TranscriptLine], requests: RequestLog) -> RecordedSession:
    """Return the session of one agent's entries, which are in the order of the file."""
    builder.system_tokens = requests.overhead
    _Assembly(builder, _active(entries, builder.problems), requests).run()
    return builder.build()


def command_of(entry: TranscriptLine) -> str:
    """Return the command in an entry, as it was typed; empty if there is none."""
    return command_in(entry.turn.text) if entry.turn is not None else ""


def command_in(turn: str) -> str:
    """Return the command in a user's turn, as it was typed: `/compact`, or `! git status`; empty if there is none."""
    if match := _COMMAND.search(turn):
        return f"{match[1]} {match[2] or ''}".strip()
    match = _SHELL.fullmatch(turn.strip())
    return f"! {match[1].strip()}" if match else ""


def _active(entries: Sequence[TranscriptLine], problems: Problems) -> list[TranscriptLine]:
    """Return the entries of the branch that was continued, and name those of abandoned branches.

    The path to the last entry is not enough: it has one line of each answer, and one result of its calls.
    """
    leaf = next((entry for entry in reversed(entries) if entry.what in _SAID), None)
    active = set(path_to(leaf, entries))
    messages = {entry.message_id for entry in entries if entry.answer is not None and entry.id in active}
    call_ids: set[str | None] = set()
    before: TranscriptLine | None = None
    for entry in entries:
        if entry.id in active or _belongs(entry, before, active, messages, call_ids):
            active.add(entry.id)
            if entry.answer is not None:
                call_ids.update([part.call_id for part in entry.answer.parts if part.kind is _CALL])
        before = entry
    abandoned = [entry for entry in entries if entry.id not in active and entry.what in _SAID]
    undone: dict[str, list[TranscriptLine]] = {}
    for entry in abandoned:
        if entry.what is ANSWER:
            undone.setdefault(entry.message_id, []).append(entry)
    calls = [
        ModelCall(0, 0, _usage(lines, _answer_of(lines).parts), lines[0].at, lines[0].model)
        for lines in undone.values()
    ]
    name_abandoned((entry.line for entry in abandoned), problems, calls)
    return [entry for entry in entries if entry.id in active]


def _belongs(
    entry: TranscriptLine, before: TranscriptLine | None, active: set[str], messages: set[str], calls: set[str | None]
) -> bool:
    """Whether an entry beside the path to the last one belongs to what is on it."""
    if entry.what is ANSWER:
        return entry.message_id in messages
    if entry.what is USER:
        return any(result.call_id in calls for result in entry.results)
    if entry.what in (What.BOUNDARY, What.SUMMARY):
        # If messages were kept across the compaction, the entries after it follow them.
        return entry.parent in active
    return before is not None and before.id in active


class _Assembly:
    def __init__(self, builder: SessionBuilder, entries: Sequence[TranscriptLine], requests: RequestLog) -> None:
        self._builder = builder
        self._requests = requests
        self._results: dict[str, int] = {}  # by call, as recorded, its result
        self._entries = entries
        self._answers: dict[str, list[TranscriptLine]] = {}
        self._coming: set[str] = set()  # calls, as recorded, with a result
        for entry in entries:
            if entry.what is ANSWER:
                self._answers.setdefault(entry.message_id, []).append(entry)
            elif entry.results:
                self._coming.update([result.call_id or "" for result in entry.results])
        # Of each entry from which on all stayed in view at a compaction, its first part.
        self._positions: dict[str | None, int | None] = dict.fromkeys([entry.first_kept for entry in entries])
        self._boundary: TranscriptLine | None = None

    def run(self) -> None:
        for entry in self._entries:
            if entry.id in self._positions:
                self._positions[entry.id] = self._builder.position
            what = entry.what
            if what is LINK:
                continue
            if what is ANSWER:
                if lines := self._answers.pop(entry.message_id, None):
                    self._answer(lines)
            elif what is USER or what is What.QUEUED:
                self._user(entry)
            elif what is What.BOUNDARY:
                self._end_compaction(None)
                self._boundary = entry
            elif what is What.CLEARING:
                # An attachment may have been cleared too; its text stays in the history.
                removed = sorted(self._results[name] for name in entry.cleared if name in self._results)
                self._builder.eviction(removed, "Claude Code", at=entry.at)
            elif what is What.SUMMARY:
                self._end_compaction(entry)
        self._end_compaction(None)
        if not self._builder.title:
            commands = (command_of(entry) for entry in self._entries if entry.turn is not None)
            self._builder.title = next(filter(None, commands), "")

    def _answer(self, lines: Sequence[TranscriptLine]) -> None:
        """Add one model call: all lines of its message, each block once."""
        self._end_compaction(None)
        self._builder.settle(line=lines[0].line, coming=self._coming)
        answer = _answer_of(lines)
        self._builder.version = lines[0].version
        self._builder.effort = lines[0].effort
        self._builder.answer(
            answer.couple_parts(),
            usage=_usage(lines, answer.parts),
            at=max([at for entry in lines if (at := entry.at) is not None], default=None),
            model=lines[0].model,
            line=lines[0].line,
            id=lines[0].message_id,
            samplings=max((entry.samplings for entry in lines), key=len),
            request=self._requests.get(lines[0].request),
        )

    def _user(self, entry: TranscriptLine) -> None:
        for result in entry.results:
            position = self._builder.position
            if self._builder.add(result, line=entry.line):
                self._results[result.call_id or ""] = position
        if entry.turn is not None:
            self._builder.settle(line=entry.line, coming=self._coming)
            if entry.typed:
                self._builder.entitle(entry.turn.text)
            for part in entry.parts:
                self._builder.add(part)

    def _end_compaction(self, summary: TranscriptLine | None) -> None:
        """Note a compaction if there was a boundary or a summary; older versions have no boundaries."""
        noted = self._boundary or summary
        self._boundary = None
        if noted is None:
            return
        self._builder.compaction(
            summary.turn.text if summary and summary.turn else "",
            first_kept=self._positions.get(noted.first_kept),
            tokens_before=noted.tokens_before,
            at=noted.at,
        )


def _answer_of(lines: Sequence[TranscriptLine]) -> Answer:
    """Return the output of one model call, from its lines."""
    first = lines[0].answer
    if first is not None and len(lines) == len(first.parts) == 1:
        return first
    answer = Answer()
    for entry in lines:
        if entry.answer is not None:
            answer.extend(entry.answer)  # a resumed session repeats lines
    return answer


def _usage(lines: Sequence[TranscriptLine], parts: Sequence[Part]) -> CallUsage | None:
    """Return the usage of a model call. Each of its lines repeats it, and the output may grow from line to line."""
    usage: CallUsage | None = None
    finished = False
    for entry in lines:
        finished = finished or entry.finished
        if entry.usage is not None and (usage is None or (entry.usage.output or 0) > (usage.output or 0)):
            usage = entry.usage
    if usage is None or finished:
        return usage
    characters = sum([len(part.text) + len(part.arguments or "") for part in parts])
    return usage if (usage.output or 0) * _CHARACTERS_PER_TOKEN >= characters else usage.without_output()

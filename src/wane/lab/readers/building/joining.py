"""Joins several sessions into one, as if one agent had done all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats.message_format import Part
from wane.lab.recorded_session import ModelCall, Problem, RecordedEviction, RecordedSession


def join(sessions: Sequence[RecordedSession], name: str) -> RecordedSession:
    """Return one session with the contents of several, one after another.

    Ids of calls are made unique. A system prompt that is at the head already is not repeated. A call that a session
    leaves without a result gets an empty one, because no provider would continue otherwise. Times are kept only if they
    ascend over all sessions. Marks of the program around the agent (R18) are left out and noted as a problem.

    Args:
        sessions: the sessions, in order; they are not changed.
        name: name of the joined session.

    Raises:
        ConfigError: if there is no session.
    """
    if not sessions:
        raise ConfigError("there is no session to join; give at least one")
    joined = _Joined(name, sessions[0])
    for number, session in enumerate(sessions, start=1):
        joined.append(session, last=number == len(sessions))
    result = joined.session
    if len(sessions) == 1:
        result.marks = dict(sessions[0].marks)
    elif marked := [session.name for session in sessions if session.marks]:
        left_out = "the marks of the program around the agent are left out, because joined sessions may share names"
        result.problems += [Problem(None, f"{session_name}: {left_out}") for session_name in marked]
    times = [call.at for call in result.calls if call.at is not None]
    if any(later < earlier for earlier, later in pairwise(times)):
        result.calls = [replace(call, at=None) for call in result.calls]
        result.compactions = [replace(compaction, at=None) for compaction in result.compactions]
        result.evictions = [replace(eviction, at=None) for eviction in result.evictions]
    sources = {session.source for session in sessions}
    result.source = sources.pop() if len(sources) == 1 else "mixed"
    directories = {session.cwd for session in sessions}
    result.cwd = directories.pop() if len(directories) == 1 else None
    overheads = [session.system_tokens for session in sessions if session.system_tokens is not None]
    result.system_tokens = max(overheads, default=None)
    return result


class _Joined:
    def __init__(self, name: str, first: RecordedSession) -> None:
        self.session = RecordedSession(name, first.source, title=first.title)
        self._prompts = {part.text for part in _prompts(first)}
        self._ids: set[str] = set()
        self._message = 0

    def append(self, session: RecordedSession, *, last: bool) -> None:
        target = self.session
        start = len(target.parts)
        repeated: set[int] = set()  # prompts that are at the head already
        if target.starts:
            repeated = {at for at, part in enumerate(_prompts(session)) if part.text in self._prompts}
        positions = [start]  # by index in the session, the index here
        for index in range(len(session.parts)):
            positions.append(positions[-1] if index in repeated else positions[-1] + 1)
        target.starts.append(start)
        added = [index for index in range(len(session.parts)) if index not in repeated]
        target.parts += self._rename_ids([session.parts[index] for index in added])
        target.messages += [session.messages[index] + self._message for index in added]
        self._message += max(session.messages, default=-1) + 1
        target.calls += _shift_calls(session.calls, positions)
        target.asides += _shift_calls(session.asides, positions)
        for compaction in session.compactions:
            position, first_kept = positions[compaction.position], positions[compaction.first_kept]
            target.compactions.append(replace(compaction, position=position, first_kept=first_kept))
        target.evictions += [_shift_eviction(eviction, positions, repeated) for eviction in session.evictions]
        target.reasoning_cleared += [positions[position] for position in session.reasoning_cleared]
        target.sidechains += session.sidechains
        target.problems += [Problem(problem.line, f"{session.name}: {problem.what}") for problem in session.problems]
        target.abandoned += session.abandoned
        target.totals += session.totals
        target.unread += session.unread
        if not last:
            self._settle(start)

    def _rename_ids(self, parts: Iterable[Part]) -> list[Part]:
        """Return the parts with ids that no earlier session has."""
        names: dict[str, str] = {}
        renamed = []
        for part in parts:
            if part.call_id is None:
                renamed.append(part)
                continue
            name = names.get(part.call_id)
            if name is None:
                name = names[part.call_id] = self._unique(part.call_id)
            renamed.append(part if name == part.call_id else replace(part, call_id=name))
        return renamed

    def _unique(self, call_id: str) -> str:
        unique, number = call_id, len(self.session.starts)
        while unique in self._ids:
            unique = f"{call_id}@{number}"
            number += 1
        self._ids.add(unique)
        return unique

    def _settle(self, start: int) -> None:
        session = self.session
        waiting = dict.fromkeys(part.call_id for part in session.parts[start:] if part.kind is Kind.CALL)
        for part in session.parts[start:]:
            if part.kind is Kind.RESULT:
                waiting.pop(part.call_id, None)
        for call_id in waiting:
            session.parts.append(Part(Kind.RESULT, call_id=call_id))
            session.messages.append(self._message)
            self._message += 1


def _prompts(session: RecordedSession) -> Iterable[Part]:
    return takewhile(lambda part: part.kind is Kind.SYSTEM, session.parts)


def _shift_calls(calls: Iterable[ModelCall], positions: Sequence[int]) -> list[ModelCall]:
    return [replace(call, first=positions[call.first], stop=positions[call.stop]) for call in calls]


def _shift_eviction(eviction: RecordedEviction, positions: Sequence[int], skipped: set[int]) -> RecordedEviction:
    def shift_removed(removed: Sequence[int]) -> tuple[int, ...]:
        return tuple(positions[index] for index in removed if index not in skipped)

    return replace(
        eviction,
        position=positions[eviction.position],
        removed=shift_removed(eviction.removed),
        steps=tuple(replace(step, removed=shift_removed(step.removed)) for step in eviction.steps),
    )

"""Several sessions joined into one, as if one agent had done all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats.base import Part
from wane.lab.session import Compaction, Eviction, ModelCall, Problem, RecordedSession


def join(sessions: Sequence[RecordedSession], name: str) -> RecordedSession:
    """Return one session that has the sessions' contents one after another.

    Ids of calls are made unique. A system prompt that stands at the head already is not said again. A call that a
    session leaves without a result gets an empty one, as no provider would go on from there. Times are
    kept only if none goes back, those of all sessions together.

    Args:
        sessions: the sessions, in order; they stay as they are.
        name: what to call the joined session.

    Raises:
        ConfigError: if there is no session.
    """
    if not sessions:
        raise ConfigError("there is nothing to join: give one session or more")
    joined = _Joined(name, sessions[0])
    for number, session in enumerate(sessions, start=1):
        joined.append(session, last=number == len(sessions))
    whole = joined.session
    if not _monotone([call.at for call in whole.calls]):
        whole.calls = [replace(call, at=None) for call in whole.calls]
        whole.compactions = [replace(compaction, at=None) for compaction in whole.compactions]
        whole.evictions = [replace(eviction, at=None) for eviction in whole.evictions]
    sources, places = {session.source for session in sessions}, {session.cwd for session in sessions}
    whole.source = sources.pop() if len(sources) == 1 else "mixed"
    whole.cwd = places.pop() if len(places) == 1 else None
    overheads = [session.system_tokens for session in sessions if session.system_tokens is not None]
    whole.system_tokens = max(overheads, default=None)
    return whole


class _Joined:
    """A joined session in the making."""

    def __init__(self, name: str, first: RecordedSession) -> None:
        self.session = RecordedSession(name, first.source, title=first.title)
        self._head = {part.text for part in _prompts(first)}
        self._ids: set[str] = set()
        self._message = 0

    def append(self, session: RecordedSession, *, last: bool) -> None:
        whole = self.session
        start = len(whole.parts)
        skipped = self._skipped(session) if whole.starts else set()
        places = _places(len(session.parts), skipped, start)
        whole.starts.append(start)
        kept = [index for index in range(len(session.parts)) if index not in skipped]
        whole.parts += self._renamed([session.parts[index] for index in kept])
        whole.messages += [session.messages[index] + self._message for index in kept]
        self._message += max(session.messages, default=-1) + 1
        whole.calls += [_shift_call(call, places) for call in session.calls]
        whole.compactions += [_shift_compaction(compaction, places) for compaction in session.compactions]
        whole.evictions += [_shift_eviction(eviction, places, skipped) for eviction in session.evictions]
        whole.reasoning_cleared += [places[position] for position in session.reasoning_cleared]
        whole.sidechains += session.sidechains
        whole.problems += [Problem(found.line, f"{session.name}: {found.what}") for found in session.problems]
        if not last:
            self._settle(start)

    def _skipped(self, session: RecordedSession) -> set[int]:
        return {index for index, part in enumerate(_prompts(session)) if part.text in self._head}

    def _renamed(self, parts: Iterable[Part]) -> list[Part]:
        """The parts with ids that no earlier session has."""
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
        whole = self.session
        waiting = dict.fromkeys(part.call_id for part in whole.parts[start:] if part.kind is Kind.CALL)
        for part in whole.parts[start:]:
            if part.kind is Kind.RESULT:
                waiting.pop(part.call_id, None)
        for call_id in waiting:
            whole.parts.append(Part(Kind.RESULT, call_id=call_id))
            whole.messages.append(self._message)
            self._message += 1


def _prompts(session: RecordedSession) -> Iterable[Part]:
    """The system prompts that a session begins with."""
    return takewhile(lambda part: part.kind is Kind.SYSTEM, session.parts)


def _places(size: int, skipped: set[int], start: int) -> list[int]:
    """By position in a session, the one that it becomes; the position after the last part included."""
    places = []
    for index in range(size + 1):
        places.append(start)
        start += index not in skipped
    return places


def _shift_call(call: ModelCall, places: Sequence[int]) -> ModelCall:
    return replace(call, first=places[call.first], stop=places[call.stop])


def _shift_compaction(compaction: Compaction, places: Sequence[int]) -> Compaction:
    return replace(compaction, position=places[compaction.position], kept=places[compaction.kept])


def _shift_eviction(eviction: Eviction, places: Sequence[int], skipped: set[int]) -> Eviction:
    def shifted(removed: Sequence[int]) -> tuple[int, ...]:
        return tuple(places[index] for index in removed if index not in skipped)

    return replace(
        eviction,
        position=places[eviction.position],
        removed=shifted(eviction.removed),
        steps=tuple(replace(step, removed=shifted(step.removed)) for step in eviction.steps),
    )


def _monotone(times: Sequence[float | None]) -> bool:
    known = [time for time in times if time is not None]
    return all(earlier <= later for earlier, later in pairwise(known))

"""Excerpts of recorded sessions that a small model's window holds."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Final

from wane.core import Kind
from wane.formats.base import Part
from wane.lab.session import ModelCall, RecordedSession

LONGEST: Final = 1_200
"""Characters of a text to which a longer one is cut: at this scale a whole file would be the whole window."""

_CUT: Final = "\n[…]\n"


def excerpt(
    session: RecordedSession, size: int, counter: Callable[[Part], int], random: Random
) -> RecordedSession | None:
    """Return a stretch of a session, with the user's latest turn before it; None if the session is too short.

    Long texts are cut in the middle first, so that an excerpt has as many steps as a real window.

    Args:
        session: the session.
        size: its tokens, at most.
        counter: counts the tokens of a part.
        random: draws where it begins.
    """
    parts = [shortened(part) for part in session.parts]
    grown = [0, *accumulate(counter(part) for part in parts)]
    starts = [call.first for call in session.own_calls if grown[-1] - grown[call.first] >= size]
    if not starts:
        return None
    start = random.choice([0, *starts])
    turns = [index for index in session.user_turns if index < start][-1:]
    room = size - sum(grown[index + 1] - grown[index] for index in turns)
    stops = [call.stop for call in session.own_calls if start < call.stop and grown[call.stop] - grown[start] <= room]
    if not stops:
        return None
    chosen = [*turns, *_paired(parts, range(start, stops[-1]))]
    return _stretch(session, parts, chosen, start)


def shortened(part: Part) -> Part:
    """Return a part with its long texts cut in the middle; the arguments of a call stay JSON."""
    if part.kind is not Kind.CALL:
        return replace(part, text=_cut(part.text), extra_tokens=0, needs=())
    try:
        arguments = json.dumps(_cut_in(json.loads(part.arguments or "")), ensure_ascii=False)
    except (ValueError, RecursionError):
        arguments = _cut(part.arguments or "")
    return replace(part, arguments=arguments, needs=())


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return text[:half] + _CUT + text[-half:]


def _cut_in(value: object) -> object:
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, dict):
        return {name: _cut_in(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_in(inner) for inner in value]
    return value


def _paired(parts: Sequence[Part], indexes: Sequence[int]) -> list[int]:
    """Leave out results whose call stands before the stretch."""
    calls: set[str | None] = set()
    chosen = []
    for index in indexes:
        part = parts[index]
        if part.kind is Kind.CALL:
            calls.add(part.call_id)
        if part.kind is not Kind.RESULT or part.call_id in calls:
            chosen.append(index)
    return chosen


def _stretch(session: RecordedSession, parts: Sequence[Part], chosen: Sequence[int], start: int) -> RecordedSession:
    stop = chosen[-1] + 1
    calls = [
        ModelCall(bisect_left(chosen, call.first), bisect_left(chosen, call.stop))
        for call in session.own_calls
        if start <= call.first and call.stop <= stop
    ]
    return RecordedSession(
        f"{session.name}@{start}",
        session.source,
        parts=[parts[index] for index in chosen],
        messages=[session.messages[index] for index in chosen],
        calls=calls,
    )

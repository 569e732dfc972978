"""The outcome of one strategy on one session, as the page reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from wane.core import Level
from wane.lab.counting import Material
from wane.lab.replaying.replay import Replay
from wane.lab.replaying.trace import Change, Stripped
from wane.strategies.base import Substitute

LEVELS: Final = tuple(level.value for level in Level)
"""Levels (R9); the page refers to them by number."""

_HOW: Final = {
    "cwl": "episode",
    "paper": "episode",
    "truncate": "oldest",
    "streaming": "oldest",
    "compact": "summary",
    "memgpt": "summary",
    "resum": "summary",
    "acon": "compressed",
    "clear-tools": "cleared",
    "mask": "cleared",
    "fold": "folded",
}
_MICRO: Final = 1_000_000

Note = Callable[[str], int]
"""Takes the text of a substitute, and returns its number on the page."""


def run_of(replay: Replay, material: Material, note: Note) -> dict[str, Any]:
    """Return a replay as JSON-able data.

    Args:
        replay: the replay.
        material: the session that was replayed.
        note: takes texts that the strategy placed.
    """
    calls = replay.calls
    run: dict[str, Any] = {
        "name": replay.strategy,
        "how": _HOW.get(replay.strategy, "other"),
        "budget": replay.budget,
        "sizes": [call.tokens for call in calls],
        "read": [call.read for call in calls],
        "cost": [round(call.cost * _MICRO) for call in calls],
        "found": [call.loss.found for call in calls],
        "grounded": [call.loss.grounded for call in calls],
        "ran": [number for number, call in enumerate(calls) if call.ran],
        "summaries": [number for number, call in enumerate(calls) if call.summaries],
    }
    if replay.trace is not None:
        before = sizes_before(material, run["sizes"])
        run["changes"] = [change_dict(change, before[change.call], note) for change in replay.trace.changes]
        run["steps"] = [step_list(step) for step in replay.trace.stripped]
    return run


def sizes_before(material: Material, sizes: Sequence[int]) -> list[int]:
    """Return, by call, the tokens that its request would have held without an eviction just before it."""
    grown = [0, *accumulate(item.tokens for item in material.items)]
    before, last, seen = [], material.overhead, 0
    for call, size in zip(material.session.calls, sizes, strict=True):
        before.append(last + grown[call.first] - grown[seen])
        last, seen = size, call.first
    return before


def change_dict(change: Change, before: int, note: Note, how: str | None = None) -> dict[str, Any]:
    """Return a change of the view as JSON-able data, without empty fields.

    Args:
        change: the change.
        before: tokens of the view before it.
        note: takes the texts that were placed.
        how: what made the change, if it differs from the run's.
    """
    data = {
        "left": ranges(change.left),
        "back": ranges(change.back),
        "placed": [_placed(text, note) for text in change.placed],
        "taken": [_placed(text, note) for text in change.taken],
        "how": how,
    }
    return {"call": change.call, "before": before} | {key: value for key, value in data.items() if value}


def step_list(step: Stripped) -> list[Any]:
    """Return a step of a pass as JSON-able data."""
    return [step.call, step.episode, LEVELS.index(step.level), step.tokens, ranges(step.removed)]


def ranges(indexes: Iterable[int]) -> list[int]:
    """Return ascending numbers as runs: the first number and the length of each."""
    found: list[int] = []
    for index in indexes:
        if found and found[-2] + found[-1] == index:
            found[-1] += 1
        else:
            found += [index, 1]
    return found


def _placed(text: Substitute, note: Note) -> list[int]:
    return [-1 if text.index is None else text.index, text.tokens, note(text.text)]

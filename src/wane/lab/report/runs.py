"""The runs of one session, under each strategy and as the agent recorded it, as the page reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from wane.core import Kind, Level
from wane.lab.counting import Material
from wane.lab.replaying.replay import Replay
from wane.lab.replaying.trace import Change, Stripped
from wane.lab.report.sessions import Outline, call_before
from wane.lab.session import Compaction, Eviction, ModelCall
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
    """Return a replay as JSON-able data."""
    calls = replay.calls
    run: dict[str, Any] = {
        "name": replay.strategy,
        "how": _HOW.get(replay.strategy, "other"),
        "budget": replay.budget,
        "sizes": [call.tokens for call in calls],
        "read": [call.read for call in calls],
        "cost": [round(call.cost * _MICRO) for call in calls],
        "found": [call.loss.in_view for call in calls],
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
    before, previous_size, previous_first = [], material.overhead, 0
    for call, size in zip(material.session.calls, sizes, strict=True):
        before.append(previous_size + grown[call.first] - grown[previous_first])
        previous_size, previous_first = size, call.first
    return before


def change_dict(change: Change, before: int, note: Note, how: str | None = None) -> dict[str, Any]:
    """Return a change of the view as JSON-able data, without empty fields.

    Args:
        change: the change.
        before: tokens of the view before it.
        note: takes the texts that were placed.
        how: the cause of the change, if it differs from the run's.
    """
    data = {
        "left": ranges(change.removed),
        "back": ranges(change.back),
        "placed": [_placed(text, note) for text in change.placed],
        "taken": [_placed(text, note) for text in change.withdrawn],
        "how": how,
    }
    return {"call": change.call, "before": before} | {key: value for key, value in data.items() if value}


def step_list(step: Stripped) -> list[Any]:
    """Return a step of a pass as JSON-able data."""
    return [step.call, step.episode, LEVELS.index(step.level), step.tokens, ranges(step.removed)]


def ranges(indexes: Iterable[int]) -> list[int]:
    """Return ascending numbers as runs: the first number and the length of each."""
    runs: list[int] = []
    for index in indexes:
        if runs and runs[-2] + runs[-1] == index:
            runs[-1] += 1
        else:
            runs += [index, 1]
    return runs


def _one(text: Substitute | None) -> tuple[Substitute, ...]:
    return () if text is None else (text,)


def _placed(text: Substitute, note: Note) -> list[int]:
    return [-1 if text.index is None else text.index, text.tokens, note(text.text)]


NAME: Final = "recorded"
"""Name of the run."""

_Event = tuple[int, int, Compaction | Eviction | None]


def recorded_run(material: Material, outline: Outline, note: Note, budget: int | None) -> dict[str, Any]:
    """Return the recorded run of a session as JSON-able data.

    Sizes are as reported by the provider, or else the counted size of the view.

    Args:
        material: the session, counted.
        outline: its episodes, to which passes belong.
        note: takes the summaries of compactions.
        budget: tokens that a view may hold, if there was a budget.
    """
    run = _RecordedRun(material, outline)
    run.fold()
    calls = material.session.calls
    sizes = [_reported(call) or counted for call, counted in zip(calls, run.sizes, strict=True)]
    before = sizes_before(material, sizes)
    changes = [change_dict(change, size or before[change.call], note, how) for change, how, size in run.changes]
    return {
        "name": NAME,
        "how": "episode",
        "budget": budget,
        "sizes": sizes,
        "read": [call.usage.cache_read if call.usage else 0 for call in calls],
        "reported": [int(_reported(call) > 0) for call in calls],
        "ran": sorted({change.call for change, how, _ in run.changes if how == "episode"}),
        "summaries": sorted({change.call for change, how, _ in run.changes if how == "summary"}),
        "changes": changes,
        "steps": [step_list(step) for step in run.stripped],
    }


class _RecordedRun:
    """Goes through compactions, passes and cleared reasoning in order."""

    def __init__(self, material: Material, outline: Outline) -> None:
        self._material, self._outline = material, outline
        self._firsts = [call.first for call in material.session.calls]
        self._tokens = [item.tokens for item in material.items]
        self._kinds = material.kinds
        self._gone: set[int] = set()
        self._summary: Substitute | None = None
        self._index: Substitute | None = None
        self.changes: list[tuple[Change, str, int | None]] = []
        self.stripped: list[Stripped] = []
        self.sizes: list[int] = []

    def fold(self) -> None:
        grown = [0, *accumulate(self._tokens)]
        session = self._material.session
        events: list[_Event] = [(compaction.position, 0, compaction) for compaction in session.compactions]
        events += [(eviction.position, 1, eviction) for eviction in session.evictions]
        events += [(position, 2, None) for position in session.reasoning_cleared]
        freed, upcoming = 0, deque(sorted(events, key=lambda event: event[:2]))
        for call, first in enumerate(self._firsts):
            while upcoming and call_before(self._firsts, upcoming[0][0]) <= call:
                freed += self._take(call, upcoming.popleft())
            texts = sum(text.tokens for text in (self._summary, self._index) if text)
            self.sizes.append(self._material.overhead + grown[first] - freed + texts)

    def _take(self, call: int, event: _Event) -> int:
        """Note the items that an event removed, and return their tokens."""
        position, _, what = event
        if isinstance(what, Eviction):
            owners = self._outline.owners
            for step in what.steps:
                owner = next((owners[index] for index in step.removed if owners[index] >= 0), None)
                if owner is not None:
                    self.stripped.append(Stripped(call, owner, step.level, step.freed, step.removed))
            old, new = self._index, what.index
            self._index = None if new is None else Substitute(new.text, new.tokens)
            changed = ((), ()) if old == self._index else (_one(self._index), _one(old))
            return self._leave(call, what.removed, "episode", changed, what.tokens_before)
        if isinstance(what, Compaction):
            old = self._summary
            text = what.summary or "(The summary was not recorded.)"
            self._summary = Substitute(text, -(-len(what.summary) // 4))
            gone = [index for index in range(what.first_kept) if self._kinds[index] is not Kind.SYSTEM]
            texts = (_one(self._summary), _one(old))
            return self._leave(call, gone, "summary", texts, what.tokens_before)
        reasoning = [index for index in range(position) if self._kinds[index] is Kind.REASONING]
        return self._leave(call, reasoning, "reasoning")

    def _leave(
        self,
        call: int,
        indexes: Sequence[int],
        how: str,
        texts: tuple[tuple[Substitute, ...], tuple[Substitute, ...]] = ((), ()),
        before: int | None = None,
    ) -> int:
        leaving = tuple(sorted(set(indexes) - self._gone))
        self._gone.update(leaving)
        if leaving or texts[0]:
            self.changes.append((Change(call, leaving, (), *texts), how, before))
        return sum(self._tokens[index] for index in leaving)


def _reported(call: ModelCall) -> int:
    return call.usage.total_input if call.usage else 0

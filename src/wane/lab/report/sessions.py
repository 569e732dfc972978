"""A session as the page reads it: its items, calls and episodes, and its replayed and recorded runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from wane.core import ContextWindow, Kind, Level
from wane.core.policy import MAX_BUDGET
from wane.formats.message_format import Part
from wane.inference import Annotator, has_tasks
from wane.lab.counting import Material
from wane.lab.recorded_session import CallUsage, Compaction, RecordedEviction, RecordedSession
from wane.lab.replaying.strategy_replay import Replay
from wane.lab.replaying.trace import EpisodeTrace, Stripped, Trace, ViewChange
from wane.lab.report.page import Texts
from wane.strategies.registry import traits
from wane.strategies.strategy import Annotate, Substitute


@dataclass(frozen=True, slots=True)
class EpisodeOutline:
    """The episodes of a session, in order of start; and by item the number of its episode, -1 for items of none."""

    episodes: tuple[EpisodeTrace, ...]
    owners: tuple[int, ...]


def outline_of(material: Material, annotate: Annotate, trace: Trace | None = None) -> EpisodeOutline:
    """Return the episodes of a replay, or of the session if it had none.

    Inference may depend on the budget, so two replays may have different episodes.
    """
    if trace is None or not trace.episodes:
        trace = _trace_replay(material, annotate)
    episodes = tuple(episode for _, episode in sorted(trace.episodes.items()))
    return EpisodeOutline(episodes, tuple(trace.owners.get(index, -1) for index in range(len(material.items))))


def call_before(firsts: Sequence[int], position: int) -> int:
    """Return the number of the first model call made after `position` items."""
    return bisect_left(firsts, position)


def _trace_replay(material: Material, annotate: Annotate) -> Trace:
    window = ContextWindow(MAX_BUDGET, tasks=has_tasks(material.session.parts))
    annotator = Annotator() if annotate == "infer" else None
    marks = material.session.marks if annotate == "host" else {}
    trace = Trace(material)
    firsts = [call.first for call in material.session.calls]
    for index, (item, part) in enumerate(zip(material.items, material.session.parts, strict=True)):
        if annotator is None:
            added = window.add(item, marks.get(index, ()))
        else:
            added = annotator.add_to(window, item, part)
        trace.note(call_before(firsts, index + 1), index, added)
    return trace


_LETTERS: Final = {
    Kind.SYSTEM: "s",
    Kind.USER: "u",
    Kind.NOTICE: "n",
    Kind.TEXT: "t",
    Kind.REASONING: "r",
    Kind.CALL: "c",
    Kind.RESULT: "o",
}


def session_of(
    material: Material,
    outline: EpisodeOutline,
    runs: Sequence[dict[str, Any]],
    texts: Texts,
    annotate: Annotate,
) -> dict[str, Any]:
    """Return a session as JSON-able data; `texts` takes its contents."""
    # A strategy that does not take a host's marks infers episodes anyway.
    inferred = annotate == "infer" or any(episode.inferred for episode in outline.episodes)
    session = material.session
    tools = sorted({part.tool for part in session.parts if part.kind is Kind.CALL and part.tool})
    shown = [Kind.USER if part.person else part.kind for part in session.parts]
    return {
        "name": session.name,
        "source": session.source,
        "title": texts.private(session.title),
        "inferred": inferred,
        "host": annotate == "host" and not inferred,
        "overhead": material.overhead,
        "first": [call.first for call in session.calls],
        "stop": [call.stop for call in session.calls],
        "choices": [] if inferred else choice_lists(session),
        "output": list(material.output_tokens),
        "kinds": "".join(map(_LETTERS.__getitem__, shown)),
        "tokens": [item.tokens for item in material.items],
        "tools": tools,
        "tool": _tools(session.parts, tools),
        **episodes_of(outline, texts),
        "text": texts.take_all(part.text or part.arguments or "" for part in session.parts),
        "runs": list(runs),
    }


def choice_lists(session: RecordedSession) -> list[list[Any]]:
    """Return a person's choices as JSON-able data: the next call, the episode and the choice of each."""
    firsts = [call.first for call in session.calls]
    return [[call_before(firsts, one.position), one.episode, one.choice] for one in session.choices]


def episodes_of(outline: EpisodeOutline, texts: Texts) -> dict[str, Any]:
    """Return episodes and their items as JSON-able data."""
    return {
        "owner": list(outline.owners),
        "bars": [_episode(episode, outline.episodes, texts) for episode in outline.episodes],
    }


def _tools(parts: Sequence[Part], tools: Sequence[str]) -> list[int]:
    """Return, by item, the number of the tool that was called or that answered; -1 for others."""
    numbers = {name: number for number, name in enumerate(tools)}
    called: dict[str, int] = {}
    by_item = []
    for part in parts:
        number = called.get(part.call_id or "", -1)
        if part.kind is Kind.CALL:
            number = numbers.get(part.tool or "", -1)
            called[part.call_id or ""] = number
        by_item.append(number if part.kind in (Kind.CALL, Kind.RESULT) else -1)
    return by_item


def _episode(episode: EpisodeTrace, episodes: Sequence[EpisodeTrace], texts: Texts) -> dict[str, Any]:
    needs: list[int] = []
    if episode.dependencies:
        numbers = {named.name: named.number for named in episodes}
        needs = [numbers[name] for name in episode.dependencies if name in numbers]
    return {
        "number": episode.number,
        "name": texts.private(episode.name or ""),
        "type": "work" if episode.name is None else episode.type.value,
        "needs": needs,
        "first": episode.first,
        "last": episode.last,
        "opened": episode.opened,
        "closed": -1 if episode.closed is None else episode.closed,
        "inferred": int(episode.inferred),
        "task": -1 if episode.task is None else episode.task,
        "abandoned": int(episode.abandoned),
        "description": texts.private(episode.description or "", 400),
    }


LEVELS: Final = tuple(level.value for level in Level)
"""Levels (R9); the page refers to them by index."""

_MICRO: Final = 1_000_000

Note = Callable[[str], int]
"""Takes the text of a substitute, and returns its number on the page."""


def run_of(replay: Replay, material: Material, note: Note) -> dict[str, Any]:
    """Return a replay as JSON-able data."""
    calls = replay.calls
    run: dict[str, Any] = {
        "name": replay.strategy,
        "how": traits(replay.strategy).takes or "other",
        "budget": replay.budget,
        "raised_to": replay.totals.raised_to or None,
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
    before: list[int] = []
    previous_size, previous_first = material.overhead, 0
    for call, size in zip(material.session.calls, sizes, strict=True):
        before.append(previous_size + grown[call.first] - grown[previous_first])
        previous_size, previous_first = size, call.first
    return before


def change_dict(change: ViewChange, before: int, note: Note, how: str | None = None) -> dict[str, Any]:
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
        "placed": [_place_text(text, note) for text in change.placed],
        "taken": [_place_text(text, note) for text in change.withdrawn],
        "how": how,
    }
    return {"call": change.call, "before": before} | {key: value for key, value in data.items() if value}


def step_list(step: Stripped) -> list[Any]:
    """Return a step of a pass as JSON-able data."""
    data = [step.call, step.episode, LEVELS.index(step.level), step.tokens, ranges(step.removed)]
    return [*data, 1] if step.by_person else data


def ranges(indexes: Iterable[int]) -> list[int]:
    """Return ascending numbers as runs: the first number and the length of each."""
    runs: list[int] = []
    for index in indexes:
        if runs and runs[-2] + runs[-1] == index:
            runs[-1] += 1
        else:
            runs += [index, 1]
    return runs


def _place_text(text: Substitute, note: Note) -> list[int]:
    return [-1 if text.index is None else text.index, text.tokens, note(text.text)]


_Event = tuple[int, int, Compaction | RecordedEviction | None]


def recorded_run(material: Material, outline: EpisodeOutline, note: Note, budget: int | None) -> dict[str, Any]:
    """Return the recorded run of a session as JSON-able data; `note` takes the summaries of compactions.

    Sizes are as reported by the provider, or else the counted size of the view.
    """
    run = _RecordedRun(material, outline)
    run.fold()
    usages = [call.usage or CallUsage(0) for call in material.session.calls]
    sizes = [usage.total_input or counted for usage, counted in zip(usages, run.sizes, strict=True)]
    before = sizes_before(material, sizes)
    changes = [change_dict(change, size or before[change.call], note, how) for change, how, size in run.changes]
    return {
        "name": "recorded",
        "how": "episode",
        "budget": budget,
        "sizes": sizes,
        "read": [usage.cache_read for usage in usages],
        "reported": [int(usage.total_input > 0) for usage in usages],
        "ran": sorted({change.call for change, how, _ in run.changes if how == "episode"}),
        "summaries": sorted({change.call for change, how, _ in run.changes if how == "summary"}),
        "changes": changes,
        "steps": [step_list(step) for step in run.stripped],
    }


class _RecordedRun:
    """Goes through compactions, passes and cleared reasoning in order."""

    def __init__(self, material: Material, outline: EpisodeOutline) -> None:
        self._material = material
        self._outline = outline
        self._firsts = [call.first for call in material.session.calls]
        self._tokens = [item.tokens for item in material.items]
        self._kinds = material.kinds
        self._gone: set[int] = set()
        self._summary: Substitute | None = None
        self._index: Substitute | None = None
        self.changes: list[tuple[ViewChange, str, int | None]] = []
        self.stripped: list[Stripped] = []
        self.sizes: list[int] = []

    def fold(self) -> None:
        grown = [0, *accumulate(self._tokens)]
        session = self._material.session
        events: list[_Event] = [(compaction.position, 0, compaction) for compaction in session.compactions]
        events += [(eviction.position, 1, eviction) for eviction in session.evictions]
        events += [(position, 2, None) for position in session.reasoning_cleared]
        upcoming = deque(sorted(events, key=lambda event: event[:2]))
        freed = 0
        for call, first in enumerate(self._firsts):
            while upcoming and call_before(self._firsts, upcoming[0][0]) <= call:
                freed += self._take(call, upcoming.popleft())
            texts = sum(text.tokens for text in (self._summary, self._index) if text)
            self.sizes.append(self._material.overhead + grown[first] - freed + texts)

    def _take(self, call: int, event: _Event) -> int:
        """Note the items that an event removed, and return their tokens."""
        position, _, what = event
        placed: Substitute | None = None
        withdrawn: Substitute | None = None
        if isinstance(what, RecordedEviction):
            how, removed = "episode", set(what.removed)
            self._take_steps(call, what)
            index = None if what.index is None else Substitute(what.index.text, what.index.tokens)
            if index != self._index:
                placed, withdrawn = index, self._index
                self._index = index
        elif isinstance(what, Compaction):
            how = "summary"
            removed = {index for index in range(what.first_kept) if self._kinds[index] is not Kind.SYSTEM}
            placed = Substitute(what.summary or "(The summary was not recorded.)", -(-len(what.summary) // 4))
            withdrawn = self._summary
            self._summary = placed
        else:
            how = "reasoning"
            removed = {index for index in range(position) if self._kinds[index] is Kind.REASONING}
        leaving = tuple(sorted(removed - self._gone))
        self._gone.update(leaving)
        if leaving or placed:
            change = ViewChange(call, leaving, (), (placed,) if placed else (), (withdrawn,) if withdrawn else ())
            self.changes.append((change, how, None if what is None else what.tokens_before))
        return sum(self._tokens[index] for index in leaving)

    def _take_steps(self, call: int, eviction: RecordedEviction) -> None:
        owners = self._outline.owners
        for step in eviction.steps:
            owner = next((owners[index] for index in step.removed if owners[index] >= 0), None)
            if owner is not None:
                self.stripped.append(Stripped(call, owner, step.level, step.freed, step.removed, step.by_person))

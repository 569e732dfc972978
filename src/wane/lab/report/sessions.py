"""A session as the page reads it: its items, calls and episodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.core import ContextWindow, Kind
from wane.core.policy import MAX_BUDGET
from wane.formats.base import Part
from wane.inference import Annotator, has_tasks
from wane.lab.counting import Material
from wane.lab.replaying.trace import EpisodeTrace, Trace
from wane.lab.report.texts import Texts
from wane.strategies.base import Annotate


@dataclass(frozen=True, slots=True)
class Outline:
    """The episodes of a session.

    Attributes:
        episodes: the episodes, in order of start.
        owners: by item, the number of its episode; -1 for items of none (system, user and prologue).
    """

    episodes: tuple[EpisodeTrace, ...]
    owners: tuple[int, ...]


def outline_of(material: Material, annotate: Annotate, trace: Trace | None = None) -> Outline:
    """Return the episodes that a replay saw, or those of the session if no replay knew any.

    Inference may depend on the budget, so two strategies may have seen different episodes.
    """
    trace = trace if trace is not None and trace.episodes else _traced(material, annotate)
    episodes = tuple(episode for _, episode in sorted(trace.episodes.items()))
    return Outline(episodes, tuple(trace.owners.get(index, -1) for index in range(len(material.items))))


def call_before(firsts: Sequence[int], position: int) -> int:
    """Return the number of the first model call made after `position` items."""
    return bisect_left(firsts, position)


def _traced(material: Material, annotate: Annotate) -> Trace:
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
    outline: Outline,
    runs: Sequence[dict[str, Any]],
    texts: Texts,
    annotate: Annotate,
) -> dict[str, Any]:
    """Return a session as JSON-able data; `texts` takes its contents."""
    # A strategy that does not take a host's marks infers episodes all the same.
    inferred = annotate == "infer" or any(episode.inferred for episode in outline.episodes)
    session = material.session
    tools = sorted({part.tool for part in session.parts if part.kind is Kind.CALL and part.tool})
    return {
        "name": session.name,
        "source": session.source,
        "title": texts.private(session.title),
        "inferred": inferred,
        "host": annotate == "host" and not inferred,
        "overhead": material.overhead,
        "first": [call.first for call in session.calls],
        "stop": [call.stop for call in session.calls],
        "output": list(material.output_tokens),
        "kinds": "".join(_LETTERS[part.kind] for part in session.parts),
        "tokens": [item.tokens for item in material.items],
        "tools": tools,
        "tool": _tools(session.parts, tools),
        **episodes_of(outline, texts),
        "text": texts.take_all(
            (part.arguments or "") if part.kind is Kind.CALL else part.text for part in session.parts
        ),
        "runs": list(runs),
    }


def episodes_of(outline: Outline, texts: Texts) -> dict[str, Any]:
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
    numbers = {named.name: named.number for named in episodes if named.name is not None} if episode.dependencies else {}
    return {
        "number": episode.number,
        "name": texts.private(episode.name or ""),
        "type": "work" if episode.name is None else episode.type.value,
        "needs": [numbers[name] for name in episode.dependencies if name in numbers],
        "first": episode.first,
        "last": episode.last,
        "opened": episode.opened,
        "closed": -1 if episode.closed is None else episode.closed,
        "inferred": int(episode.inferred),
        "task": -1 if episode.task is None else episode.task,
        "abandoned": int(episode.abandoned),
        "description": texts.private(episode.description or "", 400),
    }

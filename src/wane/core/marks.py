"""Marks: starts and ends of episodes and tasks that did not come from a call of the agent.

The agent is the authority on structure (the paper's Principle 2). If it does not annotate its work, something else
may, such as `wane.inference`. A mark stands ahead of an item and is not an item, so the history and its indexes do
not change; it means what an accepted `delimiter` call of no tokens would mean there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.errors import HistoryError


@dataclass(frozen=True, slots=True)
class Mark:
    """A start or an end of an episode or a task.

    Attributes:
        action: whether it is a start or an end.
        name: the name of the episode or task.
        type: for a start, whether it explores or acts, or is a task; ignored for an end.
        dependencies: for the start of an act, names of the closed explorations that it builds on.
        description: for the end of an exploration, what was learned; of a task, what came of it.
        abandoned: for the end of a task, whether it was given up (R17).
    """

    action: Literal["start", "end"]
    name: str
    type: EpisodeType = EpisodeType.EXPL
    dependencies: tuple[str, ...] = ()
    description: str | None = None
    abandoned: bool = False


def check_marks(
    marks: Sequence[Mark], active: Episode | None, task: Episode | None, graph: EpisodeGraph, used: Collection[str]
) -> None:
    """Check that marks can be made in their order.

    Args:
        marks: the marks ahead of one item.
        active: the annotated episode that is open, if any.
        task: the innermost open task, if any.
        graph: the episodes so far.
        used: names that the session has used.

    Raises:
        HistoryError: if one cannot be made; the message names it.
    """
    inside = None if active is None else (active.name, active.type)
    inferred = active is None or active.inferred
    around = [] if task is None else list(task.lineage())[::-1]
    tasks = [one.name for one in around[1 + max((n for n, one in enumerate(around) if not one.inferred), default=-1) :]]
    new: set[str] = set()
    explored: set[str] = set()
    for mark in marks:
        if mark.action == "end" and inside is None and tasks and mark.name == tasks[-1]:
            tasks.pop()
            continue
        if mark.action == "end":
            if inside is None or mark.name != inside[0] or not inferred:
                raise HistoryError(f"{mark} ends an episode that is not open or that the agent itself opened")
            if inside[1] is EpisodeType.EXPL:
                explored.add(mark.name)
            inside = None
            continue
        if inside is not None:
            raise HistoryError(f"{mark} starts an episode while {inside[0]!r} is open")
        if not mark.name or mark.name in used or mark.name in new:
            raise HistoryError(f"{mark} has a name that is empty or was used before")
        unknown = [name for name in mark.dependencies if name not in explored and not _is_closed(graph, name)]
        if unknown or (mark.dependencies and mark.type is not EpisodeType.ACT):
            raise HistoryError(f"{mark} depends on {unknown or 'something'}; only acts depend, on closed explorations")
        if mark.type is EpisodeType.TASK:
            tasks.append(mark.name)
        else:
            inside = (mark.name, mark.type)
        new.add(mark.name)


def _is_closed(graph: EpisodeGraph, name: str) -> bool:
    episode = graph.named(name)
    return name in graph.archive if episode is None else episode.closed and episode.type is EpisodeType.EXPL

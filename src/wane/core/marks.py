"""Marks: starts and ends of episodes and tasks that did not come from a call of the agent.

The agent is the authority on structure (the paper's Principle 2). If it does not annotate its work, something else
may: `wane.inference`, or the program around the model (R18). A mark stands ahead of an item and is not an item, so the
history and its indexes do not change; it means what an accepted `delimiter` call of no tokens would mean there.

Only a host opens several episodes at once. A mark with the action `enter` says in which of them the next items are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.errors import HistoryError


@dataclass(frozen=True, slots=True)
class Mark:
    """A start or an end of an episode or a task, or a change of scope.

    Attributes:
        action: `start` or `end` of an episode or task. `enter` goes on in the scope of an open one (R18). `describe`
            makes the next item a member of the open one, and its description.
        name: the name of the episode or task; empty to leave all scopes of the host.
        type: for a start, exploration, act or task; ignored otherwise.
        dependencies: for the start of an act, names of the closed explorations that it builds on.
        description: for the end of an exploration, what was learned; of a task, what came of it.
        abandoned: for the end of a task, whether it was given up (R17).
        host: whether the program around the model made it (R18); otherwise it was inferred.
        scope: for a host's start, the id of its scope, by which the host knows it again.
        closing: for the end of an exploration or a task, index of the member that holds the description. It stays as a
            closing pair does (R9), a result with its call. None if nothing stays, as for what the agent itself began.
    """

    action: Literal["start", "end", "enter", "describe"]
    name: str
    type: EpisodeType = EpisodeType.EXPL
    dependencies: tuple[str, ...] = ()
    description: str | None = None
    abandoned: bool = False
    host: bool = False
    closing: int | None = None
    scope: str = ""


def check_marks(
    marks: Sequence[Mark],
    active: Episode | None,
    task: Episode | None,
    opened: Sequence[Episode],
    graph: EpisodeGraph,
    used: Collection[str],
) -> None:
    """Check that marks can be made in their order.

    Args:
        marks: the marks ahead of one item.
        active: the open episode in whose scope the history stands, if any.
        task: the open task in whose scope it stands, if any.
        opened: the annotated episodes and tasks that are open, in order of start.
        graph: the episodes so far.
        used: names that the session has used.

    Raises:
        HistoryError: if one cannot be made; the message names it.
    """
    _check_closings(marks, opened)
    scope = _Scope(_name(active), _name(task))
    types = {episode.name: episode.type for episode in opened}
    tasks = {episode.name: _name(episode.task) for episode in opened}
    agents = {episode.name for episode in opened if episode.marked}
    outside: str | None = None  # the innermost task that the host did not open
    for episode in opened:
        if episode.is_task and not episode.host:
            outside = episode.name
    explored: set[str] = set()
    new: set[str] = set()
    for mark in marks:
        name = mark.name
        current = scope.episode or scope.task
        if mark.action == "enter":
            if not name:
                scope = _Scope(None, outside)
            elif name not in types:
                raise HistoryError(f"{mark} enters an episode that is not open")
            elif types[name] is EpisodeType.TASK:
                scope = _Scope(None, name)
            else:
                scope = _Scope(name, tasks[name])
        elif mark.action == "describe":
            if not name or name != current:
                raise HistoryError(f"{mark} describes an episode that is not open")
        elif mark.action == "end":
            if not name or name != current or (name in agents and not mark.host):
                raise HistoryError(f"{mark} ends an episode that is not open or that the agent itself opened")
            for inner, around in tasks.items():
                if around == name:
                    raise HistoryError(f"{mark} ends a task while {inner!r} in it is open")
            if types.pop(name) is EpisodeType.EXPL:
                explored.add(name)
            scope = _Scope(None, tasks.pop(name))
        else:
            if scope.episode is not None:
                raise HistoryError(f"{mark} starts an episode while {scope.episode!r} is open")
            if not name or name in used or name in new:
                raise HistoryError(f"{mark} has a name that is empty or was used before")
            _check_dependencies(mark, explored, graph)
            types[name] = mark.type
            tasks[name] = scope.task
            new.add(name)
            scope = _Scope(None, name) if mark.type is EpisodeType.TASK else _Scope(name, scope.task)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names of the episode and of the innermost task around the next item."""

    episode: str | None
    task: str | None


def _name(episode: Episode | None) -> str | None:
    return None if episode is None else episode.name


def _check_dependencies(mark: Mark, explored: Collection[str], graph: EpisodeGraph) -> None:
    unknown = [name for name in mark.dependencies if name not in explored and not _is_closed(graph, name)]
    if unknown or (mark.dependencies and mark.type is not EpisodeType.ACT):
        raise HistoryError(f"{mark} depends on {unknown or 'something'}; only acts depend, on closed explorations")


def _check_closings(marks: Sequence[Mark], opened: Collection[Episode]) -> None:
    owners = {episode.name: episode for episode in opened}
    for mark in marks:
        if mark.closing is None:
            continue
        owner = owners.get(mark.name)
        if owner is None or owner.marked or owner.type is EpisodeType.ACT or not owner.owns(mark.closing):
            raise HistoryError(f"{mark} is described by item {mark.closing}, which is not a member that may stay")


def _is_closed(graph: EpisodeGraph, name: str) -> bool:
    episode = graph.named(name)
    if episode is None:
        return name in graph.archive
    return episode.closed and episode.type is EpisodeType.EXPL

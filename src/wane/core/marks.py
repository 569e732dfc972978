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
    checked = _OpenMarks(active, task, opened, graph, used)
    for mark in marks:
        match mark.action:
            case "enter":
                checked.enter(mark)
            case "describe":
                checked.describe(mark)
            case "start":
                checked.start(mark)
            case "end":
                checked.end(mark)


@dataclass(frozen=True, slots=True)
class _OpenMark:
    """An open episode or task: the task around it, and whether the agent itself opened it."""

    type: EpisodeType
    task: str | None
    by_agent: bool = False


class _OpenMarks:
    """What is open after each mark, and in which of it the history stands; see `check_marks`."""

    def __init__(
        self,
        active: Episode | None,
        task: Episode | None,
        opened: Sequence[Episode],
        graph: EpisodeGraph,
        used: Collection[str],
    ) -> None:
        self._episode, self._task = _name(active), _name(task)
        self._graph = graph
        self._used = used
        self._new: set[str] = set()  # names that these marks give
        self._explored: set[str] = set()  # explorations that these marks end
        self._open: dict[str | None, _OpenMark] = {}
        self._outside: str | None = None  # the innermost task that the host did not open
        for episode in opened:
            self._open[episode.name] = _OpenMark(episode.type, _name(episode.task), episode.marked)
            if episode.is_task and not episode.host:
                self._outside = episode.name

    def enter(self, mark: Mark) -> None:
        if not mark.name:
            self._episode, self._task = None, self._outside
            return
        entered = self._open.get(mark.name)
        if entered is None:
            raise HistoryError(f"{mark} enters an episode that is not open")
        self._stand_in(mark.name, entered)

    def describe(self, mark: Mark) -> None:
        if not self._stands_in(mark.name):
            raise HistoryError(f"{mark} describes an episode that is not open")

    def start(self, mark: Mark) -> None:
        if self._episode is not None:
            raise HistoryError(f"{mark} starts an episode while {self._episode!r} is open")
        if not mark.name or mark.name in self._used or mark.name in self._new:
            raise HistoryError(f"{mark} has a name that is empty or was used before")
        unknown = [name for name in mark.dependencies if name not in self._explored and not self._is_closed(name)]
        if unknown or (mark.dependencies and mark.type is not EpisodeType.ACT):
            raise HistoryError(f"{mark} depends on {unknown or 'something'}; only acts depend, on closed explorations")
        self._new.add(mark.name)
        self._open[mark.name] = started = _OpenMark(mark.type, self._task)
        self._stand_in(mark.name, started)

    def end(self, mark: Mark) -> None:
        if not self._stands_in(mark.name) or (self._open[mark.name].by_agent and not mark.host):
            raise HistoryError(f"{mark} ends an episode that is not open or that the agent itself opened")
        for name, other in self._open.items():
            if other.task == mark.name:
                raise HistoryError(f"{mark} ends a task while {name!r} in it is open")
        ended = self._open.pop(mark.name)
        if ended.type is EpisodeType.EXPL:
            self._explored.add(mark.name)
        self._episode, self._task = None, ended.task

    def _stand_in(self, name: str, mark: _OpenMark) -> None:
        if mark.type is EpisodeType.TASK:
            self._episode, self._task = None, name
        else:
            self._episode, self._task = name, mark.task

    def _stands_in(self, name: str) -> bool:
        """Whether the history stands in the open episode or, outside episodes, task of a name."""
        return bool(name) and name == (self._episode or self._task)

    def _is_closed(self, name: str) -> bool:
        """Whether a name is that of an exploration that was closed before these marks."""
        episode = self._graph.find(name)
        if episode is None:
            return name in self._graph.archive
        return episode.closed and episode.type is EpisodeType.EXPL


def _name(episode: Episode | None) -> str | None:
    return None if episode is None else episode.name


def _check_closings(marks: Sequence[Mark], opened: Collection[Episode]) -> None:
    owners = {episode.name: episode for episode in opened}
    for mark in marks:
        if mark.closing is None:
            continue
        owner = owners.get(mark.name)
        if owner is None or owner.marked or owner.type is EpisodeType.ACT or not owner.owns(mark.closing):
            raise HistoryError(f"{mark} is described by item {mark.closing}, which is not a member that may stay")

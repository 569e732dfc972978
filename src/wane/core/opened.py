"""The episodes and tasks that are open at the end of a history: started and not ended (R3 to R5, R17, R18)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wane.core.delimiter import DelimiterProtocol
from wane.core.episodes import Episode, EpisodeGraph, EpisodeType
from wane.core.marks import Mark, check_marks
from wane.core.view import View


class OpenEpisodes:
    """Opens and closes episodes and tasks: by the agent's calls, by marks, and for unannotated work.

    Args:
        graph: the episodes.
        view: what is visible.
        protocol: judges the agent's calls.

    Attributes:
        active: the annotated episode to which the next item belongs.
        task: the innermost task around the next item.
        implicit: the open episode of unannotated work (R5).
        describing: the episode or task that the next item describes (R18).
        annotated: annotated episodes and tasks by name, in order of start; several episodes if the host marks (R18).
    """

    def __init__(self, graph: EpisodeGraph, view: View, protocol: DelimiterProtocol) -> None:
        self.active: Episode | None = None
        self.task: Episode | None = None
        self.implicit: Episode | None = None
        self.describing: Episode | None = None
        self.annotated: dict[str, Episode] = {}
        self._graph = graph
        self._view = view
        self._protocol = protocol

    @property
    def episodes(self) -> list[Episode]:
        """The annotated episodes without tasks, in order of start."""
        return [episode for episode in self.annotated.values() if not episode.is_task]

    def owner(self) -> tuple[Episode, Episode | None]:
        """Return the episode that the next item of work belongs to, and the implicit one that it opens, if any (R5)."""
        annotated = self.describing or self.active
        if annotated is not None:
            return annotated, None
        if self.implicit is not None:
            return self.implicit, None
        self.implicit = self._graph.start(task=self.task)
        self.implicit.prologue = not self._protocol.started
        return self.implicit, self.implicit

    def close_implicit(self) -> Episode | None:
        """Close the open implicit episode, and return it; None if there is none."""
        episode, self.implicit = self.implicit, None
        if episode is not None:
            episode.closed = True
            if episode.complete:
                self._graph.note_complete(episode)
        return episode

    # The agent's calls

    def start(
        self, name: str | None, type_: EpisodeType, dependencies: Iterable[str] = ()
    ) -> tuple[Episode, Episode | None]:
        """Open an episode or a task for the agent; return it, and the episode that its start closes.

        The protocol accepts a start while an inferred episode is open: the agent is the authority.
        """
        closed = self._close_current()
        opened = self._graph.start(name, type_, dependencies, self.task)
        self._begin(opened)
        return opened, closed

    def end(self, episode: Episode, description: str | None) -> None:
        """End an episode by the agent's call, which may come after the host has left its scope (R18)."""
        del self.annotated[str(episode.name)]
        episode.closed = True
        episode.description = description
        self.active = None

    def close_to_task(self) -> Episode:
        """Close what is open within the agent's innermost task, and return the task: the agent is the authority."""
        self._close_current()
        while (task := self.task) is not None and task.inferred:
            self._end_by_mark(task, None)
            self._end_task(None, abandoned=False)
        assert task is not None
        return task

    def end_task(self, description: str | None, *, abandoned: bool) -> None:
        """End the innermost task by the agent's call.

        Args:
            description: what came of it.
            abandoned: whether its work was given up (R17 a).
        """
        assert self.task is not None
        del self.annotated[str(self.task.name)]
        self._end_task(description, abandoned=abandoned)

    # Marks

    def check(self, marks: Sequence[Mark]) -> None:
        """Check that marks can be made in their order.

        Raises:
            HistoryError: if one cannot be made.
        """
        opened = list(self.annotated.values())
        check_marks(marks, self.active, self.task, opened, self._graph, self._protocol.started)

    def mark(self, mark: Mark) -> Episode | None:
        """Make a mark; return the episode or task that it closes, if any."""
        if mark.action == "enter":
            self._enter_scope(mark.name)
            return None
        if mark.action == "describe":
            self.describing = self.annotated[mark.name]
            return None
        if mark.action == "end":
            if self.active is not None:
                return self._close_active(mark.description, mark.closing)
            self.close_implicit()
            assert self.task is not None
            self._end_by_mark(self.task, mark.closing)
            return self._end_task(mark.description, abandoned=mark.abandoned)
        closed = self.close_implicit()
        # The agent may not use the name again (R3), nor depend on an episode that was inferred.
        self._protocol.started[mark.name] = False
        opened = self._graph.start(mark.name, mark.type, mark.dependencies, self.task)
        opened.host = mark.host
        opened.inferred = not mark.host
        self._begin(opened)
        return closed

    def restore(self, episodes: Iterable[Episode]) -> None:
        """Take in the annotated episodes and tasks of a restored window."""
        for episode in episodes:
            self._enter(episode)
            if episode.marked and not episode.is_task:
                self._protocol.active = (str(episode.name), episode.type)
            elif episode.marked:
                self._protocol.open_tasks.append(str(episode.name))

    # Internals

    def _begin(self, episode: Episode) -> None:
        self._enter(episode)
        if episode.is_task:
            self.task = episode
        else:
            self.active = episode

    def _enter(self, episode: Episode) -> None:
        self.annotated[str(episode.name)] = episode
        if episode.host:
            self._protocol.hosted = True

    def _enter_scope(self, name: str) -> None:
        """Go on in the scope of an open episode or task; an empty name leaves all scopes of the host (R18)."""
        if name:
            scope = self.annotated[name]
            self.active = None if scope.is_task else scope
            self.task = scope if scope.is_task else scope.task
            return
        self.active = None
        self.task = None
        for episode in self.annotated.values():
            if episode.is_task and not episode.host:
                self.task = episode

    def _close_current(self) -> Episode | None:
        """Close the implicit episode, or else the active one; return it."""
        return self.close_implicit() or self._close_active()

    def _close_active(self, description: str | None = None, closing: int | None = None) -> Episode | None:
        """Close the active episode by a mark, or because the agent starts another one."""
        episode, self.active = self.active, None
        if episode is None:
            return None
        self._end_by_mark(episode, closing)
        episode.closed = True
        episode.description = description
        if episode.complete:
            # Its end stands in the latest assistant message, so it settles with the next one (R6).
            self._graph.waiting.append(episode)
        return episode

    def _end_task(self, description: str | None, *, abandoned: bool) -> Episode:
        task = self.task
        assert task is not None
        task.closed = True
        task.description = description
        self.task = task.task
        if abandoned:
            self._graph.abandon(task)
        if task.complete:  # it was inferred: it has no calls, and settles with the next assistant message
            self._graph.waiting.append(task)
        return task

    def _end_by_mark(self, episode: Episode, closing: int | None) -> None:
        """Note that a mark has ended an episode or a task; `closing` is the member that holds its description."""
        name = str(episode.name)
        del self.annotated[name]
        if closing is not None and closing in self._view.tokens:
            episode.close(closing)
        if not episode.inferred:
            self._protocol.started[name] = episode.type is EpisodeType.EXPL
        self._protocol.hosted = any(other.host for other in self.annotated.values())
        if not episode.marked:
            return
        # The agent marked it before the host began to.
        if episode.is_task:
            self._protocol.open_tasks.remove(name)
        else:
            self._protocol.active = None

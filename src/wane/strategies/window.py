"""Strategies that evict by episode, the agent's own or inferred ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from wane.core import Added, ContextWindow, Episode, EpisodeType, Item, Level, Mark, Policy, Step
from wane.formats.base import Part
from wane.inference import Annotator
from wane.strategies.base import Fitted, Settings, Strategy


class WindowStrategy(Strategy):
    """A `ContextWindow` as a strategy. Its view is always a subsequence of the history.

    Args:
        name: its name in reports.
        settings: budget, overhead, tool classes, and who marks episodes.
        policy: what a pass evicts, and how far.
        annotator: infers episodes; None for that of the settings.

    Attributes:
        name: its name in reports.
        window: the window; its indexes are those of the items.
        episodes: all episodes so far, including removed ones, in order of start.

    Raises:
        ConfigError: for a tool class that cannot work.
    """

    def __init__(self, name: str, settings: Settings, policy: Policy, annotator: Annotator | None = None) -> None:
        self.name = name
        self.window = ContextWindow(
            settings.budget, policy, overhead=settings.overhead, tool_classes=settings.tool_classes
        )
        self.episodes: list[Episode] = []
        self._annotator = annotator or settings.annotator()
        self._view: list[int] = []
        self._sent = 0  # leading slots of the view that the last one had

    @property
    def view(self) -> Sequence[int]:
        """The view as it stands; valid until the next call."""
        return self._view

    def add(self, item: Item, part: Part, marks: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.
            marks: the inferred marks right ahead of it, if they were recorded; None to infer them.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        added = self._annotator.add_to(self.window, item, part, marks)
        self._view.append(added.index)
        if added.opened is not None:
            self.episodes.append(added.opened)
        return added

    def fit(self, *, cold: bool = False) -> Fitted:
        """Run a pass if one is due (R10), and return the next model call's view."""
        report = self.window.fit(cold=cold)
        ran = self._leave(report.trace)
        same, self._sent = self._sent, len(self._view)
        return Fitted(self._view, ran, report, report.trace or None, same)

    def redo(self, trace: Sequence[Step]) -> None:
        """Repeat a recorded pass, whatever the budget and the policy are now.

        Raises:
            HistoryError: if it does not fit this history.
        """
        self.window.apply(trace)
        self._leave(trace)

    def adopt(self, window: ContextWindow) -> None:
        """Go on with another window over the same items, at the present budget and policy."""
        window.budget, window.policy = self.window.budget, self.window.policy
        live = {episode.number: episode for episode in (*window.episodes, *window.described)}
        for episode in self.episodes:
            if episode.number not in live:  # it has been removed
                marked = episode.type is EpisodeType.EXPL and not episode.implicit and not episode.inferred
                episode.rank, episode.tokens = (Level.DESCRIPTION if marked else Level.REMOVE).rank, 0
        self.episodes[:] = [live.get(episode.number, episode) for episode in self.episodes]
        self.window = window
        self._view = [*window.visible]

    def _leave(self, trace: Sequence[Step]) -> bool:
        """Take what a pass removed from the view; return whether it removed anything."""
        removed = {index for step in trace for index in step.removed}
        if removed:
            # Items mostly leave near the end of a long view, and what is ahead of them stays.
            first = bisect_left(self._view, min(removed))
            self._view[first:] = [index for index in self._view[first:] if index not in removed]
            self._sent = min(self._sent, first)
        return bool(removed)

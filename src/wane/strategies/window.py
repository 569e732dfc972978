"""Strategies that evict by episode, the agent's own or inferred ones."""

from __future__ import annotations

from bisect import bisect_left

from wane.core import Added, ContextWindow, Episode, Item, Policy
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

    def add(self, item: Item, part: Part) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.

        Raises:
            HistoryError: as `ContextWindow.add` does.
        """
        added = self._annotator.add_to(self.window, item, part)
        self._view.append(added.index)
        if added.opened is not None:
            self.episodes.append(added.opened)
        return added

    def fit(self, *, cold: bool = False) -> Fitted:
        """Run a pass if one is due (R10), and return the next model call's view."""
        report = self.window.fit(cold=cold)
        removed = {index for step in report.trace for index in step.removed}
        if removed:
            # Items mostly leave near the end of a long view, and what is ahead of them stays.
            first = bisect_left(self._view, min(removed))
            self._view[first:] = [index for index in self._view[first:] if index not in removed]
            self._sent = min(self._sent, first)
        same, self._sent = self._sent, len(self._view)
        return Fitted(self._view, bool(removed), report, report.trace or None, same)

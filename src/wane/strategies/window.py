"""Strategies that evict by episode: the paper's and ours, over the agent's own episodes or inferred ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wane.core import Added, ContextWindow, Episode, EpisodeType, Item, Level, Mark, Policy, Step
from wane.formats.base import Part
from wane.inference import Annotator, Limits, add_annotated
from wane.strategies.base import Fitted, Settings


class WindowStrategy:
    """A `ContextWindow` as a strategy. Its view is always a subsequence of the history.

    Args:
        name: what it is called.
        settings: budget, overhead, tool classes, and who marks episodes.
        policy: what a pass evicts, and how far.
        annotator: infers episodes if `settings.annotate` is `infer`; one with limits for the budget if None.

    Attributes:
        name: what it is called.
        window: the window; its indexes are those of the items.
        episodes: every episode so far, removed ones too, in order of start. Those that were inferred say so
            (`Episode.inferred`), and their `spans` are of real items alone.

    Raises:
        ConfigError: for a budget or a tool class that cannot work.
    """

    def __init__(self, name: str, settings: Settings, policy: Policy, annotator: Annotator | None = None) -> None:
        self.name = name
        self.window = ContextWindow(
            settings.budget, policy, overhead=settings.overhead, tool_classes=settings.tool_classes
        )
        self.episodes: list[Episode] = []
        infers = settings.annotate == "infer"
        self._annotator = (annotator or Annotator(Limits.of(settings.budget))) if infers else None
        self._view: list[int] = []

    @property
    def view(self) -> Sequence[int]:
        """What the next model call shows if no pass is due; valid until the strategy is told anything."""
        return self._view

    @property
    def inferring(self) -> bool:
        """Whether episodes are inferred, still."""
        return self._annotator is not None and not self._annotator.stopped

    def add(self, item: Item, part: Part) -> Added:
        """Take in the next item of the history.

        Raises:
            HistoryError: as `ContextWindow.add` does.
        """
        added = add_annotated(self.window, item, part, self._annotator)
        self._view.append(added.index)
        if added.opened is not None:
            self.episodes.append(added.opened)
        return added

    def follow(self, item: Item, part: Part, marks: Sequence[Mark] = ()) -> Added:
        """Take in the next item of a recorded history, with the marks that were inferred at the time.

        Raises:
            HistoryError: as `ContextWindow.add` does, also for marks that cannot be made.
        """
        added = self.window.add(item, marks)
        self._view.append(added.index)
        if added.opened is not None:
            self.episodes.append(added.opened)
        if self._annotator is not None and not self._annotator.stopped:
            self._annotator.follow(item, part, marks)
            if added.verdict is not None and added.verdict.accepted:
                self._annotator.stop()
        return added

    def adopt(self, window: ContextWindow) -> None:
        """Go on with another window of the same items, such as one that was brought back.

        Args:
            window: the window. What of the episodes is not live in it has been removed from it.
        """
        live = {episode.number: episode for episode in (*window.episodes, *window.described)}
        for episode in self.episodes:
            if episode.number not in live:
                marked = episode.type is EpisodeType.EXPL and not episode.implicit and not episode.inferred
                episode.rank, episode.tokens = (Level.DESCRIPTION if marked else Level.REMOVE).rank, 0
        self.window = window
        self.episodes[:] = [live.get(episode.number, episode) for episode in self.episodes]
        self._view = window.visible

    def apply(self, trace: Iterable[Step]) -> None:
        """Do again what a recorded pass did (R14).

        Raises:
            HistoryError: if it does not fit this history.
        """
        self.window.apply(trace)
        self._view = self.window.visible

    def fit(self, *, cold: bool = False) -> Fitted:
        """Run a pass if one is due (R10), and say what the next model call shows."""
        report = self.window.fit(cold=cold)
        evicted = any(step.removed for step in report.trace)
        if evicted:
            self._view = self.window.visible
        return Fitted(self._view, evicted, report)

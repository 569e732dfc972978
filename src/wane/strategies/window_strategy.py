"""Strategies that evict by episode, the agent's own or inferred ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wane.core import (
    Added,
    ContextWindow,
    Counter,
    Episode,
    EpisodeType,
    EvictedIndex,
    Item,
    Kind,
    Level,
    Mark,
    Policy,
    Step,
    chars,
)
from wane.formats.message_format import Part
from wane.inference import Annotator, EpisodeBounds
from wane.strategies.evicted import Evicted
from wane.strategies.strategy import Fitted, Slot, Strategy, StrategySettings, Substitute, Traits


@dataclass(slots=True)
class _Start:
    """The beginning of a user's turn."""

    item: int
    message: int | None
    reasons: bool = False


class IndexPlace:
    """Finds the place for the index: ahead of the model's latest message, so that no more of the prefix changes.

    There a provider takes it for the user's, and for the beginning of a turn. It moves ahead of the user's latest turn
    where it would part what belongs together, if the model has reasoned in its turn:

    - The model's latest message does not begin with reasoning. A provider may demand that such a turn does.
    - The latest message goes on with the one before, by the result of a tool that the provider ran. If the model has
      not reasoned in its turn, the index keeps the place that it had.

    Attributes:
        place: the item ahead of which the index would stand.
    """

    def __init__(self) -> None:
        self.place = 0
        # The user's latest turn in a message without results: its first item and its message, and whether the model has
        # reasoned since; and the same of the turn before it.
        self._start = self._earlier = _Start(0, None)
        self._results: int | None = None  # the latest message with results
        # The latest message, and its first item: an index never stands within one.
        self._message: int | None = None
        self._first = 0

    def add(self, index: int, item: Item, latest: int) -> None:
        """Take in the next item of the history.

        Args:
            index: its index.
            item: the item.
            latest: the first item of the model's latest message.
        """
        message = item.message
        if message is None or message != self._message:
            self._message, self._first = message, index
        if item.kind is Kind.RESULT:
            self._results = message
            if message is not None and message == self._start.message:
                self._start = self._earlier
        elif item.kind is Kind.USER and (message is None or message not in (self._results, self._start.message)):
            self._earlier, self._start = self._start, _Start(self._first, message)
        elif item.kind is Kind.REASONING:
            self._start.reasons = True
        goes_on = message is not None and message == self._results
        if index == latest and goes_on:
            # A pass may take the message that this one goes on with, and the reasoning that begins it.
            if self._start.reasons:
                self.place = self._start.item
        elif index == latest:
            # What is the system's may stand ahead of the first of the model's items, such as tools that it searched.
            begins = item.kind is Kind.REASONING or not self._start.reasons
            self.place = self._first if begins else self._start.item


class WindowStrategy(Strategy):
    """A `ContextWindow` as a strategy. Its view is always a subsequence of the history, besides an index (R20).

    Args:
        name: its name in reports.
        settings: budget, overhead, tool classes, and who marks episodes.
        policy: what a pass evicts, and how far.
        annotator: infers episodes; None for that of the settings.
        counter: counts the tokens of the index.

    Attributes:
        name: its name in reports.
        window: the window; its indexes are those of the items.
        episodes: all episodes and tasks so far, including removed ones, in order of start.
        host: marks episodes for the program around the model; None if that marks none.

    Raises:
        ConfigError: for a tool class that cannot work.
    """

    def __init__(
        self,
        name: str,
        settings: StrategySettings,
        policy: Policy,
        annotator: Annotator | None = None,
        *,
        counter: Counter = chars,
    ) -> None:
        self.name = name
        self.window = ContextWindow(
            settings.budget,
            policy,
            overhead=settings.overhead,
            tool_classes=settings.tool_classes,
            tasks=settings.tasks,
            window=settings.window,
        )
        self.episodes: list[Episode] = []
        self.host = settings.marker()
        self._annotator = annotator or settings.annotator()
        self._evicted = Evicted(counter, recall=settings.recall) if policy.index_share else None
        self._turn = IndexPlace()
        self._view: list[Slot] = []
        self._sent = 0  # leading slots of the view that the last one had

    @property
    def view(self) -> Sequence[Slot]:
        """The view as it stands; valid until the next call."""
        return self._view

    @property
    def fixed_head(self) -> int:
        """Number of leading slots of the view that no pass may take; 0 as long as nothing has left the view.

        Where a provider caches up to breakpoints alone, one behind them keeps a pass from paying for them again.
        """
        if self.window.index is None and len(self._view) == self.window.item_count:
            return 0
        head = self.window.fixed_head
        return next((place for place in range(head) if isinstance(self._view[place], Substitute)), head)

    def add(self, item: Item, part: Part, marks: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.
            marks: the marks right ahead of it, if they were recorded; None to infer them, or to make the host's.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        if self.host is not None and marks is None:
            marks = self.host.ahead(self.window, item)
        if self._annotator is None:
            added = self.window.add(item, marks or ())
        else:
            added = self._annotator.add_to(self.window, item, part, marks)
        if self.host is not None:
            self.host.note(item, part, added.episode, added.marks)
        self._view.append(added.index)
        if self._evicted is not None:
            self._evicted.add(part, added)
            self._turn.add(added.index, item, self.window.latest)
        self.episodes += added.marked.opened
        if added.opened is not None:
            self.episodes.append(added.opened)
        return added

    def fit(self, *, cold: bool = False) -> Fitted:
        """Run a pass if one is due (R10), and return the next model call's view."""
        report = self.window.fit(cold=cold, write_index=self._index if self._evicted else None)
        ran = report.ran and self._leave(report.trace)
        same, self._sent = self._sent, len(self._view)
        return Fitted(self._view, ran, report, report.trace or None, same)

    def redo(self, trace: Sequence[Step], index: EvictedIndex | None = None) -> bool:
        """Repeat a recorded pass, whatever the budget and the policy are now; return whether it changed the view.

        Raises:
            HistoryError: if it does not fit this history.
        """
        self.window.apply(trace, index)
        return self._leave(trace)

    def adopt(self, window: ContextWindow) -> None:
        """Go on with another window over the same items, at the present budget and policy."""
        window.budget, window.policy, window.window = self.window.budget, self.window.policy, self.window.window
        live = {episode.number: episode for episode in (*window.episodes, *window.described)}
        for episode in self.episodes:
            if episode.number not in live:  # it has been removed
                marked = episode.type is not EpisodeType.ACT and not episode.implicit and not episode.inferred
                episode.rank, episode.tokens = (Level.DESCRIPTION if marked else Level.REMOVE).rank, 0
        self.episodes[:] = [live.get(episode.number, episode) for episode in self.episodes]
        self.window = window
        if self._evicted is not None:
            self._evicted.note_gone(index for index in range(window.item_count) if not window.shows(index))
        self._view = self._with_index(window.visible)

    def infer_within(self, budget: int) -> None:
        """Set the budget by which the next episodes are inferred, if any are."""
        if self._annotator is not None:
            self._annotator.limits = EpisodeBounds.of(budget)

    def pack(self) -> None:
        """Compress the content that the index may need; see `Evicted.pack`."""
        if self._evicted is not None:
            self._evicted.pack()

    def _index(self, trace: Sequence[Step], limit: int) -> EvictedIndex | None:
        """Write the index for a pass; see `ContextWindow.fit`."""
        assert self._evicted is not None
        self._evicted.leave(index for step in trace for index in step.removed)
        written = self._evicted.write(limit)
        return None if written is None else EvictedIndex(*written, self._turn.place)

    def _leave(self, trace: Sequence[Step]) -> bool:
        """Take what a pass removed from the view; return whether that changed it."""
        removed = {index for step in trace for index in step.removed}
        if self._evicted is not None:
            self._evicted.leave(removed)
        before = self._view
        view = self._with_index([slot for slot in before if isinstance(slot, int) and slot not in removed])
        changed = view != before
        if changed:
            same = next((n for n, (now, then) in enumerate(zip(view, before, strict=False)) if now != then), len(view))
            self._view, self._sent = view, min(self._sent, same)
        return changed

    def _with_index(self, items: Sequence[int]) -> list[Slot]:
        """Return the view of some items, with the index in its place."""
        view: list[Slot] = [*items]
        if (index := self.window.index) is not None:
            view.insert(bisect_left(items, index.before), Substitute(index.text, index.tokens))
        return view


class CwlStrategy(WindowStrategy):
    """Evicts episodes in batches, by a policy."""

    name = "cwl"
    summary = "episodes are evicted in batches, by the default policy or the one given"
    traits = Traits(by_episode=True, marked=True, takes="episode")

    def __init__(self, settings: StrategySettings) -> None:
        policy = settings.policy
        if settings.low_water is not None:
            policy = replace(policy, low_water=settings.low_water)
        super().__init__(self.name, settings, policy)


class PaperStrategy(WindowStrategy):
    """Evicts episodes in the smallest steps: the paper's Algorithm 1, with R6."""

    name = "paper"
    summary = "episodes are evicted in the smallest steps (the paper's Algorithm 1, with R6)"
    traits = Traits(by_episode=True, policy=Policy.paper(), marked=True, takes="episode")

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(self.name, settings, Policy.paper())

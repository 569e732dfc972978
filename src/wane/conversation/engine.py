"""One history of items under one strategy. Sans I/O.

The engine takes in items, and returns the view for each request. It keeps no content. It also reminds a model to mark
its work: a reminder is at the end of one request and never in the history, so it changes neither the view nor the
cached prefix.

A window runs under every strategy. If another strategy decides the view, the window evicts nothing but follows the
episodes, so that marks are judged and episodes can be recalled under every strategy.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from wane.conversation.context import ContextSettings
from wane.conversation.reminder import Reminder
from wane.conversation.thrashing import Thrashing, ThrashingDetector
from wane.core import OWN_TOOLS, Added, ContextWindow, Episode, EvictedIndex, Item, Kind, Mark, Room, chars
from wane.core.errors import ConfigError, HistoryError
from wane.core.items import WORK
from wane.core.view import Accounting
from wane.formats.message_format import Part
from wane.strategies.host import HostMarker
from wane.strategies.memgpt import WARN_AT, WARNING
from wane.strategies.registry import get_strategy, traits
from wane.strategies.strategy import (
    Done,
    Fitted,
    Resumable,
    Slot,
    StrategySettings,
    Substitute,
    SummaryNeeded,
    unasked_error,
)
from wane.strategies.window_strategy import WindowStrategy

_PLAUSIBLE: Final = 0.5  # share of our own count that a provider's count must reach


class Engine:
    """Keeps one history within a budget.

    Args:
        settings: its settings.
        infers: whether episodes are inferred until the model marks its own, although it has the tool for it.
        partial_reports: whether a provider may report only a part of the input, as some servers do. A strategy that
            does not evict by episode then keeps the budget by our own count too.

    Attributes:
        name: the strategy's name.
        traits: the strategy's traits.
        history: tokens of the whole history, evicted or not, by our own count.
        own: how many of them are calls of Wane's own tools and their results.

    Raises:
        ConfigError: for settings that cannot work.
        MissingExtraError: for a strategy whose library is not installed.
    """

    def __init__(self, settings: ContextSettings, *, infers: bool = False, partial_reports: bool = False) -> None:
        self.name = settings.strategy
        self.traits = traits(self.name)
        self.history = 0
        self.own = 0
        self._own_calls: set[str | None] = set()
        self._partial_reports = partial_reports
        self._tool_classes = settings.tool_classes
        self._inference_budget = settings.budget
        self._counter = settings.counter
        self._reminder = Reminder(settings.remind_at if settings.marked else None)
        if infers:
            settings = replace(settings, annotate="infer")
        self._by_episode = WindowStrategy(self.name, settings, settings.eviction, counter=settings.counter)
        self._detector = ThrashingDetector()
        self._accounting = self.window.accounting
        # Another strategy that decides the view, with its view and the tokens of each item.
        self._other: Resumable | None = None
        self._view: list[Slot] = []
        self._counts = array("Q")
        if not self.traits.by_episode:
            self._other = _other(self.name, settings)
            self._accounting = Accounting(overhead=settings.overhead)

    # State

    @property
    def window(self) -> ContextWindow:
        """The window; it has the budget and the policy, which may be changed between requests."""
        return self._by_episode.window

    @property
    def episodes(self) -> list[Episode]:
        """All episodes so far, including removed ones, in order of start."""
        return self._by_episode.episodes

    @property
    def host(self) -> HostMarker | None:
        """The marker of the program around the model (R18); None if that marks no episodes."""
        return self._by_episode.host

    @property
    def inference_budget(self) -> int:
        """The budget by which episodes are inferred: the first one of the session, whatever it is now."""
        return self._inference_budget

    @inference_budget.setter
    def inference_budget(self, budget: int) -> None:
        self._inference_budget = budget
        self._by_episode.infer_within(budget)

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides the items; may be changed between requests."""
        return self._accounting.overhead

    @overhead.setter
    def overhead(self, tokens: int) -> None:
        self.window.overhead = self._accounting.overhead = tokens

    @property
    def tokens(self) -> int:
        """Tokens of the next request if nothing is evicted, by the provider's last report."""
        return self._accounting.total

    def tokens_with(self, overhead: int) -> int:
        """Return `tokens` for another overhead."""
        return replace(self._accounting, overhead=overhead).total

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves; None for a strategy without a budget.

        Under a strategy that does not evict by episode, only the system prompt and tools count as fixed.
        """
        if not self.traits.bounded:
            return None
        room = self.window.room
        if self._other is None:
            return room
        # The window that follows another strategy gets no reports.
        counted = self._accounting
        return Room(room.budget, round(room.system * counted.ratio + counted.drift), window=room.window)

    @property
    def thrashing(self) -> Thrashing | None:
        """The signs that the budget is too small for the work; None if there are none, or there is no budget."""
        # Other strategies may change the view at every request by design; for them only fetches count.
        low_water = self.window.policy.low_water if self._other is None else 1.0
        return self._detector.state(low_water, lambda: self.room)

    @property
    def budget(self) -> int:
        """Tokens that the view may hold now: more than were set where what is fixed leaves too little (R22)."""
        return self.window.budget_used if self._other is None else self.window.budget

    @property
    def counted_budget(self) -> int:
        """The budget in tokens of our own count, by the provider's last report."""
        return max(1, round(self.budget / self._accounting.ratio))

    @property
    def item_count(self) -> int:
        """Number of items in the history."""
        return self.window.item_count

    @property
    def evicted(self) -> int:
        """Tokens of the history that the view does not hold, by our own count."""
        return self.history - self._accounting.items

    @property
    def evicts(self) -> bool:
        """Whether it evicts by episode; its view is then always a part of the history, besides an index (R20)."""
        return self._other is None

    @property
    def view(self) -> Sequence[Slot]:
        """The view of the next request if nothing is evicted; valid until the next call of the engine."""
        return self._by_episode.view if self._other is None else self._view

    @property
    def fixed_head(self) -> int:
        """Number of leading slots of the view behind which a breakpoint helps; see `WindowStrategy.fixed_head`."""
        return self._by_episode.fixed_head if self.evicts else 0

    # Items and requests

    def add(self, item: Item, part: Part, marks: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.
            marks: the marks right ahead of it, if they were recorded; None to infer them, or to make the host's marks.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        added = self._by_episode.add(item, part, marks)
        self.history += item.tokens
        if item.tool in OWN_TOOLS:
            self._own_calls.add(item.call_id)
        if item.tool in OWN_TOOLS or (item.kind is Kind.RESULT and item.call_id in self._own_calls):
            self.own += item.tokens
        if self._other is not None:
            self._view.append(added.index)
            self._counts.append(item.tokens)
            self._accounting.items += item.tokens
            self._other.follow(item, part, added)
        self._reminder.note(item, added, self.window.active)
        if item.kind in WORK:
            begins = added.index == self.window.latest
            self._detector.note(item, part.arguments, added.index, self._shows, begins=begins)
        return added

    def pack(self) -> None:
        """Compress the content of past items, if the host keeps none; the index of evicted content may need it."""
        self._by_episode.pack()

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next request's view, or ask for a summary first.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """
        if self._other is None:
            fitted = self._by_episode.fit(cold=cold)
            if fitted.ran:
                self._detector.note_pass()
            return fitted
        # A strategy counts by itself. The amount by which the provider counts more is overhead.
        counted = self._accounting
        if self._partial_reports:
            self._other.budget = self.window.budget
            self._other.overhead = counted.overhead + max(0, counted.total - counted.estimate)
        else:
            self._other.budget = self.counted_budget
            self._other.overhead = counted.overhead + max(0, round(counted.drift / counted.ratio))
        return self._show_outcome(self._other.fit(cold=cold))

    def take_summary(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        if self._other is None:
            raise unasked_error(self.name)
        return self._show_outcome(self._other.take_summary(text, chars(text)))

    def hold(self) -> Fitted:
        """Return the next request's view without evicting anything."""
        self.mark_sent()
        return Fitted(self.view)

    def mark_sent(self) -> None:
        """Note that a request was sent with the present view: the next report is about it."""
        self._accounting.mark_sent()

    def observe(self, input_tokens: int) -> bool:
        """Take in the provider's count of the last request, unless it is implausible; return whether it was taken."""
        if not plausible(input_tokens, self._accounting.sent or 0):
            return False
        self._accounting.observe(input_tokens)
        return True

    def remind(self, *, overflowed: bool = False) -> str | None:
        """Return the note to the model at the end of the next request; usually None.

        Call it once the view is ready. It returns the same until the next item. A reminder that would take the request
        over the budget waits for a later request.

        Args:
            overflowed: whether the pass before the request had to take unfinished work (R16).
        """
        budget = self.budget

        def fits(reminder: str) -> bool:
            return not self.tokens <= budget < self.tokens + self.added_by(reminder)

        if self.traits.searches:
            return self._reminder.warn(WARNING, full=self._full, fits=fits)
        return self._reminder.ask(budget, overflowed=overflowed, active=self.window.active, fits=fits)

    @property
    def reminder(self) -> str | None:
        """The note at the end of the request that goes out now; usually None."""
        return self._reminder.text

    def repeat_reminder(self, text: str | None = None) -> None:
        """Repeat the reminder of a recorded request; None if it had none."""
        if text is None:
            self._reminder.note_request(full=self._full)
        else:
            self._reminder.note_sent(text)

    @property
    def _full(self) -> bool:
        """Whether the window is so full that a strategy with searches warns the model."""
        return self.tokens > WARN_AT * self.budget

    def added_by(self, reminder: str | None) -> int:
        """Return the tokens that a reminder adds to a request, by the provider's last report."""
        if reminder is None:
            return 0
        # The longest form of any integration: with a separator and a tag.
        added = self._counter(f"\n\n<system>{reminder}</system>")
        return self.tokens_with(self.overhead + added) - self.tokens

    # Repeating the past

    def redo(self, done: Done | None, index: EvictedIndex | None = None) -> None:
        """Repeat what was done before a request, independent of the present policy and budget (R14).

        Raises:
            HistoryError: if it does not fit this history.
        """
        if self._other is None:
            if isinstance(done, Mapping):
                raise HistoryError("the record to repeat is of another strategy")
            if done is not None and self._by_episode.redo(done, index):
                self._detector.note_pass()
        else:
            if isinstance(done, Mapping):
                self._other.redo(done)
            self._show(self._other.current())
        self.mark_sent()

    def export(self) -> dict[str, Any]:
        """Return the state without the window, as JSON data."""
        return {
            "inference_budget": self._inference_budget,
            "budget": self.window.budget,
            "standing": None if self._other is None else self._other.standing,
            "accounting": asdict(self._accounting),
            "reminder": self._reminder.export(),
            "thrashing": self._detector.export(),
        }

    def adopt(self, state: Mapping[str, Any], window: ContextWindow | None = None) -> None:
        """Continue from the state that `export` returned.

        Args:
            state: the state.
            window: a window over the same items, to continue with; None if another strategy decides the view.

        Raises:
            HistoryError: if the state does not fit the items.
        """
        self.inference_budget = state["inference_budget"]
        if window is not None:
            window.set_tool_classes(self._tool_classes)
            self._by_episode.adopt(window)
        if self._other is None:
            self._accounting = self.window.accounting
        else:
            if state["standing"] is not None:
                self._other.redo(state["standing"])
            self._show(self._other.current())
            self._accounting = Accounting(**state["accounting"])
            self.window.overhead = self._accounting.overhead
        self._reminder.restore(state["reminder"])
        self._detector.restore(state["thrashing"])

    def _shows(self, index: int) -> bool:
        return self.window.shows(index) if self._other is None else index in self._view

    # Another strategy

    def _show_outcome(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        if isinstance(outcome, Fitted):
            self._show(outcome.view)
            self.mark_sent()
        return outcome

    def _show(self, view: Sequence[Slot]) -> None:
        # A copy: a strategy's own view may grow with the next item.
        self._view = list(view)
        tokens = 0
        for slot in view:
            tokens += slot.tokens if isinstance(slot, Substitute) else self._counts[slot]
        self._accounting.items = tokens


def plausible(reported: int, counted: int) -> bool:
    """Whether a provider's count of a request can be right, given our own; some leave out cached tokens."""
    return reported >= max(1, _PLAUSIBLE * counted)


def _other(name: str, settings: StrategySettings) -> Resumable:
    """Return a strategy that does not evict by episode."""
    strategy = get_strategy(name, settings)
    if not isinstance(strategy, Resumable):
        raise ConfigError(f"the strategy {name!r} can only be replayed, because it cannot be resumed")
    live = strategy.for_live(settings)
    return strategy if live is settings else type(strategy)(live)

"""One history of items under one strategy. Sans I/O.

The engine takes in items, and returns the view before each request. It keeps no content.

A window runs under every strategy. If another strategy decides the view, the window evicts nothing but follows the
episodes, so that marks are judged and episodes can be recalled under every strategy.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from wane.conversation.reminder import Reminder
from wane.core import Added, ContextWindow, Counter, Episode, Item, Mark, chars
from wane.core.errors import ConfigError, HistoryError
from wane.core.view import Accounting
from wane.formats.base import Part
from wane.strategies.base import (
    EPISODIC,
    Done,
    Fitted,
    Resumable,
    Settings,
    Slot,
    Substitute,
    SummaryNeeded,
)
from wane.strategies.memgpt import WARN_AT, WARNING
from wane.strategies.registry import get_strategy
from wane.strategies.window import WindowStrategy

SEARCHED: Final = frozenset({"memgpt"})
"""Strategies that warn the model before content leaves, and always give it the tool `recall`."""

_PLAUSIBLE: Final = 0.5  # share of our own count that a provider's count must reach


class Engine:
    """Keeps one history within a budget.

    Args:
        strategy: name of the strategy.
        settings: what it is made with.
        remind_at: share of the budget that unannotated work may fill before the model is reminded; None for never, as
            for a model that has no `delimiter`.
        partial_reports: whether a provider may report only a part of the input, as some servers do. A strategy that
            does not evict by episode then keeps the budget by our own count too.
        counter: counts the tokens of reminders.

    Attributes:
        name: name of the strategy.
        history: tokens of the whole history, evicted or not, by our own count.

    Raises:
        ConfigError: for settings that cannot work.
        MissingExtraError: for a strategy whose library is not installed.
    """

    def __init__(
        self,
        strategy: str,
        settings: Settings,
        *,
        remind_at: float | None = None,
        partial_reports: bool = False,
        counter: Counter = chars,
    ) -> None:
        self.name = strategy
        self.history = 0
        self._partial_reports = partial_reports
        self._tool_classes = settings.tool_classes
        self._inference_budget = settings.budget
        self._counter = counter
        self._reminder = Reminder(remind_at)
        own = get_strategy(strategy if strategy in EPISODIC else "cwl", settings)
        assert isinstance(own, WindowStrategy)
        self._own = own
        self._other = None if strategy in EPISODIC else _other(strategy, settings)
        self._accounting = own.window.accounting if self._other is None else Accounting(overhead=settings.overhead)
        # For another strategy:
        self._counts = array("Q")  # tokens of each item
        self._view: Sequence[Slot] = ()  # its view at the last request
        self._seen = 0  # number of items then

    # State

    @property
    def window(self) -> ContextWindow:
        """The window; it has the budget and the policy, which may be changed between requests."""
        return self._own.window

    @property
    def episodes(self) -> list[Episode]:
        """All episodes so far, including removed ones, in order of start."""
        return self._own.episodes

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
        """Whether it evicts by episode: its view is then always a part of the history."""
        return self._other is None

    @property
    def view(self) -> Sequence[Slot]:
        """The view of the next request if nothing is evicted."""
        return self._own.current() if self._other is None else [*self._view, *range(self._seen, self.item_count)]

    # Items and requests

    def add(self, item: Item, part: Part, marks: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.
            marks: the inferred marks right ahead of it, if they were recorded; None to infer them.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        added = self._own.add(item, part, marks)
        self.history += item.tokens
        if self._other is not None:
            self._counts.append(item.tokens)
            self._accounting.items += item.tokens
            self._other.add(item, part)
        self._reminder.note(item, added, self.window.active)
        return added

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next request's view, or ask for a summary first.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """
        if self._other is None:
            return self._own.fit(cold=cold)
        self._other.budget, self._other.overhead = self._limits()
        return self._shown(self._other.fit(cold=cold))

    def summarised(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        strategy = self._own if self._other is None else self._other
        return self._shown(strategy.summarised(text, chars(text)))

    def hold(self) -> Fitted:
        """Return the next request's view without evicting anything."""
        self.sent()
        return Fitted(self.view)

    def sent(self) -> None:
        """Note that a request was sent with the present view: the next report is about it."""
        self._accounting.mark_sent()

    def observe(self, input_tokens: int) -> bool:
        """Take in the provider's count of the last request; return whether it is plausible. If not, it is ignored."""
        if not plausible(input_tokens, self._accounting.sent or 0):
            return False
        self._accounting.observe(input_tokens)
        return True

    def remind(self, *, overflowed: bool = False) -> str | None:
        """Return the note to the model at the end of the next request; usually None.

        Call it once the view is ready, or was repeated by `redo`. Until the next item it returns the same. A reminder
        that would take the request over the budget waits for a later request.

        Args:
            overflowed: whether the pass before it had to take unfinished work (R16).
        """
        budget = self.window.budget

        def fits(reminder: str) -> bool:
            return not self.tokens <= budget < self.tokens + self.added_by(reminder)

        if self.name in SEARCHED:
            return self._reminder.warn(WARNING, full=self.tokens > WARN_AT * budget, fits=fits)
        return self._reminder.ask(budget, overflowed=overflowed, active=self.window.active, fits=fits)

    def added_by(self, reminder: str | None) -> int:
        """Return the tokens that a reminder adds to a request, by the provider's last report."""
        if reminder is None:
            return 0
        # The longest form of any integration: with a separator and a tag.
        more = self._counter(f"\n\n<system>{reminder}</system>")
        return replace(self._accounting, overhead=self.overhead + more).total - self.tokens

    # Repeating the past

    def redo(self, done: Done | None) -> None:
        """Repeat what was done before a request, independent of the present policy and budget (R14).

        Raises:
            HistoryError: if it does not fit this history.
        """
        if self._other is None:
            if isinstance(done, Mapping):
                raise HistoryError("the record to repeat is of another strategy")
            if done:
                self._own.apply(done)
        else:
            if isinstance(done, Mapping):
                self._other.redo(done)
            self._show(self._other.current())
        self.sent()

    def export(self) -> dict[str, Any]:
        """Return its state without the window, as JSON data."""
        return {
            "inference_budget": self._inference_budget,
            "standing": None if self._other is None else self._other.standing,
            "accounting": asdict(self._accounting),
            "reminder": self._reminder.export(),
        }

    def adopt(self, window: ContextWindow, state: Mapping[str, Any]) -> None:
        """Continue with a window over the same items, and with the state that `export` returned.

        Raises:
            HistoryError: if it does not fit the items.
        """
        # The present budget and policy apply, not the exported ones.
        window.budget, window.policy = self.window.budget, self.window.policy
        window.set_tool_classes(self._tool_classes)
        self._own.adopt(window)
        if self._other is None:
            self._accounting = window.accounting
        else:
            if state["standing"] is not None:
                self._other.redo(state["standing"])
            self._show(self._other.current())
            self._accounting = Accounting(**state["accounting"])
        self._reminder.restore(state["reminder"])

    # Another strategy

    def _limits(self) -> tuple[int, int]:
        """Budget and overhead for a strategy that counts by itself."""
        counted, budget = self._accounting, self.window.budget
        if self._partial_reports:
            return budget, counted.overhead + max(0, counted.total - counted.estimate)
        # The budget in the strategy's tokens; what else the provider counts is overhead.
        budget = max(1, round(budget / counted.ratio))
        return budget, counted.overhead + max(0, round(counted.drift / counted.ratio))

    def _shown(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        if isinstance(outcome, Fitted):
            self._show(outcome.view)
            self.sent()
        return outcome

    def _show(self, view: Sequence[Slot]) -> None:
        # A copy: a strategy's own view may grow with the next item.
        self._view, self._seen = list(view), self.item_count
        counts = self._counts
        self._accounting.items = sum(slot.tokens if isinstance(slot, Substitute) else counts[slot] for slot in view)


def plausible(reported: int, counted: int) -> bool:
    """Whether a provider's count of a request's tokens can be right, given our own; some leave out cached tokens."""
    return reported >= max(1, _PLAUSIBLE * counted)


def compatible(one: str, other: str) -> bool:
    """Whether one strategy can repeat what the other did."""
    return one == other or {one, other} <= EPISODIC


def _other(name: str, settings: Settings) -> Resumable:
    """A strategy that does not evict by episode."""
    if name == "truncate" and settings.low_water is None:
        # Cutting to the budget itself would break the cached prefix at nearly every request.
        settings = replace(settings, low_water=settings.policy.low_water)
    strategy = get_strategy(name, settings)
    if not isinstance(strategy, Resumable):
        raise ConfigError(f"the strategy {name!r} can only be replayed, because it cannot be resumed")
    return strategy

"""One history of items under one strategy. Sans I/O.

The engine takes in items, and returns the view before each request. It keeps no content.

A window runs under every strategy. If another strategy decides the view, the window evicts nothing but follows the
episodes, so that marks are judged and episodes can be recalled under every strategy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeAlias

from wane.conversation.request import Reminder
from wane.core import Added, ContextWindow, Counter, Episode, FitReport, Item, Mark, Policy, Step, chars
from wane.core.accounting import Accounting
from wane.core.errors import HistoryError
from wane.formats.base import Part
from wane.strategies.base import (
    EPISODIC,
    Fitted,
    Resumable,
    Settings,
    Slot,
    Substitute,
    Summarising,
    SummaryNeeded,
)
from wane.strategies.memgpt import WARN_AT, WARNING
from wane.strategies.registry import get_strategy
from wane.strategies.window import WindowStrategy

SEARCHED: Final = frozenset({"memgpt"})
"""Strategies that warn the model before content leaves, and always give it the tool `recall`."""

Done: TypeAlias = tuple[Step, ...] | Mapping[str, Any] | None
"""What was done before a request, so that it can be repeated: a pass's trace, or data for a strategy's `redo`."""

_PLAUSIBLE: Final = 0.5  # share of our own count that a provider's count must reach


def compatible(one: str, other: str) -> bool:
    """Whether one strategy can repeat what the other did."""
    return one == other or {one, other} <= EPISODIC


@dataclass(frozen=True, slots=True)
class Shown:
    """The view of a request.

    Attributes:
        view: its items, in order; valid until the next call of the engine.
        ran: whether the view was changed just now.
        done: what was done just now; None if nothing.
        before: tokens that the request would have held.
        after: tokens that it holds.
        report: report of the pass, for strategies that evict by episode.
        reminder: note to the model at the end of the request, from `Engine.remind`.
    """

    view: Sequence[Slot]
    ran: bool
    done: Done
    before: int
    after: int
    report: FitReport | None = None
    reminder: str | None = None


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
        window: the window; it evicts nothing if the strategy does not evict by episode.
        episodes: all episodes so far, including removed ones, in order of start.
        policy: what a pass evicts, and how far; may be changed between requests.

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
        self._partial_reports = partial_reports
        self._tool_classes = settings.tool_classes
        self._inference_budget = settings.budget
        own = get_strategy(strategy if strategy in EPISODIC else "cwl", settings)
        assert isinstance(own, WindowStrategy)
        self._own = own
        if strategy == "truncate" and settings.low_water is None:
            # Cutting to the budget itself would break the cached prefix at nearly every request.
            settings = replace(settings, low_water=settings.policy.low_water)
        self._other = None if strategy in EPISODIC else get_strategy(strategy, settings)
        self._accounting = Accounting(overhead=settings.overhead)
        self._counts = array("Q")  # tokens of each item, by our own count
        self._total = 0
        self._view: Sequence[Slot] = ()  # another strategy's view at the last request
        self._seen = 0  # number of items then
        self._freed = 0
        self._sent = 0  # tokens of the last request, by our own count
        self._reminder = Reminder(remind_at)
        self._counter = counter

    # State

    @property
    def window(self) -> ContextWindow:
        """The window."""
        return self._own.window

    @property
    def episodes(self) -> list[Episode]:
        """All episodes so far."""
        return self._own.episodes

    @property
    def policy(self) -> Policy:
        """What a pass evicts, and how far."""
        return self.window.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.window.policy = policy

    @property
    def budget(self) -> int:
        """Tokens that the view may hold; may be changed between requests."""
        return self.window.budget

    @budget.setter
    def budget(self, budget: int) -> None:
        self.window.budget = budget

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides the items; may be changed between requests."""
        return self.window.overhead

    @overhead.setter
    def overhead(self, tokens: int) -> None:
        self.window.overhead = self._accounting.overhead = tokens

    @property
    def tokens(self) -> int:
        """Tokens of the next request if nothing is evicted, by the provider's last report."""
        return self.window.tokens if self._other is None else self._accounting.total

    @property
    def item_count(self) -> int:
        """Number of items in the history."""
        return len(self._counts)

    @property
    def history(self) -> int:
        """Tokens of the whole history, evicted or not, by our own count."""
        return self._total

    @property
    def evicted(self) -> int:
        """Tokens of the history that the view does not hold, by our own count."""
        return self._freed if self._other is None else self._total - self._accounting.items

    @property
    def inferring(self) -> bool:
        """Whether episodes are still inferred."""
        return self._own.inferring

    @property
    def evicts(self) -> bool:
        """Whether it evicts by episode: its view is then always a part of the history."""
        return self._other is None

    @property
    def view(self) -> Sequence[Slot]:
        """The view of the next request if nothing is evicted."""
        return self._own.view if self._other is None else [*self._view, *range(self._seen, len(self._counts))]

    # Items and requests

    def add(self, item: Item, part: Part) -> Added:
        """Take in the next item of the history.

        Raises:
            HistoryError: as `ContextWindow.add` does.
        """
        return self._note(item, part, self._own.add(item, part))

    def _note(self, item: Item, part: Part, added: Added) -> Added:
        self._counts.append(item.tokens)
        self._total += item.tokens
        self._accounting.items += item.tokens
        if self._other is not None:
            self._other.add(item, part)
        self._reminder.note(item, added.verdict)
        return added

    def fit(self, *, cold: bool = False) -> Shown | SummaryNeeded:
        """Return the next request's view, or ask for a summary first.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """
        if self._other is None:
            return self._pass(cold=cold)
        self.window.apply(())
        before = self.tokens
        if isinstance(self._other, Resumable):
            self._other.budget, self._other.overhead = self._limits()
        outcome = self._other.fit(cold=cold)
        return outcome if isinstance(outcome, SummaryNeeded) else self._shown(outcome, before)

    def remind(self, *, overflowed: bool = False) -> str | None:
        """Return the note to the model at the end of the next request; usually None.

        Call it once the view is ready, or was repeated by `redo`. Until the next item it returns the same. A reminder
        that would take the request over the budget waits for a later request.

        Args:
            overflowed: whether the pass before it had to take unfinished work (R16).
        """
        if self.name in SEARCHED:
            return self._reminder.warn(WARNING, full=self.tokens > WARN_AT * self.budget, fits=self._fits)
        return self._reminder.ask(self.budget, overflowed=overflowed, active=self.window.active, fits=self._fits)

    def _fits(self, reminder: str) -> bool:
        """Whether a reminder leaves a request within the budget, if it is within it without the reminder."""
        return not self.tokens <= self.budget < self.tokens + self.added_by(reminder)

    def added_by(self, reminder: str | None) -> int:
        """Return the tokens that a reminder adds to a request, by the provider's last report."""
        if reminder is None:
            return 0
        overhead, before = self.overhead, self.tokens
        # The longest form of any integration: with a separator and a tag.
        self.overhead += self._counter(f"\n\n<system>{reminder}</system>")
        after, self.overhead = self.tokens, overhead
        return after - before

    def judge(self, arguments: Sequence[str], *, recall: bool) -> list[str]:
        """Return the tool results of the next `delimiter` calls, without changing anything.

        Args:
            arguments: their raw arguments, in order.
            recall: whether the model has the tool `recall`.
        """
        return [verdict.answer(recall=recall) for verdict in self.window.foresee(arguments)]

    def hold(self) -> Shown:
        """Return the next request's view without evicting anything."""
        self.sent()
        tokens = self.tokens
        return Shown(self.view, ran=False, done=None, before=tokens, after=tokens)

    def summarised(self, text: str) -> Shown | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        assert isinstance(self._other, Summarising)
        before, outcome = self.tokens, self._other.summarised(text, chars(text))
        return outcome if isinstance(outcome, SummaryNeeded) else self._shown(outcome, before)

    def sent(self) -> None:
        """Note that a request was sent with the present view."""
        self.window.apply(())
        self._mark()

    def observe(self, input_tokens: int) -> bool:
        """Take in the provider's count of the last request; return whether it is plausible.

        Some services leave out cached tokens: a count below half of the estimate is ignored.
        """
        if input_tokens < max(1, _PLAUSIBLE * self._sent):
            return False
        if self._other is None:
            self.window.observe(input_tokens)
        else:
            self._accounting.observe(input_tokens)
        return True

    # Repeating the past

    def follow(self, item: Item, part: Part, marks: Sequence[Mark] = ()) -> Added:
        """Take in the next item of a recorded history, with its recorded marks.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        return self._note(item, part, self._own.follow(item, part, marks))

    def redo(self, done: Done) -> None:
        """Repeat what was done before a request, independent of the present policy and budget (R14).

        Raises:
            HistoryError: if it does not fit this history.
        """
        if self._other is None:
            if isinstance(done, Mapping):
                raise HistoryError("the record to repeat is of another strategy")
            if done:
                self._own.apply(done)
                self._freed += self._held(step.removed for step in done)
            self.sent()
        else:
            if isinstance(done, Mapping) and isinstance(self._other, Resumable):
                self._other.redo(done)
            self._reshow()
            self.sent()

    def export(self) -> dict[str, Any]:
        """Return its state without the window, as JSON data."""
        standing = self._other.standing if isinstance(self._other, Resumable) else None
        return {
            "limits": self._inference_budget,
            "standing": standing,
            "accounting": asdict(self._accounting),
            "sent": self._sent,
            "reminder": self._reminder.export(),
        }

    def adopt(self, window: ContextWindow, state: Mapping[str, Any]) -> None:
        """Continue with a window over the same items, and with the state that `export` returned.

        Raises:
            HistoryError: if it does not fit the items.
        """
        budget, policy = self.budget, self.policy
        self._own.adopt(window)
        # The present budget and policy apply, not the exported ones.
        self.budget, self.policy = budget, policy
        window.set_tool_classes(self._tool_classes)
        if state["standing"] is not None and isinstance(self._other, Resumable):
            self._other.redo(state["standing"])
        if self._other is not None:
            self._reshow()
        self._accounting = Accounting(**state["accounting"])
        self._freed = self._total - sum(map(self._counts.__getitem__, self._own.view))
        self._sent = int(state["sent"])
        self._reminder.restore(state["reminder"])

    # Internals

    def _pass(self, *, cold: bool) -> Shown:
        fitted = self._own.fit(cold=cold)
        report = fitted.report
        assert report is not None
        if fitted.ran:
            self._freed += self._held(step.removed for step in report.trace)
        self._mark()
        return Shown(fitted.view, fitted.ran, report.trace or None, report.tokens_before, report.tokens_after, report)

    def _limits(self) -> tuple[int, int]:
        """Budget and overhead for a strategy that counts by itself."""
        counted = self._accounting
        if self._partial_reports:
            return self.budget, counted.overhead + max(0, counted.total - counted.estimate)
        # The budget in the strategy's tokens; what else the provider counts is overhead.
        budget = max(1, round(self.budget / counted.ratio))
        return budget, counted.overhead + max(0, round(counted.drift / counted.ratio))

    def _shown(self, fitted: Fitted, before: int) -> Shown:
        self._show(fitted.view)
        self._mark()
        return Shown(fitted.view, fitted.ran, fitted.done, before, self.tokens)

    def _show(self, view: Sequence[Slot]) -> None:
        # A copy: a strategy's own view may grow with the next item.
        self._view, self._seen = list(view), len(self._counts)
        counts = self._counts
        self._accounting.items = sum(slot.tokens if isinstance(slot, Substitute) else counts[slot] for slot in view)

    def _reshow(self) -> None:
        """Read the view of a strategy after it repeated something."""
        assert self._other is not None
        if isinstance(self._other, Resumable):
            self._show(self._other.current())

    def _mark(self) -> None:
        """Remember the present view, which the next report will be about."""
        self._accounting.mark_sent()
        self._sent = self._total - self.evicted + self.overhead

    def _held(self, groups: Iterable[Iterable[int]]) -> int:
        """Tokens of some items, by our own count."""
        return sum(self._counts[index] for group in groups for index in group)

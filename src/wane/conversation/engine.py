"""One history of items under one strategy. Sans I/O.

The engine takes in items, and returns the view before each request. It keeps no content. It also reminds a model to
mark its work: a reminder is at the end of one request and never in the history, so it changes neither the view nor the
cached prefix.

A window runs under every strategy. If another strategy decides the view, the window evicts nothing but follows the
episodes, so that marks are judged and episodes can be recalled under every strategy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from wane.conversation.context import ContextSettings
from wane.conversation.thrashing import Thrashing, ThrashingDetector
from wane.core import Added, ContextWindow, Episode, EvictedIndex, Item, Kind, Mark, Room, chars
from wane.core.delimiter import quote
from wane.core.errors import ConfigError, HistoryError
from wane.core.items import ASSISTANT
from wane.core.view import Accounting
from wane.formats.base import Part
from wane.strategies.base import (
    Done,
    Fitted,
    Resumable,
    Settings,
    Slot,
    Substitute,
    SummaryNeeded,
    traits,
    unasked,
)
from wane.strategies.host import HostMarker
from wane.strategies.memgpt import WARN_AT, WARNING
from wane.strategies.registry import get_strategy
from wane.strategies.window import WindowStrategy

_PLAUSIBLE: Final = 0.5  # share of our own count that a provider's count must reach


class Engine:
    """Keeps one history within a budget.

    Args:
        settings: its settings.
        infers: whether episodes are inferred until the model marks its own, although it has the tool for it.
        partial_reports: whether a provider may report only a part of the input, as some servers do. A strategy that
            does not evict by episode then keeps the budget by our own count too.

    Attributes:
        name: name of the strategy.
        traits: what it is.
        history: tokens of the whole history, evicted or not, by our own count.

    Raises:
        ConfigError: for settings that cannot work.
        MissingExtraError: for a strategy whose library is not installed.
    """

    def __init__(self, settings: ContextSettings, *, infers: bool = False, partial_reports: bool = False) -> None:
        self.name = strategy = settings.strategy
        self.traits = traits(strategy)
        self.history = 0
        self._partial_reports = partial_reports
        self._tool_classes = settings.tool_classes
        self._inference_budget = settings.budget
        self._counter = settings.counter
        self._reminder = Reminder(settings.remind_at if settings.marked else None)
        settings = replace(settings, annotate="infer") if infers else settings
        self._by_episode = WindowStrategy(strategy, settings, settings.eviction, counter=settings.counter)
        self._detector = ThrashingDetector()
        self._other = None if self.traits.by_episode else _other(strategy, settings)
        others = Accounting(overhead=settings.overhead)
        self._accounting = self.window.accounting if self._other is None else others
        # For another strategy: its view, and the tokens of each item.
        self._view: list[Slot] = []
        self._counts = array("Q")

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
        """Marks episodes for the program around the model (R18); None if that marks none."""
        return self._by_episode.host

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
        """Return the same for another overhead."""
        return replace(self._accounting, overhead=overhead).total

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves; None for a strategy without a budget.

        Under a strategy that does not evict by episode only the system prompt and tools count as fixed.
        """
        if not self.traits.bounded:
            return None
        room = self.window.room
        if self._other is None:
            return room
        # The window that follows another strategy gets no reports.
        counted = self._accounting
        return Room(room.budget, round(room.system * counted.ratio + counted.drift))

    @property
    def thrashing(self) -> Thrashing | None:
        """What shows that the budget is too small for the work; None if nothing does, or there is no budget."""
        room = self.room
        # Other strategies may change the view at every request by design; for them only fetches count.
        low_water = self.window.policy.low_water if self._other is None else 1.0
        return None if room is None else self._detector.state(room, low_water)

    @property
    def counted_budget(self) -> int:
        """The budget in tokens of our own count, by the provider's last report."""
        return max(1, round(self.window.budget / self._accounting.ratio))

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
        """Whether it evicts by episode: its view is then always a part of the history, besides an index (R20)."""
        return self._other is None

    @property
    def view(self) -> Sequence[Slot]:
        """The view of the next request if nothing is evicted; valid until the next call of the engine."""
        return self._by_episode.view if self._other is None else self._view

    # Items and requests

    def add(self, item: Item, part: Part, marks: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.
            marks: the marks right ahead of it, if they were recorded; None to infer them, or to make the host's.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        added = self._by_episode.add(item, part, marks)
        self.history += item.tokens
        if self._other is not None:
            self._view.append(added.index)
            self._counts.append(item.tokens)
            self._accounting.items += item.tokens
            self._other.follow(item, part, added)
        self._reminder.note(item, added, self.window.active)
        self._detector.note(item, part.arguments, added.index, self._shows)
        return added

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next request's view, or ask for a summary first.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """
        if self._other is None:
            fitted = self._by_episode.fit(cold=cold)
            if fitted.ran:
                self._detector.passed()
            return fitted
        self._other.budget, self._other.overhead = self._limits()
        return self._shown(self._other.fit(cold=cold))

    def summarised(self, text: str) -> Fitted | SummaryNeeded:
        """Take in the summary that was asked for, and return the next request's view, or ask for another one."""
        if self._other is None:
            raise unasked(self.name)
        return self._shown(self._other.summarised(text, chars(text)))

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

        Call it once the view is ready. Until the next item it returns the same. A reminder
        that would take the request over the budget waits for a later request.

        Args:
            overflowed: whether the pass before it had to take unfinished work (R16).
        """
        budget = self.window.budget

        def fits(reminder: str) -> bool:
            return not self.tokens <= budget < self.tokens + self.added_by(reminder)

        if self.traits.searches:
            return self._reminder.warn(WARNING, full=self._full, fits=fits)
        return self._reminder.ask(budget, overflowed=overflowed, active=self.window.active, fits=fits)

    @property
    def reminder(self) -> str | None:
        """The note at the end of the request that goes out now; usually None."""
        return self._reminder.text

    def reminded(self, text: str | None = None) -> None:
        """Repeat the reminder of a request; None if it had none."""
        if text is None:
            self._reminder.requested(full=self._full)
        else:
            self._reminder.told(text)

    @property
    def _full(self) -> bool:
        """Whether the window is as full as a strategy with searches warns of."""
        return self.tokens > WARN_AT * self.window.budget

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
                self._detector.passed()
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

    def adopt(self, state: Mapping[str, Any], window: ContextWindow | None = None) -> None:
        """Continue from the state that `export` returned.

        Args:
            state: the state.
            window: a window over the same items, to continue with; None if another strategy decides the view.

        Raises:
            HistoryError: if the state does not fit the items.
        """
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

    def _shows(self, index: int) -> bool:
        return self.window.shows(index) if self._other is None else index in self._view

    # Another strategy

    def _limits(self) -> tuple[int, int]:
        """Budget and overhead for a strategy that counts by itself."""
        counted, budget = self._accounting, self.window.budget
        if self._partial_reports:
            return budget, counted.overhead + max(0, counted.total - counted.estimate)
        # The budget in the strategy's tokens; what else the provider counts is overhead.
        return self.counted_budget, counted.overhead + max(0, round(counted.drift / counted.ratio))

    def _shown(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        if isinstance(outcome, Fitted):
            self._show(outcome.view)
            self.sent()
        return outcome

    def _show(self, view: Sequence[Slot]) -> None:
        # A copy: a strategy's own view may grow with the next item.
        self._view = list(view)
        counts = self._counts
        self._accounting.items = sum(slot.tokens if isinstance(slot, Substitute) else counts[slot] for slot in view)


def plausible(reported: int, counted: int) -> bool:
    """Whether a provider's count of a request's tokens can be right, given our own; some leave out cached tokens."""
    return reported >= max(1, _PLAUSIBLE * counted)


def _other(name: str, settings: Settings) -> Resumable:
    """A strategy that does not evict by episode."""
    if name == "truncate" and settings.low_water is None:
        # Cutting to the budget itself would break the cached prefix at nearly every request.
        settings = replace(settings, low_water=settings.policy.low_water)
    strategy = get_strategy(name, settings)
    if not isinstance(strategy, Resumable):
        raise ConfigError(f"the strategy {name!r} can only be replayed, because it cannot be resumed")
    return strategy


_FIRST: Final = 0.25  # part of the share that must fill before the first reminder, if no episode was started
_WORK: Final = ASSISTANT | {Kind.RESULT}

_NEVER: Final = (
    "you have not started an episode yet. Start one with `delimiter`, in the same message as your next tool call, "
    "so that finished work can leave the window."
)

_LATER: Final = (
    "no episode is active, and much has been done outside of one. Start one with `delimiter`, in the same message as "
    "your next tool call."
)

_STATE: Final = ("text", "_asked", "_asking", "_started", "_unmarked", "_since", "_wait", "_warned")


class Reminder:
    """Counts a model's work, and decides what the next request reminds it of.

    It reminds a model that has filled a share of the budget outside any episode (a quarter of that share the first
    time, if it has started none), and a model with an active episode when a pass had to take unfinished work (R16).
    Each reminder doubles what must fill before the next one; after the early one it is the share. An accepted start
    sets it back to the share. Work before the first request is not counted: the model did not know about episodes then.

    Args:
        share: the share; None never reminds.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        self.text: str | None = None
        self._asked = False
        self._asking = True  # whether an item was noted since the last `ask`
        self._started = False
        self._unmarked = 0  # tokens of work outside episodes, since the last mark or reminder
        self._since: int | None = None  # tokens of work since the last reminder
        self._wait = _FIRST  # shares that must fill before the next reminder
        self._warned = False

    def export(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `export` returned."""
        for name in _STATE:
            setattr(self, name, state[name])

    def note(self, item: Item, added: Added, active: Episode | None) -> None:
        """Take in the next item of the history."""
        self._asking = True
        if item.kind not in _WORK:
            return
        if self._since is not None:
            self._since += item.tokens
        if added.verdict is not None and added.verdict.accepted:
            self._started = True
            self._unmarked = 0
            self._wait = self._wait if active is None else 1.0
        elif active is None and added.episode is not None and added.episode.implicit:
            # A result belongs to the episode of its call (R4), whatever has ended since.
            self._unmarked += item.tokens

    def ask(
        self,
        budget: int,
        *,
        overflowed: bool = False,
        active: Episode | None = None,
        fits: Callable[[str], bool] = lambda _: True,
    ) -> str | None:
        """Return the reminder of the request that goes out now, if one is due, and keep it as `text`.

        Asking again before a new item, as for a request that is sent again, returns the same.

        Args:
            budget: tokens that the view may hold.
            overflowed: whether the pass before it had to take unfinished work (R16).
            active: the active episode; the model cannot end an inferred one.
            fits: whether the request has room for a text; a reminder without room waits for a later request.
        """
        if self._share is None or not self._asking:
            return self.text
        self.requested()
        words, full = None, self._share * budget * self._wait
        if overflowed and active is not None and not active.inferred:
            if self._since is None or self._since >= full:
                words = _open(active)
        elif self._unmarked and self._unmarked >= full:
            words = _LATER if self._started else _NEVER
        if words is not None and fits(text := _note(words)):
            self.told(text)
        return self.text

    def requested(self, *, full: bool = False) -> None:
        """Note a request without a reminder; `full` as for `warn`."""
        if self._asking:
            self.text, self._asking = None, False
            self._warned = self._warned and full
        if not self._asked:
            self._asked, self._unmarked = True, 0

    def told(self, text: str) -> None:
        """Note the reminder of the request that goes out now."""
        self.text, self._unmarked, self._since = text, 0, 0
        self._wait = max(1.0, 2 * self._wait)
        self._warned = True

    def warn(self, words: str, *, full: bool, fits: Callable[[str], bool] = lambda _: True) -> str | None:
        """Return a warning for the next request if the window has become full, and keep it as `text`.

        It warns once, and again only after the window was no longer full.
        """
        if self._asking:
            self.requested(full=full)
            if full and not self._warned and fits(text := _note(words)):
                self.told(text)
        return self.text


def _note(words: str) -> str:
    return f"[Automatic note on the context window, not from the user: {words}]"


def _open(active: Episode) -> str:
    assert active.name is not None
    return (
        "the window is full, and unfinished work has begun to leave it. End the episode "
        f"{quote(active.name)} with `delimiter` as soon as you can, or what it holds goes first."
    )

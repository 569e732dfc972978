"""The strategies as a session drives them: items in, slots out, and records of what was done.

`ByEpisode` evicts along episodes, by a `ContextWindow`; `ByMessage` runs the others, with an accounting of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wane.core import Added, ContextWindow, Episode, FitReport, Item, Mark
from wane.core.accounting import Accounting
from wane.core.errors import HistoryError
from wane.core.policy import MAX_BUDGET
from wane.formats.base import Part
from wane.journal import PassRecord, Record, StrategyRecord
from wane.proxy.settings import ContextSettings
from wane.strategies.base import Fitted, Resumable, Settings, Slot, Strategy, Substitute
from wane.strategies.registry import get_strategy
from wane.strategies.window import WindowStrategy


class Keeping(Protocol):
    """Keeps the view of one session.

    Attributes:
        overhead: tokens that every request carries besides the items.
    """

    overhead: int

    @property
    def tokens(self) -> int:
        """What the next request would hold, in tokens."""
        ...

    @property
    def evicted(self) -> int:
        """Tokens of the history that the view does not hold, by our own count."""
        ...

    @property
    def slots(self) -> Sequence[Slot]:
        """What the next request shows."""
        ...

    @property
    def window(self) -> ContextWindow | None:
        """The window, if it evicts by episode."""
        ...

    @property
    def episodes(self) -> Sequence[Episode]:
        """Every episode so far, if it evicts by episode."""
        ...

    def add(self, item: Item, part: Part) -> Added | None:
        """Take in the next item of the history."""
        ...

    def follow(self, item: Item, part: Part, marks: Sequence[Mark]) -> Added | None:
        """Take in the next item of a recorded history."""
        ...

    def fit(self, *, cold: bool) -> tuple[list[Record], FitReport | None]:
        """Make the view ready for a request; return what to record of it, and what a pass did."""
        ...

    def redo(self, record: Record) -> None:
        """Do again what was recorded, if it was done by such a strategy."""
        ...

    def sent(self) -> None:
        """The view as it stands is what a request showed."""
        ...

    def observe(self, input_tokens: int) -> None:
        """Anchor the count to what the provider said the last request held."""
        ...


def keeping_for(settings: ContextSettings, *, infer: bool) -> Keeping:
    """Return what keeps a session's view.

    Args:
        settings: the proxy's settings.
        infer: whether episodes are inferred from calls, until the agent marks its own.

    Raises:
        ConfigError: for settings that cannot work.
    """
    wanted = Settings(
        budget=settings.budget,
        policy=settings.policy,
        # Cutting to the budget itself would break the cached prefix at nearly every request.
        low_water=settings.policy.low_water if settings.strategy == "truncate" else None,
        tool_classes=settings.tool_classes,
        annotate="infer" if infer else "model",
    )
    strategy = get_strategy(settings.strategy, wanted)
    return ByEpisode(strategy) if isinstance(strategy, WindowStrategy) else ByMessage(strategy)


class ByEpisode:
    """Eviction by episode."""

    def __init__(self, strategy: WindowStrategy) -> None:
        self._strategy = strategy
        self._slots: Sequence[Slot] = ()
        self._total = 0

    @property
    def evicted(self) -> int:
        """Tokens of the history that the view does not hold, by our own count."""
        return self._total - self.window.item_tokens

    @property
    def window(self) -> ContextWindow:
        """The window."""
        return self._strategy.window

    @property
    def episodes(self) -> Sequence[Episode]:
        """Every episode so far."""
        return self._strategy.episodes

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides the items."""
        return self.window.overhead

    @overhead.setter
    def overhead(self, tokens: int) -> None:
        self.window.overhead = tokens

    @property
    def tokens(self) -> int:
        """What the next request would hold, in tokens."""
        return self.window.tokens

    @property
    def slots(self) -> Sequence[Slot]:
        """What the next request shows."""
        return self._slots

    def add(self, item: Item, part: Part) -> Added:
        """Take in the next item of the history."""
        self._total += item.tokens
        return self._strategy.add(item, part)

    def follow(self, item: Item, part: Part, marks: Sequence[Mark]) -> Added:
        """Take in the next item of a recorded history."""
        self._total += item.tokens
        return self._strategy.follow(item, part, marks)

    def fit(self, *, cold: bool) -> tuple[list[Record], FitReport | None]:
        """Run a pass if one is due."""
        fitted = self._strategy.fit(cold=cold)
        self._slots = fitted.view
        report = fitted.report
        assert report is not None
        return [PassRecord.of(report, self.window.item_count)] if report.ran else [], report

    def redo(self, record: Record) -> None:
        """Do a recorded pass again (R14)."""
        if isinstance(record, PassRecord):
            if record.items != self.window.item_count:
                raise HistoryError(f"a pass was recorded after {record.items} items, not {self.window.item_count}")
            self._strategy.apply(record.trace)

    def sent(self) -> None:
        """The view as it stands is what a request showed."""
        self._strategy.apply(())

    def observe(self, input_tokens: int) -> None:
        """Anchor the count."""
        self.window.observe(input_tokens)


class ByMessage:
    """The strategies that know no episodes."""

    window = None
    episodes: Sequence[Episode] = ()

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._tokens: list[int] = []
        self._total = 0
        self._slots: Sequence[Slot] = ()
        self._accounting = Accounting()

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides the items."""
        return self._accounting.overhead

    @overhead.setter
    def overhead(self, tokens: int) -> None:
        self._accounting.overhead = tokens

    @property
    def tokens(self) -> int:
        """What the next request would hold, in tokens."""
        return self._accounting.total

    @property
    def evicted(self) -> int:
        """Tokens of the history that the view does not hold."""
        return self._total - self._accounting.items

    @property
    def slots(self) -> Sequence[Slot]:
        """What the next request shows."""
        return self._slots

    def add(self, item: Item, part: Part) -> Added | None:
        """Take in the next item of the history."""
        self._tokens.append(item.tokens)
        self._total += item.tokens
        self._accounting.items += item.tokens
        return self._strategy.add(item, part)

    def follow(self, item: Item, part: Part, marks: Sequence[Mark]) -> Added | None:  # noqa: ARG002 - no episodes here
        """Take in the next item of a recorded history."""
        return self.add(item, part)

    def fit(self, *, cold: bool) -> tuple[list[Record], FitReport | None]:
        """Have the strategy say what the request shows."""
        accounting = self._accounting
        if isinstance(self._strategy, Resumable):
            # Some servers report only a part of what they were sent; less than our own count is not believed.
            self._strategy.overhead = accounting.overhead + max(0, accounting.total - accounting.estimate)
        fitted = self._strategy.fit(cold=cold)
        assert isinstance(fitted, Fitted)
        self._show(fitted)
        accounting.mark_sent()
        if fitted.done is None:
            return [], None
        return [StrategyRecord(len(self._tokens), self._strategy.name, dict(fitted.done))], None

    def redo(self, record: Record) -> None:
        """Do again what the strategy was recorded to have done."""
        if not isinstance(record, StrategyRecord):
            return
        if record.strategy == self._strategy.name and isinstance(self._strategy, Resumable):
            self._strategy.redo(record.done)
            self._reshow()

    def sent(self) -> None:
        """The view as it stands is what a request showed."""
        self._accounting.mark_sent()

    def observe(self, input_tokens: int) -> None:
        """Anchor the count."""
        self._accounting.observe(input_tokens)

    def current(self) -> Sequence[Slot]:
        """Return what the next request shows if the strategy leaves nothing more out for lack of room."""
        self._reshow()
        return self._slots

    def _reshow(self) -> None:
        """Read the view off a strategy that did something again."""
        if isinstance(self._strategy, Resumable):
            budget, self._strategy.budget = self._strategy.budget, MAX_BUDGET
            fitted = self._strategy.fit()
            self._strategy.budget = budget
            assert isinstance(fitted, Fitted)
            self._show(fitted)

    def _show(self, fitted: Fitted) -> None:
        self._slots = fitted.view
        self._accounting.items = sum(
            slot.tokens if isinstance(slot, Substitute) else self._tokens[slot] for slot in fitted.view
        )

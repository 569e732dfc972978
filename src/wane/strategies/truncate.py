"""Truncation: when the budget is exceeded the oldest messages go, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wane.core import Item, Kind
from wane.core.errors import ConfigError
from wane.strategies.groups import Cutting
from wane.strategies.strategy import Fitted, StrategySettings, Traits

HEAD: Final = 4
"""Messages at the head that `streaming` keeps: as many as StreamingLLM keeps tokens (Xiao et al., 2023)."""


class Truncate(Cutting):
    """Cuts off the oldest messages, whole and with their results, so that pairs stay valid.

    System items and standing notices (R15) stay, and so does the first user turn: most agents keep it, and some
    providers demand one. Later user turns go with the rest. The latest assistant message and everything after it stay.
    The cut only moves forward.

    Args:
        settings: budget, overhead, and the low water to cut down to; without one it cuts to the budget itself.
        head: number of the first messages that stay as well, with their results, whatever they hold.

    Raises:
        ConfigError: for a negative number of messages.
    """

    name = "truncate"
    summary = "the oldest messages go, whatever they hold"
    traits = Traits(takes="oldest")

    def __init__(self, settings: StrategySettings, *, head: int = 0) -> None:
        if head < 0:
            raise ConfigError(f"the head is {head} messages; it cannot be below 0")
        super().__init__(settings)
        self._head, self._has_head = head, head > 0
        self._low_water = settings.low_water or 1.0
        self._first_user: tuple[int | None, int] | None = None  # the message and the group of the user's first turn

    @classmethod
    def for_live(cls, settings: StrategySettings) -> StrategySettings:
        """Return settings with a low water: cutting to the budget itself breaks the cached prefix at most requests."""
        return settings if settings.low_water is not None else replace(settings, low_water=settings.policy.low_water)

    def _stays(self, item: Item, index: int, group: int) -> bool:
        if self._first_user is None and item.kind is Kind.USER:
            self._first_user = item.message, group
        first_user = item.kind is Kind.USER and self._first_user == (item.message, group)
        if group < self._head and item.kind in (Kind.CALL, Kind.RESULT):
            self._head_pairs.add(index)
        return first_user or group < self._head or super()._stays(item, index, group)

    def _release(self, index: int) -> None:
        if self._groups.of[index] >= self._head:
            super()._release(index)

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Cut if the view is over the budget."""
        shortened = False
        if self._held + self.overhead > self.budget:
            target = self.budget * self._low_water - self.overhead
            while self._held > target and self._cut < self._groups.latest:
                self._advance()
            shortened = self._leave_out()
        # What only the groups that were cut off needed has left the view, too.
        ran, self._released = shortened or self._released, False
        return Fitted(self._view, ran, done={"from": self._groups.first[self._cut]} if ran else None)

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """The place of the cut."""
        return {"from": self._groups.first[self._cut]} if self._cut else None

    def redo(self, done: Mapping[str, Any]) -> None:
        """Cut at the place of an earlier cut.

        Raises:
            HistoryError: if no message begins there.
        """
        group = self._groups.at(done.get("from"))
        while self._cut < group:
            self._advance()
        self._leave_out()

    def _advance(self) -> None:
        self._keep_for(self._cut + 1)
        self._held -= self._weights[self._cut]
        self._cut += 1

    def _leave_out(self) -> bool:
        of, cut, pinned, before = self._groups.of, self._cut, self._pinned, len(self._view)
        self._view = [slot for slot in self._view if isinstance(slot, int) and (of[slot] >= cut or slot in pinned)]
        return len(self._view) < before


class Streaming(Truncate):
    """Truncation with a head of HEAD messages and a window that moves on at each call, as in StreamingLLM."""

    name = "streaming"
    summary = "the first messages and the latest stay, as StreamingLLM keeps tokens"

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings, head=HEAD)

    @classmethod
    def for_live(cls, settings: StrategySettings) -> StrategySettings:
        """Return the same settings: its window moves on at each call."""
        return settings

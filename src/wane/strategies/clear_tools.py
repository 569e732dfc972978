"""Clears old tool results in place, like Anthropic's context editing (`clear_tool_uses_20250919`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from wane.core import Item, Kind, chars
from wane.core.errors import ConfigError, HistoryError
from wane.formats.base import Part
from wane.strategies.base import Fitted, Settings, Slot, Substitute
from wane.strategies.groups import Groups

PLACEHOLDER: Final = "[Old tool result cleared]"
"""Text that replaces a cleared result."""

KEEP: Final = 3
"""Number of the latest tool uses that keep their results: the default of Anthropic's API."""

_COST: Final = chars(PLACEHOLDER)


class ClearTools:
    """Replaces the contents of old tool results with a placeholder when the view is over the budget.

    Calls, texts, reasoning and all user turns stay. When it acts, it clears results from the oldest on: all except
    those of the latest tool uses, or with a low water as many as are needed to reach it. A cleared result stays
    cleared and counts as its placeholder. It never clears the results of the latest assistant message, which the model
    has not seen, results that are not longer than the placeholder, or what a provider's own tool returned within the
    assistant's message.

    Args:
        settings: budget, overhead and low water.
        keep: number of the latest tool uses whose results stay.
        clear_at_least: tokens that it must free; otherwise it does nothing.
        exclude: names of tools whose results are never cleared.

    Attributes:
        budget: tokens that the view may hold; may be changed between calls.
        overhead: tokens that every request carries besides the items; may be changed between calls.

    Raises:
        ConfigError: for a negative number.
    """

    name = "clear-tools"

    def __init__(
        self, settings: Settings, *, keep: int = KEEP, clear_at_least: int = 0, exclude: frozenset[str] = frozenset()
    ) -> None:
        if keep < 0 or clear_at_least < 0:
            raise ConfigError(f"keep is {keep} and clear_at_least is {clear_at_least}; neither may be below 0")
        self.budget = settings.budget
        self.overhead = settings.overhead
        self._low_water = settings.low_water
        self._keep = keep
        self._at_least = clear_at_least
        self._exclude = exclude
        self._groups = Groups()
        self._calls: dict[int, Item] = {}
        self._view: list[Slot] = []
        self._held = 0
        self._recent: deque[int] = deque(maxlen=keep)
        self._clearable: list[int] = []

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item."""
        index = len(self._view)
        self._groups.add(item)
        self._view.append(index)
        self._held += item.tokens
        if item.kind is Kind.CALL:
            self._calls[index] = item
        elif item.kind is Kind.RESULT:
            self._recent.append(index)
            call = self._calls.pop(self._groups.call[index])
            within = item.message is not None and item.message == call.message
            if call.tool not in self._exclude and item.tokens > _COST and not within:
                self._clearable.append(index)

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Clear if the view is over the budget."""
        if self._held + self.overhead <= self.budget:
            return Fitted(self._view)
        chosen, freed = self._chosen()
        if not chosen or freed < self._at_least:
            return Fitted(self._view)
        self._clear(chosen)
        return Fitted(self._view, ran=True, done={"cleared": chosen})

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """The results cleared so far."""
        cleared = [slot.index for slot in self._view if isinstance(slot, Substitute)]
        return {"cleared": cleared} if cleared else None

    def redo(self, done: Mapping[str, Any]) -> None:
        """Clear what an earlier call cleared.

        Raises:
            HistoryError: if an item is not a result that could be cleared.
        """
        chosen = done.get("cleared", ())
        wrong = set(chosen).difference(self._clearable)
        if wrong:
            raise HistoryError(f"items {sorted(wrong, key=str)} were recorded as cleared, but cannot be cleared here")
        self._clear(chosen)

    def _clear(self, chosen: Iterable[int]) -> None:
        gone = set(chosen)
        for index in gone:
            self._view[index] = Substitute(PLACEHOLDER, _COST, index)
            self._held -= self._groups.tokens[index] - _COST
        self._clearable = [index for index in self._clearable if index not in gone]

    def _chosen(self) -> tuple[list[int], int]:
        """Return the results to clear, and the tokens that this frees."""
        target = -1.0 if self._low_water is None else self.budget * self._low_water - self.overhead
        groups, chosen, freed = self._groups, [], 0
        kept = set(self._recent)
        for index in self._clearable:
            if self._held - freed <= target:
                break
            if index not in kept and groups.of[index] != groups.latest:
                chosen.append(index)
                freed += groups.tokens[index] - _COST
        return chosen, freed

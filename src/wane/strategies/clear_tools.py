"""Clears old tool results in place, like Anthropic's context editing (`clear_tool_uses_20250919`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from wane.core import Item, Kind, chars
from wane.core.errors import HistoryError
from wane.formats.message_format import Part
from wane.strategies.groups import Groups
from wane.strategies.strategy import Fitted, Resumable, StrategySettings, Substitute, Traits

PLACEHOLDER: Final = "[Old tool result cleared]"
"""Text that replaces a cleared result."""

KEEP: Final = 3
"""Number of the latest tool uses that keep their results: the default of Anthropic's API."""

MASK_KEEP: Final = 10
"""Number of the latest observations that `mask` keeps: the best window in Lindenbauer et al. (2025)."""


def write_mask(lines: int) -> str:
    """Return the text that replaces a masked observation."""
    return f"[Old tool result: {lines} {'line' if lines == 1 else 'lines'} omitted]"


class ClearTools(Resumable):
    """Replaces the contents of old tool results with a placeholder when the view is over the budget.

    Calls, texts, reasoning and all user turns stay. When it acts, it clears results from the oldest on: all except
    those of the latest tool uses, or with a low water as many as are needed to reach it. A cleared result stays
    cleared and counts as its placeholder. It never clears the results of the latest assistant message, which the model
    has not seen, results that are not longer than the placeholder, what a person said (R21), what loaded tools (R15),
    or what a provider's own tool returned, which stands in an answer.

    Args:
        settings: budget, overhead and low water.
        keep: number of the latest tool uses whose results stay.
        always: whether it clears before every call, whatever the budget, as observation masking does. It then goes
            down to no low water, and the placeholder says how many lines were left out.
    """

    name = "clear-tools"
    summary = "old tool results are cleared, as in Anthropic's context editing"
    traits = Traits(takes="cleared")

    def __init__(self, settings: StrategySettings, *, keep: int = KEEP, always: bool = False) -> None:
        super().__init__(settings)
        self._low_water = None if always else settings.low_water
        self._always = always
        self._groups = Groups()
        self._held = 0
        self._recent: deque[int] = deque(maxlen=keep)
        self._clearable: dict[int, Substitute] = {}  # by result, what would replace it

    def add(self, item: Item, part: Part) -> None:
        """Take in the next item."""
        index = len(self._view)
        self._groups.add(item)
        self._view.append(index)
        self._held += item.tokens
        if item.kind is Kind.RESULT:
            self._recent.append(index)
            text = write_mask(part.text.count("\n") + 1) if self._always else PLACEHOLDER
            instead = Substitute(text, chars(text), index)
            if item.tokens > instead.tokens and not item.person and not item.loads:
                self._clearable[index] = instead

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Clear if the view is over the budget, or always."""
        if not self._always and self._held + self.overhead <= self.budget:
            return Fitted(self._view)
        chosen = self._choose_results()
        if not chosen:
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
        for index in dict.fromkeys(chosen):
            instead = self._clearable.pop(index)
            self._view[index] = instead
            self._held -= self._groups.tokens[index] - instead.tokens

    def _choose_results(self) -> list[int]:
        """Return the results to clear."""
        target = -1.0 if self._low_water is None else self.budget * self._low_water - self.overhead
        groups, chosen, freed = self._groups, [], 0
        recent = set(self._recent)
        for index, instead in self._clearable.items():
            if self._held - freed <= target:
                break
            if index not in recent and index not in groups.served and groups.of[index] != groups.latest:
                chosen.append(index)
                freed += groups.tokens[index] - instead.tokens
        return chosen


class Mask(ClearTools):
    """Observation masking: before every call, all but the latest MASK_KEEP results are placeholders."""

    name = "mask"
    summary = "all but the latest ten tool results become placeholders (observation masking)"

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings, keep=MASK_KEEP, always=True)

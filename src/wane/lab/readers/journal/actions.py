"""Repeats how a strategy without episodes changed a session's requests, as the journal recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wane.core import chars
from wane.core.errors import ConfigError, FormatError, HistoryError
from wane.core.policy import MAX_BUDGET
from wane.formats.base import Part, is_answer, standing
from wane.strategies.base import Resumable, Settings, Substitute
from wane.strategies.registry import get_strategy


@dataclass(frozen=True, slots=True)
class StrategyAction:
    """The changes of one action; items are given by their indexes in the journal.

    Attributes:
        removed: items no longer shown unchanged, in order.
        before: tokens of the view before it, by our own count and without the overhead.
        after: the same after it.
        summary: the summary in place of all that was removed, if there is one.
        first_kept: the first item shown after that summary; None if there is none.
    """

    removed: tuple[int, ...]
    before: int
    after: int
    summary: str | None = None
    first_kept: int | None = None


class StrategyActions:
    """Follows a history with the strategy that managed it."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Part]] = []  # with the number of the message
        self._messages = 0
        self._answered = False
        self._strategy: Resumable | None = None
        self._tokens: list[int] = []  # of the items given to the strategy
        self._shown: set[int] = set()
        self._instead = 0  # tokens of the substitutes in the view

    def add(self, parts: Sequence[Part]) -> None:
        """Take in the parts of the next message."""
        # Text in the system's place at the start of a session is the system's (R15); the strategy did not take that in.
        strategy_parts = standing(list(parts), answered=self._answered)
        self._answered = self._answered or is_answer(parts)
        self._parts += [(self._messages, part) for part in strategy_parts]
        self._messages += 1

    def redo(self, name: str, done: Mapping[str, Any]) -> StrategyAction:
        """Repeat an action of a strategy.

        Raises:
            FormatError: if the strategy is unknown, or could not have done this here.
        """
        try:
            strategy = self._following(name)
            strategy.redo(done)
        except (ConfigError, HistoryError, LookupError, TypeError, ValueError) as error:
            raise FormatError(f"what the strategy {name} did cannot be repeated here: {error}") from error
        return self._action(strategy)

    def _following(self, name: str) -> Resumable:
        """Return the strategy of that name, with the whole history added."""
        if self._strategy is None or self._strategy.name != name:
            strategy = get_strategy(name, Settings(budget=MAX_BUDGET))
            if not isinstance(strategy, Resumable):
                raise FormatError("it never says what it did")
            self._strategy, self._tokens, self._shown, self._instead = strategy, [], set(), 0
        for message, part in self._parts[len(self._tokens) :]:
            item = part.item(chars, message)
            self._strategy.add(item, part)
            self._shown.add(len(self._tokens))
            self._tokens.append(item.tokens)
        return self._strategy

    def _action(self, strategy: Resumable) -> StrategyAction:
        slots, earlier = strategy.current(), self._shown
        self._shown = {slot for slot in slots if isinstance(slot, int)}
        before = self._instead + sum(self._tokens[index] for index in earlier)
        self._instead = sum(slot.tokens for slot in slots if isinstance(slot, Substitute))
        after = self._instead + sum(self._tokens[index] for index in self._shown)
        removed = tuple(sorted(earlier - self._shown))
        summary = next((slot for slot in slots if isinstance(slot, Substitute) and slot.index is None), None)
        if summary is None:
            return StrategyAction(removed, before, after)
        behind = list(slots)[list(slots).index(summary) + 1 :]
        return StrategyAction(
            removed, before, after, summary.text, next((slot for slot in behind if isinstance(slot, int)), None)
        )

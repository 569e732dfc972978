"""What trials took, as far as it is known: of one trial, and over several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wane.money import dollars


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of model calls. None is a figure that is not known.

    Attributes:
        model_calls: requests sent, the strategy's own included.
        input_tokens: tokens of all requests, including those read from or written to a cache.
        cached_tokens: input tokens read from the provider's cache.
        cache_write_tokens: input tokens written to it.
        output_tokens: tokens of all answers.
        cost: dollars of all calls; None if that of any call is not known.
        cost_at_least: dollars of the calls whose cost is known, where that of others is not.
        unreported: number of the calls whose tokens the provider did not report; they are in no figure of tokens.
    """

    model_calls: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    cost_at_least: float | None = None
    unreported: int = 0

    @property
    def known_cost(self) -> float:
        """Dollars of the calls whose cost is known: all that `cost` says, or a lower bound."""
        return self.cost if self.cost is not None else self.cost_at_least or 0.0


NOTHING: Final = Usage(0, 0, 0, 0, 0, 0.0)
"""The usage of an agent that never began."""


@dataclass(frozen=True, slots=True)
class Total:
    """A figure over some trials, of which that of some may not be known.

    Attributes:
        at_least: the sum, or the largest, of what is known.
        known_trials: number of trials whose figure is known.
        of: number of all of these trials.
    """

    at_least: float = 0
    known_trials: int = 0
    of: int = 0

    @classmethod
    def cost(cls, usages: Iterable[Usage]) -> Total:
        """Return the dollars of some trials."""
        total = cls()
        for usage in usages:
            total += cls(usage.known_cost, int(usage.cost is not None), 1)
        return total

    def __add__(self, other: Total) -> Total:
        return Total(self.at_least + other.at_least, self.known_trials + other.known_trials, self.of + other.of)

    @property
    def exact(self) -> float | None:
        """The figure; None if that of any trial is not known."""
        return self.at_least if self.known_trials == self.of else None

    @property
    def unknown(self) -> bool:
        """Whether nothing is known of it."""
        return self.of > 0 and not self.known_trials and not self.at_least

    def describe(self) -> str:
        """Return dollars in words: `$0.42`, `at least $20.32 (cost known of 8 of 9 trials)` or `cost unknown`."""
        if self.unknown:
            return "cost unknown"
        if self.exact is not None:
            return dollars(self.exact)
        return f"at least {dollars(self.at_least)} (cost known of {self.known_trials:,} of {self.of:,} trials)"


@dataclass(frozen=True, slots=True)
class ContextFigures:
    """Figures of the context in a trial, and of the work in it. None is a figure that is not known.

    Attributes:
        passes: how often the strategy evicted anything.
        evicted_tokens: tokens that left the view.
        peak_view: tokens of the largest request.
        over_budget: requests over the budget.
        read_again: results that the agent fetched again after they had left the view.
        explored_first: calls that explored before the first one that changed something; all of them if none did.
        repeated: calls that explored and repeated an earlier one of the user's turn, with nothing changed in between.
        unended: episodes that the model began in this trial and had not ended when it was over.
    """

    passes: int = 0
    evicted_tokens: int = 0
    peak_view: int = 0
    over_budget: int = 0
    read_again: int = 0
    explored_first: int | None = None
    repeated: int | None = None
    unended: int | None = None

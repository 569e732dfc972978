"""The budget `auto`: one number from what is known of a model and of a session, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wane.core import DEFAULT_BUDGET, Room, parse_budget
from wane.core.errors import ConfigError

AUTO: Final = "auto"
"""What a user writes for it."""

OF_WINDOW: Final = 0.8
"""Share of the model's window that it may take: the answer, and what comes between two passes, need the rest."""

OF_STEP: Final = 0.9
"""Share of a price step that it may take, so that a request seldom passes the step."""


@dataclass(frozen=True, slots=True)
class AutoBudget:
    """A budget that was chosen.

    Attributes:
        tokens: the budget.
        reason: why it is this one, in a few words.
    """

    tokens: int
    reason: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"budget auto: {self.tokens:,} tokens, {self.reason}"


@dataclass(frozen=True, slots=True)
class TunedBudget:
    """The budget that `wane tune` recommended for a user's own recordings.

    Attributes:
        tokens: the budget.
        sessions: number of sessions that it was tuned on.
    """

    tokens: int
    sessions: int


def is_auto(budget: object) -> bool:
    """Whether a user wrote `auto` for a budget."""
    return isinstance(budget, str) and budget.strip().lower() == AUTO


def is_share(budget: str) -> bool:
    """Whether a user wrote a percentage of the model's window for a budget."""
    return budget.strip().endswith("%")


def parse_budget_or_auto(budget: str | int, *, window: int | None = None) -> int | None:
    """Return the tokens of a budget that a user writes, see `parse_budget`; None for `auto`.

    Raises:
        ConfigError: as `parse_budget` does.
    """
    if is_auto(budget):
        return None
    try:
        return parse_budget(budget, window=window)
    except ConfigError as error:
        # A word; text with a digit is a number of tokens that is wrong.
        if isinstance(budget, str) and not any(map(str.isdigit, budget)):
            from difflib import get_close_matches  # an error alone needs it

            hint = "; did you mean auto?" if get_close_matches(budget.lower(), [AUTO]) else ", or auto"
            raise ConfigError(f"{error}{hint}") from None
        raise


def choose_budget(
    *, window: int | None = None, step: int | None = None, fixed: int = 0, tuned: TunedBudget | None = None
) -> AutoBudget:
    """Return the budget `auto`.

    It is the tuned one, or else the default, or more where what no pass may take would fill too much of that
    (`Room.advised`); but it stays below the size from which a request costs more for each token, and within the window.

    Args:
        window: tokens of the model's window; None if unknown.
        step: input tokens above which the price of a whole request rises; None if there is no such step.
        fixed: tokens that no pass may take (R22), as far as they are known.
        tuned: what the user's own recordings recommend; None without any.
    """
    budget, reason = DEFAULT_BUDGET, "the default"
    if tuned is not None:
        budget = tuned.tokens
        reason = f"tuned on {tuned.sessions:,} of your sessions" if tuned.sessions != 1 else "tuned on your session"
    easy = Room(budget, fixed).advised
    if easy > budget:
        budget, reason = easy, f"2.5 times the {fixed:,} that never leave"
    if step is not None and budget > OF_STEP * step:
        budget, reason = round(OF_STEP * step), f"below the price step at {step:,}"
    if window is not None and budget > OF_WINDOW * window:
        budget, reason = max(1, round(OF_WINDOW * window)), f"{OF_WINDOW:.0%} of the window of {window:,}"
    return AutoBudget(budget, reason)

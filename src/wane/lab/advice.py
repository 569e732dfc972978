"""The budget `auto` for recorded sessions: the one advice of `wane replay`, `wane view` and `wane tune`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median_high

from wane.budgets import AutoBudget, TunedBudget, choose_budget
from wane.core import parse_budget
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.tight_sessions import last_room
from wane.strategies.strategy import StrategySettings


def advised_budget(prepared: Studied, tuned: TunedBudget | None = None) -> AutoBudget:
    """Return the budget `auto` of one recorded session.

    A running session chooses with its first request. Of a recorded one it is known what never left by its last call,
    so that all of this counts.
    """
    settings = prepared.under(StrategySettings())
    room = last_room(prepared.subject.material, settings)
    step = prepared.pricing.prices.step
    return choose_budget(window=settings.window, step=step, fixed=room.fixed, tuned=tuned)


def advised_for_all(studied: Sequence[Studied], tuned: TunedBudget | None = None) -> AutoBudget:
    """Return one budget for several sessions: the upper median of those that are advised for each."""
    each = [advised_budget(prepared, tuned) for prepared in studied]
    middle, number = median_high(budget.tokens for budget in each), len(each)
    if len(set(each)) == 1:
        return each[0]
    least, most = min(budget.tokens for budget in each), max(budget.tokens for budget in each)
    if least == most:
        return AutoBudget(middle, f"for each of {number:,} sessions")
    if number == 2:
        return AutoBudget(middle, f"the larger of {least:,} and {most:,} for 2 sessions")
    median = "median" if number % 2 else "upper median"
    return AutoBudget(middle, f"the {median} of {number:,} sessions, from {least:,} to {most:,}")


def kept_budgets(studied: Sequence[Studied], budgets: Iterable[int]) -> list[int]:
    """Return those of some budgets that `auto` would keep for the sessions, if one was tuned on them."""
    sessions = len(studied)
    return [budget for budget in budgets if advised_for_all(studied, TunedBudget(budget, sessions)).tokens == budget]


def with_advised_budgets(studied: Sequence[Studied], tuned: TunedBudget | None = None) -> list[Studied]:
    """Return the sessions, each with the budget that is advised for it, unless it has one of its own."""
    return [replace(prepared, budget=prepared.budget or advised_budget(prepared, tuned).tokens) for prepared in studied]


def with_window_shares(studied: Sequence[Studied], share: str) -> list[Studied]:
    """Return the sessions, each with a percentage of its model's window, unless it has a budget of its own.

    Raises:
        ConfigError: if a window is not known.
    """
    return [
        replace(prepared, budget=prepared.budget or parse_budget(share, window=prepared.window)) for prepared in studied
    ]


def common_window(studied: Iterable[Studied]) -> int | None:
    """Return the tokens of the window that the models of all sessions have; None if they differ, or one is unknown."""
    windows = {prepared.window for prepared in studied}
    return windows.pop() if len(windows) == 1 else None


def recorded_budgets(studied: Iterable[Studied]) -> list[int]:
    """Return the budgets that Wane worked with when the sessions were recorded, ascending; none where it did not."""
    return sorted({budget for prepared in studied if (budget := prepared.recording.session.budget)})


def with_recorded_budgets(studied: Sequence[Studied]) -> list[Studied]:
    """Return the sessions, each with the budget that it was recorded with, unless it has one of its own."""
    return [replace(prepared, budget=prepared.budget or prepared.recording.session.budget) for prepared in studied]

"""The figures of a replay: of one model call, and of many."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wane.lab.loss import CallLoss, LossTotals
from wane.lab.replaying.over import REASONS, ROOM
from wane.prices import Cost


@dataclass(frozen=True, slots=True)
class CallFigures:
    """One model call under one strategy.

    Attributes:
        tokens: tokens of the request.
        read: tokens of it that were read from the provider's cache.
        written: tokens of it that were written to the cache, if the provider charges for that.
        cost: dollars, with the strategy's own model calls before it.
        ran: whether the strategy evicted anything right before.
        summaries: model calls that the strategy itself made right before.
        loss: the content that the call needed, and how much of it was in view.
        again: dollars for fetching evicted content that it needed again.
    """

    tokens: int
    read: int
    written: int
    cost: float
    ran: bool
    summaries: int
    loss: CallLoss
    again: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Cost and loss of a strategy; totals of several sessions add up with `+`.

    Attributes:
        calls: model calls of the session.
        cost: dollars for them, by purpose.
        own_cost: dollars for the strategy's own model calls.
        own_calls: their number.
        read: input tokens that all calls read from the cache.
        written: input tokens that they wrote to it.
        fresh: all other input tokens.
        output: output tokens of all calls.
        viewed: tokens of all requests of the session, without the strategy's own.
        peak: tokens of the largest of them.
        over: requests over the budget that was set, by reason (`wane.lab.replaying.over.REASONS`).
        budget_used: the largest budget that the strategy was held to, in tokens: more than the one that was set where
            that left too little room (R22).
        raised: requests for which it was more.
        passes: how often the strategy evicted something.
        prefix_breaks: requests that did not begin with the whole previous one.
        reread_cost: dollars for fetching evicted content that was needed again, on top of `cost`.
        beside: dollars, with fetching again, for the calls whose recorded cost can stand beside a simulated one
            (`wane.lab.replaying.strategy_replay.comparable_costs`).
        beside_calls: their number.
        floor: dollars that no strategy can avoid; see `docs/lab/cache.md`.
        seconds: time that the strategy itself took.
        loss: the totals of the loss.
    """

    calls: int = 0
    cost: Cost = field(default_factory=Cost)
    own_cost: Cost = field(default_factory=Cost)
    own_calls: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0
    output: int = 0
    viewed: int = 0
    peak: int = 0
    over: Counter[str] = field(default_factory=Counter)
    budget_used: int = 0
    raised: int = 0
    passes: int = 0
    prefix_breaks: int = 0
    reread_cost: float = 0.0
    beside: float = 0.0
    beside_calls: int = 0
    floor: float = 0.0
    seconds: float = 0.0
    loss: LossTotals = field(default_factory=LossTotals)

    def __add__(self, other: Totals) -> Totals:
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        largest = max(self.budget_used, other.budget_used)
        return Totals(**{**sums, "peak": max(self.peak, other.peak), "budget_used": largest})

    @property
    def dollars(self) -> float:
        """Dollars for all model calls, including the strategy's own."""
        return self.cost.total + self.own_cost.total

    @property
    def full_cost(self) -> float:
        """Dollars for all model calls, and for fetching evicted content again."""
        return self.dollars + self.reread_cost

    @property
    def input(self) -> int:
        """Input tokens of all calls, cached ones included."""
        return self.read + self.written + self.fresh

    @property
    def over_budget(self) -> int:
        """Requests over the budget that was set."""
        return self.over.total()

    @property
    def over_used(self) -> int:
        """Requests over the budget that the strategy was held to."""
        return self.over.total() - self.over[ROOM]

    @property
    def raised_to(self) -> int:
        """The largest budget, in tokens, that the strategy was held to in place of the one that was set; 0 if none."""
        return self.budget_used if self.raised else 0

    @property
    def hit_rate(self) -> float:
        """Share of the input tokens that came from the cache."""
        return self.read / self.input if self.input else 0.0

    @property
    def kept(self) -> float:
        """Mean of reference recall and edit grounding: the share of content needed later that was in view."""
        return (self.loss.reference_recall + self.loss.edit_grounding) / 2

    @property
    def mean_view(self) -> float:
        """Mean tokens of the session's requests."""
        return self.viewed / self.calls if self.calls else 0.0

    def to_dict(self, baseline: Totals | None = None) -> dict[str, Any]:
        """Return the figures as JSON-able data, with the keys of `wane replay --json`.

        Args:
            baseline: totals of `none` on the same sessions, for `ratio`, which is null without them.
        """
        calls, loss = max(self.calls, 1), self.loss
        return {
            "cost_usd": self.dollars,
            "ratio": self.dollars / baseline.dollars if baseline and baseline.dollars else None,
            "cost_parts_usd": {
                "input_read": self.cost.read,
                "input_written": self.cost.written,
                "input_fresh": self.cost.fresh,
                "output": self.cost.output,
                "own_calls": self.own_cost.total,
                "fees": self.cost.fee,
            },
            "again_usd": self.reread_cost,
            "total_usd": self.full_cost,
            "floor_cost_usd": self.floor,
            "input_tokens": self.input,
            "cache_read_tokens": self.read,
            "cache_write_tokens": self.written,
            "output_tokens": self.output,
            "cached": self.hit_rate,
            "model_calls": self.calls,
            "own_calls": self.own_calls,
            "view_tokens": self.mean_view,
            "peak_tokens": self.peak,
            "over": self.over_budget,
            "over_reasons": {reason: self.over[reason] for reason in REASONS if self.over[reason]},
            "over_used": self.over_used,
            "budget_used": self.budget_used,
            "raised": self.raised,
            "passes": self.passes,
            "breaks": self.prefix_breaks / calls,
            "uses": loss.uses,
            "recall": loss.reference_recall if loss.uses else None,
            "recall_at_best": loss.reference_recall_at_best if loss.uses else None,
            "edits": loss.edits,
            "grounding": loss.edit_grounding if loss.edits else None,
            "fetches": loss.reread.results,
            "fetched_tokens": loss.reread.tokens,
            "repeats": loss.repeats,
            "faults": loss.faults,
            "user_turns": loss.user_turns,
            "user_turns_lost": loss.user_turns_lost,
            "turns": loss.user_turns_intact if loss.user_turns else None,
            "broken_pairs": loss.invalid_pairs,
            "own_time_ms": 1000 * self.seconds / calls,
        }

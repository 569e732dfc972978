"""The figures of a replay: of one model call, and of many."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from wane.lab.loss import CallLoss, LossTotals
from wane.lab.prices import Cost
from wane.lab.replaying.over import REASONS


@dataclass(frozen=True, slots=True)
class CallFigures:
    """One model call under one strategy.

    Attributes:
        tokens: what the request held, in tokens.
        read: of these, read from the provider's cache.
        written: of these, written to it, where the provider charges for that.
        cost: dollars, the strategy's own model calls before it included.
        ran: whether the strategy took anything out of the view just before.
        summaries: model calls of the strategy's own just before.
        loss: what the call needed, and how much of it was in view.
    """

    tokens: int
    read: int
    written: int
    cost: float
    ran: bool
    summaries: int
    loss: CallLoss


@dataclass(frozen=True, slots=True)
class Totals:
    """What a strategy cost and lost over model calls; totals of several sessions add up with `+`.

    Attributes:
        calls: model calls that the session made.
        cost: dollars for them, by what they were for.
        own_cost: dollars for the strategy's own model calls.
        own_calls: number of these.
        read: input tokens read from the cache, by all calls.
        written: input tokens written to it.
        fresh: input tokens that were neither.
        output: output tokens, those of the strategy's own calls included.
        viewed: tokens of all requests of the session, the strategy's own left out.
        peak: tokens of the largest of these.
        over: requests that held more than the budget, by what filled it (`wane.lab.replaying.over.REASONS`).
        passes: times that the strategy took anything out of the view.
        prefix_breaks: requests that did not begin with the whole of the one before.
        reread_cost: dollars for fetching again what was needed and gone, on top of `cost`.
        floor: dollars that no strategy can avoid, see `docs/lab/cache.md`.
        seconds: time that the strategy itself took.
        loss: what was lost.
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
    passes: int = 0
    prefix_breaks: int = 0
    reread_cost: float = 0.0
    floor: float = 0.0
    seconds: float = 0.0
    loss: LossTotals = field(default_factory=LossTotals)

    def __add__(self, other: Totals) -> Totals:
        sums: dict[str, Any] = {it.name: getattr(self, it.name) + getattr(other, it.name) for it in fields(self)}
        return Totals(**{**sums, "peak": max(self.peak, other.peak)})

    @property
    def dollars(self) -> float:
        """What all model calls cost, the strategy's own included."""
        return self.cost.total + self.own_cost.total

    @property
    def input(self) -> int:
        """Input tokens of all calls, cached ones included."""
        return self.read + self.written + self.fresh

    @property
    def over_budget(self) -> int:
        """Requests that held more than the budget."""
        return self.over.total()

    @property
    def hit_rate(self) -> float:
        """Share of the input tokens that came from the cache."""
        return self.read / self.input if self.input else 0.0

    @property
    def mean_view(self) -> float:
        """Tokens of the session's requests on average."""
        return self.viewed / self.calls if self.calls else 0.0

    def to_dict(self, baseline: Totals | None = None) -> dict[str, Any]:
        """Return the figures as JSON-able data, in the terms of `wane replay --json`.

        Args:
            baseline: totals of `none` on the same sessions, for `cost_ratio`; null without.
        """
        calls, loss = max(self.calls, 1), self.loss
        ratio = self.dollars / baseline.dollars if baseline and baseline.dollars else None
        return {
            "cost_usd": self.dollars,
            "cost_ratio": ratio,
            "cost_parts_usd": {
                "input_read": self.cost.read,
                "input_written": self.cost.written,
                "input_fresh": self.cost.fresh,
                "output": self.cost.output,
                "own_calls": self.own_cost.total,
            },
            "reread_cost_usd": self.reread_cost,
            "floor_cost_usd": self.floor,
            "input_tokens": self.input,
            "cache_read_tokens": self.read,
            "cache_write_tokens": self.written,
            "output_tokens": self.output,
            "cache_hit_rate": self.hit_rate,
            "model_calls": self.calls,
            "model_calls_added": self.own_calls,
            "mean_view": self.mean_view,
            "peak_view": self.peak,
            "over_budget_calls": self.over_budget,
            "over_budget_reasons": {reason: self.over[reason] for reason in REASONS if self.over[reason]},
            "passes": self.passes,
            "prefix_breaks_per_100": 100 * self.prefix_breaks / calls,
            "reference_recall": loss.reference_recall,
            "reference_recall_at_best": loss.reference_recall_at_best,
            "edit_grounding": loss.edit_grounding,
            "reread_results": loss.reread.results,
            "reread_tokens": loss.reread.tokens,
            "user_turns": loss.user_turns,
            "user_turns_lost": loss.user_turns_lost,
            "user_turns_intact": loss.user_turns_intact,
            "invalid_pairs": loss.invalid_pairs,
            "manager_ms_per_call": 1000 * self.seconds / calls,
        }

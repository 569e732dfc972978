"""What a proxy is told once, when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from wane.conversation.reminder import REMIND_AT
from wane.conversation.timeline import CACHE_LIFETIME
from wane.core import DEFAULT_BUDGET, Policy, ToolClass
from wane.strategies.base import Annotate

StrategyName = Literal["cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "none"]
"""Strategies that a proxy runs: those that call no model."""


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How contexts are kept.

    Attributes:
        budget: tokens that a view may hold.
        strategy: what keeps it.
        policy: what a pass of `cwl` evicts, and how far.
        annotate: who marks episodes: the model, through the tool that requests gain, or inference from its calls.
        recall: whether requests that gain `delimiter` gain `recall` too, which gives back what evicted episodes held.
        tool_classes: classes of tools by name, on top of the defaults.
        remind_at: share of the budget that unannotated work may fill before a model that was given `delimiter` is
            reminded of it, a quarter of it ahead of the first start; None never reminds.
        cache_lifetime: seconds after which a provider's unused cache has expired.
        idle: seconds after which a session that no request came for leaves memory.
    """

    budget: int = DEFAULT_BUDGET
    strategy: StrategyName = "cwl"
    policy: Policy = field(default_factory=Policy)
    annotate: Annotate = "model"
    recall: bool = False
    tool_classes: Mapping[str, ToolClass | str] | None = None
    remind_at: float | None = REMIND_AT
    cache_lifetime: float = CACHE_LIFETIME
    idle: float = 900.0

    @property
    def passes(self) -> Policy:
        """What a pass evicts, and how far: the paper's Algorithm 1 if that is the strategy."""
        return Policy.paper() if self.strategy == "paper" else self.policy

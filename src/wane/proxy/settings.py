"""Settings of a proxy's contexts, fixed when it starts."""

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
    """How contexts are managed.

    Attributes:
        budget: tokens that a view may hold.
        strategy: how the budget is kept.
        policy: what a pass of `cwl` evicts, and how far.
        annotate: who marks episodes: the model, with a tool that the proxy adds, or inference from its calls.
        recall: whether the proxy adds `recall` along with `delimiter`; it returns the content of evicted episodes.
        tool_classes: classes of tools by name, on top of the defaults.
        remind_at: share of the budget that unannotated work may fill before the model is reminded to mark it, and a
            quarter of that until it starts its first episode; None for never.
        cache_lifetime: seconds after which a provider's unused cache has expired.
        idle: seconds without a request after which a session leaves memory.
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
        """The policy of passes: the paper's Algorithm 1 with R6 under `paper`, else `policy`."""
        return Policy.paper() if self.strategy == "paper" else self.policy

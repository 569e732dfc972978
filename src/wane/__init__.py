"""Wane: structured context eviction for long-horizon LLM agents.

    window = ContextWindow(budget=80_000, policy=Policy())
    window.add(Item(kind=Kind.CALL, tokens=12, call_id="c1", tool="grep", arguments='{"pattern": "x"}'))
    report = window.fit()                 # runs a pass if one is due
    window.visible                        # indexes of the items to send, in order
    window.observe(input_tokens=3_210)    # the provider's count of the last request

    plan(messages, budget=80_000)         # dry run: what would go, and why

Importing this package loads the core and the standard library, nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wane.core import (
    DEFAULT_BUDGET,
    DEFAULT_TOOL_CLASSES,
    Added,
    ContextWindow,
    Counter,
    Episode,
    EpisodeType,
    FitReport,
    Item,
    Kind,
    Level,
    Pinned,
    Policy,
    Step,
    ToolClass,
    Verdict,
    chars,
    parse_budget,
)
from wane.core.errors import (
    ConfigError,
    CorruptJournalError,
    CounterError,
    FormatError,
    HistoryError,
    JournalError,
    JournalVersionError,
    MissingExtraError,
    SessionLockedError,
    SessionNotFoundError,
    UnknownEpisodeError,
    WaneError,
)

if TYPE_CHECKING:
    from wane.planning import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_TOOL_CLASSES",
    "Added",
    "ConfigError",
    "ContextWindow",
    "CorruptJournalError",
    "Counter",
    "CounterError",
    "Episode",
    "EpisodeType",
    "FitReport",
    "FormatError",
    "HistoryError",
    "Item",
    "JournalError",
    "JournalVersionError",
    "Kind",
    "Level",
    "MissingExtraError",
    "Pinned",
    "Plan",
    "Policy",
    "SessionLockedError",
    "SessionNotFoundError",
    "Step",
    "ToolClass",
    "UnknownEpisodeError",
    "Verdict",
    "WaneError",
    "__version__",
    "chars",
    "parse_budget",
    "plan",
]


def __getattr__(name: str) -> Any:
    # The dry run needs the formats, which a user of the core alone should not wait for.
    if name in ("Plan", "plan"):
        from wane import planning

        return getattr(planning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

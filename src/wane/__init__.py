"""Wane: structured context eviction for long-horizon LLM agents.

    window = ContextWindow(budget=80_000, policy=Policy())
    window.add(Item(kind=Kind.CALL, tokens=12, call_id="c1", tool="grep", arguments='{"pattern": "x"}'))
    report = window.fit()                 # runs a pass if one is due
    window.visible                        # indexes of the items to send, in order
    window.observe(input_tokens=3_210)    # the provider's count of the last request

    plan(messages, budget=80_000)         # dry run: what would go, and why

    conversation = Conversation(budget="80k")      # the same at the level of messages
    conversation.append({"role": "user", "content": "Go."})
    request = conversation.request()      # runs a pass if one is due; request.messages is what to send

Importing this package loads nothing else; a name is imported when it is first used. The core needs only the standard
library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wane.conversation import Conversation
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
        Room,
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
    from wane.planning import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_TOOL_CLASSES",
    "Added",
    "ConfigError",
    "ContextWindow",
    "Conversation",
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
    "Room",
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


# Where the names are. The command imports this package before it can catch Ctrl-C, so nothing is imported here.
_MODULES: Final = ("wane.core", "wane.core.errors", "wane.conversation", "wane.planning")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                globals()[name] = value = getattr(module, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

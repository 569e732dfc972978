"""The paper, pure: items, protocol, episodes, policy, accounting, window. Data in, decisions out."""

from wane.core.delimiter import Refusal, Verdict
from wane.core.episodes import Episode, EpisodeType, Level
from wane.core.items import DEFAULT_TOOL_CLASSES, DELIMITER, OWN_TOOLS, RECALL, Item, Kind, Standing, ToolClass
from wane.core.marks import Mark
from wane.core.pass_report import EvictedIndex, FitReport, Pinned, Step
from wane.core.policy import DEFAULT_BUDGET, Policy, exact_budget, parse_budget, parse_window
from wane.core.room import Room
from wane.core.view import Counter, chars
from wane.core.window import Added, ContextWindow

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_TOOL_CLASSES",
    "DELIMITER",
    "OWN_TOOLS",
    "RECALL",
    "Added",
    "ContextWindow",
    "Counter",
    "Episode",
    "EpisodeType",
    "EvictedIndex",
    "FitReport",
    "Item",
    "Kind",
    "Level",
    "Mark",
    "Pinned",
    "Policy",
    "Refusal",
    "Room",
    "Standing",
    "Step",
    "ToolClass",
    "Verdict",
    "chars",
    "exact_budget",
    "parse_budget",
    "parse_window",
]

"""What a turn tells whoever watches it, in the order in which it happens.

The events of the context's lifecycle (`wane.conversation.events`) are among them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from wane.agent.costs import Totals
from wane.conversation import events as lifecycle
from wane.core import Episode


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The model says more."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The model thinks more."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is about to run.

    Attributes:
        call_id: pairs the call with its result.
        tool: its name.
        arguments: its raw JSON arguments.
    """

    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has run, or was refused.

    Attributes:
        call_id: pairs the result with its call.
        tool: its name.
        result: what the model reads.
        failed: whether the tool could not do what it was asked.
    """

    call_id: str
    tool: str
    result: str
    failed: bool


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file was edited.

    Attributes:
        path: the file, below the session's directory.
        diff: what changed, as a unified diff; the beginning of a long one.
    """

    path: str
    diff: str


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """A command that is running has printed something."""

    text: str


@dataclass(frozen=True, slots=True)
class Spent:
    """A model call was answered.

    Attributes:
        totals: tokens and dollars of the session so far.
        view: tokens of the view.
        budget: tokens that it may hold.
    """

    totals: Totals
    view: int
    budget: int


@dataclass(frozen=True, slots=True)
class Warned:
    """Something did not work that the user should know, told as a sentence."""

    text: str


SessionEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCalled
    | ToolReturned
    | FileChanged
    | CommandOutput
    | Spent
    | Warned
    | lifecycle.Event
)
"""Anything that a turn tells."""

OnEvent: TypeAlias = Callable[[SessionEvent], None]
"""Called with each event, at once."""


def event_json(event: SessionEvent) -> dict[str, Any] | None:
    """Return an event as a JSON object with a `type`; None for those that only Wane itself uses."""
    match event:
        case TextDelta(text):
            return {"type": "text", "text": text}
        case ThinkingDelta(text):
            return {"type": "thinking", "text": text}
        case ToolCalled(call_id, tool, arguments):
            return {"type": "tool_call", "id": call_id, "tool": tool, "arguments": arguments}
        case ToolReturned(call_id, tool, result, failed):
            return {"type": "tool_result", "id": call_id, "tool": tool, "result": result, "failed": failed}
        case FileChanged(path, diff):
            return {"type": "file_change", "path": path, "diff": diff}
        case CommandOutput(text):
            return {"type": "command_output", "text": text}
        case Warned(text):
            return {"type": "warning", "text": text}
        case Spent(totals, view, budget):
            return {"type": "usage", **usage_json(totals), "view_tokens": view, "budget": budget}
        case lifecycle.EpisodeOpened(episode):
            return {"type": "episode_opened", **_episode(episode), "dependencies": list(episode.dependencies)}
        case lifecycle.EpisodeClosed(episode):
            return {"type": "episode_closed", **_episode(episode), "description": episode.description}
        case lifecycle.PassRan(report):
            return {
                "type": "pass",
                "tokens_before": report.tokens_before,
                "tokens_after": report.tokens_after,
                "budget": report.budget,
                "satisfied": report.satisfied,
                "steps": [
                    {"episode": step.episode, "level": step.level.value, "items": len(step.removed)}
                    for step in report.steps
                ],
            }
        case lifecycle.StrategyActed(strategy, _, _, before, after):
            return {"type": "context", "strategy": strategy, "tokens_before": before, "tokens_after": after}
        case lifecycle.BudgetUnmet(report):
            return {"type": "budget_unmet", "excess": report.excess, "message": report.shortfall}
    return None


def usage_json(totals: Totals) -> dict[str, Any]:
    """Return totals as a JSON object; `cost` is null where a price is not known."""
    return {
        "model_calls": totals.calls,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cache_read_tokens": totals.cache_read_tokens,
        "cache_write_tokens": totals.cache_write_tokens,
        "cost": None if totals.cost is None else round(totals.cost, 6),
    }


def _episode(episode: Episode) -> dict[str, Any]:
    return {"episode": episode.name, "episode_type": episode.type.value, "inferred": episode.inferred}

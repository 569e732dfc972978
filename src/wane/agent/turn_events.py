"""The events of a turn, as they happen, and its result.

Among them are the events of the context's lifecycle (`wane.conversation.events`), unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from wane.account import Account
from wane.conversation import events as lifecycle
from wane.core import Episode

if TYPE_CHECKING:
    from wane.agent.faults import Fault


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is about to run; `arguments` is raw JSON, and `call_id` pairs the call with its result."""

    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool has run and the model reads the result, or it was refused, which counts as failed."""

    call_id: str
    tool: str
    result: str
    failed: bool


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file was edited: its path in the session's directory, and a unified diff, or the beginning of a long one."""

    path: str
    diff: str


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """More output of the running command."""

    text: str


@dataclass(frozen=True, slots=True)
class Spent:
    """A model call was answered: the session's account so far, the tokens in the view, and the budget."""

    account: Account
    view: int
    budget: int


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that the user should know did not work; the text is a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The provider failed `tries` times in a row, with the reason as a clause, and will be asked again."""

    reason: str
    seconds: float
    tries: int

    @property
    def sentence(self) -> str:
        """The wait in a sentence."""
        return f"{self.reason.rstrip('.')}; {self.next_try}"

    @property
    def next_try(self) -> str:
        """When it is asked again, as a clause."""
        wait = "at once" if self.seconds < 1 else f"in {self.seconds:.0f} s"
        return f"trying again {wait} (attempt {self.tries + 1})"


SessionEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCalled
    | ToolReturned
    | FileChanged
    | CommandOutput
    | Spent
    | Warned
    | Waiting
    | lifecycle.Event
)
"""Any event of a turn."""

OnEvent: TypeAlias = Callable[[SessionEvent], None]
"""Called with each event as it happens."""


class Outcome(StrEnum):
    """How a turn ended."""

    DONE = "done"
    INTERRUPTED = "interrupted"
    COST_LIMIT = "cost_limit"
    TIME_LIMIT = "time_limit"
    PROVIDER = "provider"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of one task.

    Attributes:
        outcome: how the turn ended.
        output: the model's answer; "" unless the outcome is `DONE`.
        error: what happened, for people; None if the outcome is `DONE`.
        spent: tokens and cost of this turn.
        fault: what is wrong with the provider if the outcome is `PROVIDER`.
        waited: seconds that were lost to a provider that failed: its failed calls, and the waits after them.
    """

    outcome: Outcome
    output: str
    error: str | None
    spent: Account = field(default_factory=Account)
    fault: Fault | None = None
    waited: float = 0.0


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
        case Waiting(reason, seconds, tries):
            return {"type": "waiting", "reason": reason, "seconds": round(seconds, 1), "tries": tries}
        case Spent(account, view, budget):
            return {"type": "usage", **account.to_dict(), "view_tokens": view, "budget": budget}
        case lifecycle.BudgetChosen(budget):
            return {"type": "budget", "tokens": budget.tokens, "reason": budget.reason}
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
        case lifecycle.ThrashingBegan(thrashing):
            return {"type": "thrashing", **thrashing.to_dict()}
    return None


def _episode(episode: Episode) -> dict[str, Any]:
    return {"episode": episode.name, "episode_type": episode.type.value, "inferred": episode.inferred}

"""How a turn ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic_ai.exceptions import ModelHTTPError

from wane.agent.costs import Totals


class Outcome(StrEnum):
    """How a turn ended."""

    DONE = "done"
    INTERRUPTED = "interrupted"
    COST_LIMIT = "cost_limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What became of one task.

    Attributes:
        outcome: how it ended.
        output: the model's answer; "" unless it is done.
        error: for an end that was not wished for, what happened, for people.
        spent: tokens and dollars of this turn.
    """

    outcome: Outcome
    output: str
    error: str | None
    spent: Totals


def explain(error: BaseException) -> str:
    """Return an error for people, on one line, with its kind where the words alone do not tell."""
    if isinstance(error, ModelHTTPError):
        return f"the provider of {error.model_name} answered HTTP {error.status_code}: {_message(error.body)}"
    text = " ".join(str(error).split())
    known = type(error).__module__.partition(".")[0] in ("wane", "pydantic_ai")
    return text if known and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _message(body: object) -> str:
    """The message in a provider's error, which OpenAI has at the top and Anthropic one level down."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            body = inner["message"]
    return " ".join(str(body or "no reason was given").split())[:500]

"""Requests to the model, and the tools that a conversation offers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic

from wane.conversation.context import ContextSettings
from wane.core import DELIMITER, RECALL, FitReport
from wane.core.delimiter import DESCRIPTION, SCHEMA, TASKS_DESCRIPTION, TASKS_SCHEMA
from wane.formats.message_format import MessageT
from wane.recall import RECALL_DESCRIPTION, RECALL_SCHEMA


@dataclass(frozen=True, slots=True)
class Request(Generic[MessageT]):
    """What to send to the model next.

    Attributes:
        messages: the messages to send, in the provider's form, with the reminder last.
        view: the same without the reminder, as messages of the format.
        numbers: the number in the history of each message of `view`; None for a substitute.
        tokens: tokens of `messages`, including the overhead.
        report: what the pass did, and whether the budget is met; None if the strategy has no passes.
        reminder: a note to the model at the end of this request only; usually None.
        number: the request's number in the conversation, from 1.
        for_summary: whether it asks for a summary to pass to `Conversation.summarised`, not for an answer.
    """

    messages: list[Any]
    view: list[MessageT]
    numbers: list[int | None]
    tokens: int
    report: FitReport | None = None
    reminder: str | None = None
    number: int = 0
    for_summary: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool whose calls a conversation answers.

    Attributes:
        name: its name.
        description: what the model reads about it.
        schema: JSON schema of its arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


DELIMITER_TOOL: Final = Tool(DELIMITER, DESCRIPTION, SCHEMA)
TASKS_TOOL: Final = Tool(DELIMITER, TASKS_DESCRIPTION, TASKS_SCHEMA)
"""`delimiter` for a model that may group its episodes in tasks (R17)."""
RECALL_TOOL: Final = Tool(RECALL, RECALL_DESCRIPTION, RECALL_SCHEMA)

RECALL_ALONE: Final = (
    "Your context window is limited: old parts of this conversation leave it. "
    "To see exactly what has left, `recall` it by a search rather than redo it."
)
"""Instructions for a model that can recall but does not mark its work."""


def own_tools(settings: ContextSettings) -> tuple[Tool, ...]:
    """Return the tools whose calls a conversation answers itself."""
    if not settings.manage:
        return ()
    tools: list[Tool] = []
    if settings.delimits:
        tools.append(TASKS_TOOL if settings.tasks else DELIMITER_TOOL)
    if settings.recall or settings.searches:
        tools.append(RECALL_TOOL)
    return tuple(tools)

"""A history whose last calls were never answered, made one that a provider accepts.

That is what Ctrl-C, a crash and a failed request leave behind. The history only grows: each open call gets
a result that says what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    ToolCallPart,
    ToolReturnPart,
)

INTERRUPTED: Final = (
    "[Interrupted: the session was stopped before this call gave a result. It may have run, in part or in whole;"
    " look at its effects before you repeat it.]"
)
"""What the model reads in place of the result of a call that was cut off."""


def closed(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the history with a result for each call of the last response that has none.

    Only the last response can have such calls: none is asked for before all are answered.
    """
    messages = list(history)
    last = max((n for n, message in enumerate(messages) if isinstance(message, ModelResponse)), default=None)
    if last is None:
        return messages
    results = [_interruption(call) for call in _open_calls(messages[last], messages[last + 1 :])]
    if not results:
        return messages
    after = messages[-1]
    if isinstance(after, ModelRequest) and len(messages) > last + 1:
        messages[-1] = replace(after, parts=[*after.parts, *results], state="complete")
    else:
        messages.append(ModelRequest(parts=list(results)))
    return messages


def _open_calls(response: ModelMessage, after: Sequence[ModelMessage]) -> list[ToolCallPart]:
    answered = Counter(
        part.tool_call_id
        for message in after
        for part in message.parts
        if isinstance(part, (ToolReturnPart, RetryPromptPart))
    )
    left: list[ToolCallPart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            if answered[part.tool_call_id]:
                answered[part.tool_call_id] -= 1
            else:
                left.append(part)
    return left


def _interruption(call: ToolCallPart) -> ToolReturnPart:
    return ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, outcome="interrupted")

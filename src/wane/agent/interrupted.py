"""Answers the tool calls that an interrupted turn left open, so that a provider accepts the history.

Ctrl-C, a crash and a failed request leave such calls. The history only grows: each open call gets a result that says
what happened.
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
"""The result that the model reads for a call that was interrupted."""


def answer_open_calls(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the history with a result for each call that has none.

    Only the last response can have such calls: a model is not asked again before all calls are answered.
    """
    messages = list(history)
    last = max((n for n, message in enumerate(messages) if isinstance(message, ModelResponse)), default=None)
    if last is None:
        return messages
    results = [
        ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, outcome="interrupted")
        for call in _open_calls(messages[last], messages[last + 1 :])
    ]
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
    calls: list[ToolCallPart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            if answered[part.tool_call_id]:
                answered[part.tool_call_id] -= 1
            else:
                calls.append(part)
    return calls

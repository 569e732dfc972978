"""Between Pydantic AI's messages and a session: prompts with images, events, and calls that were left open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
)
from pydantic_ai_harness.filesystem import FileEditedEvent
from pydantic_ai_harness.shell import CommandOutputEvent

from wane.agent.images import media_type
from wane.agent.turn_events import (
    CommandOutput,
    FileChanged,
    SessionEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
)
from wane.formats.pydantic_ai import raw_arguments

if TYPE_CHECKING:
    from pydantic_ai.messages import AgentStreamEvent

Prompt: TypeAlias = "str | Sequence[UserContent]"

INTERRUPTED: Final = (
    "[Interrupted: the session was stopped before this call gave a result. It may have run, in part or in whole;"
    " look at its effects before you repeat it.]"
)
"""The result that the model reads for a call that was interrupted."""


def with_images(prompt: str, images: Sequence[Path]) -> Prompt:
    """Return the user's words, followed by each image with its path."""
    content: list[UserContent] = [prompt]
    for path in images:
        if (kind := media_type(path)) is not None:
            content += [f"[{path}]", BinaryContent(path.read_bytes(), media_type=kind)]
    return content if images else prompt


def has_begun(answer: ModelResponse) -> bool:
    """Return whether anything of an answer arrived."""
    return bool(answer.parts) or answer.usage.has_values()


def event_of(event: AgentStreamEvent) -> SessionEvent | None:
    """Return the event of a turn for an event of Pydantic AI; None if there is none."""
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if (
            text
        ):
            return TextDelta(text)
        case PartStartEvent(part=ThinkingPart(content=text)) if text:
            return ThinkingDelta(text)
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought)) if thought:
            return ThinkingDelta(thought)
        case FunctionToolCallEvent(part=call):
            return ToolCalled(call.tool_call_id, call.tool_name, raw_arguments(call) or "{}")
        case FunctionToolResultEvent(part=result):
            text, failed = result.model_response_str(), result.outcome != "success"
            return ToolReturned(result.tool_call_id, result.tool_name, text, failed)
        case FileEditedEvent(path=path, diff=diff):
            return FileChanged(path, diff)
        case CommandOutputEvent(text=text):
            return CommandOutput(text)
    return None


def answer_open_calls(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the history with a result for each call that has none, so that a provider accepts it.

    Ctrl-C, a crash and a failed request leave such calls. Only the last response can have them: a model is not asked
    again before all calls are answered. The history only grows: a result says what happened.
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

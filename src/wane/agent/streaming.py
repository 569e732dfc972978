"""Turns the events of a Pydantic AI run into those of a turn."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING

from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai_harness.filesystem import FileEditedEvent
from pydantic_ai_harness.shell import CommandOutputEvent

from wane.agent.events import (
    CommandOutput,
    FileChanged,
    OnEvent,
    SessionEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
)
from wane.formats.pydantic_ai import raw_arguments

if TYPE_CHECKING:
    from pydantic_ai.messages import AgentStreamEvent


async def forward(stream: AsyncIterable[AgentStreamEvent], on_event: OnEvent) -> None:
    """Tell the events of a run as events of a turn."""
    async for event in stream:
        told = _told(event)
        if told is not None:
            on_event(told)


def _told(event: AgentStreamEvent) -> SessionEvent | None:
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

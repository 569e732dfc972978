"""OpenAI chat messages written as Pydantic AI messages, so that one set of sessions serves every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)


def to_pydantic_ai(messages: Sequence[dict[str, Any]], *, joined: bool = False) -> list[ModelMessage]:
    """The same session; `joined` puts neighbouring requests into one message, as Pydantic AI does."""
    converted: list[ModelMessage] = []
    for message in messages:
        if message["role"] == "assistant":
            converted.append(ModelResponse(_response_parts(message), model_name="scripted"))
            continue
        part = _request_part(message)
        last = converted[-1] if converted else None
        if joined and isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            converted.append(ModelRequest([part]))
    return converted


def _request_part(message: dict[str, Any]) -> ModelRequestPart:
    if message["role"] == "tool":
        return ToolReturnPart("tool", message["content"], message["tool_call_id"])
    part = SystemPromptPart if message["role"] == "system" else UserPromptPart
    return part(message["content"])


def _response_parts(message: dict[str, Any]) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = []
    if reasoning := message.get("reasoning_content"):
        parts.append(ThinkingPart(reasoning))
    if text := message.get("content"):
        parts.append(TextPart(text))
    calls = message.get("tool_calls") or ()
    return parts + [ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls]

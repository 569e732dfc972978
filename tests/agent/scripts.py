"""Scripted models for the agent's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

Step = str | list[ToolCallPart] | Exception | Callable[[list[ModelMessage]], "Step"]


def call(tool: str, /, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool, arguments)


def scripted(*steps: Step, sent: list[list[ModelMessage]] | None = None) -> FunctionModel:
    """A model that answers with the steps in order: text, tool calls, an error, or what a function of the request says.

    Args:
        steps: the answers; the last one is repeated.
        sent: receives the messages of every request.
    """
    remaining = iter(steps)
    last: Step = steps[-1]

    def answer(messages: list[ModelMessage]) -> str | list[ToolCallPart]:
        nonlocal last
        if sent is not None:
            sent.append(list(messages))
        last = next(remaining, last)
        step = last
        while not isinstance(step, (str, list)):
            if isinstance(step, Exception):
                raise step
            step = step(messages)
        return step

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = answer(messages)
        return ModelResponse([TextPart(step)] if isinstance(step, str) else list(step))

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        step = answer(messages)
        if isinstance(step, str):
            for start in range(0, len(step), 5):
                yield step[start : start + 5]
            return
        for index, part in enumerate(step):
            yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    return FunctionModel(respond, stream_function=stream, model_name="scripted")


def results(messages: Iterable[ModelMessage]) -> list[str]:
    """The tool results in messages, in order."""
    return [
        part.model_response_str()
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]

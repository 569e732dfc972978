"""A script in the place of a Pydantic AI model, in the process: no provider's client is needed, and no network.

It gets the agent's request and reports usage as a provider does, so that the agent's accounting rests on the real
content of each request.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage
from typing_extensions import override

from wane.core import Kind, chars
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import definitions_text
from wane.prices import SCRIPTED
from wane.scripted.witness import MODEL
from wane.testing import Message, Part, Reply, Request, Usage

_FORMAT: Final = PydanticAIFormat()

Responder: TypeAlias = Callable[[Request], Awaitable[Reply]]
"""Answers each request."""


class ScriptedModel(FunctionModel):
    """A model whose answers come from a function."""

    def __init__(self, answer: Responder) -> None:
        # Like the chat APIs that take the application's words anywhere in the conversation.
        profile = ModelProfile(supports_inline_system_prompts=True)
        super().__init__(self._respond, model_name=MODEL, profile=profile)
        self._answer = answer
        self._ids = itertools.count(1)

    @property
    @override
    def system(self) -> str:
        """The provider's name."""
        return SCRIPTED.removesuffix(":")

    @asynccontextmanager
    @override
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Answer a request, part by part."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        request = request_of(messages, [*info.function_tools, *info.output_tools])
        reply = await self._answer(request)
        parts: list[ModelResponsePart] = [ThinkingPart(reply.reasoning)] if reply.reasoning else []
        parts += [TextPart(reply.text)] if reply.text else []
        parts += [ToolCallPart(call.tool, call.raw_arguments, f"call_{next(self._ids):04}") for call in reply.calls]
        usage = reply.usage or Usage(request.tokens, reply.tokens)
        used = RequestUsage(
            input_tokens=usage.input,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
        )
        return ModelResponse(parts=parts, provider_name=self.system, usage=used)


def request_of(messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition]) -> Request:
    """Return a Pydantic AI request in the form that the scripted server gives to requests from a wire."""
    view: list[Message] = []
    instructions = next((m.instructions for m in reversed(messages) if isinstance(m, ModelRequest)), None)
    if instructions:
        view.append(Message("system", (Part(Kind.SYSTEM, instructions),)))
    for message in messages:
        parts: list[Part] = []
        for part in _FORMAT.parts(message):
            # The model takes anything in the user's place as a turn, whoever wrote it.
            kind = Kind.USER if part.kind is Kind.NOTICE and not part.system else part.kind
            text = part.arguments or "{}" if kind is Kind.CALL else part.text
            parts.append(Part(kind, text, call_id=part.call_id, tool=part.tool))
        view.append(Message("user" if isinstance(message, ModelRequest) else "assistant", tuple(parts)))
    return Request(
        number=0,
        api="openai-chat",
        model=MODEL,
        messages=tuple(view),
        tools=tuple(tool.name for tool in tools),
        tool_tokens=chars(definitions_text(list(tools))),
        stream=True,
        body={},
        raw=b"",
        headers={},
    )

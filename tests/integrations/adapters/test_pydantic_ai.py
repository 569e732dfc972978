"""The capability of Pydantic AI over its real models, on three wires; `tests/integrations` has more of it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolDenied
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.native_tools import CodeExecutionTool, WebSearchTool
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from wane.formats.message_format import Part
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import ContextLifecycle
from wane.testing import adapters
from wane.testing.adapters import grep, read


def drop(table: str) -> str:
    """Drop a table."""
    raise AssertionError(table)


class PydanticAIThread:
    """A message history, and an agent for each turn."""

    sub_agent = False
    native_tools: Sequence[Any] = ()
    words = ""

    def __init__(self, connected: Any, model_settings: Any, adapter: ContextLifecycle) -> None:
        self._connected, self._model_settings, self._adapter = connected, model_settings, adapter
        self.history: list[ModelMessage] = []

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        events: list[Any] = []

        async def take_events(_: Any, stream: Any) -> None:
            events.extend([event async for event in stream])

        # A client is of one event loop.
        async with self._connected() as model:
            # A tool that refuses arguments counts as a failure, of which a run has few by default.
            more: dict[str, Any] = {"model_settings": self._model_settings, "retries": 20}
            more["capabilities"] = [self._adapter, *map(NativeTool, self.native_tools)]
            tools: list[Any] = [read, grep]
            if self.sub_agent:
                sub = Agent(model, instructions="Help.", tools=tools, **more)

                async def helper(task: str) -> str:
                    """Help with a task."""
                    return (await sub.run(task)).output

                tools = [*tools, Tool(helper)]
            if self.words:
                tools = [*tools, Tool(drop, requires_approval=True)]
                more["output_type"] = [str, DeferredToolRequests]
            agent: Any = Agent(model, instructions="Be good.", tools=tools, **more)
            handler = take_events if stream else None
            result = await agent.run(prompt, message_history=self.history, event_stream_handler=handler)
            if isinstance(result.output, DeferredToolRequests):
                denied = {call.tool_call_id: ToolDenied(self.words) for call in result.output.approvals}
                results = DeferredToolResults(approvals=denied)
                result = await agent.run(message_history=result.all_messages(), deferred_tool_results=results)
        assert bool(events) is stream
        self.history = result.all_messages()
        return result.output

    def read_stored(self) -> Sequence[Part]:
        return [part for message in self.history for part in PydanticAIFormat().parts(message)]

    def again(self, adapter: ContextLifecycle) -> PydanticAIThread:
        other = PydanticAIThread(self._connected, self._model_settings, adapter)
        other.native_tools, other.words = self.native_tools, self.words
        other.history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(self.history))
        return other

    def fork(self) -> PydanticAIThread:
        # A turn replaces the list of messages.
        return copy.copy(self)


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    model: Any = OpenAIChatModel
    name = "gpt-x"
    settings: Any = None

    @asynccontextmanager
    async def connect_model(self, url: str) -> AsyncIterator[Any]:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
            yield self.model(self.name, provider=OpenAIProvider(openai_client=client))

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> PydanticAIThread:
        return PydanticAIThread(lambda: self.connect_model(url), self.settings, adapter)

    def begin_with_served_tools(self, url: str, adapter: ContextLifecycle) -> PydanticAIThread:
        thread = self.begin(url, adapter)
        thread.native_tools = [WebSearchTool(), CodeExecutionTool()]
        return thread

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> PydanticAIThread:
        thread = self.begin(url, adapter)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> PydanticAIThread:
        thread = self.begin(url, adapter)
        thread.sub_agent = True
        return thread


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses, with reasoning."""

    reasoning = True
    serves = ("web_search", "code_execution")
    model = OpenAIResponsesModel
    name = "gpt-5"  # of others it makes text of reasoning, and drops what the provider ran


@pytest.mark.full
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot = adapters.ANTHROPIC
    reasoning = True
    serves = ("web_search", "code_execution")
    pauses = True
    settings = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 5_000}  # noqa: RUF012

    @asynccontextmanager
    async def connect_model(self, url: str) -> AsyncIterator[Any]:
        async with AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
            yield AnthropicModel("claude-haiku-4-5", provider=AnthropicProvider(anthropic_client=client))

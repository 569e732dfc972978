"""The adapter of LangChain over its real models, on three wires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from wane.integrations.langchain import ContextLifecycle
from wane.testing import adapters


@tool
def read(path: str) -> str:
    """Read a file."""
    return adapters.content_of(path)


@tool
def grep(pattern: str) -> str:
    """Search for a pattern."""
    return adapters.content_of(pattern)


class LangChainThread:
    """A thread of an agent, in a checkpoint."""

    def __init__(self, model: Any, settings: dict[str, Any], saver: Any = None) -> None:
        self._model, self._settings = model, settings
        self._saver = saver or InMemorySaver()
        lifecycle = ContextLifecycle(**settings)
        self._agent = create_agent(
            model, [read, grep], system_prompt="Be good.", middleware=[lifecycle], checkpointer=self._saver
        )
        self._config: Any = {"configurable": {"thread_id": "1"}}

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        given: Any = {"messages": [("user", prompt)]}
        if not stream:
            return self._agent.invoke(given, self._config)["messages"][-1].text
        chunks = [chunk for chunk, _ in self._agent.stream(given, self._config, stream_mode="messages")]
        assert any(isinstance(chunk, AIMessageChunk) for chunk in chunks)
        return self._agent.get_state(self._config).values["messages"][-1].text

    def stored(self) -> Mapping[str, str]:
        messages = self._agent.get_state(self._config).values["messages"]
        return {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}

    def again(self) -> LangChainThread:
        return LangChainThread(self._model, self._settings, self._saver)


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    def model(self, url: str) -> Any:
        return ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="k", max_retries=0)

    def begin(self, url: str, **settings: Any) -> LangChainThread:
        return LangChainThread(self.model(url), settings)


@pytest.mark.full
class TestResponses(TestChat):
    """Responses, its items as they come."""

    version = "responses/v1"
    reasoning = True

    def model(self, url: str) -> Any:
        return ChatOpenAI(
            model="gpt-x",
            base_url=f"{url}/v1",
            api_key="k",
            max_retries=0,
            use_responses_api=True,
            include=["reasoning.encrypted_content"],
            store=False,
            output_version=self.version,
        )


@pytest.mark.full
class TestResponsesStandard(TestResponses):
    """Responses, in LangChain's own blocks."""

    version = "v1"


@pytest.mark.full
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    reasoning = True

    def model(self, url: str) -> Any:
        return ChatAnthropic(
            model="claude-x",
            base_url=url,
            api_key="k",
            max_retries=0,
            max_tokens=5_000,
            thinking={"type": "enabled", "budget_tokens": 1_024},
        )

"""The adapter of Strands Agents over its real models, on three wires."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands Agents is not installed")

from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from strands.session.file_session_manager import FileSessionManager

from wane.integrations.strands import ContextLifecycle
from wane.testing import adapters


@tool
def read(path: str) -> str:
    """Read a file."""
    return adapters.content_of(path)


@tool
def grep(pattern: str) -> str:
    """Search for a pattern."""
    return adapters.content_of(pattern)


class StrandsThread:
    """An agent with a session in files."""

    def __init__(self, model: Any, settings: dict[str, Any], folder: Path) -> None:
        self._made: tuple[Any, ...] = (model, settings, folder)
        self._agent = Agent(
            model=model,
            tools=[read, grep],
            system_prompt="Be good.",
            plugins=[ContextLifecycle(**settings)],
            session_manager=FileSessionManager(session_id="s", storage_dir=str(folder)),
            agent_id="a",
            callback_handler=None,
        )

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        # It always streams.
        return str(self._agent(prompt)).strip()

    def stored(self) -> Mapping[str, str]:
        blocks = [block for message in self._agent.messages for block in message["content"]]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        return {result["toolUseId"]: result["content"][0]["text"] for result in results}

    def again(self) -> StrandsThread:
        return StrandsThread(*self._made)


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.sessions = 0

    def model(self, url: str) -> Any:
        return OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}, model_id="gpt-x")

    def begin(self, url: str, **settings: Any) -> StrandsThread:
        self.sessions += 1
        return StrandsThread(self.model(url), settings, self.folder / str(self.sessions))


class TestResponses(TestChat):
    """Responses."""

    def model(self, url: str) -> Any:
        return OpenAIResponsesModel(
            client_args={"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}, model_id="gpt-x"
        )


class TestAnthropic(TestChat):
    """Messages, with thinking."""

    def model(self, url: str) -> Any:
        return AnthropicModel(
            client_args={"base_url": url, "api_key": "k", "max_retries": 0},
            model_id="claude-x",
            max_tokens=5_000,
            params={"thinking": {"type": "enabled", "budget_tokens": 1_024}},
        )

"""The adapter of the OpenHands SDK over its real models, on three wires."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the OpenHands SDK needs Python 3.12 or newer", allow_module_level=True)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without the network
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
pytest.importorskip("openhands.sdk", reason="the OpenHands SDK is not installed")

from openhands.sdk import (
    LLM,
    Action,
    Agent,
    Conversation,
    Observation,
    TextContent,
    Tool,
    ToolDefinition,
    register_tool,
)
from openhands.sdk.event import MessageEvent, ObservationEvent
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.tool import ToolExecutor

from wane.integrations.openhands import ContextLifecycle
from wane.testing import adapters


class ReadAction(Action):
    path: str


class GrepAction(Action):
    pattern: str


class TextObservation(Observation):
    pass


class _Content(ToolExecutor[Any, TextObservation]):
    def __call__(self, action: Any, conversation: Any = None) -> TextObservation:
        return TextObservation.from_text(adapters.content_of(getattr(action, "path", None) or action.pattern))


class ReadTool(ToolDefinition[ReadAction, TextObservation]):
    name = "read"

    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Any]:
        return [
            cls(
                description="Read a file.",
                action_type=ReadAction,
                observation_type=TextObservation,
                executor=_Content(),
            )
        ]


class GrepTool(ToolDefinition[GrepAction, TextObservation]):
    name = "grep"

    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Any]:
        return [
            cls(
                description="Search for a pattern.",
                action_type=GrepAction,
                observation_type=TextObservation,
                executor=_Content(),
            )
        ]


register_tool("read", ReadTool)
register_tool("grep", GrepTool)
TOOLS = [Tool(name="read"), Tool(name="grep")]


def model_at(url: str, **settings: Any) -> LLM:
    given: dict[str, Any] = {"model": "openai/gpt-x", "base_url": f"{url}/v1", **settings}
    return LLM(api_key="k", usage_id="agent", num_retries=0, **given)


def begun(agent: Agent, folder: Path, identity: UUID | None = None) -> Any:
    return Conversation(
        agent=agent,
        workspace=str(folder),
        persistence_dir=str(folder / "kept"),
        conversation_id=identity or uuid4(),
        visualizer=None,
    )


def agent_of(llm: LLM, **more: Any) -> Agent:
    return Agent(llm=llm, tools=TOOLS, include_default_tools=[], system_prompt="Be good.", **more)


class OpenHandsThread:
    """A conversation that is kept in files."""

    def __init__(self, llm: LLM, settings: dict[str, Any], folder: Path, identity: UUID) -> None:
        self._made: tuple[Any, ...] = (llm, settings, folder, identity)
        # Parallel tools, which are not the default.
        agent = ContextLifecycle(**settings).equip(agent_of(llm, tool_concurrency_limit=4))
        self._conversation = begun(agent, folder, identity)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._conversation.send_message(prompt)
        self._conversation.run()
        events = self._conversation.state.events
        last = next(event for event in reversed(list(events)) if isinstance(event, MessageEvent))
        return "".join(entry.text for entry in last.llm_message.content if isinstance(entry, TextContent))

    def stored(self) -> Mapping[str, str]:
        events = list(self._conversation.state.events)
        assert not any(isinstance(event, Condensation) for event in events)
        return {it.tool_call_id: it.observation.text for it in events if isinstance(it, ObservationEvent)}

    def again(self) -> OpenHandsThread:
        self._conversation.close()
        llm, *rest = self._made
        fresh = LLM(**{name: getattr(llm, name) for name in llm.model_fields_set})
        return OpenHandsThread(fresh, *rest)


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    overhead = 300  # the date, and the SDK's own rules about it

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def model(self, url: str) -> LLM:
        return model_at(url)

    def begin(self, url: str, **settings: Any) -> OpenHandsThread:
        return OpenHandsThread(self.model(url), settings, self.folder, uuid4())


@pytest.mark.full
class TestResponses(TestChat):
    """Responses, with reasoning."""

    reasoning = True

    def model(self, url: str) -> LLM:
        return model_at(url, model="openai/gpt-5.5")


@pytest.mark.full
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    reasoning = True

    def model(self, url: str) -> LLM:
        return model_at(
            url,
            model="anthropic/claude-sonnet-4-5",
            base_url=url,
            extended_thinking_budget=1_024,
            max_output_tokens=5_000,
        )

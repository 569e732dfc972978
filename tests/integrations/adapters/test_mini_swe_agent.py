"""The adapter of mini-swe-agent over its LiteLLM model, its local environment and two wires."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed")

import yaml
from minisweagent.agents.interactive import InteractiveAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import UserInterruption
from minisweagent.models import get_model
from minisweagent.utils.serialize import recursive_merge

from wane.conversation.events import HistoryForked, HistoryReplaced
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.integrations.mini_swe_agent import ContextLifecycle
from wane.testing import Call, Reply, ScriptedServer, adapters
from wane.testing.adapters import Served

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class GoingOn(InteractiveAgent):
    """An agent whose run goes on with the messages of an earlier one."""

    earlier: list[dict[str, Any]]

    def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.messages and self.earlier:
            self.messages.extend(self.earlier)
            messages = messages[1:]  # the system prompt is there
        return super().add_messages(*messages)


def agent_of(model: Any, folder: Path, **settings: Any) -> GoingOn:
    agent = GoingOn(
        model,
        LocalEnvironment(cwd=str(folder)),
        system_template="Be good.",
        instance_template="{{task}}",
        mode="yolo",
        confirm_exit=False,
        output_path=folder / "trajectory.json",
        **settings,
    )
    agent.earlier = []
    return agent


def model_of(url: str, name: str = "openai/gpt-x", **settings: Any) -> ContextLifecycle:
    given = {"api_base": url if name.startswith("anthropic") else f"{url}/v1", "api_key": "k", "num_retries": 0}
    return ContextLifecycle(
        model_name=name,
        model_kwargs={**given, **settings.pop("model_kwargs", {})},
        cost_tracking="ignore_errors",
        observation_template="{{output.output}}",
        **settings,
    )


def bash(command: str, call_id: str) -> Call:
    return Call("bash", {"command": command}, call_id)


def in_bash(replies: Iterator[Reply]) -> Iterator[Reply]:
    """A script's replies by means of this agent: tools are commands, and whoever is done submits."""
    for number, reply in enumerate(replies):
        calls = tuple(
            bash(f"cat {next(iter(call.arguments.values()))}", call.id or "")
            if call.tool in ("read", "grep") and isinstance(call.arguments, Mapping)
            else call
            for call in reply.calls
        )
        yield replace(reply, calls=calls or (bash(f"{SUBMIT}; echo '{reply.text}'", f"submit-{number}"),))


class MiniThread:
    """An agent in a folder, with its trajectory."""

    def __init__(self, make: Callable[[], Any], folder: Path) -> None:
        self._make, self._folder = make, folder
        self._agent = agent_of(make(), folder)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._agent.earlier = [message for message in self._agent.messages if message["role"] != "exit"]
        return str(self._agent.run(prompt)["submission"]).strip()

    def stored(self) -> Mapping[str, str]:
        messages = json.loads((self._folder / "trajectory.json").read_text())["messages"]
        return {it["tool_call_id"]: it["content"] for it in messages if it["role"] == "tool"}

    def again(self) -> MiniThread:
        thread = MiniThread(self._make, self._folder)
        thread._agent.messages = json.loads((self._folder / "trajectory.json").read_text())["messages"]
        return thread


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    streams = False
    name = "openai/gpt-x"
    model_kwargs: Mapping[str, Any] = {}

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.threads = 0

    def begin(self, url: str, **settings: Any) -> MiniThread:
        self.threads += 1
        folder = self.folder / str(self.threads)
        folder.mkdir()
        for what in (f"{letter}{n}" for letter in "abcd" for n in range(adapters.TURNS)):
            (folder / what).write_text(adapters.content_of(what))
        return MiniThread(lambda: model_of(url, self.name, model_kwargs=dict(self.model_kwargs), **settings), folder)

    def serving(self, replies: Iterator[Reply]) -> AbstractContextManager[Served]:
        return ScriptedServer(in_bash(replies))


@pytest.mark.full
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    name = "anthropic/claude-sonnet-4-5"
    reasoning = True
    model_kwargs: Mapping[str, Any] = {"max_tokens": 5_000, "thinking": {"type": "enabled", "budget_tokens": 1_024}}


@pytest.mark.full
class TestResponses(TestChat):
    """Responses, by LiteLLM's own translation."""

    name = "openai/responses/gpt-x"
    reasoning = True

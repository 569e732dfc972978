"""Finds the agent by the name of its program."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from wane.proxy.agents.base import Agent
from wane.proxy.agents.claude_code import ClaudeCode
from wane.proxy.agents.codex import Codex
from wane.proxy.agents.other import Other
from wane.proxy.agents.pi import Pi

AGENTS: Final[tuple[Agent, ...]] = (ClaudeCode(), Codex(), Pi())
"""The agents that Wane knows."""

_ENDINGS: Final = (".exe", ".cmd", ".bat", ".ps1")


def agent_of(program: str) -> Agent:
    """Return the agent of a program, by its file name."""
    name = PurePath(program).name
    name = next((name[: -len(end)] for end in _ENDINGS if name.lower().endswith(end)), name)
    return next((agent for agent in AGENTS if agent.program == name), Other(name))

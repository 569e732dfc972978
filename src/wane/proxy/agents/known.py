"""Finds the agent by the name of its program; one that Wane does not know is started by the usual variables."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final

from wane.core.errors import ConfigError
from wane.proxy.agents.base import ANTHROPIC, GOOGLE, OPENAI, Agent, AgentCommand, Api, Start, openai_base
from wane.proxy.agents.claude_code import ClaudeCode
from wane.proxy.agents.codex import Codex
from wane.proxy.agents.gemini_cli import VARIABLE, GeminiCli
from wane.proxy.agents.pi import Pi
from wane.proxy.settings import UpstreamUrl

AGENTS: Final[tuple[Agent, ...]] = (ClaudeCode(), Codex(), GeminiCli(), Pi())
"""The agents that Wane knows."""


_ENDINGS: Final = (".exe", ".cmd", ".bat", ".ps1")

_VARIABLES: Final[dict[Api, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": (VARIABLE,),
}
"""The second of the first two is read by LiteLLM, and so by aider."""

_DEFAULTS: Final[dict[Api, str]] = {"anthropic": ANTHROPIC, "openai": OPENAI, "gemini": GOOGLE}


class OtherAgent(Agent):
    """Any other agent."""

    def __init__(self, program: str) -> None:
        self.program = program

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider that the environment sets for the agent's API, or else that API's own."""
        api = self._api(command)
        return next((url for name in _VARIABLES[api] if (url := command.environ.get(name))), _DEFAULTS[api])

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment, with a note that the agent may ignore it."""
        api = self._api(command)
        base = openai_base(proxy, upstream) if api == "openai" else proxy
        names = _VARIABLES[api]
        verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
        note = f"Wane does not know {self.program}: {' and '.join(names)} {verb} set, but it may ignore {them}"
        return Start(environ=dict.fromkeys(names, base), note=note)

    def _api(self, command: AgentCommand) -> Api:
        if command.api is not None:
            return command.api
        host = UpstreamUrl.parse(command.upstream).host if command.upstream else ""
        for api, url in _DEFAULTS.items():
            if host == UpstreamUrl.parse(url).host:
                return api
        raise ConfigError(
            f"Wane does not know {self.program} (it knows claude, codex, gemini and pi): give its protocol, --api"
            " anthropic, openai or gemini, and --upstream if its provider is another"
        )


def agent_of(program: str) -> Agent:
    """Return the agent of a program, by its file name."""
    name = PurePath(program).name
    name = next((name[: -len(end)] for end in _ENDINGS if name.lower().endswith(end)), name)
    return next((agent for agent in AGENTS if agent.program == name), OtherAgent(name))

"""Agents that Wane does not know, pointed at the proxy by the variables that most agents read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError
from wane.proxy.agents.base import ANTHROPIC, OPENAI, Api, Command, Start, openai_base
from wane.proxy.settings import UpstreamUrl

_VARIABLES: Final[dict[Api, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
}
"""The second of each is read by LiteLLM, and so by aider."""

_DEFAULTS: Final[dict[Api, str]] = {"anthropic": ANTHROPIC, "openai": OPENAI}


class Other:
    """Any other agent.

    Args:
        program: name of its program.
    """

    install = ""
    user_agents: tuple[str, ...] = ()

    def __init__(self, program: str) -> None:
        self.program = program

    def upstream(self, command: Command) -> str:
        """Return the provider that the environment sets for the agent's API, or else that API's own."""
        api = self._api(command)
        return next((url for name in _VARIABLES[api] if (url := command.environ.get(name))), _DEFAULTS[api])

    def start(self, command: Command, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment, with a note that the agent may ignore it."""
        api = self._api(command)
        base = proxy if api == "anthropic" else openai_base(proxy, upstream)
        names = _VARIABLES[api]
        note = f"Wane does not know {self.program}: {' and '.join(names)} are set, but it may ignore them"
        return Start(environ=dict.fromkeys(names, base), note=note)

    def _api(self, command: Command) -> Api:
        if command.api is not None:
            return command.api
        host = UpstreamUrl.parse(command.upstream).host if command.upstream else ""
        for api, url in _DEFAULTS.items():
            if host == UpstreamUrl.parse(url).host:
                return api
        raise ConfigError(
            f"Wane does not know {self.program} (it knows claude, codex and pi): give its protocol, --api anthropic or"
            " --api openai, and --upstream if its provider is another"
        )

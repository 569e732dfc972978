"""Agents that Wane knows nothing of: the variables that most of them heed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError
from wane.proxy.agents.base import ANTHROPIC, OPENAI, Api, Asked, Start, openai_base
from wane.proxy.http.address import UpstreamUrl

_VARIABLES: Final[dict[Api, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
}
"""The second of each is LiteLLM's, and with it aider's."""

_DEFAULTS: Final[dict[Api, str]] = {"anthropic": ANTHROPIC, "openai": OPENAI}


class Other:
    """Any other agent.

    Args:
        program: what its program is called.
    """

    install = ""
    user_agents: tuple[str, ...] = ()

    def __init__(self, program: str) -> None:
        self.program = program

    def upstream(self, asked: Asked) -> str:
        """Return the provider that the environment names for the API that the user says it speaks."""
        api = self._api(asked)
        return next((url for name in _VARIABLES[api] if (url := asked.environ.get(name))), _DEFAULTS[api])

    def start(self, asked: Asked, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment, with a note that the agent may not heed it."""
        api = self._api(asked)
        base = proxy if api == "anthropic" else openai_base(proxy, upstream)
        names = _VARIABLES[api]
        note = f"{self.program} is not known to Wane: {' and '.join(names)} are set, which it may heed or not"
        return Start(environ=dict.fromkeys(names, base), note=note)

    def _api(self, asked: Asked) -> Api:
        if asked.api is not None:
            return asked.api
        host = UpstreamUrl.parse(asked.upstream).host if asked.upstream else ""
        for api, url in _DEFAULTS.items():
            if host == UpstreamUrl.parse(url).host:
                return api
        raise ConfigError(
            f"{self.program} is not known to Wane (claude, codex and pi are): say what it speaks, --api anthropic or"
            " --api openai, and --upstream if its provider is another"
        )

"""Gemini CLI: pointed at the proxy by `GOOGLE_GEMINI_BASE_URL`, which it reads only if it uses a key of Gemini's API.

With this variable and no choice in its settings, it takes the address for a gateway of its own kind and refuses to
start. No run can choose for the user: there is no option for it, and of settings outside the user's own it reads only
those that root has written below directories of root's (0.61.0).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wane.proxy.agents.base import GOOGLE, Agent, AgentCommand, Start, cannot, read_json, table, text
from wane.proxy.settings import UpstreamUrl

VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
"""The variable with the base URL of Gemini's API, which Google's SDK reads too."""

_KEY: Final = "gemini-api-key"
_SYSTEM: Final = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
_DEFAULTS: Final = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
_SYSTEM_FILES: Final = {
    "darwin": "/Library/Application Support/GeminiCli/settings.json",
    "win32": "C:\\ProgramData\\gemini-cli\\settings.json",
}
_ELSEWHERE: Final = {"GOOGLE_GENAI_USE_GCA": "a Google login", "GOOGLE_GENAI_USE_VERTEXAI": "Vertex AI"}
_CHOICES: Final = {"oauth-personal": "a Google login", "vertex-ai": "Vertex AI", "cloud-shell": "Cloud Shell"}


class GeminiCli(Agent):
    """Gemini CLI, with a key."""

    program = "gemini"
    install = "npm install -g @google/gemini-cli"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the environment; Google by default."""
        return command.environ.get(VARIABLE) or GOOGLE

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment."""
        chosen = next(_chosen(command), None)
        used = _CHOICES.get(chosen or "", chosen) if chosen != _KEY else None
        if chosen is None:
            used = next((what for name, what in _ELSEWHERE.items() if command.environ.get(name) == "true"), None)
        if used is not None:
            raise cannot(
                "gemini",
                f"it uses {used}, whose API Wane does not support; choose Gemini's API key in its /auth, and set"
                " GEMINI_API_KEY",
            )
        if chosen is None:
            raise cannot(
                "gemini",
                "no login is chosen in its settings; start gemini once by itself and choose Gemini's API key",
            )
        return Start(environ={VARIABLE: proxy})


def _chosen(command: AgentCommand) -> Iterator[str]:
    """How it logs in, by its settings files, the strongest first."""
    home = command.environ.get("GEMINI_CLI_HOME")
    user = Path(home).expanduser() if home else command.home
    for path in (_system(command), command.folder / ".gemini" / "settings.json", user / ".gemini" / "settings.json"):
        if chosen := text(table(read_json(path), "security", "auth"), "selectedType"):
            yield chosen
    if chosen := text(table(read_json(_defaults(command)), "security", "auth"), "selectedType"):
        yield chosen


def _system(command: AgentCommand) -> Path:
    return Path(command.environ.get(_SYSTEM) or _SYSTEM_FILES.get(sys.platform, "/etc/gemini-cli/settings.json"))


def _defaults(command: AgentCommand) -> Path:
    named = command.environ.get(_DEFAULTS)
    return Path(named) if named else _system(command).with_name("system-defaults.json")

"""Claude Code: pointed at the proxy by `ANTHROPIC_BASE_URL`, which settings files can override."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wane.proxy.agents.base import ANTHROPIC, Agent, AgentCommand, Start, cannot, read_json, table, text
from wane.proxy.settings import UpstreamUrl

_VARIABLE: Final = "ANTHROPIC_BASE_URL"
_ELSEWHERE: Final = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
_OFF: Final = ("", "0", "false", "no", "off")


class ClaudeCode(Agent):
    """Claude Code, with a login or a key."""

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the settings files or the environment; Anthropic by default."""
        return _set_by_file(command, _VARIABLE) or command.environ.get(_VARIABLE) or ANTHROPIC

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment and, if a settings file overrides it, settings that override the file."""
        for variable, service in _ELSEWHERE.items():
            if (_set_by_file(command, variable) or command.environ.get(variable, "")).strip().lower() not in _OFF:
                raise cannot("claude", f"{variable} makes it use {service}, whose API Wane does not support; unset it")
        environ = {_VARIABLE: proxy}
        settings = command.option("--settings")
        if settings is not None and text(table(_settings(command, settings), "env"), _VARIABLE):
            raise cannot("claude", f"its --settings sets {_VARIABLE}; remove it, and give its value as --upstream")
        if _set_by_file(command, _VARIABLE) is None:
            return Start(environ=environ)
        if settings is not None:
            raise cannot(
                "claude",
                f"a settings file sets {_VARIABLE}, which only --settings overrides, and you give --settings yourself;"
                " remove the variable from the file, and give its value as --upstream",
            )
        return Start(("--settings", json.dumps({"env": environ})), environ)


def _set_by_file(command: AgentCommand, variable: str) -> str | None:
    return next((value for path in _files(command) if (value := text(table(read_json(path), "env"), variable))), None)


def _files(command: AgentCommand) -> Iterator[Path]:
    """The settings files, the strongest first."""
    yield command.folder / ".claude" / "settings.local.json"
    yield command.folder / ".claude" / "settings.json"
    yield command.directory("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def _settings(command: AgentCommand, settings: str) -> dict[str, object]:
    """The settings in `--settings`: JSON, or the path of a JSON file."""
    if not settings.lstrip().startswith("{"):
        return read_json(command.folder / settings)
    try:
        read = json.loads(settings)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}

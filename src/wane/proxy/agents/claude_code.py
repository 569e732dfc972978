"""Claude Code: `ANTHROPIC_BASE_URL`, which a settings file may set too, and then wins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wane.proxy.agents.base import ANTHROPIC, Asked, Start, cannot, read_json, table, text
from wane.proxy.http.address import UpstreamUrl

_VARIABLE: Final = "ANTHROPIC_BASE_URL"
_ELSEWHERE: Final = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
_OFF: Final = ("", "0", "false", "no", "off")


class ClaudeCode:
    """Claude Code, logged in or with a key."""

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    user_agents: tuple[str, ...] = ("claude-cli/",)

    def upstream(self, asked: Asked) -> str:
        """Return the provider, by the settings files or the environment; Anthropic by default."""
        return _set_by_file(asked, _VARIABLE) or asked.environ.get(_VARIABLE) or ANTHROPIC

    def start(self, asked: Asked, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment and, where a settings file would win over it, settings that win over the file."""
        for variable, service in _ELSEWHERE.items():
            if (_set_by_file(asked, variable) or asked.environ.get(variable, "")).strip().lower() not in _OFF:
                raise cannot("claude", f"{variable} has it ask {service}, whose API Wane does not speak; unset it")
        environ = {_VARIABLE: proxy}
        given = asked.option("--settings")
        if given is not None and text(table(_settings(asked, given), "env"), _VARIABLE):
            raise cannot("claude", f"its --settings sets {_VARIABLE}; take it out, and give its value as --upstream")
        if _set_by_file(asked, _VARIABLE) is None:
            return Start(environ=environ)
        if given is not None:
            raise cannot(
                "claude",
                f"a settings file sets {_VARIABLE}, and Wane can set another one by --settings only, which is given;"
                " take the variable out of the file, and give its value as --upstream",
            )
        return Start(("--settings", json.dumps({"env": environ})), environ)


def _set_by_file(asked: Asked, variable: str) -> str | None:
    return next((value for path in _files(asked) if (value := text(table(read_json(path), "env"), variable))), None)


def _files(asked: Asked) -> Iterator[Path]:
    """The settings files, the strongest first."""
    yield asked.folder / ".claude" / "settings.local.json"
    yield asked.folder / ".claude" / "settings.json"
    yield asked.place("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def _settings(asked: Asked, given: str) -> dict[str, object]:
    """What `--settings` says: JSON, or the path of a file with it."""
    if not given.lstrip().startswith("{"):
        return read_json(asked.folder / given)
    try:
        read = json.loads(given)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}

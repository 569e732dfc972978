"""Codex: pointed at the proxy by settings in `-c`, because no environment variable sets its base URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from wane.proxy.agents.base import (
    OPENAI,
    Agent,
    AgentCommand,
    Start,
    cannot,
    openai_base,
    read_json,
    read_toml,
    table,
    text,
)
from wane.proxy.settings import UpstreamUrl

_CHATGPT: Final = "https://chatgpt.com/backend-api/codex"
_BUILT_IN: Final = "openai"
_BASE: Final = "openai_base_url"
_UNREACHABLE: Final = ("oss", "ollama", "lmstudio", "amazon-bedrock")
"""Built-in providers whose address no setting changes."""


class Codex(Agent):
    """Codex, with a ChatGPT login, a key, or a provider from its configuration."""

    program = "codex"
    install = "npm install -g @openai/codex"

    def upstream(self, command: AgentCommand) -> str:
        """Return the configured provider, or else ChatGPT if the user is logged in there, or else OpenAI."""
        provider = _provider(command)
        if provider != _BUILT_IN:
            base = text(table(_config(command), "model_providers", provider), "base_url")
            if base is None:
                raise cannot("codex", f"the address of its provider {provider!r} is unknown; give it as --upstream")
            return base
        return text(_config(command), _BASE) or (_CHATGPT if _is_chatgpt(command) else OPENAI)

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the settings that point its provider at the proxy."""
        provider = _provider(command)
        key = _BASE if provider == _BUILT_IN else f"model_providers.{provider}.base_url"
        if any(name == key for name, _ in _overrides(command)):
            raise cannot("codex", f"-c {key} is given; remove it, and give its value as --upstream")
        # A JSON string is a TOML string too.
        before = ["-c", f"{key}={json.dumps(openai_base(proxy, upstream))}"]
        if provider == _BUILT_IN and _is_chatgpt(command):
            # Compressed requests could not be managed.
            before += ["-c", "features.enable_request_compression=false"]
        return Start(tuple(before))


def _provider(command: AgentCommand) -> str:
    if "--oss" in command.arguments:
        raise cannot("codex", "--oss makes it use a local server, whose address no setting changes")
    config = _config(command)
    chosen = [value for name, value in _overrides(command) if name == "model_provider"]
    profile = command.option("-p", "--profile") or text(config, "profile") or ""
    provider = chosen[-1] if chosen else text(table(config, "profiles", profile), "model_provider")
    provider = provider or text(config, "model_provider") or _BUILT_IN
    if provider in _UNREACHABLE and not table(config, "model_providers", provider):
        raise cannot("codex", f"no setting changes the address of its provider {provider!r}")
    return provider


def _overrides(command: AgentCommand) -> Iterator[tuple[str, str]]:
    """The settings that the command line gives as `-c name=value`."""
    for override in command.options("-c", "--config"):
        name, _, value = override.partition("=")
        yield name.strip(), value.strip().strip("\"'")


def _config(command: AgentCommand) -> dict[str, Any]:
    return read_toml(_home(command) / "config.toml")


def _is_chatgpt(command: AgentCommand) -> bool:
    """Whether the user is logged in with ChatGPT, a different provider than OpenAI's API."""
    if command.environ.get("CODEX_API_KEY"):
        return False
    login = read_json(_home(command) / "auth.json")
    mode = text(login, "auth_mode")
    return mode.lower().startswith("chatgpt") if mode else not login.get("OPENAI_API_KEY") and bool(login.get("tokens"))


def _home(command: AgentCommand) -> Path:
    return command.directory("CODEX_HOME", ".codex")

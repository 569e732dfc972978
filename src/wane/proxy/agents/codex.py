"""Codex: settings given by `-c`; the environment names no base URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from wane.proxy.agents.base import OPENAI, Asked, Start, cannot, openai_base, read_json, read_toml, table, text
from wane.proxy.http.address import UpstreamUrl

_CHATGPT: Final = "https://chatgpt.com/backend-api/codex"
_BUILT_IN: Final = "openai"
_BASE: Final = "openai_base_url"
_UNREACHABLE: Final = ("oss", "ollama", "lmstudio", "amazon-bedrock")
"""Providers that Codex brings, and whose address no setting changes."""


class Codex:
    """Codex, logged in with ChatGPT or with a key, or with a provider of its configuration."""

    program = "codex"
    install = "npm install -g @openai/codex"
    user_agents: tuple[str, ...] = ("codex_", "codex-")

    def upstream(self, asked: Asked) -> str:
        """Return the provider: of the configuration, or else OpenAI, or ChatGPT if it is logged in there."""
        provider = _provider(asked)
        if provider != _BUILT_IN:
            base = text(table(_config(asked), "model_providers", provider), "base_url")
            if base is None:
                raise cannot("codex", f"nothing tells the address of its provider {provider!r}; give it as --upstream")
            return base
        return text(_config(asked), _BASE) or (_CHATGPT if _is_chatgpt(asked) else OPENAI)

    def start(self, asked: Asked, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the settings that point its provider at the proxy."""
        provider = _provider(asked)
        key = _BASE if provider == _BUILT_IN else f"model_providers.{provider}.base_url"
        if any(name == key for name, _ in _overrides(asked)):
            raise cannot("codex", f"-c {key} is given; take it out, and give its value as --upstream")
        # A string of JSON is one of TOML.
        before = ["-c", f"{key}={json.dumps(openai_base(proxy, upstream))}"]
        if provider == _BUILT_IN and _is_chatgpt(asked):
            # Compressed requests could only be passed on as they are.
            before += ["-c", "features.enable_request_compression=false"]
        return Start(tuple(before))


def _provider(asked: Asked) -> str:
    if "--oss" in asked.arguments:
        raise cannot("codex", "--oss has it ask a local server, whose address no setting changes")
    config = _config(asked)
    given = [value for name, value in _overrides(asked) if name == "model_provider"]
    profile = asked.option("-p", "--profile") or text(config, "profile") or ""
    provider = given[-1] if given else text(table(config, "profiles", profile), "model_provider")
    provider = provider or text(config, "model_provider") or _BUILT_IN
    if provider in _UNREACHABLE and not table(config, "model_providers", provider):
        raise cannot("codex", f"no setting changes the address of its provider {provider!r}")
    return provider


def _overrides(asked: Asked) -> Iterator[tuple[str, str]]:
    """Settings that the command line gives by `-c name=value`."""
    for argument, after in zip(asked.arguments, (*asked.arguments[1:], ""), strict=False):
        given = after if argument in ("-c", "--config") else argument.removeprefix("--config=")
        if given is argument:
            continue
        name, _, value = given.partition("=")
        yield name.strip(), value.strip().strip("\"'")


def _config(asked: Asked) -> dict[str, Any]:
    return read_toml(_home(asked) / "config.toml")


def _is_chatgpt(asked: Asked) -> bool:
    """Whether it is logged in with ChatGPT, which is another provider than OpenAI's API."""
    if asked.environ.get("CODEX_API_KEY"):
        return False
    login = read_json(_home(asked) / "auth.json")
    mode = text(login, "auth_mode")
    return mode.lower().startswith("chatgpt") if mode else not login.get("OPENAI_API_KEY") and bool(login.get("tokens"))


def _home(asked: Asked) -> Path:
    return asked.place("CODEX_HOME", ".codex")

"""pi: pointed at the proxy by an extension, because neither environment nor options set a provider's address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from wane.proxy.agents.base import (
    ANTHROPIC,
    OPENAI,
    Agent,
    AgentCommand,
    Api,
    Start,
    cannot,
    openai_base,
    read_json,
    table,
    text,
)
from wane.proxy.settings import UpstreamUrl

_COMMANDS: Final = ("install", "remove", "uninstall", "update", "list", "config", "auth")
"""Subcommands of pi that run no agent; they take no extension."""

_KNOWN: Final[dict[str, tuple[Api, str]]] = {
    "anthropic": ("anthropic", ANTHROPIC),
    "openai": ("openai", OPENAI),
    "cerebras": ("openai", "https://api.cerebras.ai/v1"),
    "deepseek": ("openai", "https://api.deepseek.com"),
    "groq": ("openai", "https://api.groq.com/openai/v1"),
    "huggingface": ("openai", "https://router.huggingface.co/v1"),
    "kimi-coding": ("anthropic", "https://api.kimi.com/coding"),
    "minimax": ("anthropic", "https://api.minimax.io/anthropic"),
    "moonshotai": ("openai", "https://api.moonshot.ai/v1"),
    "together": ("openai", "https://api.together.ai/v1"),
    "vercel-ai-gateway": ("anthropic", "https://ai-gateway.vercel.sh"),
    "xai": ("openai", "https://api.x.ai/v1"),
    "zai": ("openai", "https://api.z.ai/api/coding/paas/v4"),
}
"""Built-in providers of pi with one protocol and one address for all their models."""

_APIS: Final[dict[str, Api]] = {
    "anthropic-messages": "anthropic",
    "openai-completions": "openai",
    "openai-responses": "openai",
}


class Pi(Agent):
    """pi, with a built-in provider or one from its `models.json`."""

    program = "pi"
    install = "npm install -g @earendil-works/pi-coding-agent"

    def upstream(self, command: AgentCommand) -> str:
        """Return the address of its model's provider."""
        provider = _provider(command)
        base = text(_added(command, provider), "baseUrl") or _KNOWN.get(provider, ("", None))[1]
        if base is None:
            raise cannot(
                "pi", f"the address of its provider {provider!r} is unknown; give it as --upstream, with --api"
            )
        return base

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return the option that loads an extension, and write the extension to the private directory."""
        if command.arguments[:1] and command.arguments[0] in _COMMANDS:
            return Start()
        provider = _provider(command)
        base = openai_base(proxy, upstream) if _api(command, provider) == "openai" else proxy
        extension = private / "wane.mjs"
        call = f"pi.registerProvider({json.dumps(provider)}, {json.dumps({'baseUrl': base})})"
        extension.write_text(f"export default (pi) => {{ {call}; }};\n", encoding="utf-8")
        return Start(("-e", str(extension)))


def _provider(command: AgentCommand) -> str:
    """The provider that pi will use, by options, settings and keys."""
    named = command.option("--provider")
    if named:
        return named
    for models in (command.option("--model"), command.option("--models")):
        provider, slash, _ = (models or "").partition(",")[0].partition("/")
        if slash and (provider in _KNOWN or _added(command, provider)):
            return provider
    settings = {**read_json(_home(command) / "settings.json"), **read_json(command.folder / ".pi" / "settings.json")}
    if default := text(settings, "defaultProvider"):
        return default
    keys = (name for name in ("anthropic", "openai") if command.environ.get(f"{name.upper()}_API_KEY"))
    return next(keys, "anthropic")


def _api(command: AgentCommand, provider: str) -> Api:
    if command.api is not None:
        return command.api
    added = _added(command, provider)
    models = [model for model in added.get("models") or () if isinstance(model, dict)]
    spoken = text(added, "api") or next((api for model in models if (api := text(model, "api"))), None)
    if spoken is None and provider in _KNOWN:
        return _KNOWN[provider][0]
    if spoken not in _APIS:
        raise cannot(
            "pi", f"the protocol of its provider {provider!r} is unknown; give --api anthropic or --api openai"
        )
    return _APIS[spoken]


def _added(command: AgentCommand, provider: str) -> dict[str, Any]:
    return table(read_json(_home(command) / "models.json"), "providers", provider)


def _home(command: AgentCommand) -> Path:
    return command.directory("PI_CODING_AGENT_DIR", ".pi/agent")

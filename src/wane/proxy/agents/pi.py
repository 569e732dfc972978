"""pi: an extension that gives a provider another address; neither environment nor options do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from wane.proxy.agents.base import ANTHROPIC, OPENAI, Api, Asked, Start, cannot, openai_base, read_json, table, text
from wane.proxy.http.address import UpstreamUrl

_COMMANDS: Final = ("install", "remove", "uninstall", "update", "list", "config", "auth")
"""What pi does besides being an agent; these take no extension."""

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
"""Providers that pi knows, with one protocol and one address for all their models."""

_APIS: Final[dict[str, Api]] = {
    "anthropic-messages": "anthropic",
    "openai-completions": "openai",
    "openai-responses": "openai",
}


class Pi:
    """pi, with one of the providers that it knows or that its `models.json` adds."""

    program = "pi"
    install = "npm install -g @earendil-works/pi-coding-agent"
    user_agents: tuple[str, ...] = ("pi (", "pi/")

    def upstream(self, asked: Asked) -> str:
        """Return the address of the provider of its model."""
        provider = _provider(asked)
        base = text(_added(asked, provider), "baseUrl") or _KNOWN.get(provider, ("", None))[1]
        if base is None:
            raise cannot(
                "pi", f"the address of its provider {provider!r} is not known; give it as --upstream, and --api"
            )
        return base

    def start(self, asked: Asked, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return the extension, which is written to the private directory."""
        if asked.arguments[:1] and asked.arguments[0] in _COMMANDS:
            return Start()
        provider = _provider(asked)
        base = proxy if _api(asked, provider) == "anthropic" else openai_base(proxy, upstream)
        extension = private / "wane.mjs"
        call = f"pi.registerProvider({json.dumps(provider)}, {json.dumps({'baseUrl': base})})"
        extension.write_text(f"export default (pi) => {{ {call}; }};\n", encoding="utf-8")
        return Start(("-e", str(extension)))


def _provider(asked: Asked) -> str:
    """The provider of the model that pi will use, as far as options, settings and keys tell."""
    named = asked.option("--provider")
    if named:
        return named
    for models in (asked.option("--model"), asked.option("--models")):
        provider, slash, _ = (models or "").partition(",")[0].partition("/")
        if slash and (provider in _KNOWN or _added(asked, provider)):
            return provider
    settings = {**read_json(_home(asked) / "settings.json"), **read_json(asked.folder / ".pi" / "settings.json")}
    if default := text(settings, "defaultProvider"):
        return default
    keys = (name for name in ("anthropic", "openai") if asked.environ.get(f"{name.upper()}_API_KEY"))
    return next(keys, "anthropic")


def _api(asked: Asked, provider: str) -> Api:
    if asked.api is not None:
        return asked.api
    added = _added(asked, provider)
    models = [model for model in added.get("models") or () if isinstance(model, dict)]
    spoken = text(added, "api") or next((api for model in models if (api := text(model, "api"))), None)
    if spoken is None and provider in _KNOWN:
        return _KNOWN[provider][0]
    if spoken not in _APIS:
        raise cannot("pi", f"what its provider {provider!r} speaks is not known; say --api anthropic or --api openai")
    return _APIS[spoken]


def _added(asked: Asked, provider: str) -> dict[str, Any]:
    return table(read_json(_home(asked) / "models.json"), "providers", provider)


def _home(asked: Asked) -> Path:
    return asked.place("PI_CODING_AGENT_DIR", ".pi/agent")

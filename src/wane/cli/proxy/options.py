"""Turns options of the command line into a proxy's settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from wane.cli.ages import parse_age
from wane.cli.failure import UsageError
from wane.cli.lab.plan import NO_SHARE, choose_policy, parse_tool_classes, parse_window
from wane.core import parse_budget
from wane.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from wane.proxy.server.run import ProxyOptions
    from wane.proxy.settings import ContextSettings

TOKEN_VARIABLE: Final = "WANE_PROXY_TOKEN"  # noqa: S105 - its name
"""Environment variable with the token that clients must send."""

STORE_VARIABLE: Final = "WANE_PROXY_STORE"
"""Environment variable with the store, for a URL that contains a password."""

_MODULES: Final = ("starlette", "uvicorn", "httpx2", "orjson", "prometheus_client")
_SIZE: Final = re.compile(r"(\d{1,12})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_UNIT: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def need_proxy(part: str = "the proxy") -> None:
    """Check that the proxy's dependencies are installed.

    Raises:
        MissingExtraError: if they are not.
    """
    if any(find_spec(module) is None for module in _MODULES):
        raise MissingExtraError(part, "proxy")


def proxy_options(values: Mapping[str, Any], environ: Mapping[str, str]) -> ProxyOptions:
    """Return the options of the proxy.

    Args:
        values: values of the command line, by the flags in `wane.cli.proxy.flags`.
        environ: the environment, which may hold the token and the store.

    Raises:
        UsageError: for options that contradict each other, or without an upstream.
        ConfigError: for a value that cannot work.
        MissingExtraError: if the proxy's extra is not installed.
    """
    need_proxy()
    from wane.proxy.server.run import ProxyOptions
    from wane.proxy.settings import MAX_BODY, Address, ServerSettings, Timeouts, UpstreamUrl
    from wane.proxy.store import KEEP

    if not values.get("upstream"):
        raise UsageError(
            "give the provider to send requests to, such as: wane proxy --upstream https://api.anthropic.com"
        )
    waits = {"timeout": "read", "grace": "grace"}
    given = {field: _seconds(f"--{key}", values[key]) for key, field in waits.items() if key in values}
    timeouts = Timeouts(**given)
    server = ServerSettings(
        upstream=UpstreamUrl.parse(values["upstream"]),
        listen=Address.parse(values["listen"]) if "listen" in values else Address(),
        token=values.get("token") or environ.get(TOKEN_VARIABLE) or None,
        strict=values.get("strict", False),
        usage=values.get("usage", "auto"),
        max_body=parse_size(values["max_body"]) if "max_body" in values else MAX_BODY,
        timeouts=timeouts,
        max_cost=values.get("max_cost"),
    )
    store: str | None = None
    if not values.get("no_store"):
        store = str(values.get("store") or environ.get(STORE_VARIABLE) or "disk")
    elif "store" in values:
        raise UsageError("give --store or --no-store, not both")
    workers = values.get("workers", 1)
    if workers < 1:
        raise UsageError(f"--workers is {workers}; at least one process must serve")
    if workers > 1 and "://" not in (store or ""):
        raise UsageError(
            "several workers need a store that processes can share: give --store redis://… or postgresql://…"
        )
    keep = parse_age("--keep", values["keep"], never=True) if "keep" in values else KEEP
    return ProxyOptions(server, context_settings(values), store, keep)


def context_settings(values: Mapping[str, Any]) -> ContextSettings:
    """Return how to manage contexts.

    Raises:
        UsageError: for inference with a strategy that has no episodes, or for recall or reminders if the model marks no
            episodes.
        ConfigError: for a value that cannot work.
    """
    from wane.conversation.engine import EPISODIC
    from wane.core.items import read_tool_classes
    from wane.proxy.settings import ContextSettings

    given = {key: values[key] for key in ("strategy", "annotate", "recall") if key in values}
    if "idle" in values:
        given["idle"] = _seconds("--idle", values["idle"])
    if "remind_at" in values:
        given["remind_at"] = _remind_at(values["remind_at"])
    classes = parse_tool_classes(values.get("tool_classes", ()))
    read_tool_classes(classes)
    settings = ContextSettings(
        budget=parse_budget(values.get("budget", "80k"), window=parse_window(values.get("window", "200k"))),
        policy=choose_policy(values.get("policy", "default"), values),
        tool_classes=classes or None,
        **given,
    )
    if settings.recall and (settings.strategy not in EPISODIC or settings.annotate != "model"):
        raise UsageError(
            "--recall returns episodes that the model marks: it needs --strategy cwl or paper, and --annotate model"
        )
    if "remind_at" in values and (settings.strategy not in EPISODIC or settings.annotate != "model"):
        raise UsageError(
            "--remind-at is for models that mark episodes: it needs --strategy cwl or paper, and --annotate model"
        )
    if settings.strategy not in EPISODIC and settings.annotate == "infer":
        raise UsageError(
            f"--annotate infer has no effect with --strategy {settings.strategy}, which has no episodes: "
            "leave it out, or give --strategy cwl or paper"
        )
    return settings


def _remind_at(text: str) -> float | None:
    if text.strip().lower() == NO_SHARE:
        return None
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ConfigError(f"--remind-at is {text!r}; it must be a share of the budget, above 0 to 1, or {NO_SHARE!r}")
    return share


def parse_size(text: str) -> int:
    """Return the bytes of a size, written as `1000000`, `128m` or `1g`.

    Raises:
        ConfigError: for anything else.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ConfigError(f"the size {text!r} is not understood; write bytes (1000000) or with a unit (128m)")
    return int(match[1]) * _UNIT[match[2].lower()]


def _seconds(option: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{option} is {value:g}; it must be a number of seconds above 0")
    return value

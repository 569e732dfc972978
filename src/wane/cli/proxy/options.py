"""Turns options of the command line into a proxy's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from wane.cli.failure import UsageError, need_proxy
from wane.cli.proxy.commands import ContextOptions, ProxyCommandOptions
from wane.cli.values import (
    check_seconds,
    choose_policy,
    parse_age,
    parse_remind_at,
    parse_size,
    parse_tool_classes,
    parse_window,
)
from wane.core import parse_budget

if TYPE_CHECKING:
    from wane.proxy.server.run import ProxyOptions
    from wane.proxy.settings import ContextSettings

TOKEN_VARIABLE: Final = "WANE_PROXY_TOKEN"  # noqa: S105 - its name
"""Environment variable with the token that clients must send."""

STORE_VARIABLE: Final = "WANE_PROXY_STORE"
"""Environment variable with the store, for a URL that contains a password."""


def proxy_options(command: ProxyCommandOptions, environ: Mapping[str, str]) -> ProxyOptions:
    """Return the options of the proxy.

    Args:
        command: the options of the command.
        environ: the environment, which may hold the token and the store.

    Raises:
        UsageError: for options that contradict each other, or without an upstream.
        ConfigError: for a value that cannot work.
        MissingExtraError: if the proxy's extra is not installed.
    """
    need_proxy()
    from wane.proxy.server.run import ProxyOptions
    from wane.proxy.settings import MAX_BODY, Address, ServerSettings, Timeouts, UpstreamUrl
    from wane.proxy.store.base import KEEP

    if not command.upstream:
        raise UsageError(
            "give the provider to send requests to, such as: wane proxy --upstream https://api.anthropic.com"
        )
    context, treatment = command.context, command.treatment
    waits = {}
    if treatment.timeout is not None:
        waits["read"] = check_seconds("--timeout", treatment.timeout)
    if command.grace is not None:
        waits["grace"] = check_seconds("--grace", command.grace)
    server = ServerSettings(
        upstream=UpstreamUrl.parse(command.upstream),
        listen=Address() if command.listen is None else Address.parse(command.listen),
        token=command.token or environ.get(TOKEN_VARIABLE) or None,
        strict=treatment.strict,
        usage=treatment.usage or "auto",
        max_body=MAX_BODY if treatment.max_body is None else parse_size(treatment.max_body),
        timeouts=Timeouts(**waits),
        max_cost=treatment.max_cost,
    )
    if context.no_store and context.store is not None:
        raise UsageError("give --store or --no-store, not both")
    store = None if context.no_store else context.store or environ.get(STORE_VARIABLE) or "disk"
    if command.workers < 1:
        raise UsageError(f"--workers is {command.workers}; at least one process must serve")
    if command.workers > 1 and "://" not in (store or ""):
        raise UsageError(
            "several workers need a store that processes can share: give --store redis://… or postgresql://…"
        )
    keep = KEEP if context.keep is None else parse_age("--keep", context.keep, never=True)
    return ProxyOptions(server, context_settings(context), store, keep)


def context_settings(options: ContextOptions) -> ContextSettings:
    """Return how to manage contexts.

    Raises:
        UsageError: for inference with a strategy that has no episodes, or for recall or reminders if the model marks no
            episodes.
        ConfigError: for a value that cannot work.
    """
    from wane.core.items import read_tool_classes
    from wane.proxy.settings import ContextSettings
    from wane.strategies.base import EPISODIC

    given: dict[str, Any] = {}
    if options.idle is not None:
        given["idle"] = check_seconds("--idle", options.idle)
    if options.remind_at is not None:
        given["remind_at"] = parse_remind_at(options.remind_at)
    classes = parse_tool_classes(options.tool_classes)
    read_tool_classes(classes)
    settings = ContextSettings(
        budget=parse_budget(options.budget, window=parse_window(options.window)),
        strategy=options.strategy,
        policy=choose_policy(options.policy, options.policy_settings),
        annotate=options.annotate,
        recall=options.recall,
        tool_classes=classes or None,
        **given,
    )
    if settings.recall and not settings.marked:
        raise UsageError(
            "--recall returns episodes that the model marks: it needs --strategy cwl or paper, and --annotate model"
        )
    if options.remind_at is not None and not settings.marked:
        raise UsageError(
            "--remind-at is for models that mark episodes: it needs --strategy cwl or paper, and --annotate model"
        )
    if settings.strategy not in EPISODIC and settings.annotate == "infer":
        raise UsageError(
            f"--annotate infer has no effect with --strategy {settings.strategy}, which has no episodes: "
            "leave it out, or give --strategy cwl or paper"
        )
    return settings

"""Turns options of the command line into a proxy's settings; with `--shadow`, what Wane would have done."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from wane.budgets import choose_budget, is_share, parse_budget_or_auto
from wane.cli.failure import UsageError, need_proxy
from wane.cli.flag_values import NO_SHARE, by_tool
from wane.cli.proxy.proxy_commands import ContextOptions, ProxyCommandOptions
from wane.cli.sessions.stores import STORE_VARIABLE, with_store
from wane.cli.shared_flags import DEFAULT_WINDOW, PRICE
from wane.cli.terminal.text import say
from wane.conversation.context import SETTING_NAMES, ContextSettings
from wane.core import parse_budget
from wane.core.errors import ConfigError, WaneError
from wane.journal import Header, Record
from wane.proxy.settings import MAX_BODY, Address, ServerSettings, ServerTimeouts, UpstreamUrl
from wane.proxy.store.stores import Store
from wane.strategies.registry import traits
from wane.strategies.strategy import StrategySettings
from wane.tuned import usable_tuned

if TYPE_CHECKING:
    from wane.lab.recorded_session import RecordedSession
    from wane.proxy.server.running import ProxyOptions

TOKEN_VARIABLE: Final = "WANE_PROXY_TOKEN"  # noqa: S105 - its name
"""Environment variable with the token that clients must send."""

KEY_VARIABLE: Final = "WANE_PAGE_KEY"
"""Environment variable in which `wane run` tells the agent's commands the key of its page."""

FALLBACK_KEY_VARIABLE: Final = "WANE_PROXY_FALLBACK_KEY"
"""Environment variable with the key for the second upstream."""


def proxy_options(command: ProxyCommandOptions, environ: Mapping[str, str]) -> ProxyOptions:
    """Return the options of the proxy."""
    context = command.context
    settings = context_settings(context)  # its mistakes are found first, whatever else is missing
    need_proxy()
    if not command.upstream:
        raise UsageError(
            "give the provider to send requests to, such as: wane proxy --upstream https://api.anthropic.com"
        )
    server = _server_settings(command, command.upstream, environ)
    store = _store(command, environ)
    optional: dict[str, Any] = {"keep": context.keep, "idle": context.idle}
    if context.digests_only:
        optional["keep_requests"] = False
    if command.treatment.shadow:
        _check_shadow(command)
        shadow = Shadow.of(settings, store)
        settings, optional["predict"] = shadow.watching, shadow.tell
    if context.agent_budget is not None:
        if not traits(settings.strategy).bounded:
            raise UsageError("--strategy none keeps to no budget: leave --agent-budget out")
        try:
            optional["agent_budget"] = parse_budget(context.agent_budget, window=context.window or DEFAULT_WINDOW)
        except ConfigError as error:
            raise UsageError(f"--agent-budget: {error}") from None
    optional = {name: value for name, value in optional.items() if value is not None}
    # The server takes seconds to load, so mistakes in the options have been reported before that.
    from wane.proxy.server.running import ProxyOptions
    from wane.proxy.server.status import SessionPages

    if store is not None:
        optional["pages"] = SessionPages(secrets.token_urlsafe(12), show_session)
    return ProxyOptions(server, settings, store, **optional)


def show_session(header: Header, records: Sequence[Record]) -> str:
    """Return the page of a session; see `SessionPages`."""
    from wane.lab.report import page_of_journal

    return page_of_journal(header, records, PRICE)


def key_in_address(options: ProxyOptions) -> str:
    """Return the part of the live page's address that opens sessions from it; empty if the proxy stores none."""
    # What follows the `#` stays in the browser, so no log has it.
    return "" if options.pages is None else f"#key={options.pages.key}"


def _server_settings(command: ProxyCommandOptions, upstream: str, environ: Mapping[str, str]) -> ServerSettings:
    treatment = command.treatment
    address = Address() if command.listen is None else Address.parse(command.listen)
    try:
        socket.getaddrinfo(address.host, address.port, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(
            f"--listen is {command.listen!r}, and there is no host {address.host!r}; write HOST:PORT, such as "
            "127.0.0.1:8484"
        ) from None
    if treatment.max_cost_per is not None and treatment.max_cost is None:
        raise UsageError("--max-cost-per says what --max-cost is for: give both")
    if treatment.max_cost_per == "run" and command.workers > 1:
        raise UsageError("--max-cost-per run counts in one process: with --workers give day, month or total")
    waits = {"read": treatment.timeout, "grace": command.grace}
    fallback = fallback_key = None
    if command.fallback is not None:
        fallback = UpstreamUrl.parse(command.fallback)
        fallback_key = environ.get(FALLBACK_KEY_VARIABLE) or None
    return ServerSettings(
        upstream=UpstreamUrl.parse(upstream),
        listen=address,
        token=command.token or environ.get(TOKEN_VARIABLE) or None,
        strict=treatment.strict,
        usage=treatment.usage or "auto",
        max_body=treatment.max_body or MAX_BODY,
        timeouts=ServerTimeouts(**{name: value for name, value in waits.items() if value is not None}),
        max_cost=treatment.max_cost,
        cost_period=treatment.max_cost_per or "total",
        shadow=treatment.shadow,
        team=command.team,
        fallback=fallback,
        fallback_key=fallback_key,
    )


def _store(command: ProxyCommandOptions, environ: Mapping[str, str]) -> str | None:
    """Return where sessions are stored; None for memory only."""
    context = command.context
    if command.workers < 1:
        raise UsageError(f"--workers is {command.workers}; at least one process must serve")
    if context.no_store:
        if context.store is not None:
            raise UsageError("give --store or --no-store, not both")
        keep, idle = context.keep is not None, context.idle is not None
        for flag, is_given in (("--keep", keep), ("--idle", idle), ("--digests-only", context.digests_only)):
            if is_given:
                raise UsageError(f"{flag} is about sessions in a store: leave out {flag} or --no-store")
        if command.team:
            raise UsageError("--team keeps its names in the store: leave out --no-store")
        store = None
    else:
        store = context.store or environ.get(STORE_VARIABLE) or "disk"
    if command.workers > 1 and "://" not in (store or ""):
        raise UsageError(
            "several workers need a store that processes can share: give --store redis://… or postgresql://…"
        )
    return store


def _check_shadow(command: ProxyCommandOptions) -> None:
    """Refuse options that have no effect on a proxy that only watches."""
    context, treatment = command.context, command.treatment
    ignored = {
        "--agent-budget": (context.agent_budget is not None, "tries one --budget for all sessions"),
        "--recall": (context.recall, "gives the model no tool"),
        "--tasks": (context.tasks, "gives the model no tool"),
        "--remind-at": (context.remind_at is not None, "reminds the model of nothing"),
        "--usage": (treatment.usage is not None, "passes every reply on as it is"),
        "--strict": (treatment.strict, "passes every request on, even if Wane fails"),
        "--fallback": (command.fallback is not None, "sends every request to the upstream"),
    }
    for flag, (is_given, reason) in ignored.items():
        if is_given:
            raise UsageError(f"--shadow {reason}, so {flag} has no effect: leave it out")


def context_settings(options: ContextOptions) -> ContextSettings:
    """Return how to manage contexts."""
    values: dict[str, Any] = {name: getattr(options, name, None) for name in SETTING_NAMES}
    window = options.window
    if window is None and is_share(options.budget):
        window = DEFAULT_WINDOW
    values["window"] = window
    values["budget"] = parse_budget_or_auto(options.budget, window=window)
    values["auto"] = values["budget"] is None
    if values["auto"]:
        values["tuned"] = usable_tuned(os.environ, say)
        values["budget"] = choose_budget(window=window, tuned=values["tuned"]).tokens
    values["policy"] = options.policy_settings.applied_to(options.policy)
    values["tool_classes"] = by_tool(options.tool_classes) or None
    values = {name: value for name, value in values.items() if value is not None}
    if options.remind_at == NO_SHARE:
        values["remind_at"] = None
    settings = ContextSettings(**values)
    if settings.recall and not traits(settings.strategy).bounded:
        raise UsageError("--recall returns what was evicted, and --strategy none evicts nothing: leave one of them out")
    for flag, is_given in (("--remind-at", options.remind_at is not None), ("--tasks", options.tasks)):
        if is_given and not settings.marked:
            raise UsageError(
                f"{flag} is for models that mark episodes: it needs --strategy cwl or paper, and --annotate model"
            )
    if not traits(settings.strategy).by_episode and settings.annotate == "infer":
        raise UsageError(
            f"--annotate infer has no effect with --strategy {settings.strategy}, which has no episodes: "
            "leave it out, or give --strategy cwl or paper"
        )
    return settings


@dataclass(frozen=True, slots=True)
class Shadow:
    """`--shadow`: the settings that a watching proxy would use, and where its sessions are stored."""

    store: str
    context: ContextSettings

    @classmethod
    def of(cls, context: ContextSettings, store: str | None) -> Shadow:
        """Return the shadow of a proxy."""
        if not traits(context.strategy).bounded:
            raise UsageError("--shadow says what a strategy would do, and --strategy none does nothing: name another")
        if store is None:
            raise UsageError("--shadow reads sessions back from their store: leave out --no-store")
        return cls(store, context)

    @property
    def watching(self) -> ContextSettings:
        """The settings of the proxy itself, which evicts nothing and gives the model no tool."""
        return replace(self.context, strategy="none", annotate="model")

    def tell(self, sessions: Iterable[str]) -> list[str]:
        """Return sentences on what Wane would have done in the sessions with these ids. Call it outside event loops."""
        from wane.lab.readers.journal import session_of
        from wane.lab.shadow import predict, sentences

        recorded: list[RecordedSession] = []
        unread: list[str] = []

        async def collect(store: Store) -> None:
            for session in sessions:
                try:
                    recorded.append(session_of(await store.header(session), await store.read(session)))
                except WaneError as error:
                    unread.append(str(error).rstrip("."))

        with_store(self.store, collect)
        settings = StrategySettings(
            budget=self.context.budget, policy=self.context.policy, tool_classes=self.context.tool_classes
        )
        try:
            prediction = predict(recorded, self.context.strategy, settings, PRICE)
        except WaneError as error:
            return [f"What Wane would have done cannot be told: {error}."]
        lines = ["No model has answered yet."] if prediction is None else sentences(prediction)
        return [*lines, *(f"Left out: {why}." for why in unread)]

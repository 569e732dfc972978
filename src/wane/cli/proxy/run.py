"""`wane run`: runs an agent with its own proxy."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wane.budgets import AutoBudget
from wane.cli import failure
from wane.cli.failure import UsageError, need_proxy
from wane.cli.parser import LIKENESS
from wane.cli.proxy.log import RunLog
from wane.cli.proxy.proxy_commands import ProxyCommandOptions, RunOptions
from wane.cli.proxy.proxy_options import KEY_VARIABLE, TOKEN_VARIABLE, key_in_address, proxy_options
from wane.cli.sessions.listing import short_id
from wane.cli.sessions.stores import STORE_VARIABLE
from wane.cli.terminal.signals import run_child
from wane.cli.terminal.text import count_noun, say
from wane.core.errors import WaneError
from wane.prices import assumed_prices
from wane.proxy.agents.coding_agent import Agent, AgentCommand, around_proxies
from wane.proxy.agents.known import AGENTS, agent_of
from wane.proxy.sessions.memory import SessionStatus
from wane.proxy.settings import Address
from wane.proxy.store import DISK
from wane.proxy.store.database import scheme_of
from wane.savings import Money, described_effect
from wane.strategies.registry import traits

if TYPE_CHECKING:
    from wane.proxy.server.running import ProxyOptions, Running

_ANY_PORT: Final = "127.0.0.1:0"
_ANYWHERE: Final = "http://127.0.0.1"
"""The provider of an agent that is not installed."""


def run_agent(options: RunOptions) -> int:
    need_proxy("wane run")
    if options.listen is not None and not Address.parse(options.listen).is_loopback:
        raise UsageError(
            f"wane run listens for one agent on this machine, but others can reach {options.listen}: give an address "
            "such as 127.0.0.1:8701, or use wane proxy, which asks for a token there"
        )
    command = AgentCommand(
        program=options.agent,
        arguments=options.arguments,
        environ=dict(os.environ),
        folder=Path.cwd(),
        api=options.api,
        upstream=options.upstream,
    )
    agent = agent_of(command.program)
    path = shutil.which(command.program)
    try:
        # Where the agent asks is not looked up for one that is not there.
        upstream = command.upstream or (_ANYWHERE if path is None else agent.upstream(command))
        proxy = _proxy_of(upstream, command, options)
    except WaneError as error:
        if path is not None:
            raise
        # A wrong option is said first: it stays wrong once the agent is installed.
        say(str(error), error.command)
        say(_why_missing(agent, options))
        return failure.exit_code(error)
    if path is None:
        say(_why_missing(agent, options))
        return failure.NOT_FOUND
    return _run(agent, command, path, proxy, options)


def _why_missing(agent: Agent, options: RunOptions) -> str:
    """Return that an agent is not installed, with what to do about it."""
    advice = f"; install it with: {agent.install}" if agent.install else ""
    names = [known.program for known in AGENTS]
    if not advice and (meant := get_close_matches(agent.program, names, 1, LIKENESS)):
        advice = f"; did you mean {meant[0]}?"
    elif not advice and options.api is None:
        advice = f". Wane knows {', '.join(names)}; another agent needs --api anthropic, openai or gemini"
    return f"{options.agent} is not installed, or not on the PATH{advice}"


def _proxy_of(upstream: str, command: AgentCommand, options: RunOptions) -> ProxyOptions:
    """Return the settings of the proxy for an agent; all that can be wrong in the options is found here."""
    # Nobody else can reach this proxy, so it needs no token: of the proxy's variables only the store counts.
    environ = {name: value for name, value in command.environ.items() if name == STORE_VARIABLE}
    treatment = options.treatment
    if treatment.usage is None and not treatment.shadow:
        # Any agent may compact its context by the usage that a reply reports.
        treatment = replace(treatment, usage="last")
    if treatment.max_cost_per is None and treatment.max_cost is not None:
        treatment = replace(treatment, max_cost_per="run")
    proxy = ProxyCommandOptions(
        upstream=upstream,
        listen=options.listen or _ANY_PORT,
        context=options.context,
        treatment=treatment,
    )
    with assumed_prices(options.price):
        return proxy_options(proxy, environ)


def _run(agent: Agent, command: AgentCommand, path: str, options: ProxyOptions, run_options: RunOptions) -> int:
    from wane.proxy.server.running import in_thread

    with (
        assumed_prices(run_options.price),
        RunLog(run_options.log, run_options.log_level) as log,
        # Only the user can read this directory.
        tempfile.TemporaryDirectory(prefix="wane-run-") as private,
        in_thread(replace(options, agent=agent.program)) as proxy,
    ):
        start = agent.start(command, proxy.url, options.server.upstream, Path(private))
        log.note(f"{agent.program} asks {proxy.url}, which asks {options.server.upstream}; see {proxy.url}/wane/")
        if not run_options.quiet:
            if start.note:
                say(start.note)
            say(f"this run's page, until {agent.program} ends: {proxy.url}/wane/{key_in_address(options)}")
        environ = {**command.environ, **around_proxies(command.environ), **start.environ, "WANE_PROXY_URL": proxy.url}
        environ.pop(TOKEN_VARIABLE, None)
        if options.pages is not None:
            environ[KEY_VARIABLE] = options.pages.key
        code = run_child((path, *start.before, *command.arguments), environ)
        proxy.finish()
        # When the proxy ends, its sessions leave memory.
        sessions = proxy.sessions.status()
    if options.predict is not None and sessions:
        for line in options.predict([status.facts.session for status in sessions]):
            say(f"shadow: {line}")
    if not run_options.quiet:
        say(summary(proxy, sessions, options, log))
        if traits(options.context.strategy).bounded:
            for auto in chosen_budgets(sessions):
                say(str(auto))
        if where := where_to_look(sessions, options.store):
            say(where)
        if advice := advice_on(sessions):
            say(advice)
    return code


_ENDED: Final = {
    "passed": "passed on unchanged",
    "failed_open": "passed on unchanged because Wane failed",
    "refused": "refused",
    "provider_error": "answered with an error",
    "unreachable": "not answered",
    "broken": "broken off",
    "client_gone": "cancelled",
}
"""How requests ended that were not managed, by outcome."""


def where_to_look(sessions: Sequence[SessionStatus], store: str | None) -> str:
    """Return the id of the run's longest session and the commands that show it; empty if it is not in a file."""
    if not sessions or store is None or scheme_of(store) is not None:
        return ""
    outer = [status for status in sessions if not status.facts.parent] or sessions
    longest = max(outer, key=lambda status: (status.facts.history, status.requests))
    name = short_id(longest.facts.session)
    others = f", the longest of {len(sessions):,}" if len(sessions) > 1 else ""
    where = "" if store == DISK else f"WANE_SESSION_DIR={shlex.quote(store)} "
    return f"session {name}{others}: {where}wane show {name} prints it, {where}wane view {name} shows it as a page"


def advice_on(sessions: Sequence[SessionStatus]) -> str:
    """Return the advice for the session whose budget is too small by most; empty if no budget is too small."""
    facts = [status.facts for status in sessions if status.facts.advice]
    worst = max(facts, key=lambda fact: (fact.thrashing is not None, fact.room.fixed if fact.room else 0), default=None)
    return "" if worst is None else worst.advice


def chosen_budgets(sessions: Sequence[SessionStatus]) -> list[AutoBudget]:
    """Return the different budgets `auto` of sessions, the smallest first; none if another one was set."""
    chosen = {status.facts.chosen for status in sessions if status.facts.chosen is not None}
    return sorted(chosen, key=lambda auto: (auto.tokens, auto.reason))


def summary(proxy: Running, sessions: Sequence[SessionStatus], options: ProxyOptions, log: RunLog) -> str:
    """Return a line about the requests of a run."""
    warned = f"; {count_noun(log.warnings, 'warning')} in {log.baseFilename}" if log.warnings else ""
    outcomes = proxy.traffic.outcomes()
    every = sum(outcomes.values())
    if not every:
        return f"no request reached the proxy: the agent sent none, or sent them elsewhere{warned}"
    others = [f"{outcomes[name]:,} {how}" for name, how in _ENDED.items() if outcomes.get(name)]
    line = count_noun(every, "request")
    if others:
        line += f" ({', '.join(others)})"
    if not proxy.traffic.peak:
        return f"{line}; none had a history and tools to manage{warned}"
    peak, evicted = f"{proxy.traffic.peak:,}", proxy.traffic.evicted_tokens()
    if not traits(options.context.strategy).bounded and options.predict is None:
        line += f"; Wane was off (--strategy none): requests held {peak} tokens at most, and nothing was evicted"
    elif options.predict is None:
        # Under `auto` each session has a budget of its own.
        budgets = {auto.tokens for auto in chosen_budgets(sessions)} or {options.context.budget}
        limit = f" of {budgets.pop():,}" if len(budgets) == 1 else ""
        line += f"; the view held {peak}{limit} tokens at most, {evicted:,} were evicted"
    total = sum((status.own_money for status in sessions), Money())
    agents = [status for status in sessions if status.facts.parent]
    if total.account.known:
        line += f"; {total.account.describe('spent')}"
        if options.predict is None and (effect := described_effect(total)):
            line += f"; {effect}"
    elif total.account.calls:
        line += f"; {total.account.describe()}"
    unlisted: set[str] = set()
    for status in sessions:
        unlisted.update(status.unlisted)
    if unlisted:
        line += f" (no price is known for {', '.join(sorted(unlisted))})"
    if agents:
        of_agents = sum((status.own_money for status in agents), Money()).account
        line += f"; {count_noun(len(agents), 'sub-agent')} among them: {of_agents.describe()}"
    return line + warned

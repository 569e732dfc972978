"""Prepares replays: reads the sessions of a command line, checks its options, and says what was read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.lab.arguments import newest_here, usable_counter
from wane.cli.lab.common import (
    COPIED,
    NAMED,
    SCRIPTED_MODEL,
    UNPAID,
    gathered_from,
    held_by_kind,
    named_lines,
    problem_lines,
    why_idle,
)
from wane.cli.lab.lab_commands import LabOptions
from wane.cli.shared_flags import PRICE
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, printable
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.lab.readers import Gathered
from wane.lab.replaying.jobs import JobEngine, get_engine
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import Studied, study
from wane.lab.replaying.verdict import prices_used
from wane.lab.rereads import Rereads, rereads
from wane.strategies.registry import get_strategy
from wane.strategies.strategy import StrategySettings


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that replays need."""

    gathered: Gathered
    studied: list[Studied]
    engine: JobEngine


def prepare(sessions: Sequence[str], options: LabOptions, settings: StrategySettings, bar: Bar) -> Setup:
    """Check the options, then read the sessions."""
    if options.summary_tokens is not None and options.summary_tokens < 1:
        raise ConfigError(f"the length of a summary is {options.summary_tokens} tokens; it must be at least 1")
    get_strategy("none", settings)
    pricing = Pricing.of(options.price or PRICE, hour=options.cache_hour)
    engine = get_engine(options.engine, options.workers)
    counter = usable_counter(options.counter)
    gathered = gathered_from(
        sessions or [newest_here()], options, bar, sidechains=options.sidechains, joined=options.join
    )
    # Calls that all failed cost nothing, so there is nothing to compare.
    failed = tuple(entry for entry in gathered.recordings if not entry.session.answered)
    answered = tuple(entry for entry in gathered.recordings if entry.session.answered)
    gathered = replace(gathered, recordings=answered, idle=(*gathered.idle, *failed))
    if not gathered.recordings:
        names = ", ".join(printable(entry.session.name) for entry in gathered.idle[:NAMED])
        raise failure.InputError(f"there is nothing to replay: no model answered in {names}")
    progress, own = bar.stage("Indexing"), options.price is None
    studied = study(
        gathered.recordings, pricing, counter, options.annotate, options.summary_tokens, progress, own_prices=own
    )
    return Setup(gathered, studied, engine)


def with_agent_budget(studied: Sequence[Studied], budget: int | None) -> list[Studied]:
    """Return the sessions, with this budget for those of sub-agents; with None, all have the common budget."""
    if budget is None:
        return list(studied)
    if not any(prepared.recording.parent for prepared in studied):
        raise UsageError("--agent-budget is for sub-agents, and there is no session of one here (see --sidechains)")
    own_budgets = []
    for prepared in studied:
        own = budget if prepared.recording.parent else None
        own_budgets.append(replace(prepared, budget=own))
    return own_budgets


def price_source(studied: Iterable[Studied]) -> str:
    """Return whose prices were used for which calls, to follow the word "prices"."""
    return printable(f"of {prices_used((prepared.recording.session, prepared.pricing) for prepared in studied)}.")


def read_lines(gathered: Gathered, studied: Sequence[Studied]) -> list[str]:
    """Return lines on what was read, and on what could not be read."""
    sessions = [prepared.recording.session for prepared in studied]
    items = [item for prepared in studied for item in prepared.subject.material.own_items]
    calls = sum(len(session.own_calls) for session in sessions)
    turns = sum(item.kind is Kind.USER for item in items)
    tokens = held_by_kind((item.kind, item.tokens) for item in items)
    first = f"{count_noun(len(studied), 'session')}: {count_noun(calls, 'model call')}, {tokens}"
    lines = [f"{first}, {count_noun(turns, 'turn')} of the user."]
    if scripted := sum(session.scripted for session in sessions):
        lines.append(f"{count_noun(scripted, 'session')}: {SCRIPTED_MODEL}; {UNPAID}.")
    inferred = sum(prepared.inferred for prepared in studied)
    if inferred:
        of = "" if inferred == len(studied) else f" of {inferred} sessions"
        lines.append(f"Episodes{of} are inferred from tool calls: the agent marked none.")
    branches = [session for session in sessions if session.calls != session.own_calls]
    if branches:
        shared = sum(len(session.calls) - len(session.own_calls) for session in branches)
        shared_calls = f"{count_noun(shared, 'model call')} that they share with it count there"
        lines.append(f"{count_noun(len(branches), 'session')} branched off from another one: {shared_calls}.")
    outer = [prepared.recording.session for prepared in studied if prepared.recording.parent is None]
    sides = sum(len(session.sidechains) for session in outer)
    if sides:
        if len(outer) == len(sessions):
            lines.append(f"{count_noun(sides, 'session')} of sub-agents left out; --sidechains replays them too.")
        again = sum((rereads(session) for session in outer), Rereads())
        lines.append(f"Sub-agents: {again.describe()}.")
    lines += problem_lines(sessions)
    copied = [entry.session.name for entry in gathered.idle if why_idle(entry.session) == COPIED]
    idle = [entry.session.name for entry in gathered.idle if why_idle(entry.session) != COPIED]
    lines += named_lines("left out, because no model answered in it", count_noun(len(idle), "session"), idle)
    lines += named_lines(f"left out: {COPIED}", count_noun(len(copied), "session"), copied)
    unread = [file.why for file in gathered.unread]
    lines += named_lines("skipped", count_noun(len(unread), "file"), unread)
    return lines

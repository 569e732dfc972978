"""What the lab's commands share: reading sessions, saying what was read, and formatting figures."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from rich.measure import Measurement
from rich.table import Table

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.lab.commands import PRICE, LabOptions
from wane.cli.lab.reading import located, usable_counter
from wane.cli.terminal.picture import plain_table
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import counted, first_few, plain_console, printable, say, write_json
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.lab.readers import Gathered, gather, shown_path
from wane.lab.replaying.engine import Engine, get_engine
from wane.lab.replaying.replay import Pricing
from wane.lab.replaying.studying import Studied, study
from wane.lab.rereads import Rereads, rereads
from wane.lab.session import RecordedSession
from wane.lab.verdict import prices_used
from wane.money import share
from wane.strategies.base import Settings
from wane.strategies.registry import get_strategy

NAMED: Final = 5
"""Problems, files and sessions to name; the rest are counted."""

COPIED: Final = "all of its calls count for another one"
"""Why a session that only repeats another one is left out."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that replays need."""

    gathered: Gathered
    studied: list[Studied]
    engine: Engine


def prepare(sessions: Sequence[str], options: LabOptions, settings: Settings, bar: Bar) -> Setup:
    """Check the options, then read the sessions."""
    if options.summary_tokens is not None and options.summary_tokens < 1:
        raise ConfigError(f"the length of a summary is {options.summary_tokens} tokens; it must be at least 1")
    get_strategy("none", settings)
    pricing = Pricing.of(options.price or PRICE, hour=options.cache_hour)
    engine = get_engine(options.engine, options.workers)
    counter = usable_counter(options.counter)
    gathered = gathered_from(sessions, options, bar, sidechains=options.sidechains, joined=options.join)
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


class Readable(Protocol):
    """Options of a command that reads sessions."""

    @property
    def format(self) -> str: ...
    @property
    def max_unpacked(self) -> int: ...


def gathered_from(
    names: Sequence[str], options: Readable, bar: Bar, *, sidechains: bool, joined: bool = False
) -> Gathered:
    """Read the sessions that a command line names, and say which ones it names repeatedly; see `gather`."""
    paths, progress = [located(name) for name in names], bar.stage("Reading")
    gathered = gather(
        paths,
        options.format,
        sidechains=sidechains,
        joined=joined,
        max_unpacked=options.max_unpacked,
        progress=progress,
    )
    if gathered.repeated:
        verb = "is" if len(gathered.repeated) == 1 else "are"
        files = first_few([shown_path(path) for path in gathered.repeated], NAMED)
        say(f"{counted(len(gathered.repeated), 'file')} {verb} named more than once, and read once: {files}")
    return gathered


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


def print_json(data: dict[str, Any], gathered: Gathered) -> None:
    """Print a result as JSON, with what was left out of it."""
    data["left_out"] = [
        {"name": entry.session.name, "path": entry.path, "why": _why_idle(entry.session)} for entry in gathered.idle
    ]
    data["unread"] = [{"path": file.path, "why": file.why} for file in gathered.unread]
    write_json(data)


def _why_idle(session: RecordedSession) -> str:
    if session.calls and not session.own_calls:
        return COPIED
    return "no answer" if session.calls else "no model call"


def read_lines(gathered: Gathered, studied: Sequence[Studied]) -> list[str]:
    """Return lines on what was read, and on what could not be read."""
    sessions = [prepared.recording.session for prepared in studied]
    items = [item for prepared in studied for item in prepared.subject.material.own_items]
    calls = sum(len(session.own_calls) for session in sessions)
    turns = sum(item.kind is Kind.USER for item in items)
    tokens = held_by_kind((item.kind, item.tokens) for item in items)
    first = f"{counted(len(studied), 'session')}: {counted(calls, 'model call')}, {tokens}"
    lines = [f"{first}, {counted(turns, 'turn')} of the user."]
    inferred = sum(prepared.inferred for prepared in studied)
    if inferred:
        of = "" if inferred == len(studied) else f" of {inferred} sessions"
        lines.append(f"Episodes{of} are inferred from tool calls: the agent marked none.")
    branches = [session for session in sessions if session.calls != session.own_calls]
    if branches:
        shared = sum(len(session.calls) - len(session.own_calls) for session in branches)
        shared_calls = f"{counted(shared, 'model call')} that they share with it count there"
        lines.append(f"{counted(len(branches), 'session')} branched off from another one: {shared_calls}.")
    outer = [prepared.recording.session for prepared in studied if prepared.recording.parent is None]
    sides = sum(len(session.sidechains) for session in outer)
    if sides:
        if len(outer) == len(sessions):
            lines.append(f"{counted(sides, 'session')} of sub-agents left out; --sidechains replays them too.")
        again = sum((rereads(session) for session in outer), Rereads())
        lines.append(f"Sub-agents: {again.describe()}.")
    lines += problem_lines(sessions)
    copied = [entry.session.name for entry in gathered.idle if _why_idle(entry.session) == COPIED]
    idle = [entry.session.name for entry in gathered.idle if _why_idle(entry.session) != COPIED]
    lines += _named("left out, because no model answered in it", counted(len(idle), "session"), idle)
    lines += _named(f"left out: {COPIED}", counted(len(copied), "session"), copied)
    unread = [file.why for file in gathered.unread]
    lines += _named("skipped", counted(len(unread), "file"), unread)
    return lines


def held_by_kind(items: Iterable[tuple[Kind, int]], overhead: int = 0) -> str:
    """Return the tokens of items and how many of them are notices, as text; an item is a kind and its tokens."""
    total = notices = 0
    for kind, tokens in items:
        total += tokens
        if kind is Kind.NOTICE:
            notices += tokens
    text = f"{rounded(total)} {'token' if total == 1 else 'tokens'}"
    if notices:
        text += f" ({rounded(notices)} of them notices)"
    if overhead:
        text += f" and {rounded(overhead)} of system prompt and tools"
    return text


def problem_lines(sessions: Iterable[RecordedSession]) -> list[str]:
    """Return lines on what could not be read in some sessions: how much, and where the first problems are."""
    problems = []
    for session in sessions:
        for problem in session.problems:
            line = "" if problem.line is None else f", line {problem.line}"
            problems.append(f"{session.name}{line}: {problem.what}")
    return _named("could not be read and left out", counted(len(problems), "thing"), problems)


def rounded(tokens: float) -> str:
    """Return tokens as people would say them: 940, 66k, 2.6M."""
    if tokens < 1000:
        return f"{tokens:.0f}"
    if tokens < 999_500:
        return f"{tokens / 1000:.0f}k"
    return f"{tokens / 1e6:.1f}M"


def range_of(low: float, high: float) -> str:
    """Return a share in whole percent, as a range if its bounds differ."""
    if share(low) == share(high):
        return share(low)
    return f"{math.floor(100 * low)}-{math.ceil(100 * high)}%"


def figure_table(*columns: str) -> Table:
    """Return an empty, narrow table of figures with these column heads; the first column has names."""
    table = plain_table(f"*{columns[0]}", *(f">{column}" for column in columns[1:]))
    table.padding = (0, 1, 0, 0)
    table.columns[0].min_width = 11
    return table


def print_figures(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = (), width: int | None = None
) -> None:
    """Print a table of figures, none of them cut: columns that a terminal has no room for are left out, and named.

    Args:
        columns: the heads.
        rows: the cells of each row; a row without cells is an empty line.
        spare: the columns that may be left out, the first of them first.
        width: characters of a line; None for those of the terminal. Pipes and files have no limit.
    """
    console = plain_console()
    if width is None and (console.is_terminal or os.environ.get("COLUMNS")):
        width = console.width
    left_out: list[str] = []
    waiting = list(spare)
    while True:
        table = figure_table(*(column for column in columns if column not in left_out))
        for row in rows:
            cells = [cell for column, cell in zip(columns, row, strict=False) if column not in left_out]
            table.add_row(*cells)
        needed = Measurement.get(console, console.options.update(max_width=_UNLIMITED), table).maximum
        if width is None or needed <= width or not waiting:
            break
        left_out.append(waiting.pop(0))
    plain_console(width=max(needed, 1)).print(table)
    if left_out:
        names = ", ".join(column for column in columns if column in left_out)
        print_lines([f"No room for: {names}. A wider terminal, a pipe and --json have them."], style="dim")


_UNLIMITED: Final = 10_000
"""More characters than any table has in a line."""


def print_lines(lines: Iterable[str], style: str = "") -> None:
    """Print paragraphs, filled to the width of the console."""
    console = plain_console()
    for line in lines:
        console.print(line, style=style)


def check_report(path: str | None) -> None:
    """Check that a report can be written, before any work is done for it."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"cannot write the report {path}: its directory does not exist")
    if Path(path).is_dir():
        raise UsageError(f"cannot write the report {path}: it is a directory; name a file")


def _named(what: str, how_many: str, entries: Sequence[str]) -> list[str]:
    """Return a sentence with a number, and below it the first few entries."""
    if not entries:
        return []
    lines = [f"{how_many} {what}:"]
    lines += [f"  {printable(entry)}" for entry in entries[:NAMED]]
    if len(entries) > NAMED:
        lines.append(f"  and {len(entries) - NAMED:,} more; --json names all of them")
    return lines

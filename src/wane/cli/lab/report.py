"""`wane report`: what the agents on this machine cost and lost in the last days, and what Wane would have saved."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Final

from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.lab.commands import PRICE, ReportOptions
from wane.cli.lab.common import cache_folder, check_report, keep_prices, print_figures, print_lines, rounded
from wane.cli.lab.reading import located
from wane.cli.terminal.browser import open_page
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import counted, cut, first_few, printable, say, write_json
from wane.journal import SessionStore, default_root
from wane.lab.discover import find_sessions
from wane.lab.overview.gathering import FigureReader, FigureStore, Source, Terms
from wane.lab.overview.summary import Overview, Sums, days_until, summarise
from wane.lab.readers import STDIN, Unread, find_files
from wane.lab.readers.choice import split_choice
from wane.lab.readers.databases import is_session
from wane.lab.replaying.spent import unrecorded_summaries
from wane.lab.report.overview import NAMES, overview_dict, write_overview
from wane.lab.verdict import amounts, savings
from wane.money import dollars, share

_DAYS: Final = 30
"""Days that a report without names looks at."""

_ROWS: Final = 10
"""Rows of each table in the terminal, at most."""

_READ_ALOUD: Final = 3
"""Lost messages to show in the terminal, at most."""

_UNKNOWN: Final = "not known"


def run_report(options: ReportOptions) -> int:
    days = options.days if options.days is not None or options.sessions else _DAYS
    if days is not None and days < 1:
        raise UsageError(f"--days is {days}; it must be at least 1")
    if options.redact and options.as_json:
        raise UsageError("--redact is for the page: give --output with it, not --json")
    check_report(options.output)
    keep_prices()
    until = datetime.now().astimezone().date()
    since = None if days is None else days_until(until, days)
    begins = 0.0 if since is None else datetime.combine(since, time()).astimezone().timestamp()
    with Bar() as bar:
        bar.stage("Finding")
        sources = [source for source in _sources(options.sessions) if source.modified >= begins]
        if not sources:
            raise InputError(_nothing(options, since))
        terms = Terms(options.budget, options.price or PRICE, begins, options.replays)
        store = FigureStore(None if options.afresh else cache_folder(os.environ, Path.home()) / "report.sqlite")
        reader = FigureReader(terms, store, options.workers)
        reader.read(sources, bar.stage("Reading"))
        reader.replay(sources, bar.stage("Replaying"))
    figures = [session for source in sources for session in reader.figures.get(source.path, ())]
    overview = summarise(figures, since, until, reader.unread)
    if not overview.total.calls:
        raise InputError(_nothing(options, since, reader.unread))
    if options.as_json:
        write_json(overview_dict(overview))
    else:
        _print(overview, options.budget)
    if options.as_json and options.output is None:
        return failure.OK
    page = _page(options.output)
    write_overview(page, overview, options.budget, contents=not options.redact)
    say(f"the page: {printable(str(page))}")
    if options.open_page and not open_page(page):
        say("there is no browser to show it in; open the file above in one")
    return failure.OK


def _sources(names: Sequence[str]) -> list[Source]:
    """Return the files that a command line names, or those of all agents on this machine."""
    sources: dict[str, Source] = {}
    if not names:
        for session in find_sessions(os.environ, Path.home()):
            source = Source.of(session.path, session.modified.timestamp(), session.size)
            sources.setdefault(source.path, source)
        for info in SessionStore(default_root(os.environ)).sessions():
            sources.setdefault(str(info.path), Source(str(info.path), info.modified.timestamp(), info.size))
        return list(sources.values())
    for name in names:
        if name == STDIN:
            raise UsageError("a report keeps the figures of files, and standard input is none: give a file")
        for path in find_files(located(name)):
            # A session may be chosen from a file with several (`FILE#2`), or from a database (`opencode.db/ses_1a2b`).
            file, _ = split_choice(path)
            status = (file.parent if is_session(file) else file).stat()
            sources.setdefault(str(path), Source.of(path, status.st_mtime, status.st_size))
    return list(sources.values())


def _nothing(options: ReportOptions, since: date | None, unread: Sequence[Unread] = ()) -> str:
    where = "in the sessions named" if options.sessions else "by any agent on this machine"
    text = f"no model call was recorded {where}"
    if since is not None:
        hint = "give more --days" if options.sessions else "give more --days, or name files and folders"
        text += f" since {since.isoformat()}; {hint}"
    return f"{text}. {_unread_files(unread)}" if unread else text


def _page(output: str | None) -> Path:
    """Return where to write the page: without a name, in a directory that nobody else can read."""
    return Path(output) if output is not None else Path(tempfile.mkdtemp(prefix="wane-report-")) / "report.html"


def _print(overview: Overview, budget: int) -> None:
    print_lines([*_first_lines(overview), ""])
    heads = ["agent", "sessions", "calls", "input", "cached", "output", "cost", "with Wane"]
    print_figures(heads, list(_agent_rows(overview)), ["output", "input", "cached", "sessions"])
    heads = ["model", "calls", "input", "cached", "output", "cost"]
    models = sorted(overview.by_model.items(), key=lambda entry: (-entry[1].dollars, -entry[1].calls))
    rows = [
        [printable(model) or "not recorded", *_cells(sums), sums.say_cost(_UNKNOWN)] for model, sums in models[:_ROWS]
    ]
    print_lines([""])
    print_figures(heads, rows, ["output", "input", "cached"])
    print_lines([""])
    days = [day for day in sorted(overview.by_day, reverse=True) if overview.by_day[day]]
    print_figures(["day", "calls", "cost"], [[str(day), *_day(overview, day)] for day in days[:_ROWS]])
    if len(days) > _ROWS:
        print_lines([f"{counted(len(days) - _ROWS, 'more day')} on the page."], style="dim")
    if overview.causes:
        print_lines(["", "Where the provider's cache broke, and what that cost:"])
        causes = sorted(overview.causes.items(), key=lambda entry: -entry[1].dollars)
        broken = []
        for cause, one in causes[:_ROWS]:
            broken.append([cause.label, f"{one.times:,}", dollars(one.dollars) if one.priced else _UNKNOWN])
        print_figures(["cause", "times", "cost"], broken)
    print_lines(_lost_lines(overview))
    print_lines(["", *_saving_lines(overview, budget)], style="bold")
    print_lines(_known_lines(overview), style="dim")


def _first_lines(overview: Overview) -> Iterator[str]:
    sessions = counted(len(overview.sessions), "session")
    first, last = overview.span
    when = f"{first} to {last}" if first < last else str(last)
    yield (
        f"{sessions} with {counted(overview.total.calls, 'call')}, {when}: "
        f"{overview.total.say_cost(_UNKNOWN)}{_over(overview.total.priced, overview.total.calls)}."
    )
    lost, known = overview.lost, overview.total.cache_known
    if known:
        bound = "At least " if lost.priced < lost.times else ""
        yield (
            f"{bound}{dollars(lost.dollars)} of it was paid again, {counted(lost.times, 'time')}, as the cache broke"
            f"{_over(known, overview.total.calls)}."
        )
    messages = sum(summary.messages_lost for summary in overview.sessions)
    words = sum(summary.words_lost for summary in overview.sessions)
    compactions = sum(len(summary.compactions) for summary in overview.sessions)
    if compactions:
        yield (
            f"{counted(compactions, 'compaction')} took {counted(messages, 'message')} of yours, "
            f"{counted(words, 'word')}."
        )


def _agent_rows(overview: Overview) -> Iterator[list[str]]:
    sessions = [summary.figures.source for summary in overview.sessions]
    for agent in overview.agents:
        sums, after = overview.by_agent[agent], overview.with_wane(agent)
        with_wane = _UNKNOWN if after is None else amounts(*after)
        yield [NAMES.get(agent, agent), f"{sessions.count(agent):,}", *_cells(sums), sums.say_cost(_UNKNOWN), with_wane]


def _cells(sums: Sums) -> list[str]:
    cached = share(sums.read / sums.input) if sums.input and sums.cache_known else "-"
    # An agent may record no input at all, but its output.
    return [f"{sums.calls:,}", rounded(sums.input) if sums.input else "-", cached, rounded(sums.output)]


def _day(overview: Overview, day: date) -> list[str]:
    sums = Sums()
    for part in overview.by_day[day].values():
        for name in sums.__slots__:
            setattr(sums, name, getattr(sums, name) + getattr(part, name))
    return [f"{sums.calls:,}", sums.say_cost(_UNKNOWN)]


def _over(known: int, calls: int) -> str:
    return "" if known == calls else f" (over {share(known / calls)} of the calls)"


def _lost_lines(overview: Overview) -> Iterator[str]:
    """Yield the sessions whose compactions took most of the user's words, with some of them."""
    losers = sorted(overview.sessions, key=lambda summary: -summary.words_lost)
    losers = [summary for summary in losers if summary.messages_lost]
    if losers:
        yield ""
        yield "Where compactions took your words:"
    for summary in losers[:_READ_ALOUD]:
        title = printable(cut(summary.figures.title or summary.figures.name, 50))
        yield f"  {title}: {counted(summary.messages_lost, 'message')}, {counted(summary.words_lost, 'word')}"
        lost = [message for compaction in summary.compactions for message in compaction.lost]
        longest = max(lost, key=lambda message: message.words)
        yield f"    {printable(cut(longest.text, 70))}"
    if len(losers) > _READ_ALOUD:
        yield f"  and {counted(len(losers) - _READ_ALOUD, 'more session')}, on the page"


def _saving_lines(overview: Overview, budget: int) -> Iterator[str]:
    after, spent, simulation = overview.with_wane(), overview.total.dollars, overview.simulation
    if after is None or not spent:
        yield "What Wane would have saved is not known: no call has both a cost and a cache that it can be compared by."
        return
    low, high = after
    worst, best = 1 - high / spent, 1 - low / spent
    over = _over(simulation.calls, overview.total.calls)
    if best < 0.005:
        yield f"Wane within {budget:,} tokens would have saved nothing here{over}."
        return
    view = ""
    if simulation.uses:
        view = f" {share(simulation.in_view / simulation.uses)} of what later calls used was still in view."
    yield (
        f"With Wane within {budget:,} tokens: {dollars(spent)} → {amounts(low, high)}, simulated with fetching again"
        f"{over}: {savings(worst, best)}.{view}"
    )
    yield "To have it from now on: wane run claude, or another agent of wane run --help."


def _known_lines(overview: Overview) -> Iterator[str]:
    if overview.total.summaries:
        yield f"The cost is without {unrecorded_summaries(overview.total.summaries)}."
    if overview.total.assumed:
        calls = counted(overview.total.assumed, "call")
        yield f"{calls} without a known price count as they were recorded, at the prices of another model."
    if overview.undated:
        yield f"{counted(overview.undated, 'call')} without a time count on the day when their file was last written."
    if overview.pending:
        yield (
            f"{counted(overview.pending, 'session')} beyond the budget not replayed yet, so that they count unchanged: "
            "the next report replays more of them, and --replays sets how many."
        )
    if overview.unread:
        yield _unread_files(overview.unread)


def _unread_files(unread: Sequence[Unread]) -> str:
    why = first_few([printable(f"{file.path}: {file.why}") for file in unread], 3)
    return f"{counted(len(unread), 'file')} could not be read: {why}"

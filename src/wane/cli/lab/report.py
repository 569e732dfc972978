"""`wane report`: what the agents on this machine cost and lost in the last days, and what Wane would have saved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain
from pathlib import Path
from typing import Final

from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.lab.arguments import locate_session
from wane.cli.lab.common import (
    SCRIPTED_MODEL,
    cache_folder,
    check_report,
    keep_prices,
    page_for,
    print_figures,
    print_lines,
    round_tokens,
)
from wane.cli.lab.lab_commands import ReportOptions
from wane.cli.shared_flags import PRICE
from wane.cli.terminal.browser import open_page
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, cut, first_few, printable, say, write_json
from wane.core.errors import JournalError
from wane.journal import SessionStore, default_root
from wane.lab.discover import find_sessions
from wane.lab.file_store import Source
from wane.lab.names import JOURNAL
from wane.lab.overview.figure_store import FigureReader, FigureStore, Terms
from wane.lab.overview.overview import Overview, Sums, days_until, summarise
from wane.lab.readers import STDIN, Unread, find_files
from wane.lab.readers.choice import split_choice
from wane.lab.readers.databases import is_session
from wane.lab.replaying.spent import unrecorded_output, unrecorded_summaries
from wane.lab.replaying.verdict import amounts, with_room
from wane.lab.report.overview import NAMES, overview_dict, write_overview
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
        unread = tuple(reader.unread)
        journals: list[Source] = []
        others = [figures for figures in chain.from_iterable(reader.figures.values()) if figures.source != JOURNAL]
        if options.sessions and others:
            # What an agent's own files lack of their sessions: the rounds that the proxy made by itself.
            earliest = min(figures.calls.began or 0.0 for figures in others)
            journals = [source for source in _journals() if source.modified >= max(begins, earliest)]
            reader.read(journals, bar.stage("Reading"))
    figures = [session for source in sources for session in reader.figures.get(source.path, ())]
    recorded = [session for source in journals for session in reader.figures.get(source.path, ())]
    overview = summarise(figures, since, until, unread, journals=recorded)
    if not overview.total.calls:
        why = _nothing(options, since, unread)
        if unread and all(file.damaged for file in unread):
            raise JournalError(why)
        raise InputError(f"{why}. {_explain_scripted(overview.scripted)}" if overview.scripted else why)
    page: Path | None = None
    if options.output is not None or not options.as_json:
        page = page_for("report") if options.output is None else Path(options.output)
        # Ahead of the summary, of which a reader such as `head` may not want all.
        write_overview(page, overview, options.budget, contents=not options.redact)
    if options.as_json:
        write_json(overview_dict(overview))
    else:
        _print(overview, options.budget)
    if page is None:
        return failure.OK
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
        return list({**sources, **{source.path: source for source in _journals()}}.values())
    for name in names:
        if name == STDIN:
            raise UsageError("a report keeps the figures of files, and standard input is none: give a file")
        for path in find_files(locate_session(name)):
            # A session may be chosen from a file with several (`FILE#2`), or from a database (`opencode.db/ses_1a2b`).
            file, _ = split_choice(path)
            status = (file.parent if is_session(file) else file).stat()
            sources.setdefault(str(path), Source.of(path, status.st_mtime, status.st_size))
    return list(sources.values())


def _journals() -> list[Source]:
    """Return the sessions that Wane recorded on this machine."""
    infos = SessionStore(default_root(os.environ)).sessions()
    return [Source.of(info.path, info.modified.timestamp(), info.size) for info in infos]


def _nothing(options: ReportOptions, since: date | None, unread: Sequence[Unread] = ()) -> str:
    where = "in the sessions named" if options.sessions else "by any agent on this machine"
    text = f"no model call was recorded {where}"
    if since is not None:
        hint = "give more --days" if options.sessions else "give more --days, or name files and folders"
        text += f" since {since.isoformat()}; {hint}"
    return f"{text}. {_unread_files(unread)}" if unread else text


def _print(overview: Overview, budget: int) -> None:
    print_lines([*_first_lines(overview), ""])
    heads = ["agent", "sessions", "calls", "input", "cached", "output", "cost", "without Wane", "with Wane"]
    print_figures(heads, list(_agent_rows(overview)), ["output", "input", "cached", "sessions", "calls"])
    if compared := overview.comparable_calls().calls:
        guessed = ", output that was not recorded by its text" if overview.total.estimated else ""
        both = (
            "Without Wane: for each session, the lower cost of as recorded and, simulated, if nothing is evicted; one "
            "that fits counts as recorded in both. They are over "
            f"{_share_of(compared, overview.total.calls)}, of which both costs can be told{guessed}."
        )
        print_lines([both], style="dim")
    heads = ["model", "calls", "input", "cached", "output", "cost"]
    models = sorted(overview.by_model.items(), key=lambda entry: (-entry[1].dollars, -entry[1].calls))
    rows = [
        [printable(model) or "not recorded", *_cells(sums), sums.say_cost(_UNKNOWN)] for model, sums in models[:_ROWS]
    ]
    print_lines([""])
    print_figures(heads, rows, ["output", "input", "cached", "calls"])
    print_lines([""])
    days = [day for day in sorted(overview.by_day, reverse=True) if overview.by_day[day]]
    print_figures(["day", "calls", "cost"], [[str(day), *_day(overview, day)] for day in days[:_ROWS]])
    if len(days) > _ROWS:
        print_lines([f"{count_noun(len(days) - _ROWS, 'more day')} on the page."], style="dim")
    if overview.causes:
        print_lines(["", "Where the provider's cache broke, and what that cost:"])
        causes = sorted(overview.causes.items(), key=lambda entry: -entry[1].dollars)
        broken = []
        for cause, one in causes[:_ROWS]:
            inferred = f"{one.inferred:,}" if one.inferred else "-"
            broken.append([cause.label, f"{one.times:,}", inferred, one.say_cost(_UNKNOWN)])
        print_figures(["cause", "times", "inferred", "cost"], broken)
        if overview.lost.inferred:
            print_lines(["Inferred: nothing was recorded, but the end of what was read implies it."], style="dim")
        if overview.lost.at_most:
            print_lines(
                ["≤: a summary is new, so that less than this was paid again; ≈: of some, the price is unknown, too."],
                style="dim",
            )
    print_lines(_lost_lines(overview))
    print_lines(["", *_saving_lines(overview, budget)], style="bold")
    print_lines(_known_lines(overview), style="dim")


def _first_lines(overview: Overview) -> Iterator[str]:
    sessions = count_noun(len(overview.sessions), "session")
    first, last = overview.span
    when = f"{first} to {last}" if first < last else str(last)
    total = overview.total
    in_full = ""
    if total.known and total.priced < total.calls:
        in_full = f" (known in full for {share(total.priced / total.calls)} of the calls)"
    yield f"{sessions} with {count_noun(total.calls, 'call')}, {when}: {total.say_cost(_UNKNOWN)}{in_full}."
    lost, known = overview.lost, overview.total.cache_known
    if known:
        again = lost.say_cost(_UNKNOWN) if lost.times else dollars(0)
        yield (
            f"Of it, {again} was paid again, {count_noun(lost.times, 'time')}, as the cache broke"
            f"{_over(known, overview.total.calls)}."
        )
    messages = sum(summary.messages_lost for summary in overview.sessions)
    words = sum(summary.words_lost for summary in overview.sessions)
    compactions, taking = overview.compactions, overview.compactions_taking_words
    if taking:
        which = f"{taking:,} of " if taking < compactions else ""
        yield (
            f"{which}{count_noun(compactions, 'compaction')} took {count_noun(messages, 'message')} of yours, "
            f"{count_noun(words, 'word')}."
        )
    elif compactions:
        yield f"{count_noun(compactions, 'compaction')} took none of your messages."


def _agent_rows(overview: Overview) -> Iterator[list[str]]:
    sessions = [summary.figures.source for summary in overview.sessions]
    for agent in overview.agents:
        sums, compared = overview.by_agent[agent], overview.comparable_calls(agent)
        both = ["-", _UNKNOWN]
        if compared.calls:
            both = [dollars(compared.before), amounts(compared.low, compared.high)]
        name = NAMES.get(agent, agent)
        yield [name, f"{sessions.count(agent):,}", *_cells(sums), sums.say_cost(_UNKNOWN), *both]


def _share_of(some: int, calls: int) -> str:
    return "all calls" if some == calls else f"{share(some / calls)} of the calls"


def _cells(sums: Sums) -> list[str]:
    cached = share(sums.read / sums.input) if sums.input and sums.cache_known else "-"
    # An agent may record no input at all, but its output.
    output = f"{'≈' if sums.estimated else ''}{round_tokens(sums.output)}"
    return [f"{sums.calls:,}", round_tokens(sums.input) if sums.input else "-", cached, output]


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
        title = printable(cut(_in_a_line(summary.figures.title or summary.figures.name), 50))
        yield f"  {title}: {count_noun(summary.messages_lost, 'message')}, {count_noun(summary.words_lost, 'word')}"
        lost = [message for compaction in summary.compactions for message in compaction.lost]
        longest = max(lost, key=lambda message: message.words)
        yield f"    {printable(cut(_in_a_line(longest.text), 70))}"
    if len(losers) > _READ_ALOUD:
        yield f"  and {count_noun(len(losers) - _READ_ALOUD, 'more session')}, on the page"


def _in_a_line(text: str) -> str:
    """Return words with a space in the place of each break between lines."""
    return " ".join(text.split())


def _saving_lines(overview: Overview, budget: int) -> Iterator[str]:
    """Yield what Wane would have saved, and what it changed of the cost of sessions that it managed."""
    calls, simulation, effect = overview.total.calls, overview.simulation, overview.effect
    if simulation.before:
        over = f"over {_share_of(simulation.calls, calls)}"
        if saving := overview.say_saving(simulation):
            view = ""
            if simulation.uses:
                view = f" {share(simulation.in_view / simulation.uses)} of what later calls used was still in view."
            about = "about " if overview.total.estimated else ""
            before, after = f"{about}{dollars(simulation.before)}", amounts(simulation.low, simulation.high)
            within = with_room(f"{budget:,} tokens", simulation.raised_to)
            yield (
                f"With Wane within {within}, {over}: {before} → {after}, simulated with fetching again: {saving}.{view}"
            )
            yield "To have it from now on: wane run claude, or another agent of wane run --help."
        else:
            yield f"Wane within {budget:,} tokens would have saved nothing here, {over}."
    elif not effect.calls:
        yield "What Wane would have saved is not known: no call has a cost and a cache that it can be compared by."
    if effect.calls:
        saved = round(effect.before - effect.low, 2)
        change = "the same"
        if saved:
            change = f"{dollars(abs(saved))} {'less' if saved > 0 else 'more'}"
        sessions = count_noun(overview.worked.total(), "session")
        yield (
            f"Wane was at work in {sessions}, over {_share_of(effect.calls, calls)}: about {dollars(effect.before)} "
            f"without it, {dollars(effect.low)} with it: {change}."
        )


def _known_lines(overview: Overview) -> Iterator[str]:
    if overview.total.summaries:
        yield f"The cost is without {unrecorded_summaries(overview.total.summaries)}."
    if estimated := overview.total.estimated:
        yield f"The cost is {unrecorded_output(estimated, overview.total.guessed)}."
    if overview.total.assumed:
        calls = count_noun(overview.total.assumed, "call")
        yield f"{calls} without a known price count as they were recorded, at the prices of another model."
    if overview.scripted:
        yield _explain_scripted(overview.scripted)
    if overview.undated:
        yield f"{count_noun(overview.undated, 'call')} without a time count on the day when their file was written."
    if overview.pending:
        yield (
            f"{count_noun(overview.pending, 'session')} beyond the budget not replayed yet, so no saving of theirs is"
            " told: the next report replays more of them, and --replays sets how many."
        )
    if overview.parted:
        yield (
            f"Of {count_noun(overview.parted, 'session')} only some calls count here: of what was compared, as much as "
            "their share of the cost."
        )
    if overview.unread:
        yield _unread_files(overview.unread)


def _explain_scripted(sessions: int) -> str:
    return f"{count_noun(sessions, 'session')} left out: {SCRIPTED_MODEL}, and nothing was paid."


def _unread_files(unread: Sequence[Unread]) -> str:
    why = first_few([file.why if file.path in file.why else f"{file.path}: {file.why}" for file in unread], 3)
    return f"{count_noun(len(unread), 'file')} could not be read: {why}"

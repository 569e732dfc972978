"""`wane sessions`: lists the saved sessions, and those of other agents on this machine."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wane.cli import failure
from wane.cli.sessions.branches import describe_partings
from wane.cli.terminal.text import is_unicode
from wane.cli.top_commands import SessionsOptions
from wane.journal import SessionInfo, SessionStore, default_root

# The rest is loaded where it is used: a list that is empty, or is JSON, needs no tables and no other agents.
if TYPE_CHECKING:
    from datetime import datetime

    from wane.lab.discover import FoundSession
    from wane.lab.overview.overview import Sums

SHOWN: Final = 20
"""Sessions to show of each other agent; JSON holds all of them."""

MOST_ROWS: Final = 500
"""Rows of the table of Wane's own sessions: thousands take longer to lay out than anybody reads."""

_SHORT_ID: Final = 12
_APIS: Final = {
    "anthropic": "Anthropic Messages",
    "openai": "Chat Completions",
    "openai_responses": "OpenAI Responses",
    "gemini": "Gemini",
}


def list_sessions(options: SessionsOptions) -> int:
    store = SessionStore(default_root(os.environ))
    infos = store.sessions(None if options.every else Path.cwd())
    others: list[FoundSession] = []
    if options.every:
        from wane.lab.discover import find_sessions

        others = find_sessions(os.environ, Path.home())
    if options.as_json:
        from wane.cli.terminal.text import write_json

        write_json([info_dict(info) for info in infos] + [file_dict(file) for file in others])
        return failure.OK
    figures: dict[str, Sums] = {}
    if options.every and (infos or others):
        figures = _figures_of(infos, others)
    if infos and options.every:
        _print_own(infos, figures)
    elif infos:
        _print_table(infos)
    elif not others:
        where = f" in {Path.cwd()}; wane sessions --all lists those of every agent and directory"
        text = "There are no sessions" if options.every else f"Wane's own agent has no session{where}"
        sys.stdout.write(f"{text}.\n")
    if others:
        _print_others(others, figures)
    return failure.OK


def info_dict(info: SessionInfo) -> dict[str, Any]:
    return {
        "agent": agent_of(info.id),
        "id": info.id,
        "path": str(info.path),
        "cwd": None if info.cwd is None else str(info.cwd),
        "created": None if info.created is None else info.created.isoformat(),
        "modified": info.modified.isoformat(),
        "messages": info.messages,
        "title": info.title,
        "bytes": info.size,
        "problem": info.problem,
        "format": info.format,
        "parent": info.parent,
    }


def file_dict(file: FoundSession) -> dict[str, Any]:
    """Return a session of another agent as JSON-able data, with the same keys as Wane's own."""
    from wane.lab.discover import look_into

    head = look_into(file)
    return {
        "agent": file.agent,
        "id": file.id,
        "path": str(file.path),
        "cwd": head.cwd,
        "created": None,
        "modified": file.modified.isoformat(),
        "messages": None,
        "title": head.title or None,
        "bytes": file.size,
        "problem": head.problem,
        "format": None,
        "parent": head.parent,
    }


def agent_of(session_id: str) -> str:
    """Return who recorded a session of Wane's: `proxy` or, for the agent, `wane`."""
    from wane.proxy.store.stores import is_session_id

    return "proxy" if is_session_id(session_id) else "wane"


def describe_recorder(session_id: str, message_format: str | None) -> str | None:
    """Describe who recorded a session; None for the agent, or if the header cannot be read."""
    from wane.agent.options import AGENT_FORMAT

    if message_format is None or message_format == AGENT_FORMAT:
        return None
    api = _APIS.get(message_format, message_format)
    return f"proxy, {api}" if agent_of(session_id) == "proxy" else f"{api}, not the agent's"


def of_the_agent(infos: Sequence[SessionInfo]) -> list[SessionInfo]:
    """Return the sessions that the agent can resume, as far as their headers can be read."""
    from wane.agent.options import AGENT_FORMAT

    return [info for info in infos if info.format in (AGENT_FORMAT, None) and agent_of(info.id) == "wane"]


def short_id(session_id: str) -> str:
    """Return a short form of an id, by which the session is also found.

    Of a proxy's id it is the end, because sessions that begin alike have ids that begin alike.
    """
    if agent_of(session_id) == "proxy":
        return session_id.rpartition("-")[2][:_SHORT_ID]
    return session_id


def below_their_parents(infos: Sequence[SessionInfo]) -> Iterator[tuple[int, SessionInfo]]:
    """Yield sessions in order, each followed by those of its sub-agents, with the depth of the nesting."""
    ids = {info.id for info in infos}
    children: dict[str, list[SessionInfo]] = {}
    for info in infos:
        children.setdefault(info.parent, []).append(info)

    def below(info: SessionInfo, depth: int) -> Iterator[tuple[int, SessionInfo]]:
        yield depth, info
        for child in children.get(info.id, ()):
            yield from below(child, depth + 1)

    for info in infos:
        if info.parent not in ids:
            yield from below(info, 0)


_READ_AT_ONCE: Final = 30_000_000
"""Bytes of files to read for their cost, at most: a list is quick. `wane report` reads the others, and keeps it."""

_BAR: Final = 8
"""Characters of the bar of the largest session."""


def _figures_of(infos: Sequence[SessionInfo], others: Sequence[FoundSession]) -> dict[str, Sums]:
    """Return the figures of listed files by path: those that were kept, and those of the newest others."""
    from wane.cli.lab.common import cache_folder, keep_prices
    from wane.cli.lab.lab_commands import ReportOptions
    from wane.cli.shared_flags import PRICE
    from wane.cli.terminal.progress import Bar
    from wane.lab.file_store import Source
    from wane.lab.overview.figure_store import FigureReader, FigureStore, Terms
    from wane.lab.overview.overview import Sums

    listed: Counter[str] = Counter()
    sources = [Source.of(info.path, info.modified.timestamp(), info.size) for info in infos[:MOST_ROWS]]
    for file in others:
        listed[file.agent] += 1
        if listed[file.agent] <= SHOWN:
            sources.append(Source.of(file.path, file.modified.timestamp(), file.size))
    sources.sort(key=lambda source: -source.modified)
    keep_prices()
    terms = Terms(ReportOptions().budget, PRICE)
    store = FigureStore(cache_folder(os.environ, Path.home()) / "report.sqlite")
    known = {source.path for source, _ in store.find_known(sources, terms)}
    chosen, room = [], _READ_AT_ONCE
    for source in sources:
        if source.path not in known:
            room -= source.size
        if source.path in known or room >= 0:
            chosen.append(source)
    reader = FigureReader(terms, store)
    with Bar() as bar:
        reader.read(chosen, bar.stage("Reading"))
    figures: dict[str, Sums] = {}
    for path, sessions in reader.figures.items():
        sums = Sums()
        for session in sessions:
            for row in session.calls.groups:
                sums.add(row)
        figures[path] = sums
    return figures


def _print_table(infos: Sequence[SessionInfo]) -> None:
    from rich.text import Text

    from wane.cli.terminal.tables import plain_table
    from wane.cli.terminal.text import human_bytes, local_time, plain_console, printable

    table = plain_table("id", "last written", ">messages", ">size", "*title")
    rows = list(islice(below_their_parents(infos), MOST_ROWS))
    partings = describe_partings((info.path, info.title, info.size) for _, info in rows)
    for depth, info in rows:
        title = Text(printable(info.title or ""))
        for text, style in _remarks(info, depth, partings):
            title.append(f"\n{printable(text)}", style=style)
        name, written = "  " * depth + short_id(info.id), local_time(info.modified)
        table.add_row(name, written, f"{info.messages:,}", human_bytes(info.size), title)
    plain_console().print(table)
    _print_left_out(len(infos))


def _remarks(info: SessionInfo, depth: int, partings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is said of a session below its title, with styles.

    That is where it parts from others of its title, who recorded it, and what is wrong with it.
    """
    if (parting := partings.get(str(info.path))) is not None:
        yield parting, "dim"
    if (recorder := describe_recorder(info.id, info.format)) is not None:
        yield recorder + (", a sub-agent of an unknown session" if info.parent and not depth else ""), "dim"
    if info.problem is not None:
        yield info.problem, "red"


def _print_left_out(count: int) -> None:
    if count > MOST_ROWS:
        sys.stdout.write(f"and {count - MOST_ROWS:,} more; --json lists them all\n")


def _print_line(*parts: str | tuple[str, str]) -> None:
    """Print a line unwrapped, because a path that is broken in two cannot be copied."""
    from rich.text import Text

    from wane.cli.terminal.text import plain_console

    plain_console().print(Text.assemble(*parts), soft_wrap=True)


def _outline(modified: datetime, size: int, largest: int, known: Sums | None, directory: str | None) -> str:
    """Return what a list of all sessions says of one behind its id: date, size, cost, calls and directory."""
    from wane.cli.terminal.text import count_noun, human_bytes, local_time, printable

    cost = f"{'':23}"
    if known is not None and known.calls:
        cost = f"  {known.say_cost('-'):>8}  {count_noun(known.calls, 'call'):>11}"
    where = f"  {printable(directory)}" if directory else ""
    # A bar as long as the session is large, beside the others of the list.
    bar = ("█" if is_unicode(sys.stdout.encoding) else "#") * max(1, round(_BAR * size / max(largest, 1)))
    return f"  {local_time(modified)}  {bar:<{_BAR}} {human_bytes(size):>8}{cost}{where}".rstrip()


def _print_own(infos: Sequence[SessionInfo], figures: Mapping[str, Sums]) -> None:
    """Print Wane's own sessions, of the agent and of the proxy, as those of other agents are."""
    from wane.cli.terminal.text import count_noun, printable

    _print_line((f"Wane: {count_noun(len(infos), 'session')}", "bold"))
    rows = list(islice(below_their_parents(infos), MOST_ROWS))
    partings = describe_partings((info.path, info.title, info.size) for _, info in rows)
    largest = max(info.size for info in infos)
    wide = max(2 * depth + len(short_id(info.id)) for depth, info in rows)
    for depth, info in rows:
        name, cwd = "  " * depth + short_id(info.id), None if info.cwd is None else str(info.cwd)
        known = figures.get(str(info.path))
        _print_line(f"{name:<{wide}}", (_outline(info.modified, info.size, largest, known, cwd), "dim"))
        if info.title:
            _print_line(f"  {printable(info.title)}")
        for text, style in _remarks(info, depth, partings):
            _print_line((f"  {printable(text)}", style))
    _print_left_out(len(infos))


def _print_others(files: Sequence[FoundSession], figures: Mapping[str, Sums]) -> None:
    """Print other agents' sessions by agent, each with a short id, ready for another command."""
    from wane.cli.terminal.text import count_noun, printable
    from wane.lab.discover import AGENTS, look_into, short_ids

    by_agent: dict[str, list[tuple[FoundSession, str]]] = {}
    for file, short in zip(files, short_ids(files), strict=True):
        by_agent.setdefault(file.agent, []).append((file, short))
    largest, unread = max(file.size for file in files), 0
    for agent, of_agent in by_agent.items():
        _print_line("")
        _print_line((f"{AGENTS[agent]}: {count_noun(len(of_agent), 'session')}", "bold"))
        wide = max(len(short) for _, short in of_agent[:SHOWN])
        titled = [(file.path, look_into(file).title, file.size) for file, _ in of_agent[:SHOWN]]
        partings = describe_partings(titled)
        for file, short in of_agent[:SHOWN]:
            head = look_into(file)
            known = figures.get(str(file.path))
            unread += known is None or not known.calls
            about = _outline(file.modified, file.size, largest, known, head.cwd)
            _print_line(f"{printable(short):<{wide}}", (about, "dim"))
            if head.title:
                _print_line(f"  {printable(head.title)}")
            if parting := partings.get(str(file.path)):
                _print_line((f"  {printable(parting)}", "dim"))
            if head.parent:
                _print_line((f"  a sub-agent of {printable(head.parent)}", "dim"))
            if head.problem:
                _print_line((f"  {printable(head.problem)}", "red"))
        if len(of_agent) > SHOWN:
            _print_line((f"  and {len(of_agent) - SHOWN:,} older; --json lists them all", "dim"))
    if unread:
        _print_line("")
        why = "not read yet, or no call recorded; wane report reads all"
        _print_line((f"{count_noun(unread, 'session')} without a cost: {why}", "dim"))

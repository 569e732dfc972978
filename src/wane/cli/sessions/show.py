"""`wane show`: one session, its episodes as a tree below the user's turns, its passes, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import RenderableType
from rich.text import Text

from wane.account import Account
from wane.cli import failure
from wane.cli.commands import ShowOptions
from wane.cli.failure import InputError, UsageError
from wane.cli.lab.reading import located
from wane.cli.sessions.listing import agent_of, described, short_id
from wane.cli.sessions.receipts import show_request
from wane.cli.sessions.saved import Session, Turn, load_session
from wane.cli.terminal import layout, picture
from wane.cli.terminal.picture import Role, Row, elided, plain_table
from wane.cli.terminal.text import counted, cut, local_time, plain_console, printable, write_json
from wane.core import Kind, Pinned
from wane.core.errors import JournalError
from wane.formats.recordings import is_journal, recording_agent
from wane.journal import PassRecord
from wane.journal.records import UNKNOWN_PARENT
from wane.lab.readers import head
from wane.lab.readers.databases import is_database

_ROWS: Final = 60
_LABELS: Final = ("whole", "view")
_NOTE_LENGTH: Final = 66
_NAMES: Final = 5

_Pass: TypeAlias = tuple[PassRecord, Pinned | None]
"""A pass, and what held the tokens if it could not meet the budget."""


def show_session(options: ShowOptions) -> int:
    """Print a session, and return the exit code."""
    if options.at is not None:
        return show_request(options, options.at)
    if options.diff is not None or options.store is not None:
        raise UsageError("--diff and --store need --at, the number of a request")
    path = Path(located(options.name))
    try:
        session = load_session(path)
    except JournalError as error:
        if (agent := _other_agent(path)) is None:
            raise
        raise InputError(
            f"{options.name} is a session of {agent}, and wane show knows only Wane's own; look at it with: "
            f"wane view {options.name}"
        ) from error
    if options.as_json:
        write_json(session_dict(session))
    else:
        _print(session, options.full)
    return failure.OK


def _other_agent(path: Path) -> str | None:
    """Return the agent that recorded a file; None if it is Wane, or not known."""
    if is_database(path):
        return "OpenCode or Goose"
    beginning = head(path) if path.is_file() else []
    return None if is_journal(beginning) else recording_agent(beginning)


def session_dict(session: Session) -> dict[str, Any]:
    """Return a session as JSON-able data: what `wane show --json` prints."""
    header, window = session.file.header, session.rebuilt.window
    tokens = layout.held_by(session.blocks)
    return {
        "id": header.id,
        "path": str(session.file.path),
        "cwd": header.cwd,
        "created": header.created.isoformat(),
        "agent": agent_of(header.id),
        "format": header.format,
        "strategy": session.rebuilt.strategy,
        "messages": len(session.rebuilt.messages),
        "torn_bytes": session.file.torn_bytes,
        "budget": window.budget,
        "tokens": {"history": session.history_tokens, "view": session.view.tokens},
        "usage": session.usage.to_dict() | {"models": session.models},
        "parent": header.parent,
        "agents": [agent.id for agent in session.agents],
        "usage_of_agents": session.usage_of_agents.to_dict(),
        "turns": [{"item": turn.item, "text": turn.text} for turn in session.turns],
        "episodes": [
            {
                "number": episode.number,
                "name": episode.name,
                "type": episode.type.value,
                "implicit": episode.implicit,
                "inferred": episode.inferred,
                "closed": episode.closed,
                "removed": episode.removed,
                "level": episode.level.value,
                "dependencies": list(episode.dependencies),
                "task": episode.task and episode.task.name,
                "abandoned": episode.abandoned,
                "description": episode.description,
                "turn": session.turn_of(episode),
                "tokens": dict(zip(("history", "view"), tokens.get(episode.number, (0, 0)), strict=True)),
            }
            for episode in session.rebuilt.episodes
        ],
        "passes": [_pass_dict(*entry) for entry in _passes(session)],
        "index": None if (index := session.rebuilt.window.index) is None else asdict(index),
    }


def tree(session: Session, *, full: bool) -> list[Row]:
    """Return a session as rows: what opens it, then each user's turn with the episodes and tasks that began in it.

    Args:
        session: the session.
        full: give texts whole, instead of their beginnings.
    """
    episodes = layout.in_tasks(session.rebuilt.episodes)
    below: dict[int, list[Row]] = {}
    policy = session.rebuilt.window.policy
    for episode, row in zip(episodes, layout.episode_rows(session.blocks, episodes, policy), strict=True):
        note = _one_line(episode.description or ("(inferred)" if episode.inferred else ""), full)
        if layout.is_told(row):
            *_, outermost = episode.lineage()
            below.setdefault(session.turn_of(outermost), []).append(replace(row, note=note, depth=row.depth + 1))
    top = [row for row in layout.fixed_rows(session.blocks) if row.role is not Role.USER]
    rows = top + below.get(-1, [])
    for number, (turn, tokens) in enumerate(_turns(session)):
        rows.append(Row(Role.USER, _one_line(turn.text, full) or "(no text)", tokens, tokens, why="never evicted"))
        rows += below.get(number, [])
    # Other strategies spare nothing for the reasons that eviction by episode has.
    evicts = session.rebuilt.by_episode and session.rebuilt.bounded
    return rows if evicts else [replace(row, level="", why="") for row in rows]


def describe_usage(usage: Account) -> str:
    """Return in a line what model calls took."""
    if not usage.calls:
        return "no model call was reported"
    cache = f"{usage.cache_read_tokens:,} read from the cache, {usage.cache_write_tokens:,} written to it"
    read = counted(usage.input_tokens, "token")
    return f"{counted(usage.calls, 'model call')}: {read} in ({cache}), {usage.output_tokens:,} out; {usage.describe()}"


def _turns(session: Session) -> Iterator[tuple[Turn, int]]:
    """The user's turns with their tokens."""
    items = session.items
    for turn, following in zip_longest(session.turns, session.turns[1:]):
        own = items[turn.item : following.item if following else None]
        yield turn, sum(item.tokens for item in own if item.kind is Kind.USER)


def _passes(session: Session) -> list[_Pass]:
    return list(zip(session.passes, session.rebuilt.shortfalls, strict=True))


def _pass_dict(record: PassRecord, pinned: Pinned | None) -> dict[str, Any]:
    return {
        "at": None if record.at is None else record.at.isoformat(),
        "items": record.items,
        "budget": record.budget,
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "satisfied": record.satisfied,
        "overflowed": record.overflowed,
        "pinned": None if pinned is None else dict(pinned.holders()),
        "steps": [
            {
                "episode": step.episode,
                "number": step.number,
                "level": step.level.value,
                "tokens_before": step.tokens_before,
                "tokens_after": step.tokens_after,
            }
            for step in record.steps
        ],
    }


def _print(session: Session, full: bool) -> None:
    limit = None if full else _ROWS
    console = plain_console()
    console.print(_summary(session), "")
    table = picture.EpisodeTable(tree(session, full=full), limit, _LABELS)
    console.print(picture.titled("Episodes", table))
    if session.passes:
        console.print(picture.titled("Passes", _pass_table(_passes(session), limit)))
    if (index := session.rebuilt.window.index) is not None:
        console.print(picture.titled("The index of what has left the view", Text(printable(index.text, "\n"))))
    window = picture.WindowPicture(session.blocks, session.rebuilt.window.budget, _LABELS)
    console.print(picture.titled("The window", window))


def _summary(session: Session) -> RenderableType:
    header, rebuilt, view = session.file.header, session.rebuilt, session.view
    table = plain_table("", "*")
    table.show_header = False
    table.add_row("session", Text(header.id, style="bold"))
    table.add_row("directory", printable(header.cwd))
    table.add_row(
        "began", f"{local_time(header.created)}, {counted(len(rebuilt.messages), 'message')} ({header.format})"
    )
    whose = described(header.id, header.format) if agent_of(header.id) == "proxy" else None
    if keeper := ", ".join(filter(None, (whose, rebuilt.strategy))):
        table.add_row("kept by", printable(keeper))
    if session.models:
        table.add_row("model", printable(", ".join(session.models)))
    table.add_row("usage", describe_usage(session.usage))
    if header.parent:
        known = header.parent != UNKNOWN_PARENT
        table.add_row("sub-agent", f"of session {header.parent}" if known else "of a session that is not known")
    if agents := session.agents:
        names = ", ".join(short_id(agent.id) for agent in agents[:_NAMES])
        more = f" and {len(agents) - _NAMES} more" if len(agents) > _NAMES else ""
        unread = sum(agent.usage is None for agent in agents)
        without = f"; without {unread:,} that cannot be read" if unread else ""
        table.add_row("sub-agents", f"{names}{more}: {describe_usage(session.usage_of_agents)}{without}")
        table.add_row("with them", describe_usage(session.usage + session.usage_of_agents))
    budget = f" of {rebuilt.window.budget:,}" if rebuilt.bounded else ""
    table.add_row("window", f"{view.tokens:,}{budget} tokens; with all that was evicted {session.history_tokens:,}")
    if rebuilt.by_episode and rebuilt.bounded and view.tokens > rebuilt.window.budget:
        excess, holders = view.tokens - rebuilt.window.budget, rebuilt.window.pinned.explain()
        table.add_row(
            "over", Text(printable(f"by {counted(excess, 'token')}; no pass may take: {holders}"), style="red")
        )
    if session.file.torn:
        lost = counted(session.file.torn_bytes, "byte")
        cut = f"the last record was cut short ({lost}); resuming the session repairs it"
        table.add_row("damage", Text(cut, style="red"))
    return table


def _pass_table(passes: list[_Pass], limit: int | None) -> RenderableType:
    table = plain_table(">pass", "when", ">before", ">after", ">budget", "*from")
    for row in elided(list(enumerate(passes, start=1)), limit):
        if isinstance(row, int):
            table.add_row("", f"({row:,} more)")
            continue
        number, (record, pinned) = row
        when = "" if record.at is None else f"{record.at.astimezone():%H:%M:%S}"
        table.add_row(
            f"{number}",
            when,
            f"{record.tokens_before:,}",
            f"{record.tokens_after:,}",
            f"{record.budget:,}",
            _took(record, pinned),
        )
    return table


def _took(record: PassRecord, pinned: Pinned | None) -> str:
    names = list(dict.fromkeys(layout.name_of(step.number, step.episode) for step in record.steps))
    listed = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
    over = "" if pinned is None else f"; {record.tokens_after - record.budget:,} over the budget: {pinned.explain()}"
    return printable(f"{listed or 'nothing'}{over}")


def _one_line(text: str, full: bool) -> str:
    line = " ".join(text.split())
    return line if full else cut(line, _NOTE_LENGTH)

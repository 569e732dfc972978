"""`wane show`: a saved session, its episodes as a tree below the user's turns, its passes, and what it cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from wane.account import NOTHING, Account
from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.lab.arguments import locate_session
from wane.cli.sessions.listing import agent_of, describe_recorder, short_id
from wane.cli.sessions.sent_requests import show_request
from wane.cli.terminal import layout, picture
from wane.cli.terminal.picture import Band, Role, Row, elide_rows
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, cut, local_time, plain_console, printable, write_json
from wane.cli.top_commands import ShowOptions
from wane.core import Episode, Item, Kind, Pinned, Step
from wane.core.errors import JournalError
from wane.formats import get_format
from wane.journal import MessageRecord, PassRecord, SessionFile, model_calls, read
from wane.journal.heads import id_of
from wane.journal.records import UNKNOWN_PARENT
from wane.journal.titles import TITLE_LENGTH, title_of
from wane.lab.readers import head, journal
from wane.lab.readers.databases import is_database
from wane.lab.readers.kin import descendants
from wane.lab.readers.reading import line_reader_of
from wane.rebuilding import Rebuilt, rebuild
from wane.strategies.strategy import Substitute
from wane.words import name_strategy

_ROWS: Final = 60
_LABELS: Final = ("whole", "view")
_NOTE_LENGTH: Final = 66
_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class ListedTurn:
    """A user turn: the index of its item, and its beginning."""

    item: int
    text: str


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A saved session, loaded.

    Attributes:
        file: its records.
        rebuilt: the session as it stands after them.
        turns: the user's turns.
        agents: by the id of each sub-agent's session, the usage of its model calls; None if it cannot be read.
    """

    file: SessionFile
    rebuilt: Rebuilt
    turns: tuple[ListedTurn, ...]
    agents: Mapping[str, Account | None]

    @property
    def usage_of_agents(self) -> Account:
        """The usage of its sub-agents' model calls, as far as they can be read."""
        return sum((usage for usage in self.agents.values() if usage is not None), NOTHING)

    @property
    def items(self) -> list[Item]:
        return [item for item, _ in self.rebuilt.items]

    @property
    def blocks(self) -> list[Band]:
        """Its history as blocks; those in the view stay."""
        items = self.items
        kinds = [Kind.USER if item.person else item.kind for item in items]
        tokens = [item.tokens for item in items]
        parts = layout.blocks(kinds, tokens, self.rebuilt.episodes, self.visible, self.instead)
        parts += layout.index_block(self.rebuilt.window)
        # Instructions, tools, and differences in counting, so that the picture adds up to what the provider reported.
        overhead = self.rebuilt.engine.tokens - sum(part.tokens for part in parts if part.stays)
        return [Band(Role.SYSTEM, max(0, overhead)), *parts]

    @property
    def visible(self) -> list[int]:
        """Indexes of the items that the view holds unchanged."""
        return [slot for slot in self.rebuilt.engine.view if isinstance(slot, int)]

    @property
    def instead(self) -> dict[int, int]:
        """By item, the tokens of its substitute in the view."""
        substitutes = [slot for slot in self.rebuilt.engine.view if isinstance(slot, Substitute)]
        return {slot.index: slot.tokens for slot in substitutes if slot.index is not None}

    @property
    def history_tokens(self) -> int:
        """Tokens of the view if nothing had been evicted."""
        return self.rebuilt.engine.tokens + self.rebuilt.engine.evicted

    @property
    def passes(self) -> list[tuple[PassRecord, Pinned | None]]:
        """Its passes, in order, each with what held the tokens if it could not meet the budget."""
        records = [record for record in self.file.records if isinstance(record, PassRecord)]
        return list(zip(records, self.rebuilt.shortfalls, strict=True))

    @property
    def usage(self) -> Account:
        return Account.of(self.file.records)

    @property
    def models(self) -> list[str]:
        """The models that answered, in order."""
        return list(dict.fromkeys(call.model for call in model_calls(self.file.records) if call.model))

    def turn_of(self, episode: Episode) -> int:
        """Number of the user turn in which an episode began, from 0; -1 before the first."""
        # A task that was not a call has no items, so what it holds counts too.
        held = [other for other in self.rebuilt.episodes if other.spans and episode in other.lineage()]
        first = min((other.spans[0][0] for other in held), default=0)
        return bisect_right(self.turns, first, key=lambda turn: turn.item) - 1


def load_session(path: Path) -> LoadedSession:
    """Read a session and rebuild it.

    Raises:
        JournalError: if it cannot be read, or does not replay.
    """
    file = read(path)
    rebuilt = rebuild(file.records, get_format(file.header.format))
    messages = [record.message for record in file.records if isinstance(record, MessageRecord)]
    turns: dict[int, ListedTurn] = {}  # by the number of their message
    for index, (item, part) in enumerate(rebuilt.items):
        if item.kind is Kind.USER and (number := rebuilt.transcript.message_of(index)) not in turns:
            # Without a title, a turn that an agent wrote for its user, in tags, is better than nothing.
            turns[number] = ListedTurn(index, title_of(messages[number]) or part.text[:TITLE_LENGTH])
    agents: dict[str, Account | None] = {}
    for child in descendants(path):
        try:
            agents[id_of(child)] = Account.of(read(child).records)
        except JournalError:
            agents[id_of(child)] = None
    return LoadedSession(file, rebuilt, tuple(turns.values()), agents)


def show_session(options: ShowOptions) -> int:
    if options.at is not None:
        return show_request(options, options.at)
    if options.diff is not None or options.store is not None:
        raise UsageError("--diff and --store need --at, the number of a request")
    path = Path(locate_session(options.name))
    try:
        session = load_session(path)
    except JournalError as error:
        agent: str | None = "OpenCode or Goose"
        if not is_database(path):
            beginning = head(path) if path.is_file() else []
            reader = line_reader_of(beginning)
            agent = None if reader is None or reader.NAME == journal.NAME else reader.TITLE
        if agent is None:
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


def session_dict(session: LoadedSession) -> dict[str, Any]:
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
        "tokens": {"history": session.history_tokens, "view": session.rebuilt.engine.tokens},
        "usage": session.usage.to_dict() | {"models": session.models},
        "parent": header.parent,
        "agents": list(session.agents),
        "usage_of_agents": session.usage_of_agents.to_dict(),
        "turns": [{"item": turn.item, "text": turn.text} for turn in session.turns],
        "episodes": [
            _episode_dict(episode, session.turn_of(episode), *tokens.get(episode.number, (0, 0)))
            for episode in session.rebuilt.episodes
        ],
        "passes": [_pass_dict(record, pinned) for record, pinned in session.passes],
        "index": None if window.index is None else asdict(window.index),
    }


def _episode_dict(episode: Episode, turn: int, history_tokens: int, view_tokens: int) -> dict[str, Any]:
    return {
        "number": episode.number,
        "name": episode.name,
        "type": episode.type.value,
        "implicit": episode.implicit,
        "inferred": episode.inferred,
        "closed": episode.closed,
        "removed": episode.removed,
        "level": episode.level.value,
        "dependencies": list(episode.dependencies),
        "task": None if episode.task is None else episode.task.name,
        "abandoned": episode.abandoned,
        "description": episode.description,
        "turn": turn,
        "tokens": {"history": history_tokens, "view": view_tokens},
    }


def tree(session: LoadedSession, *, full: bool) -> list[Row]:
    """Return a session as rows: what opens it, then each user turn with the episodes and tasks that began in it."""
    episodes = layout.in_tasks(session.rebuilt.episodes)
    below: dict[int, list[Row]] = {}
    policy = session.rebuilt.window.policy
    for episode, row in zip(episodes, layout.episode_rows(session.blocks, episodes, policy), strict=True):
        note = _one_line(episode.description or ("(inferred)" if episode.inferred else ""), full)
        if layout.is_visible(row):
            *_, outermost = episode.lineage()
            below.setdefault(session.turn_of(outermost), []).append(replace(row, note=note, depth=row.depth + 1))
    top = [row for row in layout.fixed_rows(session.blocks) if row.role is not Role.USER]
    rows = top + below.get(-1, [])
    items = session.items
    ends = [turn.item for turn in session.turns[1:]] + [len(items)]
    for number, turn in enumerate(session.turns):
        own = items[turn.item : ends[number]]
        tokens = sum(item.tokens for item in own if item.kind is Kind.USER or item.person)
        rows.append(Row(Role.USER, _one_line(turn.text, full) or "(no text)", tokens, tokens, why="never evicted"))
        rows += below.get(number, [])
    if session.rebuilt.by_episode and session.rebuilt.bounded:
        return rows
    # Levels and reasons are those of eviction by episode; other strategies have none.
    return [replace(row, level="", why="") for row in rows]


def describe_usage(usage: Account) -> str:
    if not usage.calls:
        return "no model call was reported"
    cache = f"{usage.cache_read_tokens:,} read from the cache, {usage.cache_write_tokens:,} written to it"
    read = count_noun(usage.input_tokens, "token")
    return (
        f"{count_noun(usage.calls, 'model call')}: {read} in ({cache}), {usage.output_tokens:,} out; {usage.describe()}"
    )


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
        "steps": [_step_dict(step) for step in record.steps],
    }


def _step_dict(step: Step) -> dict[str, Any]:
    tokens = {"tokens_before": step.tokens_before, "tokens_after": step.tokens_after}
    return {"episode": step.episode, "number": step.number, "level": step.level.value, **tokens}


def _print(session: LoadedSession, full: bool) -> None:
    limit = None if full else _ROWS
    console = plain_console()
    console.print(_summary(session), "")
    table = picture.EpisodeTable(tree(session, full=full), limit, _LABELS)
    console.print(picture.add_title("Episodes", table))
    if session.passes:
        console.print(picture.add_title("Passes", _pass_table(session, limit)))
    if (index := session.rebuilt.window.index) is not None:
        console.print(picture.add_title("The index of what has left the view", Text(printable(index.text, "\n"))))
    window = picture.WindowPicture(session.blocks, session.rebuilt.engine.budget, _LABELS)
    console.print(picture.add_title("The window", window))
    console.print(picture.WORDS_HINT, style="dim")


def _summary(session: LoadedSession) -> RenderableType:
    header, rebuilt = session.file.header, session.rebuilt
    tokens, excess = rebuilt.engine.tokens, rebuilt.engine.tokens - rebuilt.engine.budget
    table = plain_table("", "*")
    table.show_header = False
    table.add_row("session", Text(header.id, style="bold"))
    table.add_row("directory", printable(header.cwd))
    table.add_row(
        "began", f"{local_time(header.created)}, {count_noun(len(rebuilt.messages), 'message')} ({header.format})"
    )
    keepers = []
    if agent_of(header.id) == "proxy":
        keepers.append(describe_recorder(header.id, header.format))
    keepers.append(rebuilt.strategy and name_strategy(rebuilt.strategy))
    if keeper := ", ".join(name for name in keepers if name):
        table.add_row("kept by", printable(keeper))
    if session.models:
        table.add_row("model", printable(", ".join(session.models)))
    table.add_row("usage", describe_usage(session.usage))
    if header.parent:
        known = header.parent != UNKNOWN_PARENT
        table.add_row("sub-agent", f"of session {header.parent}" if known else "of an unknown session")
    if session.agents:
        unread = sum(usage is None for usage in session.agents.values())
        usage = describe_usage(session.usage_of_agents)
        if unread:
            usage += f"; without {unread:,} that cannot be read"
        table.add_row("sub-agents", f"{_first_names([short_id(agent) for agent in session.agents])}: {usage}")
        table.add_row("with them", describe_usage(session.usage + session.usage_of_agents))
    budget = f" of {rebuilt.engine.budget:,}" if rebuilt.bounded else ""
    table.add_row("window", f"{tokens:,}{budget} tokens; {session.history_tokens:,} with all that was evicted")
    if rebuilt.by_episode and rebuilt.bounded and (widening := rebuilt.window.room.widening):
        table.add_row("room", widening)
    if rebuilt.by_episode and rebuilt.bounded and excess > 0:
        over = f"by {count_noun(excess, 'token')}; no pass may take: {rebuilt.window.pinned.explain()}"
        table.add_row("over", Text(printable(over), style="red"))
    if session.file.torn:
        lost = count_noun(session.file.torn_bytes, "byte")
        cut = f"the last record was cut short ({lost}); resuming the session repairs it"
        table.add_row("damage", Text(cut, style="red"))
    return table


def _pass_table(session: LoadedSession, limit: int | None) -> RenderableType:
    table = plain_table(">pass", "when", ">before", ">after", ">budget", "*from")
    for row in elide_rows(list(enumerate(session.passes, start=1)), limit):
        if isinstance(row, int):
            table.add_row("", f"({row:,} more)")
            continue
        number, (record, pinned) = row
        names = list(dict.fromkeys(layout.name_of(step.number, step.episode) for step in record.steps))
        took = _first_names(names) or "nothing"
        if pinned is not None:
            took += f"; {record.tokens_after - record.budget:,} over the budget: {pinned.explain()}"
        when = "" if record.at is None else f"{record.at.astimezone():%H:%M:%S}"
        figures = [f"{tokens:,}" for tokens in (record.tokens_before, record.tokens_after, record.budget)]
        table.add_row(f"{number}", when, *figures, printable(took))
    return table


def _first_names(names: Sequence[str]) -> str:
    text = ", ".join(names[:_NAMES])
    return f"{text} and {len(names) - _NAMES} more" if len(names) > _NAMES else text


def _one_line(text: str, full: bool) -> str:
    line = " ".join(text.split())
    return line if full else cut(line, _NOTE_LENGTH)

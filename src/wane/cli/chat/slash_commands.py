"""The chat's commands, which begin with a slash: how a line names one, and what each does.

Modules that draw tables are imported when a command runs, so that the prompt is there quickly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rich.text import Text

from wane.agent.approval.permission_rules import Rule
from wane.agent.approval.permissions import REMEMBERED, Effect
from wane.agent.models import LIKENESS, check_name, offered_models
from wane.agent.tools import AGENT_TOOLS, SHELL_TOOL
from wane.agent.tools.mcp import USER_FILE as MCP_FILE
from wane.cli.chat.own_commands import custom_commands
from wane.cli.terminal.glossary import show_words
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, first_few, local_time, printable, short
from wane.core.errors import ConfigError
from wane.money import dollars
from wane.prices import listed_prices
from wane.strategies.registry import describe, traits
from wane.words import EFFECTS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from wane.agent.session import AgentSession
    from wane.agent.user_turns import UserTurn
    from wane.core import FitReport, Item
    from wane.core.episodes import Choice
    from wane.journal import SessionInfo, SessionStore

_WHAT: Final = "?"
"""Asks what a word means."""

_SHORTHANDS: Final = {"exit": "/quit", "quit": "/quit", ":q": "/quit", "/": "/help", _WHAT: "/words"}
"""Lines that stand for commands; nobody says these words to a model."""

_OTHER_WORDS: Final = {"/pin": "/keep", "/unpin": "/release", "/evict": "/drop", "/undo": "/rewind"}
"""What other programs call a command of ours."""


class CommandHost(Protocol):
    """The chat, as the commands use it; `interactive.py` has it, and imports this module."""

    console: Console
    store: SessionStore
    unseen: tuple[str, int] | None

    @property
    def session(self) -> AgentSession:
        """The current session."""

    def begin(self) -> None:
        """Begin another session."""

    def resume(self, path: Path) -> None:
        """Resume another session."""

    def offer(self, prompt: str, choose: Callable[[str], None]) -> None:
        """Give the next input to a function, which may refuse it with an error; nothing chooses nothing."""

    def move(self, direction: str, turn: UserTurn | None = None, *, files: bool) -> None:
        """Go back to before a turn, or forward again, and say so in these words."""

    def quit(self) -> None:
        """End the chat."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command.

    Attributes:
        run: runs it with the text after its name.
        looks: whether it changes nothing, so that it may run during a turn.
        aliases: its names in other agents.
        shows: whether it changes nothing if it has no argument.
    """

    name: str
    arguments: str
    help: str
    run: Callable[[CommandHost, str], None]
    looks: bool = False
    aliases: tuple[str, ...] = ()
    shows: bool = False

    def only_looks(self, argument: str) -> bool:
        """Return whether it changes nothing with this argument."""
        return self.looks or (self.shows and not argument)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def matches(self, beginning: str) -> list[str]:
        """Return its names that begin so."""
        return [name for name in self.names if name.startswith(beginning)]


def is_command(line: str) -> bool:
    """Return whether a line is a command: a shorthand, or it begins with a slash, but not with a path."""
    word = line.split(maxsplit=1)[0] if line else ""
    return line in _SHORTHANDS or word == _WHAT or (line.startswith("/") and "/" not in word[1:])


def find_command(line: str, commands: Sequence[ChatCommand], own: Iterable[str] = ()) -> tuple[ChatCommand, str]:
    """Return the command that a line names, by a name or an unambiguous beginning, and the rest of the line.

    Raises:
        ConfigError: if no command has this name, or several do; or if there is a rest, and the command takes none.
    """
    word, _, argument = line.strip().partition(" ")
    word, argument = _SHORTHANDS.get(word, word), argument.strip()
    matches = [command for command in commands if word in command.names]
    if not matches:
        matches = [command for command in commands if command.matches(word)]
    if len(matches) == 1:
        if argument and not matches[0].arguments:
            raise ConfigError(f"{matches[0].name} takes nothing after it, but there is {argument!r}")
        return matches[0], argument
    if matches:
        names = [name for command in matches for name in command.matches(word)]
        raise ConfigError(f"{word} could be {', '.join(names[:-1])} or {names[-1]}")
    names = [name for command in commands for name in command.names]
    meant = _OTHER_WORDS.get(word)
    near = [meant] if meant in names else get_close_matches(word, [*names, *own], 1, LIKENESS)
    guess = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"there is no command {word}; {guess}/help lists all")


KEYS: Final = (
    ("Enter", "Send. During a turn, what you type waits; Up takes it back."),
    ("Alt-Enter, Ctrl-J", "Begin a new line; so does a backslash before Enter."),
    ("Esc", "Stop the turn; twice at an empty prompt, go back to an earlier turn."),
    ("Ctrl-C", "Stop the turn, or clear the line; twice at an empty prompt, quit."),
    ("Ctrl-D", "Quit."),
    ("Ctrl-R", "Search what you typed before, in earlier sessions too."),
    ("Ctrl-O", "Show the whole of a folded output."),
    ("@path", "Name a file; it is completed as you type."),
    ("!command", "Run a command of yours. The model reads its output with your next words."),
)
"""What /help says about keys, and about what a line may begin with."""

_ROWS: Final = 40


def _context(chat: CommandHost, _: str) -> None:
    from wane.cli.terminal import layout, picture

    session, labels = chat.session, ("view", "then")
    report, window = session.next_pass(), session.window
    removed = [index for step in report.steps for index in step.removed]
    blocks = layout.view_blocks(_items(session), session.episodes, window, removed, done=False)
    table = picture.EpisodeTable(layout.rows(blocks, window.episodes, window.policy, done=False), _ROWS, labels)
    chat.console.print(picture.add_title("What the view holds, and what the next pass would leave", table))
    if report.steps:
        steps = layout.step_table(report.steps, limit=_ROWS)
        chat.console.print(picture.add_title("What the next pass would evict, in this order", steps))
    chat.console.print(picture.WindowPicture(blocks, window.budget_used, labels))
    chat.console.print(Text(printable(_outlook(session, report))))
    _warn_of_room(chat)


def _warn_of_room(chat: CommandHost) -> None:
    room = chat.session.room
    if room is not None and room.remark:
        chat.console.print(Text(room.remark, style="yellow"))


def _items(session: AgentSession) -> list[Item]:
    from wane.formats.message_format import Transcript
    from wane.formats.pydantic_ai import PydanticAIFormat

    transcript = Transcript(PydanticAIFormat())
    return [item for message in session.conversation.messages for item in transcript.append(message)]


def _outlook(session: AgentSession, report: FitReport) -> str:
    window = session.window
    state = f"The view holds {session.tokens:,} of {window.budget_used:,} tokens."
    strategy = session.settings.context.strategy
    if not traits(strategy).bounded:
        return f"{state} The context is not managed: no pass will run. /wane on switches it on."
    if not traits(strategy).by_episode:
        return f"{state} The strategy {strategy} manages it: {describe(strategy)}. /wane on evicts by episode instead."
    freed = report.tokens_before - report.tokens_after
    due = window.tokens > window.budget_used
    if not freed:
        outlook = f"{state} Nothing could be evicted now."
    elif due:
        outlook = f"{state} A pass is due before the next model call; it would free {freed:,} tokens."
    else:
        outlook = f"{state} A pass runs when the view is full; now it would free {freed:,} tokens."
    return f"{outlook} {report.shortfall}".rstrip() if due else outlook


def _episodes(chat: CommandHost, _: str) -> None:
    from wane.cli.terminal import layout, picture

    session = chat.session
    if not session.episodes:
        chat.console.print("No episode has been started yet.")
        return
    items, window = _items(session), session.window
    # What is in view has the tokens that /context gives it; what has left the view is in no total of the provider's.
    removed = [index for step in session.next_pass().steps for index in step.removed]
    view = layout.view_blocks(items, session.episodes, window, removed, done=False)
    visible = set(window.visible)
    tokens = [0 if index in visible else window.accounting.scale(item.tokens) for index, item in enumerate(items)]
    evicted = layout.blocks([item.kind for item in items], tokens, session.episodes, ())
    blocks = [*(replace(band, stays=True) for band in view), *(replace(band, stays=False) for band in evicted)]
    rows = layout.episode_rows(blocks, layout.in_tasks(session.episodes), session.window.policy)
    chat.console.print(picture.EpisodeTable(rows, _ROWS, ("whole", "view")))


def _choose(chat: CommandHost, text: str, choice: Choice) -> None:
    """Choose for the episode that a text names: by its name, or by the number of unmarked work."""
    if not text:
        raise ConfigError(
            f"which episode? Write /{choice or 'release'} and its name, or unmarked 3; /context lists them"
        )
    number = text.removeprefix("unmarked ").strip("() ")
    for episode in chat.session.window.episodes:
        if text == episode.name or (episode.name is None and number == str(episode.number)):
            break
    else:
        raise ConfigError(f"no episode {text!r} is in view; /context lists those that are")
    chat.session.conversation.choose(episode.number, choice)
    name = f"unmarked {episode.number}" if episode.name is None else printable(episode.name)
    what = f"{name} {EFFECTS[choice]}."
    if choice == "drop":
        what += " The session keeps it whole, and the provider's cache is written anew from there."
    chat.console.print(Text(what))


def _budget(chat: CommandHost, text: str) -> None:
    if text:
        chat.session.set_budget(text)
    tokens, budget = chat.session.tokens, chat.session.window.budget
    chat.console.print(f"The view holds {tokens:,} of {budget:,} tokens.")
    if chat.session.auto_budget is not None:
        chat.console.print(Text(str(chat.session.auto_budget)))
    _warn_of_room(chat)


def _manage(chat: CommandHost, text: str) -> None:
    if text not in ("", "on", "off"):
        raise ConfigError(f"/wane {text} is not understood; write /wane on or /wane off")
    if text:
        chat.session.manage(text == "on")
    strategy = chat.session.settings.context.strategy
    if traits(strategy).by_episode:
        management = "The context is managed: whole episodes are evicted when the view exceeds the budget."
    elif not traits(strategy).bounded:
        management = "The context is not managed: nothing more is evicted. What was evicted stays out of the view."
    else:
        management = f"The context is managed by the strategy {strategy}: {describe(strategy)}."
    chat.console.print(management)


def _model(chat: CommandHost, text: str) -> None:
    from wane.agent.opening import name_of

    if text:
        check_name(text, os.environ)
        chat.session.set_model(text)
    session = chat.session
    window = session.model.context_window
    size = f", a window of {short(window)} tokens" if window else ", a window of unknown size"
    chat.console.print(f"The model is {printable(name_of(session.settings, session.model))}{size}.")
    if not text:
        _list_models(chat)


def _list_models(chat: CommandHost) -> None:
    """List the models of the current provider and of those whose key is set, with their prices."""
    from wane.agent.opening import name_of

    table = plain_table("model", ">window", ">$ per 1M in", ">out")
    for name in offered_models(name_of(chat.session.settings, chat.session.model), os.environ):
        prices = listed_prices(name)
        if prices is None or not prices.tiers:
            table.add_row(name, "", "", "")
            continue
        rates = prices.rates(0)
        window = short(prices.window) if prices.window else ""
        table.add_row(name, window, f"{rates.input * 1e6:,.2f}", f"{rates.output * 1e6:,.2f}")
    if table.row_count:
        chat.console.print(table)
        chat.console.print("/model provider:model changes it, from the next turn on.", style="dim")


def _cost(chat: CommandHost, _: str) -> None:
    account = chat.session.account
    if not account.calls:
        chat.console.print("No model has been called yet.")
        return
    new = account.input_tokens - account.cache_read_tokens - account.cache_write_tokens
    calls = count_noun(account.calls, "model call")
    where = (
        "in this session and in those that you went back or forward from"
        if chat.session.elsewhere
        else "in this session"
    )
    chat.console.print(f"{account.describe()} for {calls} {where}, earlier starts included.")
    chat.console.print(
        f"Input: {new:,} tokens at full price, {account.cache_read_tokens:,} read from the provider's cache,"
        f" {account.cache_write_tokens:,} written to it. Output: {account.output_tokens:,} tokens."
    )
    if (limit := chat.session.settings.cost_limit) is not None:
        chat.console.print(f"The cost limit is {dollars(limit)}.")


def _compact(chat: CommandHost, _: str) -> None:
    budget = chat.session.window.budget
    strategy = traits(chat.session.settings.context.strategy)
    if not strategy.bounded:
        chat.console.print(
            "The context is not managed, so nothing is evicted, however full it is. /wane on manages it."
        )
        return
    what = "finished episodes are evicted, and everything else stays word for word"
    if not strategy.by_episode:
        what = f"the strategy {chat.session.settings.context.strategy} makes room"
    chat.console.print(
        f"There is nothing to compact: when the view is full, {what}. /context shows what would leave next."
    )
    chat.console.print(
        f"For a smaller view, lower the budget: /budget {short(max(1, budget // 2))}. For an empty one: /new."
    )


def _log(chat: CommandHost, _: str) -> None:
    from wane.cli.chat.recap import log_lines

    lines = log_lines(chat.session)
    for line in lines[-_ROWS:]:
        chat.console.print(Text(line))
    if len(lines) > _ROWS:
        chat.console.print(f"These are the last {_ROWS} of {len(lines):,}.", style="dim")
    if not lines:
        chat.console.print("Nothing has happened behind the scenes yet.")


def _new(chat: CommandHost, _: str) -> None:
    before = chat.session.id if chat.session.history else None
    chat.begin()
    if before is not None:
        chat.console.print(f"To go back: /resume {before}", style="dim")


_KINDS: Final = {Effect.COMMAND: "commands", Effect.WRITE: "file changes", Effect.TOOL: "calls of MCP tools"}


def _permissions(chat: CommandHost, text: str) -> None:
    permissions = chat.session.permissions
    if text:
        _forget(chat, text)
    table = plain_table(">", "", "*rule", "*from")
    numbers = count(1)
    for rule in permissions.in_force:
        number = str(next(numbers)) if rule.source == REMEMBERED else ""
        table.add_row(number, "allow" if rule.allows else "deny", printable(rule.text), rule.source)
    if table.row_count:
        chat.console.print(table)
        chat.console.print("A rule that denies outweighs every rule that allows.", style="dim")
    if permissions.yolo:
        chat.console.print("All else is allowed (--yolo)." if table.row_count else "Everything is allowed (--yolo).")
    elif asked := [kind for effect, kind in _KINDS.items() if not permissions.allows_all(effect)]:
        other = "other " if table.row_count else ""
        chat.console.print(f"The agent asks before {other}{', '.join(asked)}.")
        if not permissions.allows_all(Effect.COMMAND):
            chat.console.print(chat.session.sandbox.describe())


def _forget(chat: CommandHost, text: str) -> None:
    """Forget the remembered rule that a text names by its number."""
    permissions = chat.session.permissions
    word, _, number = text.partition(" ")
    rules = [rule.text for rule in permissions.in_force if rule.source == REMEMBERED]
    remembered = permissions.remembered
    if word != "forget" or not _is_number(number) or not 1 <= int(number) <= len(rules) or remembered is None:
        raise ConfigError(f"/permissions {text} is not understood; write /permissions forget and a rule's number")
    try:
        remembered.forget(Rule(rules[int(number) - 1]))
    except OSError as error:
        raise ConfigError(f"cannot write {remembered.path}: {error.strerror or error}") from error


def _mcp(chat: CommandHost, _: str) -> None:
    servers = chat.session.servers.servers
    if not servers:
        chat.console.print(f"No MCP servers are configured; --mcp FILE or {MCP_FILE} beside your settings names them.")
        return
    table = plain_table("server", "*tools")
    for server in servers:
        status = ", ".join(server.tools) or "not started yet"
        if server.problem:
            status = f"does not work: {server.problem}"
        table.add_row(printable(server.name), printable(status))
    chat.console.print(table)


def _recall(chat: CommandHost, text: str) -> None:
    name, _, offset = text.rpartition(" ")
    if not (name and _is_number(offset)):
        name, offset = text, "0"
    if not name:
        raise ConfigError("/recall needs the name of an episode; /episodes lists them")
    _show_page(chat, chat.session.recall(name, int(offset)))


def _search(chat: CommandHost, text: str) -> None:
    offset = 0
    if not text:
        if chat.unseen is None:
            raise ConfigError("/search needs a text or a pattern to look for; no earlier search has more to show")
        text, offset = chat.unseen
    page = chat.session.search(text, offset)
    # The end of a page tells the model how to get the next one.
    remainder = re.search(r'\[(\d+) more\. Go on with: \{.*"offset": (\d+)\}\]\Z', page)
    chat.unseen = (text, int(remainder[2])) if remainder else None
    if remainder:
        page = f"{page[: remainder.start()]}[{remainder[1]} more; /search shows them]"
    _show_page(chat, page)


def _show_page(chat: CommandHost, page: str) -> None:
    for line in page.split("\n"):
        chat.console.print(Text(printable(line.replace("\t", "    "))))


def _sessions(chat: CommandHost, _: str) -> None:
    infos = resumable(chat.store, chat.session.cwd)
    chat.console.print(session_table(infos, chat.session.id) if infos else "There are no sessions in this directory.")


def resumable(store: SessionStore, directory: Path) -> list[SessionInfo]:
    from wane.cli.sessions.listing import of_the_agent

    return of_the_agent(store.sessions(directory))


MOST_CHOICES: Final = 100
"""Sessions to choose from in a table, the last written; older ones can be named."""


def session_table(infos: Sequence[SessionInfo], current: str | None) -> RenderableType:
    """Return a numbered table of sessions to choose from; the current one is marked."""
    table = plain_table(">", "id", "last written", ">messages", "title")
    # The title gets the width that the other columns leave.
    table.expand = True
    table.columns[-1].ratio = 1
    table.columns[-1].overflow = "ellipsis"
    if len(infos) > MOST_CHOICES:
        table.caption = f"and {len(infos) - MOST_CHOICES:,} older, by the beginning of their id"
        table.caption_justify = "left"
    for number, info in enumerate(infos[:MOST_CHOICES], start=1):
        mark = "*" if info.id == current else ""
        title = printable(info.problem or info.title or "")
        table.add_row(f"{mark}{number}", info.id, local_time(info.modified), f"{info.messages:,}", title)
    return table


def choose_id(infos: Sequence[SessionInfo], answer: str) -> str:
    """Return the id for a number in the table of sessions; any other answer is returned as it is."""
    if _is_number(answer) and 1 <= int(answer) <= len(infos):
        return infos[int(answer) - 1].id
    return answer


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _resume(chat: CommandHost, text: str) -> None:
    infos = resumable(chat.store, chat.session.cwd)
    if text:
        chat.resume(chat.store.find(choose_id(infos, text)))
        return
    _sessions(chat, "")
    if infos:
        prompt = "Resume which one? Its number or id, or nothing to stay here "
        chat.offer(prompt, lambda answer: chat.resume(chat.store.find(choose_id(infos, answer))))


_FILES: Final = "files"


def _rewind(chat: CommandHost, text: str) -> None:
    if text:
        _go_back(chat, text)
        return
    turns = chat.session.turns
    if not turns:
        chat.console.print("Nothing has been said yet, so there is nothing to go back to.")
        return
    _list_turns(chat, turns)
    prompt = f"Go back to before which turn? Its number, with `{_FILES}` to put back files too, or nothing to stay "
    chat.offer(prompt, lambda answer: _go_back(chat, answer))


def _list_turns(chat: CommandHost, turns: Sequence[UserTurn]) -> None:
    from wane.cli.chat.recap import one_line

    table = plain_table(">", "turn")
    table.expand = True
    table.columns[-1].ratio = 1
    table.columns[-1].overflow = "ellipsis"
    first = max(0, len(turns) - _ROWS)
    for number, turn in enumerate(turns[first:], start=first + 1):
        table.add_row(str(number), one_line(turn.words))
    if first:
        table.caption = f"and {first:,} earlier, from 1 on"
        table.caption_justify = "left"
    chat.console.print(table)


def _go_back(chat: CommandHost, text: str) -> None:
    """Go back to before the turn that a text names by its number, with files if it says so."""
    number, _, files = text.partition(" ")
    turns = chat.session.turns
    if files.strip() not in ("", _FILES) or not _is_number(number) or not 1 <= int(number) <= len(turns):
        raise ConfigError(
            f"{text!r} is not understood; give a turn's number, 1 to {len(turns)}, alone or with {_FILES}"
        )
    turn = turns[int(number) - 1]
    commands = _outside(turns[int(number) - 1 :])
    left: list[str] = []
    if not files:
        left += [file.path for file in chat.session.files_since(turn)]
    chat.move(f"back to before turn {number}", turn, files=bool(files))
    if left:
        names = first_few(left, 5)
        chat.console.print(
            Text(f"Files stay as they are: {names}. `{_FILES}` after the number puts them back.", style="dim")
        )
    if commands:
        calls = count_noun(commands, "call of a command or another tool", "calls of commands and other tools")
        text = f"{calls} since then: what they changed is not known, and stays; git status shows it."
        chat.console.print(Text(text, style="dim"))


def _outside(turns: Sequence[UserTurn]) -> int:
    """Return how many calls of some turns may have changed what the journal does not know."""
    from pydantic_ai.messages import ModelResponse

    calls = 0
    for turn in turns:
        for message in turn.messages:
            if not isinstance(message, ModelResponse):
                continue
            for call in message.tool_calls:
                calls += call.tool_name == SHELL_TOOL or call.tool_name not in AGENT_TOOLS
    return calls


def _forward(chat: CommandHost, text: str) -> None:
    if text not in ("", _FILES):
        raise ConfigError(f"/forward {text} is not understood; write /forward or /forward {_FILES}")
    chat.move("forward again", files=bool(text))


def _help(chat: CommandHost, _: str) -> None:
    table = plain_table("", "*")
    table.show_header = False
    for command in COMMANDS:
        table.add_row(f"{', '.join(command.names)} {command.arguments}".rstrip(), command.help)
    for own in custom_commands(chat.session.cwd, os.environ):
        table.add_row(printable(own.name), printable(own.help))
    table.add_row("", "")
    for key, effect in KEYS:
        table.add_row(key, effect)
    chat.console.print(table)


COMMANDS: Final = (
    ChatCommand("/context", "", "Show what the window holds and what the next pass would evict.", _context, True),
    ChatCommand("/episodes", "", "List all episodes of the session.", _episodes, True),
    ChatCommand(
        "/keep",
        "EPISODE",
        "Keep an episode in view, whatever the budget is.",
        lambda chat, text: _choose(chat, text, "keep"),
    ),
    ChatCommand(
        "/drop",
        "EPISODE",
        "Let an episode leave the view with the next request.",
        lambda chat, text: _choose(chat, text, "drop"),
    ),
    ChatCommand("/release", "EPISODE", "Take back /keep or /drop.", lambda chat, text: _choose(chat, text, "")),
    ChatCommand("/budget", "[80k|50%]", "Show or change the budget of the view.", _budget, shows=True),
    ChatCommand("/wane", "[on|off]", "Show or switch context management.", _manage, shows=True),
    ChatCommand(
        "/compact", "", "Say why nothing has to be compacted, and what makes the view smaller.", _compact, True
    ),
    ChatCommand("/cost", "", "Show what the session has cost.", _cost, True, ("/usage",)),
    ChatCommand("/model", "[provider:model]", "Show the model and others, or change it.", _model, shows=True),
    ChatCommand("/recall", "NAME [OFFSET]", "Show what an episode held, evicted or not.", _recall, True),
    ChatCommand(
        "/search", "[TEXT]", "Find a text in the session, evicted or not; without TEXT, show more.", _search, True
    ),
    ChatCommand(
        "/permissions", "[forget N]", "Show what is allowed and denied, or forget a rule.", _permissions, shows=True
    ),
    ChatCommand("/log", "", "Show what Wane did behind the scenes: passes, refused marks, reminders.", _log, True),
    ChatCommand("/mcp", "", "List the MCP servers and their tools.", _mcp, True),
    ChatCommand("/sessions", "", "List the sessions of this directory.", _sessions, True),
    ChatCommand("/resume", "[ID]", "Resume another session.", _resume),
    ChatCommand(
        "/rewind",
        "[TURN [files]]",
        "Go back to before a turn, and put back files if you say so; so does Esc Esc.",
        _rewind,
    ),
    ChatCommand("/forward", "[files]", "Go forward again to where you went back from.", _forward),
    ChatCommand("/new", "", "Begin another session, with an empty view.", _new, aliases=("/clear",)),
    ChatCommand("/help", "", "Show these commands.", _help, True),
    ChatCommand(
        "/words",
        "[WORD]",
        "Say what a word means; so does ? WORD.",
        lambda chat, text: show_words(chat.console, text),
        True,
    ),
    ChatCommand(
        "/quit", "", "End the chat; the session can be resumed.", lambda chat, _: chat.quit(), aliases=("/exit",)
    ),
)
"""All commands, in the order of help."""

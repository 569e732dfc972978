"""The chat's commands, which begin with a slash.

What they show with is imported when they run, so that the prompt is there quickly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from rich.text import Text

from wane.agent.tools.mcp import USER_FILE as MCP_FILE
from wane.cli.terminal.text import local_time, printable, short
from wane.core.errors import ConfigError
from wane.strategies.base import EPISODIC

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from wane.agent.session import AgentSession
    from wane.cli.terminal.picture import Block
    from wane.core import FitReport, Item
    from wane.journal import SessionInfo, SessionStore

KEYS: Final = """\
@path names a file. !command runs a command of yours; the model reads its output with your next words.
Enter sends, Alt-Enter begins a new line, Ctrl-R searches what you typed before.
Ctrl-C stops the turn, or clears the line; twice at an empty prompt, it quits, as Ctrl-D does.
During a turn, what you type waits; Up takes it back. Ctrl-O shows the whole of a folded output."""
"""What /help tells about keys."""

_ROWS: Final = 40


class Host(Protocol):
    """The chat, as the commands use it."""

    console: Console
    store: SessionStore

    @property
    def session(self) -> AgentSession:
        """The current session."""

    def begin(self) -> None:
        """Begin another session."""

    def resume(self, path: Path) -> None:
        """Resume another session."""

    def offer(self, infos: Sequence[SessionInfo]) -> None:
        """Take the next input as the choice among these sessions."""

    def quit(self) -> None:
        """End the chat."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: its name, with the slash.
        arguments: its arguments, for help.
        help: what it does.
        run: runs it with the text after its name.
        looks: whether it only looks, so that it may run during a turn.
    """

    name: str
    arguments: str
    help: str
    run: Callable[[Host, str], None]
    looks: bool = False


def find_command(line: str) -> tuple[Command, str]:
    """Return the command that a line names, by its name or an unambiguous beginning, and the rest of the line.

    Raises:
        ConfigError: if no command has this name, or several have.
    """
    word, _, rest = line.strip().partition(" ")
    found = [command for command in COMMANDS if command.name == word] or [
        command for command in COMMANDS if command.name.startswith(word)
    ]
    if len(found) == 1:
        return found[0], rest.strip()
    known = ", ".join(command.name for command in found or COMMANDS)
    raise ConfigError(f"{word} is {'ambiguous' if found else 'no command'}: {known}")


def _context(host: Host, _: str) -> None:
    from wane.cli.terminal import layout, picture

    session = host.session
    report = session.next_pass()
    blocks = view_blocks(session, report)
    window = session.window
    rows = layout.rows(blocks, window.episodes, window.policy)
    labels = ("view", "then")
    table = picture.episode_table(rows, limit=_ROWS, labels=labels)
    host.console.print(picture.titled("What the view holds, and what the next pass would leave", table))
    if report.steps:
        steps = picture.step_table(layout.step_rows(report.steps), limit=_ROWS)
        host.console.print(picture.titled("What the next pass would evict, in this order", steps))
    host.console.print(picture.window_picture(blocks, window.budget, labels=labels))
    host.console.print(Text(printable(_outlook(session, report))))


def view_blocks(session: AgentSession, report: FitReport) -> list[Block]:
    """Return the view as blocks; those that a pass would leave are kept.

    Args:
        session: the session.
        report: what the pass would do.
    """
    from wane.cli.terminal import layout
    from wane.cli.terminal.picture import Block, Role

    items = _items(session)
    window = session.window
    visible = set(window.visible)
    taken = {index for step in report.steps for index in step.removed}
    tokens = [item.tokens if index in visible else 0 for index, item in enumerate(items)]
    blocks = layout.blocks([item.kind for item in items], tokens, session.episodes, visible - taken)
    # What every request carries in addition, so that the picture shows the same total as the footer.
    besides = window.tokens - sum(tokens)
    return [Block(Role.SYSTEM, max(0, besides)), *(block for block in blocks if block.tokens)]


def _items(session: AgentSession) -> list[Item]:
    from wane.formats.base import Transcript
    from wane.formats.frameworks.pydantic_ai import PydanticAIFormat

    transcript = Transcript(PydanticAIFormat())
    return [item for message in session.conversation.messages for item in transcript.append(message)]


def _outlook(session: AgentSession, report: FitReport) -> str:
    from wane.strategies.registry import describe

    window = session.window
    state = f"The view holds {session.tokens:,} of {window.budget:,} tokens."
    strategy = session.settings.strategy
    if strategy == "none":
        return f"{state} The context is not managed: no pass will run. /cwl on switches it on."
    if strategy not in EPISODIC:
        return f"{state} The strategy {strategy} manages it: {describe(strategy)}. /cwl on evicts by episode instead."
    freed = report.tokens_before - report.tokens_after
    due = window.tokens > window.budget
    if not freed:
        return f"{state} Nothing could be evicted now.{f' {report.shortfall}' if due else ''}"
    if due:
        told = f"{state} A pass is due before the next model call; it would free {freed:,}."
        return f"{told} {report.shortfall}".rstrip()
    return f"{state} A pass runs when it is full; of what it holds now it would free {freed:,}."


def _episodes(host: Host, _: str) -> None:
    from wane.cli.terminal import layout, picture

    session = host.session
    if not session.episodes:
        host.console.print("No episode has been started yet.")
        return
    items = _items(session)
    blocks = layout.blocks(
        [item.kind for item in items], [item.tokens for item in items], session.episodes, session.window.visible
    )
    rows = layout.episode_rows(blocks, session.episodes, session.window.policy)
    host.console.print(picture.episode_table(rows, limit=_ROWS, labels=("whole", "view")))


def _budget(host: Host, text: str) -> None:
    if text:
        host.session.set_budget(text)
    held, budget = host.session.tokens, host.session.window.budget
    host.console.print(f"The view holds {held:,} of {budget:,} tokens.")


def _cwl(host: Host, text: str) -> None:
    from wane.strategies.registry import describe

    if text not in ("", "on", "off"):
        raise ConfigError(f"/cwl {text} is not understood; write /cwl on or /cwl off")
    if text:
        host.session.manage(text == "on")
    strategy = host.session.settings.strategy
    if strategy in EPISODIC:
        told = "The context is managed: whole episodes are evicted when the view exceeds the budget."
    elif strategy == "none":
        told = "The context is not managed: nothing more is evicted. What was evicted stays out of the view."
    else:
        told = f"The context is managed by the strategy {strategy}: {describe(strategy)}."
    host.console.print(told)


def _model(host: Host, text: str) -> None:
    if text:
        host.session.set_model(text)
    session = host.session
    window = session.model.context_window
    size = f", a window of {short(window)} tokens" if window else ", a window of unknown size"
    host.console.print(f"The model is {printable(session.model.model_id)}{size}.")


def _permissions(host: Host, text: str) -> None:
    from wane.cli.terminal import picture

    permissions = host.session.permissions
    kept = permissions.remembered
    word, _, number = text.partition(" ")
    rules = [("allow", rule) for rule in (kept.allow if kept else ())]
    rules += [("deny", rule) for rule in (kept.deny if kept else ())]
    if word:
        if word != "forget" or not number.isdecimal() or not 1 <= int(number) <= len(rules) or kept is None:
            raise ConfigError(f"/permissions {text} is not understood; write /permissions forget and a rule's number")
        try:
            kept.forget(rules.pop(int(number) - 1)[1])
        except OSError as error:
            raise ConfigError(f"cannot write {kept.path}: {error.strerror or error}") from error
    table = picture.plain_table(">", "", "*rule", "until")
    for position, (kind, rule) in enumerate(rules, start=1):
        table.add_row(str(position), kind, printable(rule.text), "forgotten")
    for kind, others in (("allow", permissions.allow), ("deny", permissions.deny)):
        for rule in others:
            table.add_row("", kind, printable(rule.text), "the session ends")
    if permissions.yolo:
        host.console.print("All is allowed (--yolo), but for what is denied below.")
    elif not table.row_count:
        host.console.print("No rule allows or denies anything: commands and file changes are asked for.")
    if table.row_count:
        host.console.print(table)


def _mcp(host: Host, _: str) -> None:
    from wane.cli.terminal import picture

    servers = host.session.servers.servers
    if not servers:
        host.console.print(f"No MCP servers are configured; --mcp FILE or {MCP_FILE} beside your settings names them.")
        return
    table = picture.plain_table("server", "*tools")
    for server in servers:
        told = f"does not work: {server.problem}" if server.problem else ", ".join(server.tools) or "not started yet"
        table.add_row(printable(server.name), printable(told))
    host.console.print(table)


def _recall(host: Host, text: str) -> None:
    name, _, offset = text.rpartition(" ")
    if not (name and offset.isdigit()):
        name, offset = text, "0"
    if not name:
        raise ConfigError("/recall needs the name of an episode; /episodes lists them")
    page = host.session.recall(name, int(offset))
    for line in page.split("\n"):
        host.console.print(Text(printable(line.replace("\t", "    "))))


def _sessions(host: Host, _: str) -> None:
    from wane.cli.sessions.listing import of_the_agent

    infos = of_the_agent(host.store.sessions(host.session.cwd))
    if not infos:
        host.console.print("There are no sessions in this directory.")
        return
    host.console.print(session_table(infos, host.session.id))


def session_table(infos: Sequence[SessionInfo], current: str | None) -> object:
    """Return a numbered table of sessions to choose from; the current one is marked."""
    from wane.cli.terminal import picture

    table = picture.plain_table(">", "id", "last written", ">messages", "*title")
    for number, info in enumerate(infos, start=1):
        mark = "*" if info.id == current else ""
        title = printable(info.problem or info.title or "")
        table.add_row(f"{mark}{number}", info.id, local_time(info.modified), f"{info.messages:,}", title)
    return table


def chosen(infos: Sequence[SessionInfo], answer: str) -> str:
    """Return the id for a number in the table of sessions; any other answer is returned as it is."""
    return infos[int(answer) - 1].id if answer.isdecimal() and 1 <= int(answer) <= len(infos) else answer


def _resume(host: Host, text: str) -> None:
    from wane.cli.sessions.listing import of_the_agent

    infos = of_the_agent(host.store.sessions(host.session.cwd))
    if text:
        host.resume(host.store.find(chosen(infos, text)))
        return
    _sessions(host, "")
    if infos:
        host.offer(infos)


def _help(host: Host, _: str) -> None:
    from wane.cli.chat.own_commands import custom_commands
    from wane.cli.terminal import picture

    table = picture.plain_table("", "*")
    table.show_header = False
    for command in COMMANDS:
        table.add_row(f"{command.name} {command.arguments}".rstrip(), command.help)
    for own in custom_commands(host.session.cwd, os.environ):
        table.add_row(printable(own.name), printable(own.help))
    host.console.print(table)
    host.console.print(KEYS)


COMMANDS: Final = (
    Command("/context", "", "Show what the window holds and what the next pass would evict.", _context, True),
    Command("/episodes", "", "List all episodes of the session.", _episodes, True),
    Command("/budget", "[80k|50%]", "Show or change the budget of the view.", _budget),
    Command("/cwl", "[on|off]", "Show or switch context management.", _cwl),
    Command("/model", "[provider:model]", "Show or change the model.", _model),
    Command("/recall", "NAME [OFFSET]", "Show what an episode held, evicted or not.", _recall, True),
    Command("/permissions", "[forget N]", "Show what is allowed and denied, or forget a rule.", _permissions),
    Command("/mcp", "", "List the MCP servers and their tools.", _mcp, True),
    Command("/sessions", "", "List the sessions of this directory.", _sessions, True),
    Command("/resume", "[ID]", "Resume another session.", _resume),
    Command("/new", "", "Begin another session.", lambda host, _: host.begin()),
    Command("/help", "", "Show these commands.", _help, True),
    Command("/quit", "", "End the chat; the session can be resumed.", lambda host, _: host.quit()),
)
"""All commands, in the order of help."""

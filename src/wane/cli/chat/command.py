"""A command of the chat, which begins with a slash: what it is, and how a line names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from wane.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from wane.agent.session import AgentSession
    from wane.journal import SessionInfo, SessionStore

_MEANT: Final = {"exit": "/quit", "quit": "/quit", ":q": "/quit", "/": "/help"}
"""Lines that are commands without being written as one; nobody says these words to a model."""


class Host(Protocol):
    """The chat, as the commands use it; `interactive.py` has it, and imports this module.

    Attributes:
        unseen: the last search and the places of it that were shown, if there are more; None if not.
    """

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

    def offer(self, infos: Sequence[SessionInfo]) -> None:
        """Take the next input as the choice among these sessions."""

    def quit(self) -> None:
        """End the chat."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command.

    Attributes:
        name: its name, with the slash.
        arguments: its arguments, for help.
        help: what it does.
        run: runs it with the text after its name.
        looks: whether it only looks, so that it may run during a turn.
        aliases: its other names: those that other agents have for it.
        shows: whether it only looks where it has no argument.
    """

    name: str
    arguments: str
    help: str
    run: Callable[[Host, str], None]
    looks: bool = False
    aliases: tuple[str, ...] = ()
    shows: bool = False

    def only_looks(self, argument: str) -> bool:
        """Return whether it changes nothing with this argument."""
        return self.looks or (self.shows and not argument)

    @property
    def names(self) -> tuple[str, ...]:
        """All its names."""
        return (self.name, *self.aliases)


def is_command(line: str) -> bool:
    """Return whether a line is a command: it begins with a slash, but not with a path; or it says to leave."""
    word = line.split(maxsplit=1)[0] if line else ""
    return line in _MEANT or (line.startswith("/") and "/" not in word[1:])


def find_command(line: str, commands: Sequence[ChatCommand], own: Iterable[str] = ()) -> tuple[ChatCommand, str]:
    """Return the command that a line names, by a name or an unambiguous beginning, and the rest of the line.

    Raises:
        ConfigError: if no command has this name, or several have; or if there is a rest, and the command takes none.
    """
    word, _, argument = line.strip().partition(" ")
    word = _MEANT.get(word, word)
    matches = [command for command in commands if word in command.names] or [
        command for command in commands if any(name.startswith(word) for name in command.names)
    ]
    argument = argument.strip()
    if len(matches) == 1:
        if argument and not matches[0].arguments:
            raise ConfigError(f"{matches[0].name} takes nothing after it, but there is {argument!r}")
        return matches[0], argument
    if matches:
        names = [name for command in matches for name in command.names if name.startswith(word)]
        raise ConfigError(f"{word} could be {', '.join(names[:-1])} or {names[-1]}")
    near = get_close_matches(word, [*(name for command in commands for name in command.names), *own], 1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"there is no command {word}; {guess}/help lists all")

"""Splits a command line into the options of `wane run` and those of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.cli.failure import UsageError
from wane.cli.run.flags import RUN

_EXAMPLE: Final = "such as: wane run claude"
_WITH_VALUE: Final = frozenset(name for flag in RUN if flag.value for name in flag.names)


def split(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the command line up to the agent's name, and the agent's arguments.

    The agent is the first word that is neither an option nor an option's value, or the word after two dashes.

    Args:
        args: the whole command line; that of another command is returned unchanged.

    Raises:
        UsageError: if no agent is named.
    """
    if args[:1] != ["run"]:
        return list(args), ()
    place = 1
    while place < len(args) and args[place].startswith("-") and args[place] != "--":
        if args[place] in ("-h", "--help"):
            return list(args[: place + 1]), ()
        place += 2 if args[place] in _WITH_VALUE else 1
    mine, agent = args[:place], args[place:]
    agent = agent[1:] if agent[:1] == ["--"] else agent
    if not agent:
        raise UsageError(f"give the agent to run, {_EXAMPLE}; see wane run --help")
    return [*mine, "--", agent[0]], tuple(agent[1:])

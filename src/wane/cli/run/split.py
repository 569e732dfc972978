"""Splits a command line into the options of `wane run` and those of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.cli.failure import UsageError

_EXAMPLE: Final = "such as: wane run -- claude"


def split(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the command line up to the agent's name, and the agent's arguments.

    Args:
        args: the whole command line; that of another command is returned unchanged.

    Raises:
        UsageError: if no agent follows two dashes.
    """
    if args[:1] != ["run"]:
        return list(args), ()
    place = args.index("--") if "--" in args else len(args)
    mine, agent = list(args[:place]), list(args[place + 1 :])
    if any(help_ in mine for help_ in ("-h", "--help")):
        return mine, ()
    if agent:
        return [*mine, "--", agent[0]], tuple(agent[1:])
    first = next((word for word in mine[1:] if not word.startswith("-")), None)
    if place < len(args) or first is None or len(mine) == 1:
        raise UsageError(f"say which agent to run after two dashes, {_EXAMPLE}")
    raise UsageError(f"two dashes go before the agent and its own options, {_EXAMPLE}; see wane run --help")

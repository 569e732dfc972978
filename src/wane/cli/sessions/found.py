"""Sessions of other agents on this machine, as `wane sessions --all` shows them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from wane.cli.terminal.text import counted, human_bytes, local_time, printable
from wane.lab.discover import SessionFile, look_into

SHOWN: Final = 20
"""Number of sessions to show for each agent; JSON holds all of them."""

_NAMES: Final = {"claude-code": "Claude Code", "codex": "Codex", "pi": "pi"}


def found_dict(file: SessionFile) -> dict[str, Any]:
    """Return a session of another agent as JSON-able data, with the same keys as Wane's own."""
    head = look_into(file)
    return {
        "agent": file.agent,
        "id": file.path.stem,
        "path": str(file.path),
        "cwd": head.cwd,
        "created": None,
        "modified": file.modified.isoformat(),
        "messages": None,
        "title": head.title or None,
        "bytes": file.size,
        "problem": head.problem,
        "format": None,
    }


def print_found(files: Sequence[SessionFile], shown: int = SHOWN) -> None:
    """Print sessions by agent, each with its path, ready for another command.

    Args:
        files: the sessions, by agent.
        shown: number of sessions to show for each agent.
    """
    for agent, group in groupby(files, key=lambda file: file.agent):
        of_agent = list(group)
        _line("")
        _line(f"{_NAMES[agent]}: {counted(len(of_agent), 'session')}", "bold")
        for file in of_agent[:shown]:
            _print_file(file)
        if len(of_agent) > shown:
            _line(f"  and {len(of_agent) - shown:,} older; --json lists them all", "dim")


def _print_file(file: SessionFile) -> None:
    head = look_into(file)
    place = f"  {printable(head.cwd)}" if head.cwd else ""
    _line(f"{local_time(file.modified)}  {human_bytes(file.size):>8}{place}", "dim")
    if head.title:
        _line(f"  {printable(head.title)}")
    if head.problem:
        _line(f"  {printable(head.problem)}", "red")
    # Quoted, to be pasted into a command.
    _line(f"  {printable(shlex.quote(str(file.path)))}", "dim")


def _line(text: str, style: str | None = None) -> None:
    from rich.text import Text

    from wane.cli.terminal.console import stdout_console

    # Not folded, because a path that is broken in two cannot be copied.
    stdout_console().print(Text(text, style or ""), soft_wrap=True)

"""Sessions of other agents on this machine, as `wane sessions --all` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from wane.cli.terminal.text import counted, human_bytes, local_time, printable
from wane.lab.discover import SessionFile, look_into, short_ids

SHOWN: Final = 20
"""Number of sessions to show for each agent; JSON holds all of them."""

_NAMES: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "pi": "pi",
    "copilot-cli": "GitHub Copilot CLI",
    "gemini-cli": "Gemini CLI",
    "opencode": "OpenCode",
    "goose": "Goose",
}


def found_dict(file: SessionFile) -> dict[str, Any]:
    """Return a session of another agent as JSON-able data, with the same keys as Wane's own."""
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
    }


def print_found(files: Sequence[SessionFile], shown: int = SHOWN) -> None:
    """Print sessions by agent, each with a short id, ready for another command.

    Args:
        files: the sessions, by agent.
        shown: number of sessions to show for each agent.
    """
    named = zip(files, short_ids(files), strict=True)
    for agent, group in groupby(named, key=lambda it: it[0].agent):
        of_agent = list(group)
        _line("")
        _line(f"{_NAMES[agent]}: {counted(len(of_agent), 'session')}", "bold")
        for file, short in of_agent[:shown]:
            _print_file(file, short)
        if len(of_agent) > shown:
            _line(f"  and {len(of_agent) - shown:,} older; --json lists them all", "dim")


def _print_file(file: SessionFile, short: str) -> None:
    from rich.text import Text

    from wane.cli.terminal.console import stdout_console

    head = look_into(file)
    place = f"  {printable(head.cwd)}" if head.cwd else ""
    about = f"  {local_time(file.modified)}  {human_bytes(file.size):>8}{place}"
    stdout_console().print(Text.assemble(printable(short), (about, "dim")), soft_wrap=True)
    if head.title:
        _line(f"  {printable(head.title)}")
    if head.problem:
        _line(f"  {printable(head.problem)}", "red")


def _line(text: str, style: str | None = None) -> None:
    from rich.text import Text

    from wane.cli.terminal.console import stdout_console

    # Not folded, because a path that is broken in two cannot be copied.
    stdout_console().print(Text(text, style or ""), soft_wrap=True)

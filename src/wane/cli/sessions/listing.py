"""`wane sessions`: lists the saved sessions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wane.agent.options import AGENT_FORMAT
from wane.cli import failure
from wane.cli.sessions.found import found_dict, print_found
from wane.cli.terminal.text import human_bytes, local_time, printable
from wane.journal import SessionInfo, SessionStore, default_root
from wane.lab.discover import find_sessions
from wane.proxy.store.base import is_session_id

_SHORT_ID: Final = 12
_APIS: Final = {"anthropic": "Anthropic Messages", "openai": "Chat Completions", "openai_responses": "OpenAI Responses"}


def list_sessions(*, every: bool = False, as_json: bool = False) -> int:
    """Print the sessions of this directory, or all on this machine, and return the exit code.

    Raises:
        JournalError: if they cannot be listed.
    """
    store = SessionStore(default_root(os.environ))
    infos = store.sessions(None if every else Path.cwd())
    others = find_sessions(os.environ, Path.home()) if every else []
    if as_json:
        listed = [info_dict(info) for info in infos] + [found_dict(file) for file in others]
        sys.stdout.write(f"{json.dumps(listed)}\n")
        return failure.OK
    if infos:
        _print_table(infos, every)
    elif not others:
        place = "" if every else f" of {Path.cwd()}; wane sessions --all lists those of every directory"
        sys.stdout.write(f"There are no sessions{place}.\n")
    print_found(others)
    return failure.OK


def info_dict(info: SessionInfo) -> dict[str, Any]:
    """Return the summary of a session as JSON-able data."""
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
    }


def agent_of(session_id: str) -> str:
    """Return whose a session is: `proxy` for a session of a proxy's client, else `wane`."""
    return "proxy" if is_session_id(session_id) else "wane"


def described(session_id: str, message_format: str | None) -> str | None:
    """Describe whose a session is; None for one of the agent's, or if its header cannot be read."""
    if message_format is None or message_format == AGENT_FORMAT:
        return None
    api = _APIS.get(message_format, message_format)
    return f"proxy, {api}" if is_session_id(session_id) else f"{api}, not the agent's"


def of_the_agent(infos: Sequence[SessionInfo]) -> list[SessionInfo]:
    """Return the sessions that the agent can resume, and those that may be."""
    return [info for info in infos if info.format in (AGENT_FORMAT, None) and not is_session_id(info.id)]


def short_id(session_id: str) -> str:
    """Return a short form of an id, by which the session is also found.

    It is the end of a proxy's id: sessions that begin alike have ids that begin alike.
    """
    return session_id.rpartition("-")[2][:_SHORT_ID] if is_session_id(session_id) else session_id


def _print_table(infos: Sequence[SessionInfo], every: bool) -> None:
    from rich.text import Text

    from wane.cli.terminal.console import stdout_console
    from wane.cli.terminal.picture import plain_table

    table = plain_table("id", "last written", ">messages", ">size", "*title")
    for info in infos:
        title = Text(printable(info.title or ""))
        if (whose := described(info.id, info.format)) is not None:
            title.append(f"\n{printable(whose)}", style="dim")
        if every and info.cwd is not None:
            title.append(f"\n{printable(str(info.cwd))}", style="dim")
        if info.problem is not None:
            title.append(f"\n{printable(info.problem)}", style="red")
        size = human_bytes(info.size)
        table.add_row(short_id(info.id), local_time(info.modified), f"{info.messages:,}", size, title)
    stdout_console().print(table)

"""`wane statusline`: prints a line about a proxy's latest session, for an agent's status line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.error import URLError

from wane.cli import failure
from wane.cli.proxy.proxy_commands import StatuslineOptions
from wane.cli.running_proxy import proxy_status
from wane.cli.terminal.text import count_noun, printable, short


def print_statusline(options: StatuslineOptions) -> int:
    """Print the line. The exit code is always 0, because an agent shows no line of a command that fails."""
    base = options.url or os.environ.get("WANE_PROXY_URL") or os.environ.get("ANTHROPIC_BASE_URL") or ""
    client = ""
    # The agent writes data to standard input, and may wait until it is read.
    if not sys.stdin.isatty():
        with suppress(ValueError, LookupError, TypeError):
            client = str(json.loads(sys.stdin.read())["session_id"])
    try:
        session = choose_session(proxy_status(base)["sessions"], client)
        line = "wane: no session yet" if session is None else line_of(session)
    except (URLError, OSError, ValueError, LookupError, TypeError):
        line = "wane: no proxy"
    sys.stdout.write(f"{printable(line)}\n")
    return failure.OK


def choose_session(sessions: Sequence[Mapping[str, Any]], client: str) -> Mapping[str, Any] | None:
    """Return the session with an agent's own id, or, if no id is known, the one used last; None if there is none.

    The sessions are those of `/wane/status`, the one used last first. Of those of a person's session and its
    sub-agents, it is the person's: a client may end a turn with a sub-agent's requests, as Qwen Code does for memories.
    """
    if client and any(session["client"] for session in sessions):
        sessions = [session for session in sessions if session["client"] == client]
    by_person = [session for session in sessions if not session["parent"]]
    return next(iter(by_person or sessions), None)


def line_of(session: Mapping[str, Any]) -> str:
    view, budget = session["view"], session["budget"]
    parts = [f"wane {short(view)}/{short(budget)}"]
    if view > budget:
        parts[0] += " over budget"
    if thrashing := session["thrashing"]:
        parts.append(f"thrashing: {short(thrashing['advised'])} advised")
    elif (room := session["room"]) and room["tight"]:
        parts.append(f"little room: {short(room['fixed'])} fixed, {short(room['advised'])} advised")
    if session["views"] and (now := session["views"][-1][2]):
        parts.append(f"just evicted {short(now)}")
    if session["evicted"]:
        parts.append(f"{short(session['evicted'])} evicted")
    if money := session["money"]:
        spent = _format_spending(money, session["assumed"])
        # As the page does, so that the figures of both are the same.
        saved = round(money["unmanaged"], 2) - round(money["spent"], 2)
        if saved >= 0.005:
            spent += f", about ${saved:.2f} less than without Wane"
        parts.append(spent)
    if agents := session["agents"]:
        cost = f" {_format_spending(agents['money'], agents['assumed'])} more" if agents["money"] else ""
        parts.append(f"{count_noun(agents['sessions'], 'sub-agent')}{cost}")
    return " | ".join(parts)


def _format_spending(money: Mapping[str, Any], assumed: str) -> str:
    bound = "≥" if money["priced_calls"] < money["calls"] else ""
    return f"{bound}${money['spent']:.2f}{f' {assumed}' if assumed else ''}"

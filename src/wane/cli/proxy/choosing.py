"""`wane choose`: keeps an episode of a running session in view, or lets it go."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from rich.table import Table

from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.proxy.proxy_commands import ChooseOptions
from wane.cli.proxy.proxy_options import KEY_VARIABLE
from wane.cli.proxy.statusline import choose_session
from wane.cli.running_proxy import TIMEOUT, opener_for, proxy_status
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import plain_console, printable
from wane.core.errors import ConfigError
from wane.words import EFFECTS, TYPES, name_level

_CHOICES: Final[Mapping[str, str]] = {"keep": "keep", "drop": "drop", "release": ""}
"""What is chosen, by what is typed."""


def choose_episode(options: ChooseOptions) -> int:
    """List the episodes of a session, or choose for one of them."""
    address = options.url or os.environ.get("WANE_PROXY_URL") or ""
    base, _, key = address.partition("#key=")
    base = base.removesuffix("/").removesuffix("/wane")
    try:
        session = choose_session(proxy_status(base)["sessions"], options.session or "")
    except (OSError, ValueError, LookupError):
        raise InputError(
            "no proxy answers; run this in wane run, or give --url with the address of the proxy's page"
        ) from None
    if session is None:
        raise InputError("the proxy has no session yet")
    if options.choice is None:
        plain_console().print(episode_table(session["episodes"]))
        return failure.OK
    if options.choice not in _CHOICES:
        raise UsageError(f"what to choose is {options.choice!r}; write keep, drop or release")
    text = " ".join(options.episode)
    if not text:
        raise UsageError("which episode? Give its number or name; wane choose lists them")
    matches = [episode for episode in session["episodes"] if text in (episode["name"], str(episode["number"]))]
    if not matches:
        raise UsageError(f"no episode {text!r} is in view; wane choose lists those that are")
    number, title = matches[0]["number"], matches[0]["name"] or f"unmarked work {matches[0]['number']}"
    choice = _CHOICES[options.choice]
    ask_proxy(base, key or os.environ.get(KEY_VARIABLE, ""), session["id"], number, choice)
    sys.stdout.write(f"{printable(title)} {EFFECTS[choice]}.\n")
    return failure.OK


def episode_table(episodes: Iterable[Mapping[str, Any]]) -> Table:
    """Return the episodes of a proxy's status as a table."""
    table = plain_table(">number", "*episode", "kind", "level", ">tokens", "you")
    for episode in episodes:
        kind = TYPES.get(episode["type"], "") if episode["name"] else ""
        level = episode["state"] if episode["state"] == "active" else name_level(episode["state"])
        you = {"keep": "keep it", "drop": "let it go"}.get(episode["choice"], "")
        row = [printable(episode["name"] or "(unmarked)"), kind, level, f"{episode['tokens']:,}", you]
        table.add_row(f"{episode['number']}", *row)
    return table


def ask_proxy(base: str, key: str, session: str, number: int, choice: str) -> None:
    """Give a proxy a person's choice for an episode.

    Raises:
        ConfigError: if it refuses.
        InputError: if it does not answer.
    """
    body = json.dumps({"episode": number, "choice": choice}).encode()
    headers = {"x-wane-key": key, "content-type": "application/json"}
    request = Request(f"{base}/wane/session/{quote(session, safe='')}/choice", body, headers)  # noqa: S310 - checked
    try:
        with opener_for(base).open(request, timeout=TIMEOUT):
            return
    except HTTPError as error:
        said = error.read().decode("utf-8", "replace").strip()
        raise ConfigError(f"the proxy refused: {said}") from None
    except OSError:
        raise InputError("the proxy does not answer") from None

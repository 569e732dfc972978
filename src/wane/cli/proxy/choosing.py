"""`wane choose`: keeps an episode of a running session in view, or lets it go; `wane plugin`: the same in an agent."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from rich.table import Table

from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.proxy.commands import ChooseOptions, PluginOptions
from wane.cli.proxy.options import KEY_VARIABLE
from wane.cli.proxy.statusline import TIMEOUT, chosen, opener_for, proxy_status
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
        session = chosen(proxy_status(base)["sessions"], options.session or "")
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


# The plugin

_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "episodes": ("List the episodes in view, with their numbers", ""),
    "keep": ("Keep an episode in view, whatever the budget is", "keep"),
    "drop": ("Let an episode leave the view with the next request", "drop"),
    "release": ("Take back /wane:keep or /wane:drop", "release"),
}

_MADE: Final = "Made by wane plugin install; wane plugin uninstall removes it."


def manage_plugin(options: PluginOptions) -> int:
    """Install the plugin of an agent, or remove it."""
    if options.agent != "claude":
        raise UsageError(f"there is a plugin for claude alone, not for {options.agent!r}")
    if options.action not in ("install", "uninstall"):
        raise UsageError(f"what to do is {options.action!r}; write install or uninstall")
    settings = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    folder = settings / "skills" / "wane"
    files = plugin_files(sys.executable)
    manifest = folder / MANIFEST
    if folder.exists() and (not manifest.is_file() or _MADE not in manifest.read_text(encoding="utf-8")):
        raise InputError(f"{folder} is not Wane's plugin; it is left as it is")
    if options.action == "install":
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"Installed in {folder}. In claude, started by wane run: /wane:episodes, /wane:keep NUMBER.\n")
        return failure.OK
    if not folder.exists():
        raise InputError(f"there is no plugin in {folder}")
    for name in files:
        (folder / name).unlink(missing_ok=True)
    for inner in (*{(folder / name).parent for name in files} - {folder}, folder):
        # What somebody else put there stays.
        if not any(inner.iterdir()):
            inner.rmdir()
    sys.stdout.write(f"Removed from {folder}.\n")
    return failure.OK


MANIFEST: Final = Path(".claude-plugin", "plugin.json")
"""Where a plugin of Claude Code says its name. A folder below `skills` that has it is loaded as it is."""


def plugin_files(python: str) -> dict[Path, str]:
    """Return the files of Claude Code's plugin, by their paths in its folder; `python` runs Wane."""
    manifest = {"name": "wane", "version": "1.0.0", "description": f"Keep an episode, or let it go. {_MADE}"}
    files = {MANIFEST: f"{json.dumps(manifest, indent=2)}\n"}
    program = f"{shlex.quote(python)} -m wane choose"
    for name, (what, choice) in _COMMANDS.items():
        hint = "argument-hint: NUMBER\n" if choice else ""
        call = f'{program} {choice} "$ARGUMENTS"' if choice else program
        files[Path("commands", f"{name}.md")] = (
            f"---\ndescription: {what}\n{hint}disable-model-invocation: true\nallowed-tools: Bash({program}:*)\n---\n\n"
            f"Wane says:\n\n!`{call}`\n\nTell the user exactly that, and do nothing else.\n"
        )
    return files

"""The pages of `--help`: plain text, as wide as the terminal up to a comfortable width."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Final

from wane.cli import flags, texts
from wane.cli.flags import Flag

_WIDEST: Final = 100
_NARROWEST: Final = 40
_INDENT: Final = 2
_LONGEST: Final = 26  # columns; the meaning of a longer term begins on the next line


def agent_help(commands: Iterable[tuple[str, str]]) -> str:
    """Return the page of `wane --help`.

    Args:
        commands: name and text of each command.
    """
    options = _entries((*flags.AGENT, flags.VERSION, flags.HELP))
    return _page(usage(), texts.AGENT, {"Commands": _summaries(commands), "Options": options})


def command_help(name: str, text: str, its_flags: Iterable[Flag]) -> str:
    """Return the page of `wane NAME --help`.

    Args:
        name: the command's name.
        text: its help text.
        its_flags: its arguments and options.
    """
    every = (*its_flags, flags.HELP)
    arguments = _entries(flag for flag in every if not flag.is_option)
    options = _entries(flag for flag in every if flag.is_option)
    return _page(usage(name, every), text, {"Arguments": arguments, "Options": options})


def group_help(name: str, text: str, commands: Iterable[tuple[str, str]]) -> str:
    """Return the page of `wane NAME --help` for a group of commands.

    Args:
        name: the group's name.
        text: its help text.
        commands: name and text of each of its commands.
    """
    sections = {"Commands": _summaries(commands), "Options": _entries((flags.HELP,))}
    return _page(f"wane {name} [OPTIONS] COMMAND", text, sections)


def usage(name: str | None = None, its_flags: Iterable[Flag] = ()) -> str:
    """Return the usage of a command, or of `wane` without a name."""
    if name is None:
        return "wane [OPTIONS] [COMMAND]"
    return " ".join(["wane", name, "[OPTIONS]", *(flag.value for flag in its_flags if not flag.is_option)])


def _page(used: str, text: str, sections: Mapping[str, list[tuple[str, str]]]) -> str:
    columns = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
    parts = [f"Usage: {used}"]
    parts += [it if texts.is_literal(it) else textwrap.fill(it, columns) for it in texts.paragraphs(text)]
    parts += [_definitions(title, entries, columns) for title, entries in sections.items() if entries]
    return "\n\n".join(parts) + "\n"


def _summaries(commands: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, texts.paragraphs(text)[0]) for name, text in commands]


def _entries(its_flags: Iterable[Flag]) -> list[tuple[str, str]]:
    return [(flag.usage, flag.help) for flag in its_flags]


def _definitions(title: str, entries: list[tuple[str, str]], columns: int) -> str:
    """Return a heading, with terms and their meanings below it."""
    fitting = [len(term) for term, _ in entries if len(term) <= _LONGEST]
    start = _INDENT + max(fitting, default=_LONGEST) + 2
    lines = [f"{title}:"]
    for term, meaning in entries:
        first = f"{'':{_INDENT}}{term:<{start - _INDENT}}"
        if len(term) > _LONGEST:
            lines.append(first.rstrip())
            first = " " * start
        lines.append(textwrap.fill(meaning, columns, initial_indent=first, subsequent_indent=" " * start))
    return "\n".join(lines)

"""The pages of `--help`: plain text, as wide as the terminal up to a comfortable width."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from wane.cli import flags, texts
from wane.cli.flags import Flag

_WIDEST: Final = 100
_NARROWEST: Final = 40
_INDENT: Final = 2
_LONGEST: Final = 26  # columns; the meaning of a longer term begins on the next line


def agent_help(commands: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """Return the page of `wane --help`.

    Args:
        commands: name and text of each command.
        width: columns; None for the terminal's.
    """
    columns = width or terminal_columns()
    entries = [(name, texts.paragraphs(text)[0]) for name, text in commands]
    parts = [
        f"Usage: {usage()}",
        *filled(texts.AGENT, columns),
        _definitions("Commands", entries, columns),
        _definitions("Options", _entries((*flags.AGENT, flags.VERSION, flags.HELP)), columns),
    ]
    return "\n\n".join(parts) + "\n"


def command_help(name: str, text: str, its_flags: Iterable[Flag], width: int | None = None) -> str:
    """Return the page of `wane NAME --help`.

    Args:
        name: the command's name.
        text: its help text.
        its_flags: its arguments and options.
        width: columns; None for the terminal's.
    """
    columns = width or terminal_columns()
    every = (*its_flags, flags.HELP)
    arguments = [flag for flag in every if not flag.is_option]
    parts = [f"Usage: {usage(name, every)}", *filled(text, columns)]
    if arguments:
        parts.append(_definitions("Arguments", _entries(arguments), columns))
    parts.append(_definitions("Options", _entries(flag for flag in every if flag.is_option), columns))
    return "\n\n".join(parts) + "\n"


def group_help(name: str, text: str, commands: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """Return the page of `wane NAME --help` for a group of commands.

    Args:
        name: the group's name.
        text: its help text.
        commands: name and text of each of its commands.
        width: columns; None for the terminal's.
    """
    columns = width or terminal_columns()
    entries = [(its_name, texts.paragraphs(its_text)[0]) for its_name, its_text in commands]
    parts = [
        f"Usage: wane {name} [OPTIONS] COMMAND",
        *filled(text, columns),
        _definitions("Commands", entries, columns),
        _definitions("Options", _entries((flags.HELP,)), columns),
    ]
    return "\n\n".join(parts) + "\n"


def usage(name: str | None = None, its_flags: Iterable[Flag] = ()) -> str:
    """Return the usage of a command, or of `wane` without a name."""
    if name is None:
        return "wane [OPTIONS] [COMMAND]"
    return " ".join(["wane", name, "[OPTIONS]", *(flag.value for flag in its_flags if not flag.is_option)])


def filled(text: str, columns: int) -> Iterator[str]:
    """Yield the paragraphs of a text, filled unless they are literal."""
    for paragraph in texts.paragraphs(text):
        yield paragraph if texts.is_literal(paragraph) else textwrap.fill(paragraph, columns)


def terminal_columns() -> int:
    """Return the width of help pages in columns."""
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


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

"""The pages of `--help`: how they are laid out."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import Final

from wane.flags import Flag

_WIDEST: Final = 100
_NARROWEST: Final = 40
_INDENT: Final = 2
_LONGEST: Final = 26  # columns; the meaning of a longer term begins on the next line


def lay_out_page(
    usage: str, text: str, flags: Sequence[Flag], commands: Sequence[tuple[str, str]] = (), daily: int = 0
) -> str:
    """Return a page of help.

    Args:
        usage: how the command is written.
        text: its help text.
        flags: its options and arguments.
        commands: names and summaries of the commands that belong to it.
        daily: how many of the options stand first, apart from the others.
    """
    columns = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
    options = [(flag.usage, flag.help) for flag in flags if flag.is_option]
    sections = {
        "Commands": commands,
        "Arguments": [(flag.usage, flag.help) for flag in flags if not flag.is_option],
        "Daily options": options[:daily],
        "Other options" if daily else "Options": options[daily:],
    }
    parts = [f"Usage: {usage}"]
    parts += [_fill_paragraph(paragraph, columns) for paragraph in paragraphs(text)]
    parts += [_definitions(title, entries, columns) for title, entries in sections.items() if entries]
    return "\n\n".join(parts) + "\n"


def _fill_paragraph(paragraph: str, columns: int) -> str:
    return paragraph if is_literal(paragraph) else textwrap.fill(paragraph, columns)


def _definitions(title: str, entries: Sequence[tuple[str, str]], columns: int) -> str:
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


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text."""
    return text.strip().split("\n\n")


def is_literal(paragraph: str) -> bool:
    """Return whether a paragraph has an indented line, and so is printed as it stands."""
    return "\n  " in paragraph

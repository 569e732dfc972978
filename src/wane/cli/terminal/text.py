"""Text that is safe to show on a terminal, and what is written for the user. Only a console loads Rich."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console


COLOURS: Final = {
    "red": "#d70000",
    "green": "#008700",
    "yellow": "#af5f00",
    "magenta": "#af5faf",
    "cyan": "#0087af",
}
"""What the names of colours stand for: shades that can be read on a dark and on a light background.

Nobody can ask every terminal for its background, and its own yellow or cyan cannot be read on white. With fewer than
256 colours the nearest of the terminal's own takes their place.
"""

GREY: Final = "#767676"
"""What matters less, likewise."""


def say(message: str, command: str = "") -> None:
    """Write one line for the user to standard error, so that standard output holds results only.

    On a terminal that is narrower, the line is broken between words.

    Args:
        message: the line.
        command: a command to paste with which it ends, and which stays whole.
    """
    line = f"wane: {printable(message)}"
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        if len(line) > columns:
            text, *pasted = part_command(line, printable(command))
            filled = textwrap.fill(text, columns, break_long_words=False, break_on_hyphens=False)
            line = "\n".join([filled, *pasted])
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def part_command(message: str, command: str) -> list[str]:
    """Return a message, and the command with which it ends, if it has one, on a line of its own."""
    if not command or not message.endswith(command):
        return [message]
    return [message.removesuffix(command).rstrip(), command]


def plain_console(file: TextIO | None = None, **options: Any) -> Console:
    """Return a console that colours only what it is told to, on standard output by default.

    Rich decides on colour: none without a terminal, or with NO_COLOR set. COLUMNS overrides the width, which is 80
    without a terminal.
    """
    from rich.console import Console
    from rich.theme import Theme

    class OutputConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would end the process as a failed one

    # Rich must not colour what it takes for numbers or paths: colours here have a meaning.
    theme = Theme(COLOURS | {f"bold {name}": f"bold {colour}" for name, colour in COLOURS.items()})
    return OutputConsole(file=file or sys.stdout, highlight=False, markup=False, emoji=False, theme=theme, **options)


def write_json(data: object, *, escaped: bool = True) -> None:
    """Write a line of JSON to standard output, at once, for readers who follow the stream.

    Only escapes can print the lone surrogates that names of files may hold.
    """
    sys.stdout.write(f"{json.dumps(data, allow_nan=False, ensure_ascii=escaped)}\n")
    sys.stdout.flush()


def printable(text: str, keep: str = "") -> str:
    r"""Return text with escapes such as `\x1b` for what is not printable, line breaks included.

    Names of episodes and contents of files come from models and strangers, and a terminal obeys escape sequences.
    """
    if text.isprintable():
        return text
    parts = []
    for character in text:
        if character.isprintable() or character in keep:
            parts.append(character)
        else:
            parts.append(ascii(character)[1:-1])
    return "".join(parts)


def short(tokens: int) -> str:
    """Return a number of tokens in few characters: 950, 12.3k, 80k, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if abs(tokens) >= size:
            number = f"{tokens / size:.1f}".removesuffix(".0")
            return f"{number}{unit}"
    return str(tokens)


def count_noun(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, in the plural if needed: by default the noun with an `s`."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{number:,} {noun}"


def cut(text: str, length: int) -> str:
    """Return text of at most this length; an ellipsis stands for the rest."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first names, safe to show and separated by commas; an ellipsis stands for the rest."""
    entries = [printable(name) for name in names[:most]]
    if len(names) > most:
        entries.append("…")
    return ", ".join(entries)


def is_unicode(encoding: str | None) -> bool:
    """Return whether an output's encoding can show box drawing."""
    return (encoding or "").lower().replace("_", "-").startswith("utf")


def local_time(moment: datetime) -> str:
    """Return a time in the local zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def human_bytes(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"

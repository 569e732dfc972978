"""Where the command writes: consoles that suit the terminal, and text that is safe to show on one."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console


def stdout_console(width: int | None = None) -> Console:
    """Return a console on standard output.

    Rich decides on colour: none without a terminal, or with NO_COLOR set. `COLUMNS` overrides the width.

    Args:
        width: columns to use whatever the terminal has.
    """
    return _console(sys.stdout, width)


def stderr_console() -> Console:
    """Return a console on standard error."""
    return _console(sys.stderr, None)


def say(message: str) -> None:
    """Write one line for the user to standard error, so that standard output holds results only."""
    line = f"wane: {printable(message)}\n"
    encoding = sys.stderr.encoding or "ascii"
    sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def printable(text: str) -> str:
    r"""Return text with what is not printable, escape sequences and line breaks among it, as `\x1b` is written.

    Names of episodes and file contents come from models and files, and a terminal obeys what it is sent.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def is_unicode(encoding: str | None) -> bool:
    """Whether an output's encoding can show box drawing."""
    return (encoding or "").lower().replace("_", "-").startswith("utf")


def _console(file: IO[str], width: int | None) -> Console:
    # No guesses of what a number or a path is: what is coloured here has a meaning.
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)

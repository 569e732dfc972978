"""The console that tables and pictures are printed on."""

from __future__ import annotations

import sys

from rich.console import Console


def stdout_console(width: int | None = None) -> Console:
    """Return a console on standard output.

    Rich decides on colour: none without a terminal, or with NO_COLOR set. COLUMNS overrides the width,
    which is 80 without a terminal.

    Args:
        width: columns to use whatever the terminal has.
    """
    # No guesses at what is a number or a path: what is coloured here has a meaning.
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)

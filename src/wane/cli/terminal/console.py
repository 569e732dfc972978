"""The console for tables and pictures."""

from __future__ import annotations

import sys

from rich.console import Console


def stdout_console(width: int | None = None) -> Console:
    """Return a console on standard output.

    Rich decides on colour: none without a terminal, or with NO_COLOR set. COLUMNS overrides the width, which is 80
    without a terminal.

    Args:
        width: columns to use, whatever the terminal has.
    """
    # Rich must not colour what it takes for numbers or paths: colours here have a meaning.
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)

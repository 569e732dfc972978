"""What the programs in this folder share: how they are called, and how they write tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from wane.core.errors import WaneError
from wane.lab.readers import read_session
from wane.lab.session import RecordedSession


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the command line, which shows a program's docstring as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def parser_of_sessions(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose `sessions` are recordings."""
    command = parser(description)
    command.add_argument("sessions", type=Path, nargs="+", help="recorded sessions, or folders of them")
    return command


def parser_of_folder(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose `sessions` is one folder."""
    command = parser(description)
    command.add_argument("sessions", type=Path, help="the folder of recorded sessions, with a folder for each agent")
    return command


def recorded_sessions(paths: Iterable[Path]) -> list[RecordedSession]:
    """Return the sessions of files and folders; end the program with a message if one cannot be read."""
    try:
        return [session for path in paths for session in read_session(path)]
    except WaneError as error:
        raise SystemExit(f"error: {error}") from None


def table_row(cells: Iterable[object]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table_head(columns: Sequence[str], words: int | None = None) -> str:
    """Return the head of a Markdown table.

    `words`: how many of them, from the left, hold words; the others hold figures. None aligns no column.
    """
    words = len(columns) if words is None else words
    return f"{table_row(columns)}\n|{'---|' * words}{'--:|' * (len(columns) - words)}"

"""Common parts of the programs in this folder: command lines, reading of sessions, tables, replays."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wane.core.errors import WaneError
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.strategy_replay import Replay, Subject, replay
from wane.strategies.strategy import Strategy, StrategySettings


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
    return f"| {' | '.join(map(str, cells))} |"


def table_head(columns: Sequence[str], words: int | None = None) -> str:
    """Return the head of a Markdown table.

    `words`: how many columns, from the left, hold words; the others hold figures. None aligns no column.
    """
    words = len(columns) if words is None else words
    return f"{table_row(columns)}\n|{'---|' * words}{'--:|' * (len(columns) - words)}"


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]], words: int | None = None) -> None:
    """Print a Markdown table, each row as soon as it is ready; see `table_head`."""
    print(table_head(columns, words), flush=True)
    for row in rows:
        print(table_row(row), flush=True)


@dataclass(frozen=True, slots=True)
class OwnJob(Job):
    """A replay of a strategy that only a program here has, so that the registry does not know it."""

    @abstractmethod
    def start(self, subject: Subject, settings: StrategySettings) -> Strategy:
        """Return the strategy for a session; the settings have the session's overhead."""

    def run(self, subject: Subject) -> Replay:
        settings = replace(self.settings, overhead=subject.material.overhead)
        return replay(subject, self.start(subject, settings), settings.budget, self.pricing, trace=self.trace)

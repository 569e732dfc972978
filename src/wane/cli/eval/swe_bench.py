"""`wane eval swe-bench`, `predictions` and `grade`: SWE-bench, whose own grader decides."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.terminal.text import counted
from wane.evaluation.results import ResultsError
from wane.evaluation.running.config import Sample
from wane.evaluation.swe_bench import grader_command, take_grades, write_predictions, write_tasks


def write(source: Path, target: Path, count: int | None = None, seed: int = 1) -> int:
    """Write instances as tasks, and return the exit code.

    Raises:
        ConfigError: if the file cannot be used.
    """
    names = write_tasks(source, target, None if count is None else Sample(count, seed))
    sys.stdout.write(f"{counted(len(names), 'task')} in {target}\n")
    return failure.OK


def predictions(places: Sequence[Path]) -> int:
    """Write the predictions of runs, print what grades them, and return the exit code.

    Raises:
        InputError: if a folder holds no results.
    """
    try:
        for run, path, filled in write_predictions(places):
            sys.stdout.write(f"{path}: {filled} of {len(run.trials)} have a change\n  {grader_command(path, run)}\n")
    except ResultsError as error:
        raise InputError(str(error)) from error
    return failure.OK


def grade(place: Path, report: Path) -> int:
    """Take in a report of the grader's, and return the exit code.

    Raises:
        InputError: if the folder holds no results.
        ConfigError: if the report cannot be used.
    """
    try:
        passed, graded = take_grades(place, report)
    except ResultsError as error:
        raise InputError(str(error)) from error
    sys.stdout.write(f"{passed} of {graded} resolved\n")
    return failure.OK

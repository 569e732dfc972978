"""`wane eval longcli`: LongCLI-Bench, whose tasks are in another format."""

from __future__ import annotations

import sys
from pathlib import Path

from wane.cli import failure
from wane.cli.terminal.text import counted
from wane.evaluation.longcli import write_longcli


def write(source: Path, target: Path) -> int:
    """Write the tasks, and return the exit code.

    Raises:
        ConfigError: if the copy of the benchmark cannot be used.
    """
    sys.stdout.write(f"{counted(len(write_longcli(source, target)), 'task')} in {target}\n")
    return failure.OK

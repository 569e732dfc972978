"""`wane eval recovery`: tasks that another agent failed."""

from __future__ import annotations

import sys
from pathlib import Path

from wane.cli import failure
from wane.cli.terminal.text import counted, say
from wane.evaluation.recovery import Messages, write_recovery


def write(traces: Path, tasks: Path, target: Path, messages: Messages = "none") -> int:
    """Write the tasks, and return the exit code.

    Raises:
        ConfigError: if the attempts or their tasks cannot be used.
    """
    names = write_recovery(traces, tasks, target, messages)
    sys.stdout.write(f"{counted(len(names), 'task')} in {target}\n")
    if messages == "full":
        tokens = sum(len((target / name / "instruction.md").read_text(encoding="utf-8")) for name in names) // 4
        say(
            f"the transcripts are users' turns, which are never evicted: one session over these tasks would hold about "
            f"{tokens:,} tokens of them"
        )
    return failure.OK

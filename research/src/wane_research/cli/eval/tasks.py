"""Tasks for `wane eval`: benchmarks, SWE-bench and its grader, Recovery-Bench, LongCLI-Bench."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from wane.cli import failure
from wane.cli.terminal.text import counted, say, write_json
from wane_research.cli.eval.commands import (
    GradeOptions,
    LongCliOptions,
    PredictionsOptions,
    RecoveryOptions,
    SweBenchOptions,
    TasksOptions,
)
from wane_research.evaluation.longcli import write_longcli
from wane_research.evaluation.recovery import write_recovery
from wane_research.evaluation.running.config import Sample, drawn, in_order, load
from wane_research.evaluation.running.tasks import BENCHMARKS, find_tasks
from wane_research.evaluation.swe_bench import grader_command, take_grades, write_predictions, write_tasks


def list_tasks(options: TasksOptions) -> int:
    """Print the known benchmarks, or the tasks of a configuration; return the exit code.

    Raises:
        WaneError: if the configuration cannot be used.
    """
    if options.config is None:
        if options.as_json:
            write_json([asdict(benchmark) for benchmark in BENCHMARKS])
        else:
            for benchmark in BENCHMARKS:
                sys.stdout.write(f"{benchmark.name}: {benchmark.tasks} {benchmark.about}\n  {benchmark.download}\n")
        return failure.OK
    chosen = load(options.config)
    tasks = {task.name: task for task in find_tasks(Path(chosen.path), chosen.tasks, chosen.exclude)}
    names = in_order(drawn(tuple(tasks), chosen.sample), chosen.seed, 1)
    if options.as_json:
        listed = [{"name": name, "path": str(tasks[name].path), "seconds": tasks[name].seconds} for name in names]
        write_json(listed)
    else:
        sys.stdout.write("".join(f"{name}\n" for name in names))
    return failure.OK


def write_swe_bench(options: SweBenchOptions) -> int:
    """Write instances as tasks, and return the exit code.

    Raises:
        ConfigError: if the file cannot be used.
    """
    names = write_tasks(
        options.source, options.target, None if options.count is None else Sample(options.count, options.seed)
    )
    return _written(names, options.target)


def write_long_cli(options: LongCliOptions) -> int:
    """Write LongCLI-Bench's tasks, and return the exit code.

    Raises:
        ConfigError: if the copy of the benchmark cannot be used.
    """
    names = write_longcli(options.source, options.target)
    return _written(names, options.target)


def predictions(options: PredictionsOptions) -> int:
    """Write the predictions of runs, print what grades them, and return the exit code.

    Raises:
        ResultsError: if a folder holds no results.
    """
    for run, path, filled in write_predictions(options.places):
        sys.stdout.write(f"{path}: {filled} of {len(run.trials)} have a change\n  {grader_command(path, run)}\n")
    return failure.OK


def grade(options: GradeOptions) -> int:
    """Take in a report of the grader's, and return the exit code.

    Raises:
        ResultsError: if the folder holds no results.
        ConfigError: if the report cannot be used.
    """
    passed, graded = take_grades(options.folder, options.report)
    sys.stdout.write(f"{passed} of {graded} resolved\n")
    return failure.OK


def write_recovered(options: RecoveryOptions) -> int:
    """Write the tasks, and return the exit code.

    Raises:
        ConfigError: if the attempts or their tasks cannot be used.
    """
    target = options.target
    names = write_recovery(options.traces, options.tasks, target, options.messages)
    _written(names, target)
    if options.messages == "full":
        tokens = sum(len((target / name / "instruction.md").read_text(encoding="utf-8")) for name in names) // 4
        say(
            f"the transcripts are users' turns, which are never evicted: one session over these tasks would hold about "
            f"{tokens:,} tokens of them"
        )
    return failure.OK


def _written(names: Sequence[str], target: Path) -> int:
    """Tell how many tasks were written, and return the exit code."""
    sys.stdout.write(f"{counted(len(names), 'task')} in {target}\n")
    return failure.OK

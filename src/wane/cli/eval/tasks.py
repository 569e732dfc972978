"""`wane eval tasks`: benchmarks and where to get them, or the tasks of a configuration."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from wane.cli import failure
from wane.evaluation.running.config import drawn, in_order, load
from wane.evaluation.running.tasks import BENCHMARKS, find_tasks


def list_tasks(config: Path | None = None, as_json: bool = False) -> int:
    """Print the known benchmarks, or the tasks of a configuration; return the exit code.

    Raises:
        WaneError: if the configuration cannot be used.
    """
    if config is None:
        if as_json:
            sys.stdout.write(f"{json.dumps([asdict(it) for it in BENCHMARKS])}\n")
        else:
            for it in BENCHMARKS:
                sys.stdout.write(f"{it.name}: {it.tasks} {it.about}\n  {it.download}\n")
        return failure.OK
    chosen = load(config)
    tasks = {it.name: it for it in find_tasks(Path(chosen.path), chosen.tasks, chosen.exclude)}
    names = in_order(drawn(tuple(tasks), chosen.sample), chosen.seed, 1)
    if as_json:
        listed = [{"name": name, "path": str(tasks[name].path), "seconds": tasks[name].seconds} for name in names]
        sys.stdout.write(f"{json.dumps(listed)}\n")
    else:
        sys.stdout.write("".join(f"{name}\n" for name in names))
    return failure.OK

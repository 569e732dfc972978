"""LongCLI-Bench: converts its tasks, which are in an older format of Terminal-Bench, into tasks of Harbor.

A task has two sets of tests: `f2p` tests the requested change, and `p2p` tests that nothing else broke. The task passes
if both sets pass, as in the benchmark itself. The share of each set that passed is an additional reward.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wane.core.errors import ConfigError
from wane_research.evaluation import longcli_verdict
from wane_research.evaluation.running.config import load_yaml

TASKS: Final = "tasks_long_cli"  # the folder with the tasks, in a clone of the benchmark

SETS: Final = ("f2p", "p2p")

_OTHER: Final = ("task.yaml", "run-tests.sh", "solution.sh", "docker-compose.yaml", "tests")
"""Files of a task that do not belong in its image. The compose file only mounts log folders; solutions are empty."""

_TASK: Final = """\
schema_version = "1.4"

[metadata]
category = {category}

[agent]
timeout_sec = {agent}

[verifier]
timeout_sec = {verifier}

[environment]
build_timeout_sec = 3600.0
"""
_TEST: Final = """\
#!/bin/bash
# Runs the task's own tests, and writes their result as rewards.
rm -rf /app/test_output
cd /app && TEST_DIR=/tests bash /tests/run-tests.sh
python3 - /app/test_output {modes} >/logs/verifier/reward.json <<'END_OF_VERDICT'
{verdict}END_OF_VERDICT
cp -r /app/test_output /logs/verifier/
"""


def write_longcli(source: Path, target: Path) -> tuple[str, ...]:
    """Write the tasks of a clone of the benchmark, or of a folder of its tasks, and return their names."""
    folder = source / TASKS if (source / TASKS).is_dir() else source
    folders = sorted(path.parent for path in folder.glob("*/task.yaml"))
    if not folders:
        raise ConfigError(f"{folder} has no tasks of LongCLI-Bench: a task is a folder with a task.yaml")
    for task in folders:
        if missing := [name for name in ("Dockerfile", "run-tests.sh", "tests") if not (task / name).exists()]:
            raise ConfigError(f"{task} is not a task of LongCLI-Bench: it has no {', '.join(missing)}")
        new = target / task.name
        about = load_yaml(task / "task.yaml")
        shutil.copytree(
            task,
            new / "environment",
            symlinks=True,
            dirs_exist_ok=True,
            ignore=lambda folder, _, root=str(task): _OTHER if folder == root else (),
        )
        shutil.copytree(task / "tests", new / "tests", symlinks=True, dirs_exist_ok=True)
        shutil.copy2(task / "run-tests.sh", new / "tests")
        try:
            texts = _texts(about)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"{task / 'task.yaml'} is not from a task of LongCLI-Bench: {error!r}") from error
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8")
    return tuple(task.name for task in folders)


def _texts(about: Any) -> Mapping[str, str]:
    modes = {name: str(about.get(f"parser_results_{name}") or "").lower() for name in SETS}
    return {
        "instruction.md": f"{about['instruction'].strip()}\n",
        "task.toml": _TASK.format(
            category=json.dumps(about.get("category", "")),
            agent=float(about["max_agent_timeout_sec"]),
            verifier=float(about["max_test_timeout_sec"]),
        ),
        "tests/test.sh": _TEST.format(
            modes=" ".join(f"{name}={mode}" for name, mode in modes.items() if mode),
            verdict=inspect.getsource(longcli_verdict),
        ),
    }

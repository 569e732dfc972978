from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from research.tests.evaluation.machines import IMAGE, make_base
from research.tests.evaluation.whole import COMMAND, KEY, SOURCES, TASKS, find_python, wait_for_end

from wane_research.evaluation.sandbox.namespace import missing


@pytest.fixture(scope="session")
def python() -> str:
    if reason := missing():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("as another user than root, Harbor's logs are not writable in the environment")
    found = find_python()
    if not found:
        pytest.skip("no Python with Harbor: run research/scripts/eval_env.sh, or name one in WANE_EVAL_PYTHON")
    return found


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tasks and the base of their environments."""
    folder = tmp_path_factory.mktemp("evaluation")
    make_base(folder / "bases")
    # Workers of one run share the bundle, which takes the longest to make.
    shared = tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    (shared / "wane-cache").mkdir(exist_ok=True)
    (folder / "cache").symlink_to(shared / "wane-cache")
    for name in TASKS:
        task = folder / "tasks" / name
        for part in ("environment", "tests", "solution"):
            (task / part).mkdir(parents=True)
        (task / "instruction.md").write_text(f"Write the word {name} to /app/{name}.txt.\n")
        (task / "task.toml").write_text(
            'schema_version = "1.4"\n[metadata]\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 120.0\n'
            "[environment]\nbuild_timeout_sec = 60.0\n"
        )
        (task / "environment" / "Dockerfile").write_text(f"FROM {IMAGE}\nWORKDIR /app\n")
        (task / "tests" / "test.sh").write_text(
            f'#!/bin/bash\nif [ "$(cat /app/{name}.txt)" = {name} ] && [ $(ls /app | wc -l) = 1 ]\n'
            "then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
        )
        (task / "solution" / "solve.sh").write_text(f"#!/bin/bash\necho {name} >/app/{name}.txt\n")
    return folder


@pytest.fixture
def evaluate(python: str, place: Path, tmp_path: Path) -> Callable[..., Any]:
    def start(url: str, *words: str, **config: Any) -> subprocess.Popen[str]:
        (tmp_path / "config.yaml").write_text(
            json.dumps(
                {
                    "benchmark": "trees",
                    "path": str(place / "tasks"),
                    "models": ["anthropic:claude-sonnet-5"],
                    "environment": {"kwargs": {"bases": str(place / "bases")}},
                    "env": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "${TEST_KEY}"},
                    "output": "out",
                    **config,
                }
            )
        )
        return subprocess.Popen(
            [python, "-c", COMMAND, "eval", *(words or ("run", str(tmp_path / "config.yaml")))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": SOURCES,
                "TEST_KEY": KEY,
                "XDG_CACHE_HOME": str(place / "cache"),
            },
        )

    return start


@pytest.fixture
def evaluate_to_end(evaluate: Callable[..., Any]) -> Callable[..., str]:
    """Runs a command to its end, which must have this exit code, and returns what it printed."""

    def to_the_end(*words: str, code: int = 0, **config: Any) -> str:
        ended_with, out = wait_for_end(evaluate(*words, **config))
        assert ended_with == code, out
        return out

    return to_the_end

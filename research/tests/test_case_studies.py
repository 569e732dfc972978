"""The case studies in `research/case-studies`: whether each is a task that can be run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wane_research.evaluation.running.config import find_tasks, load

CASES = Path(__file__).parents[1] / "case-studies"
STEPS = {"excalidraw": 3, "linux": 4, "redis": 3}


def settings(name: str) -> dict[str, Any]:
    return tomllib.loads((CASES / name / "task.toml").read_text())


def steps(name: str) -> list[Path]:
    return [CASES / name / "steps" / step["name"] for step in settings(name)["steps"]]


@pytest.mark.parametrize("name", STEPS)
def test_a_task_has_the_steps_of_the_paper_each_with_instruction_and_check(name: str) -> None:
    found = settings(name)
    assert found["schema_version"] == "1.4"
    assert len(found["steps"]) == STEPS[name]
    assert {path.name for path in (CASES / name / "steps").iterdir()} == {path.name for path in steps(name)}
    # Harbor does not give a step the verifier's time of the task, and ends the sequence after a time-out.
    assert "verifier" not in found
    assert all(step["verifier"]["timeout_sec"] >= 1800 for step in found["steps"])
    # A step that fails must not end the sequence: the next ones are measured too.
    assert not any("min_reward" in step for step in found["steps"])
    assert (CASES / name / "environment" / "Dockerfile").read_text().startswith("FROM ")
    for step in steps(name):
        assert (step / "instruction.md").read_text().strip()
        assert (step / "tests" / "check.py").exists()
        assert (step / "solution" / "solve.sh").exists() == found["metadata"]["reference_solution"]
        for script in [step / "tests" / "test.sh", *(step / "solution").glob("*.sh")]:
            assert os.access(script, os.X_OK), script
            assert subprocess.run(["bash", "-n", script], check=False).returncode == 0, script
    # Checks run in the environment of the task; Debian 12 has Python 3.11.
    for path in (CASES / name).rglob("*.py"):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 11))


@pytest.mark.parametrize("name", ["excalidraw", "redis"])
def test_the_source_is_pinned_once(name: str) -> None:
    found = settings(name)["metadata"]
    dockerfile = (CASES / name / "environment" / "Dockerfile").read_text()
    (checks,) = (CASES / name / "tests").glob("*_checks.py")
    assert f"--branch {found['tag']} {found['repository']}" in dockerfile
    for text in (dockerfile, checks.read_text()):
        assert re.findall(r"\b[0-9a-f]{40}\b", text) == [found["commit"]]


def test_the_sequence_runs_them_all() -> None:
    pytest.importorskip("yaml")
    config = load(CASES / "sequence.yaml")
    tasks = find_tasks(Path(config.path), config.tasks, config.exclude)
    assert {task.name: len(task.steps) for task in tasks} == STEPS

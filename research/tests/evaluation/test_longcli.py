from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from research.tests.evaluation.longcli_task import NAME, make_benchmark

from wane.core.errors import ConfigError
from wane_research.evaluation.longcli import write_longcli
from wane_research.evaluation.longcli_verdict import verdict
from wane_research.evaluation.running.config import Task, find_tasks

BOTH = {"f2p": "text", "p2p": "pytest"}
SUMMARY = "== short test summary info ==\n"


def test_a_task_is_rewritten_whole_and_without_what_the_agent_must_not_see(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "clone")
    new = tmp_path / "new"
    assert write_longcli(tmp_path / "clone", new) == (NAME,)
    assert find_tasks(new, (), ()) == (Task(NAME, new / NAME, 120.0),)
    files = {path.relative_to(new / NAME).as_posix() for path in new.rglob("*") if path.is_file()}
    assert files == {
        "task.toml",
        "instruction.md",
        "environment/Dockerfile",
        "environment/INSTRUCTION.md",
        "environment/lab/add.py",
        # Of the lab, not of the task.
        "environment/lab/tests/given.py",
        "tests/test.sh",
        "tests/run-tests.sh",
        "tests/f2p.py",
        "tests/p2p.py",
    }
    assert (new / NAME / "instruction.md").read_text() == "Follow INSTRUCTION.md, in the folder lab.\n"
    assert write_longcli(tmp_path / "clone" / "tasks_long_cli", tmp_path / "again") == (NAME,)


@pytest.mark.parametrize("missing", ["tests", "run-tests.sh", "Dockerfile"])
def test_something_else_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match="has no tasks of LongCLI-Bench"):
        write_longcli(tmp_path, tmp_path / "new")
    task = make_benchmark(tmp_path)
    (task / missing).rename(tmp_path / "away")
    with pytest.raises(ConfigError, match=f"{NAME} is not a task of LongCLI-Bench: it has no {missing}"):
        write_longcli(tmp_path, tmp_path / "new")


def test_a_description_of_something_else_is_refused(tmp_path: Path) -> None:
    task = make_benchmark(tmp_path)
    (task / "task.yaml").write_text("instruction: Do it.\nmax_agent_timeout_sec: long\n")
    with pytest.raises(ConfigError, match=r"task\.yaml is not from a task"):
        write_longcli(tmp_path, tmp_path / "new")


@pytest.mark.parametrize(
    ("score", "summary", "rewards"),
    [
        ('{"is_pass": 1, "step_score": 1.0}', "PASSED p2p.py::test_a\n", {"reward": 1, "f2p": 1.0, "p2p": 1.0}),
        ('{"is_pass": 0, "step_score": 0.6666}', "PASSED p2p.py::test_a\n", {"reward": 0, "f2p": 0.667, "p2p": 1.0}),
        # Skipped tests and expected failures count as passed, an unexpected pass as failed.
        (
            '{"is_pass": 1, "step_score": 1}',
            "SKIPPED [1] a.py:3: no\nXFAIL a.py::test_b\nXPASS a.py::test_c\nFAILED a.py::test_d - no\n== end ==\n",
            {"reward": 0, "f2p": 1.0, "p2p": 0.5},
        ),
        # Tests that could not be read, or a script that fell over: no pass.
        ('{"is_pass": 1, "step_score": 1}', "ERROR p2p.py - ImportError\n", {"reward": 0, "f2p": 1.0, "p2p": 0.0}),
        ('{"is_pass": 1, "step_score": 1}', "", {"reward": 0, "f2p": 1.0, "p2p": 0.0}),
        ("[]", "PASSED p2p.py::test_a\n", {"reward": 0, "f2p": 0.0, "p2p": 1.0}),
        (None, "PASSED p2p.py::test_a\n", {"reward": 0, "f2p": 0.0, "p2p": 1.0}),
    ],
)
def test_a_pass_needs_both_sets(tmp_path: Path, score: str | None, summary: str, rewards: dict[str, float]) -> None:
    if score is not None:
        (tmp_path / "f2p_score.json").write_text(score)
    (tmp_path / "p2p_output.txt").write_text(f"PASSED above::it\n{SUMMARY}{summary}")
    assert verdict(tmp_path, BOTH) == rewards


def test_a_set_that_a_task_does_not_have_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "f2p_score.json").write_text('{"is_pass": 1, "step_score": 1}')
    assert verdict(tmp_path, {"f2p": "text"}) == {"reward": 1, "f2p": 1.0}
    assert verdict(tmp_path, {"f2p": "text", "p2p": "none"}) == {"reward": 1, "f2p": 1.0}
    assert verdict(tmp_path, {}) == {"reward": 0}


@pytest.mark.full
def test_what_pytest_itself_prints_is_read(tmp_path: Path) -> None:
    (tmp_path / "p2p.py").write_text(
        "import pytest\n\ndef test_a(): pass\n\ndef test_b(): assert 'x - y' == 'z'\n\n"
        "@pytest.mark.skip(reason='no')\ndef test_c(): pass\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_d(n): assert n\n"
    )
    with (tmp_path / "p2p_output.txt").open("w") as output:
        words = [sys.executable, "-m", "pytest", "p2p.py", "-rA", "-p", "no:cacheprovider", "--rootdir", "."]
        subprocess.run(words, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT, check=False)
    assert json.dumps(verdict(tmp_path, {"p2p": "pytest"})) == '{"reward": 0, "p2p": 0.8}'

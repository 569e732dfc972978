"""A small task in the layout of LongCLI-Bench, which is not part of Wane."""

from __future__ import annotations

from pathlib import Path

NAME = "cs0_add"
BASE = "tb/make-pytest:v0"
INSTRUCTION = "Write the function add in lab/add.py."

FILES = {
    "Dockerfile": f"FROM {BASE}\n\nWORKDIR /app\n\nCOPY lab ./lab\nCOPY INSTRUCTION.md ./INSTRUCTION.md\n",
    "INSTRUCTION.md": f"# Lab: Add\n\n{INSTRUCTION}\n",
    "docker-compose.yaml": "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n",
    "solution.sh": "",
    "lab/add.py": "def twice(a):\n    return 2 * a\n",
    "lab/tests/given.py": "import add\n",
    "task.yaml": """\
instruction: |-
  Follow INSTRUCTION.md, in the folder lab.
author_name: xxxxx
category: feature_add
tags:
  - system
parser_name: long_cli
parser_results_f2p: text
parser_results_p2p: pytest
max_agent_timeout_sec: 120
max_test_timeout_sec: 60.0
run_tests_in_same_shell: false
estimated_duration_sec:
""",
    "run-tests.sh": """\
#!/bin/bash
mkdir -p /app/test_output
(
  cp -a "/tests/." "/app/lab/"
  cd "/app/lab"
  PYTHONPATH=. python3 -c 'import add; print("score", (add.add(1, 2) == 3) + (add.add(-1, 1) == 0))' \\
    | tee /app/test_output/f2p_output.txt
  rm p2p.py f2p.py
)
python3 "/tests/f2p.py"
python3 -m pytest $TEST_DIR/p2p.py -rA > /app/test_output/p2p_output.txt 2>&1
""",
    "tests/f2p.py": """\
import json
score = int(open("/app/test_output/f2p_output.txt").read().split()[-1])
json.dump({"is_pass": int(score == 2), "step_score": score / 2}, open("/app/test_output/f2p_score.json", "w"))
""",
    "tests/p2p.py": """\
import sys

sys.path.append("/app/lab")


def test_twice():
    import add

    assert add.twice(2) == 4


def test_the_tests_are_gone():
    import pathlib

    assert not pathlib.Path("/app/lab/f2p.py").exists()
""",
}


def make_benchmark(clone: Path) -> Path:
    """Make a clone of the benchmark with this task alone, and return the task's folder."""
    task = clone / "tasks_long_cli" / NAME
    for name, text in FILES.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return task

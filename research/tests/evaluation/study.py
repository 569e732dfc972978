"""A case study of several steps, and a scripted model that acts on what it sees in each request.

The work is the closed loop's: each step adds a function to a package, and needs what stands in files, what only the
user has said in an earlier step, or what a command has printed that runs once. The checks are the acceptance test of
the step, which comes when the work is done, and all tests of the area. So a fact that has left the view has to be
read again or recalled, or the step fails.

python -m research.tests.evaluation.study DIR writes the task and a configuration into a folder, serves the model until
it is killed, and says what to run.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path

from research.tests.evaluation.machines import PYTHON_IMAGE

from wane.scripted import summary
from wane.scripted.sight import asks_for_summary
from wane.scripted.witness import MODEL, RequestWitness
from wane.testing import Reply, Request, ScriptedServer
from wane_research.closed_loop.mind import decide
from wane_research.closed_loop.work import Work, make_work

NAME = "depot"
BUDGET = 16_000
STEPS = 12
# In this one there is every kind of tie, and none reaches over fewer than three steps.
SEED = 5
TOKENS = 1_500_000

PROTECTED = ("tests/", "tools/", "check", "draw")

# Beside the tests of a step, which come when the work is done: ahead of that nothing of the result can be read.
CHECK = '''\
"""Checks a step: nothing of the checks was changed, and its acceptance test and all tests of the area pass."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

area, number = sys.argv[1:]
given = json.loads(Path("/tests/given.json").read_text())
changed = [path for path, digest in given.items() if hashlib.sha256(Path(path).read_bytes()).hexdigest() != digest]
accepted = Path(f"tests/{area}/test_task_{number}.py")
shutil.copy("/tests/accepted.py", accepted)
done = subprocess.run(["sh", "check", area], capture_output=True, text=True)
passed = not changed and done.returncode == 0
print(f"changed: {changed}", done.stdout, done.stderr, sep="\\n")
if not passed:
    accepted.unlink()  # so that steps to come are not graded by it
Path("/logs/verifier/reward.txt").write_text(f"{int(passed)}\\n")
'''


def make_study() -> Work:
    """The repository and the steps. Files are as long as one thirty-second of the budget."""
    return make_work(SEED, tasks=STEPS, budget=BUDGET, tokens=TOKENS)


def short_study() -> Work:
    """One that has four steps with few calls each: the third needs what the first said, the fourth also the second."""
    return make_work(0, tasks=4, budget=3 * BUDGET, tokens=0)


def write_task(folder: Path, work: Work) -> None:
    """Write a study as a task of Harbor's."""
    given = dict(work.world.files())
    _write(folder / "environment" / "Dockerfile", f"FROM {PYTHON_IMAGE}\nWORKDIR /app\nCOPY {NAME} /app\n")
    for path, text in given.items():
        _write(folder / "environment" / NAME / path, text)
    names = [f"task-{task.number:02}" for task in work.tasks]
    listed = "".join(f'[[steps]]\nname = "{name}"\n' for name in names)
    _write(
        folder / "task.toml",
        'schema_version = "1.4"\nmulti_step_reward_strategy = "mean"\n[metadata]\n[agent]\ntimeout_sec = 600.0\n'
        f"[verifier]\ntimeout_sec = 60.0\n[environment]\nbuild_timeout_sec = 60.0\n{listed}",
    )
    digests = {
        path: hashlib.sha256(text.encode()).hexdigest() for path, text in given.items() if path.startswith(PROTECTED)
    }
    for name, task in zip(names, work.tasks, strict=True):
        step = folder / "steps" / name
        _write(step / "instruction.md", f"{task.prompt}\n")
        _write(
            step / "tests" / "test.sh",
            f"#!/bin/bash\ncd /app && python3 /tests/check.py {task.area} {task.number:03}\n",
        )
        _write(step / "tests" / "check.py", CHECK)
        _write(step / "tests" / "accepted.py", task.test())
        _write(step / "tests" / "given.json", json.dumps(digests))


class Model:
    """Decides each step of the work by the request alone, and writes the summaries that a strategy asks for.

    Usage is reported as the provider would, with what its cache had. Sessions must come one after the other for that.
    """

    def __init__(self) -> None:
        self._witness = RequestWitness(BUDGET, summarise)

    def __call__(self, request: Request) -> Reply:
        if not asks_for_summary(request) and not any(message.role == "assistant" for message in request.messages):
            self._witness.begin()
        return self._witness.answer(request, decide)


def summarise(request: Request) -> Reply:
    """Write the summary: the user's tasks, as the closed loop's does, and the tickets that are told in a description.

    Those are the ones that the user asked to note. The one that was drawn for the task at hand is in it as well: it
    is work in progress, which by episodes cannot be evicted either. What was read in files is not, and can be read
    again.
    """
    text = "\n".join(part.text for part in request.parts)
    drawn = dict(_TICKET.findall(text))
    tasks = _TASK.findall(text)
    wanted = _NOTED.findall(text) + _DRAW.findall(tasks[-1] if tasks else "")
    notes = [f"The ticket for {area} is {drawn[area]}." for area in dict.fromkeys(wanted) if area in drawn]
    said = summary.summarise(request)
    return replace(said, text="\n".join([*notes, said.text or ""]))


_TASK = re.compile(r"^(?:User: )?(Task \d+\. .*)$", re.MULTILINE)
_TICKET = re.compile(r"\bticket for (\w+)(?:: | is )(\d+)")
_DRAW = re.compile(r"draw the ticket for the (\w+)")
_NOTED = re.compile(rf"{_DRAW.pattern} with `[^`]+`, and note")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def configuration(folder: Path, url: str, **changes: object) -> dict[str, object]:
    """What `wane eval run` is to do with a study that was written to a folder."""
    return {
        "benchmark": "scripted-case-study",
        "path": str(folder),
        "models": [MODEL],
        "strategies": ["cwl", "compact", "truncate", "none"],
        "budgets": [BUDGET],
        "seed": None,
        "env": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "${STUDY_KEY}"},
        **changes,
    }


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    write_task(place / NAME, make_study())
    with ScriptedServer(Model(), keep=1) as server:
        _write(place / "study.yaml", json.dumps(configuration(place / NAME, server.url), indent=2))
        print(f"STUDY_KEY=not-a-real-key wane eval run {place / 'study.yaml'}", flush=True)
        try:
            threading.Event().wait()
        finally:
            print(*server.refusals, sep="\n")

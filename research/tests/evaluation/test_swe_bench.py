from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from wane.core.errors import ConfigError
from wane_research.evaluation.results import FILE_NAME, VERSION, Arm, Run, Trial, append, begin, read
from wane_research.evaluation.running.config import Sample, find_tasks
from wane_research.evaluation.sandbox.dockerfile import parse
from wane_research.evaluation.swe_bench import PATCH, instances, take_grades, write_predictions, write_tasks

ARM = Arm("swe-bench-lite", "anthropic:m", "cwl", 80_000, "single")


def instance(number: int) -> dict[str, str]:
    return {
        "instance_id": f"django__django-{number}",
        "repo": "django/django",
        "base_commit": "a" * 40,
        "problem_statement": 'It says "{braces}" and fails.\nTwice.',
        "patch": "the solution, which is not for the agent",
        "FAIL_TO_PASS": "[]",
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lite.jsonl"
    path.write_text("".join(f"{json.dumps(instance(number))}\n" for number in range(9)))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "arm" / "run-1"
    names = tuple(f"django__django-{number}" for number in range(3))
    begin(folder / FILE_NAME, Run(VERSION, ARM, 1, names, 1, "", 0.03, datetime(2026, 1, 1, tzinfo=UTC)))
    for position, name in enumerate(names, start=1):
        append(folder / FILE_NAME, Trial(ARM, 1, position, name, None, directory=f"trials/{position:03}-{name}"))
    patch = folder / "trials" / "002-django__django-1" / "agent" / PATCH
    patch.parent.mkdir(parents=True)
    patch.write_text("diff --git a/x b/x\n+é\n", encoding="utf-8")
    return folder


def test_instances_become_tasks_that_hold_no_solution(source: Path, tmp_path: Path) -> None:
    names = write_tasks(source, tmp_path / "tasks", None)
    assert len(names) == 9
    (task,) = find_tasks(tmp_path / "tasks", ("django__django-3",), ())
    assert 'It says "{braces}" and fails.\nTwice.' in (task.path / "instruction.md").read_text()
    image = parse((task.path / "environment" / "Dockerfile").read_text()).stages[-1].base
    assert image == "swebench/sweb.eval.x86_64.django_1776_django-3:latest"
    assert not [path for path in task.path.rglob("*") if path.is_file() and "the solution" in path.read_text()]


def test_a_sample_is_the_same_each_time(source: Path, tmp_path: Path) -> None:
    names = [write_tasks(source, tmp_path / str(number), Sample(4, 1)) for number in range(2)]
    assert names[0] == names[1]
    assert sorted(path.name for path in (tmp_path / "0").iterdir()) == sorted(names[0])


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"instance_id": "a"}\n')
    with pytest.raises(ConfigError, match=r"line 1: not an instance.*repo"):
        instances(path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no instances"):
        instances(path)


def test_predictions_have_the_graders_fields(run: Path) -> None:
    ((found, path, filled),) = write_predictions([run])
    assert (path, filled, len(found.trials)) == (run / "predictions.jsonl", 1, 3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["instance_id"] for line in lines] == list(found.run.order)
    assert {line["model_name_or_path"] for line in lines} == {"arm-run-1"}
    assert [line["model_patch"] for line in lines] == ["", "diff --git a/x b/x\n+é\n", ""]
    assert all(set(line) == {"instance_id", "model_name_or_path", "model_patch"} for line in lines)


def test_the_graders_verdicts_become_rewards(run: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    names = read(run / FILE_NAME).run.order
    report.write_text(json.dumps({"resolved_ids": [names[1]], "submitted_ids": names[:2]}))
    assert take_grades(run, report) == (1, 2)
    assert [(it.task, it.reward) for it in read(run / FILE_NAME).trials if it.reward is not None] == [
        (names[0], 0.0),
        (names[1], 1.0),
    ]
    report.write_text(json.dumps({"resolved_ids": [], "submitted_ids": ["other__other-1"]}))
    with pytest.raises(ConfigError, match="other__other-1, which the run did not try"):
        take_grades(run, report)
    report.write_text(json.dumps({"resolved_ids": [names[2]], "submitted_ids": names[:2]}))
    with pytest.raises(ConfigError, match=f"resolves {names[2]}, which was not submitted"):
        take_grades(run, report)
    report.write_text("[]")
    with pytest.raises(ConfigError, match="not a report"):
        take_grades(run, report)

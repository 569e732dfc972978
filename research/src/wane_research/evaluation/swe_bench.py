"""SWE-bench: writes instances as tasks of Harbor and agents' changes as predictions, and reads the grader's verdicts.

The grader is SWE-bench's own, which needs docker: `python -m swebench.harness.run_evaluation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wane.core.errors import ConfigError
from wane_research.evaluation.results import RunResults, append, find, read
from wane_research.evaluation.running.config import Sample, draw_sample

BENCHMARKS: Final = ("swe-bench-lite", "swe-bench-verified")  # benchmarks whose trials are graded afterwards
CHECKOUT: Final = "/testbed"  # the folder of the repository in SWE-bench's images
PATCH: Final = "patch.diff"  # the file with the agent's changes, in the trial's folder for logs

PREDICTIONS: Final = "predictions.jsonl"

_INSTRUCTION: Final = """\
The repository {repo} is checked out in {checkout}. Resolve the issue below by changing its source; do not change or add
tests. Tests that are not shown will check the change.

{statement}
"""
_TASK: Final = """\
schema_version = "1.4"

[metadata]
repository = "{repo}"
base_commit = "{base_commit}"

[agent]
timeout_sec = {seconds:.1f}

[verifier]
timeout_sec = 60.0

[environment]
build_timeout_sec = 3600.0
"""
_UNGRADED: Final = "#!/bin/sh\n# Graded afterwards by SWE-bench's own harness.\nexit 1\n"
_SECONDS: Final = 3000.0


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance: the fields that a task needs. The others are not for the agent."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str

    @property
    def image(self) -> str:
        """Name of its image, as the grader's maintainers publish them."""
        return f"swebench/sweb.eval.x86_64.{self.instance_id.replace('__', '_1776_').lower()}:latest"


def instances(path: Path) -> tuple[Instance, ...]:
    """Return the instances in a file with a JSON object in each line, by id."""
    by_id: dict[str, Instance] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                data = json.loads(line)
                instance = Instance(*(str(data[name]) for name in Instance.__slots__))
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{path}, line {number}: not an instance: {error!r}") from error
            by_id[instance.instance_id] = instance
    if not by_id:
        raise ConfigError(f"{path} holds no instances")
    return tuple(by_id[name] for name in sorted(by_id))


def write_tasks(source: Path, target: Path, sample: Sample | None) -> tuple[str, ...]:
    """Write the instances in a file, or a sample of them, as tasks into a folder, and return their names."""
    by_id = {instance.instance_id: instance for instance in instances(source)}
    names = draw_sample(tuple(by_id), sample)
    for name in names:
        instance = by_id[name]
        files = {
            "instruction.md": _INSTRUCTION.format(
                repo=instance.repo, checkout=CHECKOUT, statement=instance.problem_statement
            ),
            "task.toml": _TASK.format(repo=instance.repo, base_commit=instance.base_commit, seconds=_SECONDS),
            "environment/Dockerfile": f"FROM {instance.image}\nWORKDIR {CHECKOUT}\n",
            "tests/test.sh": _UNGRADED,
        }
        for relative, text in files.items():
            path = target / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return names


def write_predictions(places: Sequence[Path]) -> Iterator[tuple[RunResults, Path, int]]:
    """Write the changes of each run's trials, in the grader's format, into the run's folder.

    Yields:
        The run, the file, and the number of predictions that are not empty.
    """
    for path in find(places):
        run = read(path)
        lines = []
        for trial in run.trials:
            patch = path.parent / trial.directory / "agent" / PATCH
            text = ""
            if trial.directory and patch.exists():
                text = patch.read_text(encoding="utf-8", errors="replace")
            lines.append({"instance_id": trial.task, "model_name_or_path": name_of(run), "model_patch": text})
        target = path.parent / PREDICTIONS
        target.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        yield run, target, sum(bool(line["model_patch"]) for line in lines)


def name_of(run: RunResults) -> str:
    """Return the name of a run for the grader, which keeps a report for each name."""
    return f"{run.path.parent.parent.name}-run-{run.run.run}"


def grader_command(predictions: Path, run: RunResults) -> str:
    dataset = "SWE-bench/SWE-bench_Lite" if run.run.arm.benchmark == BENCHMARKS[0] else "SWE-bench/SWE-bench_Verified"
    return (
        f"python -m swebench.harness.run_evaluation --dataset_name {dataset} "
        f"--predictions_path {predictions} --run_id {name_of(run)} --max_workers 4"
    )


def take_grades(path: Path, report: Path) -> tuple[int, int]:
    """Take the grader's verdicts into a run's results, and return how many passed and how many were graded.

    `path`: the run's folder, or its file of results.
    `report`: the grader's report, a JSON object with `resolved_ids` and `submitted_ids`.

    Raises:
        ConfigError: if the report is of other instances, or is no report, or there is more than one run.
        ResultsError: if the path holds no results.
    """
    paths = list(find([path]))
    if len(paths) != 1:
        raise ConfigError(f"{path} holds {len(paths)} runs; name the folder of one")
    run = read(paths[0])
    try:
        data: Mapping[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        resolved, submitted = set(data["resolved_ids"]), set(data["submitted_ids"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{report} is not a report of the grader: {error!r}") from error
    tasks = {trial.task for trial in run.trials}
    if not submitted <= tasks:
        raise ConfigError(f"{report} grades {', '.join(sorted(submitted - tasks)[:5])}, which the run did not try")
    if not resolved <= submitted:
        raise ConfigError(f"{report} resolves {', '.join(sorted(resolved - submitted)[:5])}, which was not submitted")
    for trial in run.trials:
        if trial.task in submitted:
            append(run.path, replace(trial, reward=float(trial.task in resolved)))
    return len(resolved), len(submitted)

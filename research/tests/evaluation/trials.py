"""Real trials of other agents: 8 models, 89 tasks of Terminal-Bench 2.0, 5 runs each."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random

import pytest

from wane_research.evaluation.results import VERSION, Arm, Run, Trial, Usage, append, begin

CSV = Path(__file__).parents[4] / "shared" / "evaluation" / "results" / "tb2-tmax-results.csv"

needs_trials = pytest.mark.skipif(not CSV.exists(), reason=f"no real trials: {CSV} is absent")

BENCHMARK = "terminal-bench-2.0"
LINE = "New task, in a fresh environment; files of earlier tasks are gone."


@cache
def rows() -> tuple[dict[str, str], ...]:
    with CSV.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def tables() -> dict[str, dict[str, dict[int, float]]]:
    """By model, the scores by task and run; trials of a task are numbered in the order of the file."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows():
        of_task = found[row["model"]][row["task"]]
        of_task[len(of_task) + 1] = float(row["reward"] or 0)
    return {model: dict(found[model]) for model in found}


def write(folder: Path, model: str, protocol: str = "isolated", name: str = "model") -> None:
    """Write the trials of a model as results of five runs in seeded orders; `name` is what the results call it.

    The trials were made in sessions of their own, whatever the protocol is said to be: so there is no drift in them.
    """
    arm = Arm(BENCHMARK, name, "cwl", 80_000, "single" if protocol == "single" else "isolated")
    runs: dict[int, list[dict[str, str]]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for row in (row for row in rows() if row["model"] == model):
        seen[row["task"]] += 1
        runs[seen[row["task"]]].append(row)
    for run, of_run in runs.items():
        Random(run).shuffle(of_run)
        path = folder / f"{model}-{protocol}" / f"run-{run}" / "results.jsonl"
        order = tuple(row["task"] for row in of_run)
        begin(
            path,
            Run(VERSION, arm, run, order, run, LINE, 0.03, datetime(2026, 6, 10, tzinfo=UTC), {"harbor": "0.24.0"}),
        )
        for position, row in enumerate(of_run, start=1):
            append(path, _trial(arm, run, position, row))


def _trial(arm: Arm, run: int, position: int, row: dict[str, str]) -> Trial:
    began = seconds = None
    if row["agent_started"]:
        began = datetime.fromisoformat(row["agent_started"])
    if began and row["agent_finished"]:
        seconds = (datetime.fromisoformat(row["agent_finished"]) - began).total_seconds()
    return Trial(
        arm,
        run,
        position,
        row["task"],
        float(row["reward"]) if row["reward"] else None,
        error=row["exception"],
        started=began,
        seconds=seconds,
        usage=Usage(
            input_tokens=int(row["n_input"] or 0),
            cached_tokens=int(row["n_cache"] or 0),
            output_tokens=int(row["n_output"] or 0),
            cost=float(row["cost"]) if row["cost"] else None,
        ),
    )

"""The measurement of tasks, at a small size."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARK: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "tasks.py"))


@pytest.mark.full
def test_lines_keep_what_descriptions_lose() -> None:
    without, with_tasks = (
        dict(zip(("descriptions", "lines", "tokens", "seen", "recalled", "lost"), row[2:8], strict=True))
        for row in (BENCHMARK["lines"](16_000, tasks=tasks, count=40, seed=0) for tasks in (False, True))
    )
    assert without["lines"] == with_tasks["descriptions"] == "0"
    assert without["lost"] == with_tasks["lost"] == "0"
    assert int(with_tasks["seen"]) > int(without["seen"])
    assert int(without["recalled"]) > 0


def test_what_was_abandoned_leaves_first() -> None:
    counts = [BENCHMARK["ways"](20_000, kind, declares=True, subjects=4, seed=0) for kind in ("none", "abandoned")]
    assert counts[1].cost < counts[0].cost
    assert all(count.most <= 20_000 for count in counts)

"""The script of the demo: nine tasks, in the order in which the user gives them. One file a task."""

from __future__ import annotations

from typing import Final

from wane.scripted.demo.moves import Task
from wane.scripted.demo.script import (
    t01_split,
    t02_comments,
    t03_running_totals,
    t04_precedence,
    t05_spread,
    t06_on_a_day,
    t07_export,
    t08_errors,
    t09_performance,
)

TASKS: Final[tuple[Task, ...]] = (
    t01_split.TASK,
    t02_comments.TASK,
    t03_running_totals.TASK,
    t04_precedence.TASK,
    t05_spread.TASK,
    t06_on_a_day.TASK,
    t07_export.TASK,
    t08_errors.TASK,
    t09_performance.TASK,
)
"""The tasks. The tests of the repository that belong to task N are `tests/test_task_N.py`."""

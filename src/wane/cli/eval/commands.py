"""The commands of the group `eval`."""

from __future__ import annotations

from typing import Final

from wane.cli.eval import flags, texts
from wane.cli.parser import Command, Values


def _run(values: Values) -> int:
    from wane.cli.eval.run import run_config

    return run_config(**values)


def _resume(values: Values) -> int:
    from wane.cli.eval.run import resume

    return resume(**values)


def _report(values: Values) -> int:
    from wane.cli.eval.report import run_report

    return run_report(**values)


def _tasks(values: Values) -> int:
    from wane.cli.eval.tasks import list_tasks

    return list_tasks(**values)


def _swe_bench(values: Values) -> int:
    from wane.cli.eval.swe_bench import write

    return write(**values)


def _recovery(values: Values) -> int:
    from wane.cli.eval.recovery import write

    return write(**values)


def _longcli(values: Values) -> int:
    from wane.cli.eval.longcli import write

    return write(**values)


def _predictions(values: Values) -> int:
    from wane.cli.eval.swe_bench import predictions

    return predictions(**values)


def _grade(values: Values) -> int:
    from wane.cli.eval.swe_bench import grade

    return grade(**values)


EVAL_COMMANDS: Final = (
    Command("eval run", texts.RUN, flags.RUN, _run),
    Command("eval resume", texts.RESUME, flags.RESUME, _resume),
    Command("eval report", texts.REPORT, flags.REPORT, _report),
    Command("eval tasks", texts.TASKS, flags.TASKS, _tasks),
    Command("eval swe-bench", texts.SWE_BENCH, flags.SWE_BENCH, _swe_bench),
    Command("eval recovery", texts.RECOVERY, flags.RECOVERY, _recovery),
    Command("eval longcli", texts.LONGCLI, flags.LONGCLI, _longcli),
    Command("eval predictions", texts.PREDICTIONS, flags.PREDICTIONS, _predictions),
    Command("eval grade", texts.GRADE, flags.GRADE, _grade),
)
"""All of them, in the order of help."""

EVAL_GROUPS: Final = {"eval": texts.EVAL}
"""Help text of the group, by the first of two words."""

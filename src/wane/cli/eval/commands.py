"""The commands of the group `eval`."""

from __future__ import annotations

from typing import Final

from wane.cli.eval import flags, texts
from wane.cli.parser import Command, Values


def _report(values: Values) -> int:
    from wane.cli.eval.report import run_report

    return run_report(**values)


EVAL_COMMANDS: Final = (Command("eval report", texts.REPORT, flags.REPORT, _report),)
"""All of them, in the order of help."""

EVAL_GROUPS: Final = {"eval": texts.EVAL}
"""Help text of the group, by the first of two words."""

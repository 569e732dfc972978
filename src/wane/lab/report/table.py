"""The table of strategies on a page: its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.lab.columns import COLUMNS, Column
from wane.lab.figures import Totals
from wane.lab.replaying.spent import RECORDED, Recorded
from wane.strategies.base import traits
from wane.strategies.registry import describe

OFTEN: Final = 0.05
"""Share of the calls above which the table points out requests over the budget."""


def rows(totals: Mapping[str, Totals], baseline: Totals, budget: int, recorded: Recorded) -> list[dict[str, Any]]:
    """Return a row for the recording and each strategy, with the best values marked.

    Only strategies whose mean request kept the budget compete: showing more than allowed makes it easy to lose less.
    """
    table = [_recorded(recorded, baseline)]
    for name, figures in totals.items():
        values = figures.to_dict(baseline)
        table.append(
            {
                "name": name,
                "what": describe(name),
                "kept": traits(name).bounded and figures.mean_view <= budget,
                "over": traits(name).bounded and figures.over_budget > OFTEN * figures.calls,
                "values": {column.key: values[column.key] for column in COLUMNS},
                "recall_at_best": values["recall_at_best"],
            }
        )
    rivals = [row for row in table if row["kept"]]
    for row in rivals:
        row["best"] = [column.key for column in COLUMNS if column.better and _is_best(row, column, rivals)]
    return table


def _recorded(recorded: Recorded, baseline: Totals) -> dict[str, Any]:
    values = recorded.row(baseline)
    what = "The sessions as their agents ran them, by the usage that was recorded"
    return {
        "name": RECORDED,
        "what": f"{what}{f': {recorded.bounds}' if recorded.bounds else ''}.",
        "kept": False,
        "over": False,
        "bounds": recorded.bounded,
        "values": {column.key: values.get(column.key) for column in COLUMNS},
    }


def _is_best(row: dict[str, Any], column: Column, rivals: list[dict[str, Any]]) -> bool:
    values = [rival["values"][column.key] for rival in rivals]
    if None in values or max(values) == min(values):
        return False
    return bool(row["values"][column.key] == (min(values) if column.better == "less" else max(values)))

"""The table of strategies: its columns, explained in plain words, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from wane.lab.figures import Totals
from wane.strategies.registry import describe

Unit = Literal["usd", "ratio", "tokens", "share", "count", "decimal", "ms"]

OFTEN: Final = 0.05
"""Share of the calls above which the table points out requests over the budget."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        key: name of the figure, as in `wane replay --json`.
        label: its heading.
        unit: how to format it.
        help: its meaning, in one line.
        better: whether less or more is better; empty if neither is.
    """

    key: str
    label: str
    unit: Unit
    help: str
    better: Literal["less", "more", ""] = ""


COLUMNS: Final = (
    Column("cost_usd", "Cost", "usd", "All model calls with prefix caching, the strategy's own included.", "less"),
    Column("cost_ratio", "vs none", "ratio", "That cost, relative to never evicting anything.", "less"),
    Column("mean_view", "Mean view", "tokens", "Mean tokens of a request."),
    Column("peak_view", "Peak view", "tokens", "Tokens of the largest request."),
    Column("over_budget_calls", "Over budget", "count", "Requests over the budget.", "less"),
    Column(
        "reference_recall",
        "Recall",
        "share",
        "Share still in view of the names and paths that calls used and that had occurred before. "
        "A range where a summary may have held more.",
        "more",
    ),
    Column(
        "edit_grounding",
        "Grounding",
        "share",
        "Share of the edits of files read before whose latest read was still in view.",
        "more",
    ),
    Column("user_turns_intact", "User turns", "share", "User turns that every view held unchanged.", "more"),
    Column("reread_tokens", "To re-read", "tokens", "Tokens that would have to be fetched again.", "less"),
    Column("reread_cost_usd", "Re-read cost", "usd", "What fetching them again would cost on top.", "less"),
    Column("cache_hit_rate", "From cache", "share", "Share of the input tokens that the provider's cache served."),
    Column(
        "prefix_breaks_per_100", "Breaks /100", "decimal", "Requests in 100 that did not continue the one before.", ""
    ),
    Column("passes", "Passes", "count", "Times that something was evicted."),
    Column(
        "model_calls_added", "Own calls", "count", "Model calls that the strategy itself made, to summarise.", "less"
    ),
    Column("invalid_pairs", "Broken pairs", "count", "Tool calls shown without their result, or the reverse.", "less"),
    Column("manager_ms_per_call", "Its own time", "ms", "Milliseconds per call that the strategy itself took."),
)
"""The columns of a comparison."""


def columns_dict(columns: Iterable[Column] = COLUMNS) -> list[dict[str, Any]]:
    """Return columns as JSON-able data."""
    return [asdict(column) for column in columns]


def rows(totals: Mapping[str, Totals], baseline: Totals, budget: int) -> list[dict[str, Any]]:
    """Return a row for each strategy, with the best values marked.

    Only strategies whose mean request kept the budget compete: showing more than allowed makes it easy to lose less.

    Args:
        totals: figures by strategy.
        baseline: those of `none`.
        budget: tokens that a view may hold.
    """
    found = []
    for name, figures in totals.items():
        values = figures.to_dict(baseline)
        found.append(
            {
                "name": name,
                "what": describe(name),
                "kept": name != "none" and figures.mean_view <= budget,
                "over": name != "none" and figures.over_budget > OFTEN * figures.calls,
                "values": {column.key: values[column.key] for column in COLUMNS},
                "recall_at_best": values["reference_recall_at_best"],
            }
        )
    rivals = [row for row in found if row["kept"]]
    for row in rivals:
        row["best"] = [column.key for column in COLUMNS if column.better and _is_best(row, column, rivals)]
    return found


def _is_best(row: dict[str, Any], column: Column, rivals: list[dict[str, Any]]) -> bool:
    values = [other["values"][column.key] for other in rivals]
    if None in values or max(values) == min(values):
        return False
    return bool(row["values"][column.key] == (min(values) if column.better == "less" else max(values)))

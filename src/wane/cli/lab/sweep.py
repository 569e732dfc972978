"""`wane sweep`: what each strategy costs and loses at several budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wane.cli import failure
from wane.cli.lab.common import (
    LabOptions,
    beyond_line,
    check_report,
    figure_table,
    prepare,
    prices_told,
    print_json,
    print_lines,
    range_of,
    read_lines,
    rounded,
)
from wane.cli.lab.pareto import Mark, pareto_picture
from wane.cli.terminal.console import stdout_console
from wane.cli.terminal.progress import Bar
from wane.lab.money import dollars, share
from wane.lab.replaying.compare import parse_strategies
from wane.lab.sweep import Point, Sweep, parse_budgets, sweep
from wane.strategies.base import Settings

BUDGETS: Final = "30k..150k"

COLUMNS: Final = ("strategy", "budget", "cost", "ratio", "of last", "again", "per 100", "view", "recall", "edits", "")

NOTES: Final = (
    "ratio: cost relative to never evicting. of last: relative to the same strategy at its largest budget. again: what "
    "fetching evicted content again would cost on top; per 100: such fetches per 100 model calls, each one more call "
    "to wait for. view: mean tokens of a request. recall: share still in view of the identifiers that a call used and "
    "that had occurred before. edits: share of the edits whose file's latest read was in view. *: on the frontier: "
    "nothing cheaper recalls as much (of a range, the lower end counts)."
)
"""The meaning of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(LabOptions):
    """The options of one run; see `wane sweep --help`."""

    strategy: str = "all"
    budgets: str = BUDGETS
    steps: int | None = None
    report: str | None = None


def run_sweep(options: SweepOptions) -> int:
    """Print the figures of strategies at several budgets, and return the exit code.

    Raises:
        WaneError: for options or sessions that cannot be used.
    """
    names = parse_strategies(options.strategy)
    budgets = parse_budgets(options.budgets, options.steps)
    check_report(options.report)
    settings = Settings(low_water=options.low_water)
    with Bar() as bar:
        setup = prepare(options, settings, bar)
        told = bar.stage("Replaying")
        result = sweep(setup.studied, names, budgets, setup.settings, setup.pricing, setup.engine, told)
    if options.as_json:
        print_json(result.to_dict(), setup.gathered)
    else:
        print_lines(read_lines(setup.gathered, setup.studied))
        _print(result)
    if options.report is not None:
        from wane.lab.report import write_sweep_report

        write_sweep_report(options.report, result)
    return failure.OK


def _print(result: Sweep) -> None:
    print_lines([f"Prices {prices_told(result.studied, result.pricing)}", ""])
    best = result.frontier
    table = figure_table(*COLUMNS)
    last = None
    for point in result.points:
        if last not in (None, point.strategy):
            table.add_row()
        table.add_row(point.strategy if last != point.strategy else "", *_cells(result, point, point in best))
        last = point.strategy
    console = stdout_console()
    console.print(table)
    marks = [Mark(it.strategy, it.totals.dollars, it.recall, it in best) for it in result.points]
    print_lines([""])
    console.print(pareto_picture(marks, min(console.width, 100), "cost", "reference recall", dollars), soft_wrap=True)
    beyond = [line for budget in result.budgets[:1] for line in beyond_line(result.studied, budget)]
    if beyond:
        print_lines(["", *beyond])
    print_lines(["", NOTES], style="dim")


def _cells(result: Sweep, point: Point, best: bool) -> Iterator[str]:
    it, baseline = point.totals, result.baseline.dollars
    to_last = result.cost_to_largest(point)
    yield "any" if point.budget is None else rounded(point.budget)
    yield dollars(it.dollars)
    yield f"{it.dollars / baseline:.2f}" if baseline else "-"
    yield "-" if to_last is None else f"{to_last:.2f}"
    yield dollars(it.reread_cost)
    yield f"{point.rereads_per_100:.1f}"
    yield rounded(it.mean_view)
    yield range_of(it.loss.reference_recall, it.loss.reference_recall_at_best)
    yield share(it.loss.edit_grounding)
    yield "*" if best else ""

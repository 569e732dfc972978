"""`wane replay`: what each strategy would have cost and lost."""

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
from wane.cli.terminal.console import stdout_console
from wane.cli.terminal.progress import Bar
from wane.core import parse_budget
from wane.lab.figures import Totals
from wane.lab.money import dollars, share
from wane.lab.replaying.compare import BASELINE, Comparison, compare, parse_strategies
from wane.strategies.base import Settings

COLUMNS: Final = ("strategy", "cost", "ratio", "again", "view", "peak", "recall", "edits", "turns", "breaks", "over")

NOTES: Final = (
    "cost: of all model calls, with summaries. ratio: relative to never evicting. again: what fetching evicted content "
    "again would cost on top. view, peak: mean and most tokens of a request. recall: share still in view of the "
    "identifiers that a call used and that had occurred before. edits: share of the edits whose file's latest read was "
    "in view. turns: the user's turns that stayed in view unchanged. breaks: requests per 100 that changed the cached "
    "prefix. over: calls over the budget."
)
"""The meaning of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(LabOptions):
    """The options of one run; see `wane replay --help`."""

    strategy: str = "all"
    budget: str = "80k"
    report: str | None = None
    redact: bool = False


def run_replay(options: ReplayOptions) -> int:
    """Print a comparison of strategies, and return the exit code.

    Raises:
        WaneError: for options or sessions that cannot be used.
    """
    names = parse_strategies(options.strategy)
    settings = Settings(budget=parse_budget(options.budget), low_water=options.low_water)
    check_report(options.report)
    with Bar() as bar:
        setup = prepare(options, settings, bar)
        result = compare(
            setup.studied,
            names,
            setup.settings,
            setup.pricing,
            setup.engine,
            trace=options.report is not None,
            progress=bar.stage("Replaying"),
        )
    if options.as_json:
        print_json(result.to_dict(), setup.gathered)
    else:
        _print(result, read_lines(setup.gathered, setup.studied))
    if options.report is not None:
        from wane.lab.report import write_report

        # Last, so that a full disk does not cost the user the table.
        write_report(options.report, result, contents=not options.redact)
    return failure.OK


def _print(result: Comparison, read: list[str]) -> None:
    print_lines(read)
    print_lines([f"Budget {result.budget:,} tokens, prices {prices_told(result.studied, result.pricing)}", ""])
    baseline = result.totals(BASELINE)
    table = figure_table(*COLUMNS)
    for name in result.names:
        table.add_row(name, *_cells(result.totals(name), baseline))
    stdout_console().print(table)
    print_lines(["", *beyond_line(result.studied, result.budget), *_remarks(result, baseline)])
    print_lines(["", NOTES], style="dim")


def _cells(it: Totals, baseline: Totals) -> Iterator[str]:
    loss = it.loss
    yield dollars(it.dollars)
    yield f"{it.dollars / baseline.dollars:.2f}" if baseline.dollars else "-"
    yield dollars(it.reread_cost)
    yield rounded(it.mean_view)
    yield rounded(it.peak)
    yield range_of(loss.reference_recall, loss.reference_recall_at_best)
    yield share(loss.edit_grounding)
    yield share(loss.user_turns_intact)
    yield f"{100 * it.prefix_breaks / max(1, it.calls):.1f}"
    yield f"{it.over_budget:,}"


def _remarks(result: Comparison, baseline: Totals) -> Iterator[str]:
    """Yield what else the strategies did, and what holds for all of them."""
    for name in result.names:
        it = result.totals(name)
        if name != BASELINE and it.over:
            filled = ", ".join(f"{reason} {calls:,}" for reason, calls in it.over.most_common())
            yield f"{name} was over the budget at {it.over_budget:,} of {it.calls:,} calls, filled by: {filled}."
        if it.own_calls:
            yield (
                f"{name} called the model {it.own_calls:,} times for summaries, for {dollars(it.own_cost.total)} of "
                "its cost. What they would have said is unknown, so its recall is a range: from summaries that hold "
                "nothing useful to the best that fit."
            )
        if it.loss.invalid_pairs:
            parted = f"{it.loss.invalid_pairs:,} times over all requests"
            yield f"{name} separated calls from their results, {parted}; providers refuse such requests."
    yield (
        f"The floor is {dollars(baseline.floor)}: no strategy that keeps the user's turns can cost less, because new "
        "input, output, the system prompt and the user's turns are always paid for."
    )

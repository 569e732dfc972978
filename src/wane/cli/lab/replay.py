"""`wane replay` and `wane sweep`: what each strategy would have cost and lost, at one budget and at several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wane.cli import failure
from wane.cli.lab.commands import ReplayOptions, SweepOptions
from wane.cli.lab.common import (
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
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import counted, plain_console
from wane.lab.figures import Totals
from wane.lab.replaying.compare import BASELINE, Comparison, compare, parse_strategies
from wane.lab.sweep import Point, Sweep, parse_budgets, sweep
from wane.money import dollars, share
from wane.strategies.base import Settings

REPLAY_NOTES: Final = (
    "cost: of all model calls, with summaries. ratio: relative to never evicting. again: what fetching evicted content "
    "again would cost on top; wane view and wane tune count it in. view, peak: mean and most tokens of a request. "
    "recall: share still in view of the identifiers that a call used and that had occurred before. edits: share of the "
    "edits whose file's latest read was in view. turns: the user's turns that stayed in view unchanged. breaks: "
    "requests per 100 that changed the cached prefix. over: calls over the budget."
)
"""The meaning of the columns."""


def run_replay(options: ReplayOptions) -> int:
    """Print a comparison of strategies, and return the exit code.

    Raises:
        WaneError: for options or sessions that cannot be used.
    """
    names = parse_strategies(options.strategy)
    settings = Settings(budget=options.budget, low_water=options.low_water)
    check_report(options.report)
    with Bar() as bar:
        setup = prepare(options.sessions, options.lab, settings, bar)
        result = compare(
            setup.studied,
            names,
            settings,
            setup.engine,
            trace=options.report is not None,
            progress=bar.stage("Replaying"),
        )
    if options.as_json:
        print_json(result.to_dict(), setup.gathered)
    else:
        _print_replay(result, read_lines(setup.gathered, setup.studied))
    if options.report is not None:
        from wane.lab.report import write_report

        # Last, so that a full disk does not cost the user the table.
        write_report(options.report, result, contents=not options.redact)
    return failure.OK


def _print_replay(result: Comparison, read: list[str]) -> None:
    print_lines(read)
    print_lines([f"Budget {result.budget:,} tokens, prices {prices_told(result.studied)}", ""])
    baseline = result.totals(BASELINE)
    table = figure_table(
        "strategy", "cost", "ratio", "again", "view", "peak", "recall", "edits", "turns", "breaks", "over"
    )
    for name in result.names:
        table.add_row(name, *_replay_cells(result.totals(name), baseline))
    plain_console().print(table)
    print_lines(["", *beyond_line(result.studied, result.budget), *_remarks(result, baseline)])
    print_lines(["", REPLAY_NOTES], style="dim")


def _replay_cells(it: Totals, baseline: Totals) -> Iterator[str]:
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
            filled = ", ".join(f"{reason} {number:,}" for reason, number in it.over.most_common())
            calls = counted(it.calls, "call")
            yield f"{name} was over the budget at {it.over_budget:,} of {calls}, filled by: {filled}."
        if it.own_calls:
            calls = counted(it.own_calls, "time")
            yield (
                f"{name} called the model {calls} for summaries, for {dollars(it.own_cost.total)} of its cost. What "
                "they would have said is unknown, so its recall is a range: from summaries that hold nothing useful to "
                "the best that fit."
            )
        if it.loss.invalid_pairs:
            parted = f"{counted(it.loss.invalid_pairs, 'time')} over all requests"
            yield f"{name} separated calls from their results, {parted}; providers refuse such requests."
    yield (
        f"The floor is {dollars(baseline.floor)}: no strategy that keeps the user's turns can cost less, because new "
        "input, output, the system prompt and the user's turns are always paid for."
    )


SWEEP_NOTES: Final = (
    "ratio: cost relative to never evicting. of last: relative to the same strategy at its largest budget. again: what "
    "fetching evicted content again would cost on top; per 100: such fetches per 100 model calls, each one more call "
    "to wait for. view: mean tokens of a request. recall: share still in view of the identifiers that a call used and "
    "that had occurred before. edits: share of the edits whose file's latest read was in view. *: on the frontier: "
    "nothing cheaper recalls as much (of a range, the lower end counts)."
)
"""The meaning of the columns."""


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
        setup = prepare(options.sessions, options.lab, settings, bar)
        told = bar.stage("Replaying")
        result = sweep(setup.studied, names, budgets, settings, setup.engine, told)
    if options.as_json:
        print_json(result.to_dict(), setup.gathered)
    else:
        print_lines(read_lines(setup.gathered, setup.studied))
        _print_sweep(result)
    if options.report is not None:
        from wane.lab.report import write_sweep_report

        write_sweep_report(options.report, result)
    return failure.OK


def _print_sweep(result: Sweep) -> None:
    print_lines([f"Prices {prices_told(result.studied)}", ""])
    best = result.frontier
    table = figure_table(
        "strategy", "budget", "cost", "ratio", "of last", "again", "per 100", "view", "recall", "edits", ""
    )
    last = None
    for point in result.points:
        if last not in (None, point.strategy):
            table.add_row()
        table.add_row(point.strategy if last != point.strategy else "", *_sweep_cells(result, point, point in best))
        last = point.strategy
    console = plain_console()
    console.print(table)
    marks = [Mark(it.strategy, it.totals.dollars, it.recall, it in best) for it in result.points]
    print_lines([""])
    console.print(pareto_picture(marks, min(console.width, 100), "cost", "reference recall", dollars), soft_wrap=True)
    beyond = [line for budget in result.budgets[:1] for line in beyond_line(result.studied, budget)]
    if beyond:
        print_lines(["", *beyond])
    print_lines(["", SWEEP_NOTES], style="dim")


def _sweep_cells(result: Sweep, point: Point, best: bool) -> Iterator[str]:
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

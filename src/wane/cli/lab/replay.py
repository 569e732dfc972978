"""`wane replay` and `wane sweep`: what each strategy would have cost and lost, at one budget and at several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median_high
from typing import Any, Final

from wane.budgets import AutoBudget
from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.flag_values import AUTO_BUDGET
from wane.cli.lab.common import check_report, print_figures, print_json, print_lines, range_of, round_tokens
from wane.cli.lab.lab_commands import ReplayOptions, SweepOptions
from wane.cli.lab.pareto import PlottedPoint, pareto_picture
from wane.cli.lab.preparing import prepare, price_source, read_lines, with_agent_budget
from wane.cli.terminal import picture
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, plain_console, printable, say
from wane.core import DEFAULT_BUDGET, Policy
from wane.lab.advice import (
    advised_for_all,
    common_window,
    kept_budgets,
    recorded_budgets,
    with_advised_budgets,
    with_recorded_budgets,
    with_window_shares,
)
from wane.lab.columns import Column, Unit, columns_of, notes
from wane.lab.replaying.compare import BASELINE, Comparison, compare, parse_strategies
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.spent import RECORDED
from wane.lab.replaying.studying import budgets_told
from wane.lab.replaying.tight_sessions import tight_lines, tight_sessions
from wane.lab.replaying.verdict import OURS, capital, in_view, needs
from wane.lab.sweep import Sweep, check_budgets, parse_budgets, sweep
from wane.money import dollars, share
from wane.strategies.strategy import StrategySettings
from wane.tuned import usable_tuned
from wane.words import PURPOSES, name_strategy

REPLAYED: Final = columns_of(
    "cost", "again", "total", "ratio", "view", "peak", "recall", "grounding", "turns", "breaks", "over"
)
"""The columns of a comparison in the terminal."""

_SPARE: Final = columns_of("peak", "breaks", "view", "ratio", "over", "turns", "again", "cost", "grounding")
"""Columns that a narrow terminal may leave out, the first of them first."""


def run_replay(options: ReplayOptions) -> int:
    names = parse_strategies(options.strategy)
    policy = Policy()
    if options.index_share is not None:
        policy = replace(policy, index_share=options.index_share)
    if options.min_room is not None:
        policy = replace(policy, min_room=options.min_room)
    budget = DEFAULT_BUDGET if isinstance(options.budget, str) else options.budget or DEFAULT_BUDGET
    settings = StrategySettings(budget=budget, low_water=options.low_water, policy=policy)
    if options.redact and options.report is None:
        raise UsageError("--redact is for the page of --report: give both")
    check_report(options.report)
    with Bar() as bar:
        setup = prepare(options.sessions, options.lab, settings, bar)
        studied = with_agent_budget(setup.studied, options.agent_budget)
        tuned = usable_tuned(os.environ, say)
        advised = advised_for_all(studied, tuned)
        if options.budget is None:
            studied = with_recorded_budgets(studied)
        elif isinstance(options.budget, str):
            studied = with_window_shares(studied, options.budget)
            settings = replace(settings, budget=median_high(prepared.budget or budget for prepared in studied))
        elif options.budget == AUTO_BUDGET:
            studied = with_advised_budgets(studied, tuned)
            settings = replace(settings, budget=advised.tokens)
        progress, trace = bar.stage("Replaying"), options.report is not None
        result = compare(studied, names, settings, setup.engine, trace=trace, progress=progress)
    if options.as_json:
        print_json(result.to_dict() | {"advised": asdict(advised)}, setup.gathered)
    else:
        recorded = recorded_budgets(setup.studied) if options.budget is None else []
        _print_replay(result, [*read_lines(setup.gathered, setup.studied), *_say_recorded(recorded)], advised)
    if options.report is not None:
        from wane.lab.report import write_report

        # Last, so that a full disk does not cost the user the table.
        write_report(options.report, result, contents=not options.redact)
    return failure.OK


def _print_replay(result: Comparison, read: list[str], advised: AutoBudget) -> None:
    print_lines([PURPOSES["replay"], "", *read])
    print_lines([f"Budget {budgets_told(result.budget, result.studied)}, prices {price_source(result.studied)}", ""])
    baseline, baselines = result.totals(BASELINE), result.baselines()
    recorded = baselines.recorded
    rows = [[name_strategy(RECORDED), *_cells(recorded.row(baseline), REPLAYED, recorded.bounded)]]
    rows += [[name_strategy(name), *_cells(result.totals(name).to_dict(baseline), REPLAYED)] for name in result.names]
    print_figures(["strategy", *_titles(REPLAYED)], rows, _titles(_SPARE))
    print_lines(["", f"{capital(baselines.describe())}.", *_remarks(result, baseline)])
    if verdict := result.verdict():
        print_lines(["", f"{verdict}."], style="bold")
        ours = [result.totals(name) for name in result.names if name == OURS]
        print_lines(f"{in_view(totals)} {needs(totals)}" for totals in ours)
    if lines := tight_lines(result.tight, len(result.studied)):
        print_lines(["", *map(printable, lines)])
    print_lines(["", f"{capital(str(advised))}."])
    print_lines(["", f"{notes(REPLAYED)} {_OF_RECORDED} {picture.WORDS_HINT}"], style="dim")


def _say_recorded(budgets: Sequence[int]) -> Iterator[str]:
    """Yield that budgets are those that Wane worked with when the sessions were recorded; nothing of none."""
    if budgets:
        least, most = budgets[0], budgets[-1]
        which = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        yield f"Wane worked with {which} tokens when this was recorded, so that is compared; --budget names another."


def _titles(columns: Iterable[Column]) -> list[str]:
    return [column.title for column in columns]


def _cells(values: Mapping[str, Any], columns: Iterable[Column], bounded: Sequence[str] = ()) -> Iterator[str]:
    """Yield the cells of a row: a dash where a figure is missing, and a sign where it is only a lower bound."""
    for column in columns:
        value = values.get(column.key)
        if value is None:
            yield "-"
        elif column.name == "recall":
            yield range_of(value, values["recall_at_best"])
        else:
            bound = "≥" if column.key in bounded else ""
            yield f"{bound}{_FORMATS[column.unit](value)}"


_FORMATS: Final[Mapping[Unit, Callable[[float], str]]] = {
    "usd": dollars,
    "ratio": "{:.2f}".format,
    "tokens": round_tokens,
    "share": share,
    "count": "{:,}".format,
    "decimal": "{:.1f}".format,
    "ms": "{:.3f}".format,
}
_OF_RECORDED: Final = (
    "What was recorded has no share still in view to compare, because its model could only use what it saw; what was "
    "fetched again is in its cost."
)


def _remarks(result: Comparison, baseline: Totals) -> Iterator[str]:
    """Yield remarks on what the strategies did, and on what holds for all of them."""
    if len(result.names) > 1 and not baseline.over_budget:
        yield (
            "These sessions never fill the budget, so a strategy that waits for that changes nothing, and rows are "
            "alike; --budget tries a smaller one."
        )
    for name in result.names:
        totals = result.totals(name)
        if name != BASELINE and totals.over:
            filled = ", ".join(f"{reason} {number:,}" for reason, number in totals.over.most_common())
            over = f"{totals.over_budget:,} of {count_noun(totals.calls, 'call')}"
            yield f"{name_strategy(name)} was over the budget at {over}, filled by: {filled}."
        if totals.raised:
            calls = f"{totals.raised:,} of {count_noun(totals.calls, 'call')}"
            yield (
                f"{name_strategy(name)} worked with up to {totals.budget_used:,} tokens at {calls}, as the budget left "
                f"too little room for the work, and was over that at {totals.over_used:,}. The others were held to the "
                "budget; --min-room 0 holds it to that, too."
            )
        if totals.own_calls:
            calls = count_noun(totals.own_calls, "time")
            yield (
                f"{name_strategy(name)} called the model {calls} for summaries, for "
                f"{dollars(totals.own_cost.total)} of its cost. What they would have said is unknown, so what stayed "
                "in view is a range: from summaries that hold nothing useful to the best that fit."
            )
        if totals.loss.invalid_pairs:
            times = f"{count_noun(totals.loss.invalid_pairs, 'time')} over all requests"
            yield f"{name_strategy(name)} separated calls from their results, {times}; providers refuse such requests."
    yield (
        f"The floor is {dollars(baseline.floor)}: no strategy that keeps the user's turns can cost less, because new "
        "input, output, the system prompt and the user's turns are always paid for."
    )


SWEPT_COLUMNS: Final = columns_of(
    "cost", "again", "total", "ratio", "of last", "fetches", "view", "recall", "grounding"
)
"""The columns of a sweep in the terminal."""

_SPARE_OF_SWEEP: Final = columns_of("of last", "fetches", "view", "ratio", "again", "cost", "grounding")

_FRONTIER_NOTE: Final = "*: on the frontier: nothing cheaper keeps as much in view (of a range, the lower end counts)."


_SWEPT: Final = "30k..150k"


def run_sweep(options: SweepOptions) -> int:
    names = parse_strategies(options.strategy)
    swept = options.budgets or _SWEPT
    check_budgets(swept, options.steps)
    check_report(options.report)
    settings = StrategySettings(low_water=options.low_water)
    with Bar() as bar:
        setup = prepare(options.sessions, options.lab, settings, bar)
        progress = bar.stage("Replaying")
        budgets = parse_budgets(swept, options.steps, window=common_window(setup.studied))
        recorded: list[int] = []
        weighed: list[int] = []
        advised = None
        if options.budgets is None:
            # As `wane tune` has it, so that both recommend alike.
            advised, recorded = advised_for_all(setup.studied), recorded_budgets(setup.studied)
            weighed = [advised.tokens, *kept_budgets(setup.studied, budgets), *recorded]
        budgets = tuple(sorted({*budgets, *recorded}))
        result = sweep(setup.studied, names, budgets, settings, setup.engine, progress, advised, weighed)
    if options.as_json:
        print_json(result.to_dict(), setup.gathered)
    else:
        print_lines([PURPOSES["sweep"], "", *read_lines(setup.gathered, setup.studied), *_say_recorded(recorded)])
        _print_sweep(result)
    if options.report is not None:
        from wane.lab.report import write_sweep_report

        write_sweep_report(options.report, result)
    return failure.OK


def _print_sweep(result: Sweep) -> None:
    print_lines([f"Prices {price_source(result.studied)}", ""])
    best = result.frontier
    rows: list[list[str]] = []
    last = None
    for point in result.points:
        if last not in (None, point.strategy):
            rows.append([])
        name = "" if point.strategy == last else name_strategy(point.strategy)
        budget = "any" if point.budget is None else round_tokens(point.budget)
        if point.totals.raised:
            budget += f", {round_tokens(point.totals.budget_used)}"
        star = "*" if point in best else ""
        rows.append([name, budget, *_cells(result.figures(point), SWEPT_COLUMNS), star])
        last = point.strategy
    print_figures(["strategy", "budget", *_titles(SWEPT_COLUMNS), ""], rows, _titles(_SPARE_OF_SWEEP))
    console = plain_console()
    points = result.points
    marks = [
        PlottedPoint(name_strategy(point.strategy), point.totals.full_cost, point.recall, point in best)
        for point in points
    ]
    print_lines([""])
    axes = "cost with fetching again", "still in view"
    console.print(pareto_picture(marks, min(console.width, 100), *axes, dollars), soft_wrap=True)
    if any(point.totals.raised for point in points):
        print_lines(
            ["A second budget is the largest that Wane worked with, as the first left too little room."], style="dim"
        )
    if (chosen := result.recommended) is not None and chosen.budget is not None:
        print_lines(["", f"Recommended: a budget of {chosen.budget:,} tokens. {result.reason}"], style="bold")
    smallest = tight_sessions(result.studied, StrategySettings(budget=result.budgets[0]))
    if lines := tight_lines(smallest, len(result.studied)):
        print_lines(["", *map(printable, lines)])
    print_lines(["", f"{notes(SWEPT_COLUMNS)} {_FRONTIER_NOTE} {picture.WORDS_HINT}"], style="dim")

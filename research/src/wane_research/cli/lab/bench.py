"""`wane lab bench`: strategies on public recordings, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import platformdirs

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.lab.common import figure_table, print_lines, range_of, round_tokens
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, plain_console, printable, say, write_json
from wane.core.errors import ConfigError, MissingExtensionError, WaneError
from wane.lab.columns import Unit, notes
from wane.lab.processes import cores
from wane.lab.replaying.compare import parse_strategies
from wane.lab.sweep import parse_budgets
from wane.money import share
from wane_research.bench.results import (
    COLUMNS,
    Result,
    Row,
    at_view,
    changed_versions,
    differences,
    make_result,
    read_result,
)
from wane_research.bench.running import (
    BASELINE,
    PRICED,
    PRICES,
    Finished,
    cells_of,
    finished_path,
    prepare,
    run_cells,
    versions,
)
from wane_research.bench.sources import Source, check_recordings, load_sources, pick_sources, script, states
from wane_research.cli.lab.commands import BenchOptions

BUDGETS: Final = "60k,80k,120k"

_NAMED: Final = 20  # differences to name; the others are counted

_FORMATS: Final[Mapping[Unit, Callable[[float], str]]] = {
    "tokens": round_tokens,
    "ratio": "{:.3f}".format,
    "count": "{:,.0f}".format,
    "share": share,
}


def run_bench(options: BenchOptions) -> int:
    """Measure and print or write the result, or print the sources. Return the exit code."""
    return run_on(options, load_sources())


def run_on(options: BenchOptions, known: Sequence[Source]) -> int:
    """Do the same with other sources than the benchmark's own."""
    sources = pick_sources(known, options.source)
    if options.sources:
        return _print_sources(sources, options.folder, as_json=options.as_json)
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers is {options.workers}; it must be at least 1")
    if options.output and options.output.is_dir():
        raise UsageError(f"cannot write the result to {options.output}: it is a directory; name a file")
    if options.output and not options.author:
        raise UsageError('a result names its author: add --author "YOUR NAME"')
    expected = None if options.check is None else read_result(options.check)
    if expected is not None:
        sources = _sources_of(expected, known)
    names, budgets = _choose_settings(options, expected)
    check_recordings(sources, options.folder)
    result, finished = _measure(options, sources, names, budgets)
    if options.output:
        try:
            options.output.write_text(f"{json.dumps(result.to_dict(), indent=1)}\n", encoding="utf-8")
        except OSError as error:
            raise WaneError(f"cannot write the result to {options.output}: {error.strerror}") from error
    if options.as_json:
        write_json(result.to_dict())
    elif expected is None:
        _print_result(result, options.view)
    if expected is None:
        return failure.OK
    finished.clear()
    return _tell_check(expected, result)


def _choose_settings(options: BenchOptions, expected: Result | None) -> tuple[tuple[str, ...], tuple[int, ...]]:
    strategy, budgets = options.strategy, options.budgets
    if expected is None:
        try:
            names = parse_strategies(strategy or "all,peers")
        except MissingExtensionError as error:
            if strategy is not None:
                raise
            # That no peer is installed is an error only if the user asked for peers.
            say(str(error), error.command)
            names = parse_strategies("all")
        return names, parse_budgets(budgets or BUDGETS)
    names = parse_strategies(strategy or ",".join(expected.strategies) or BASELINE)
    chosen = parse_budgets(budgets) if budgets else expected.budgets
    rows = {(row.strategy, row.budget) for row in expected.rows}
    for name in names:
        if name != BASELINE and not any((name, budget) in rows for budget in chosen):
            raise ConfigError(f"{options.check} has no row of {name} at these budgets")
    return names, chosen


def _sources_of(expected: Result, sources: Sequence[Source]) -> tuple[Source, ...]:
    digests = {recording["sha256"]: recording["name"] for recording in expected.recordings}
    chosen = []
    for source in sources:
        own = {recording.sha256 for recording in source.recordings}
        if own <= digests.keys():
            chosen.append(source)
            digests = {digest: name for digest, name in digests.items() if digest not in own}
    if digests:
        raise ConfigError(f"the result has recordings that this version does not know: {', '.join(digests.values())}")
    return tuple(chosen)


def _measure(
    options: BenchOptions, sources: Sequence[Source], names: Sequence[str], budgets: Sequence[int]
) -> tuple[Result, Finished]:
    used = versions(names)
    folder = platformdirs.user_cache_path("wane", appauthor=False) / "bench"
    finished = Finished(finished_path(folder, check=options.check is not None))
    with Bar() as bar:
        subjects = prepare(sources, options.folder, bar.stage("Reading"))
        cells = cells_of(sources, names, budgets)
        before = sum(cell.key in finished.cells for cell in cells)
        if before:
            say(f"{before:,} of {count_noun(len(cells), 'cell')} are finished from an earlier run")
        figures = run_cells(subjects, cells, finished, options.workers or cores(), bar.stage("Measuring"))
    ordered = {cell: figures[cell] for cell in cells}
    result = make_result(sources, subjects, ordered, used, options.author, f"{datetime.now(UTC):%Y-%m-%d}")
    return result, finished


def _print_sources(sources: Sequence[Source], folder: Path, *, as_json: bool) -> int:
    entries = list(states(sources, folder))
    if as_json:
        write_json([source.to_dict(recording, state) for source, recording, state in entries])
    else:
        print("\n".join(script(sources, folder)))
    complete = all(state == "present" for _, _, state in entries)
    return failure.OK if complete else failure.FAILED


def _print_result(result: Result, view: int) -> None:
    calls = sum(recording["calls"] for recording in result.recordings)
    tokens = sum(recording["tokens"] for recording in result.recordings)
    recordings = count_noun(len(result.recordings), "recording")
    read = f"{recordings}: {count_noun(calls, 'model call')}, {round_tokens(tokens)} tokens."
    print_lines([f"{read} Prices of {PRICES.name}, copied on {PRICED}."])
    best = result.frontier
    for budget in (None, *result.budgets):
        table = figure_table("strategy", *(column.name for column in COLUMNS), "")
        for row in result.rows:
            if row.budget == budget:
                table.add_row(row.strategy, *cells(row, result.values(row)), "*" if row in best else "")
        print_lines(["", "No budget" if budget is None else f"Budget {budget:,} tokens"], style="bold")
        plain_console().print(table)
    _print_at_view(result, view)
    print_lines(["", *_remarks(result)])
    print_lines(["", f"{notes(COLUMNS)} *: nothing cheaper recalls as much at any budget."], style="dim")


def cells(row: Row, values: Mapping[str, float]) -> Iterator[str]:
    for column in COLUMNS:
        if column.name == "recall":
            yield range_of(values["recall"], row.figures.recall_at_best)
        elif column.name == "evidence" and row.figures.in_view_at_best > row.figures.in_view:
            yield f"≥{share(values['evidence'])}"
        else:
            yield _FORMATS[column.unit](values[column.name])


def _print_at_view(result: Result, view: int) -> None:
    reached: dict[str, dict[str, float]] = {}
    apart: list[str] = []
    for name in result.strategies:
        values = at_view(result, name, view)
        if values is None:
            apart.append(name)
        else:
            reached[name] = values
    if not reached:
        return
    columns = [column for column in COLUMNS if column.name not in ("view", "lowest")]
    table = figure_table("strategy", *(column.name for column in columns))
    for name, values in sorted(reached.items(), key=lambda entry: -entry[1]["recall"]):
        table.add_row(name, *(_FORMATS[column.unit](values[column.name]) for column in columns))
    heading = f"At a mean view of {view:,} tokens, interpolated between two budgets; of a range, the lower end"
    print_lines(["", heading], style="bold")
    plain_console().print(table)
    if apart:
        print_lines([f"Not between two budgets: {', '.join(apart)}."])


def _remarks(result: Result) -> Iterator[str]:
    over = [row for row in result.rows if row.figures.over]
    if over:
        listed = ", ".join(f"{row.name} {row.figures.over:,}" for row in over)
        yield f"Requests over the budget, of {result.baseline.calls:,}: {listed}."
    if parted := [row for row in result.rows if row.figures.pairs]:
        listed = ", ".join(f"{row.name} {row.figures.pairs:,}" for row in parted)
        yield f"Calls separated from their results, which providers refuse, over all requests: {listed}."
    if any(row.figures.own_calls for row in result.rows):
        yield (
            "The text of summaries is unknown. So recall is a range, from summaries that hold nothing useful to the "
            "best of their length, and evidence is a lower bound (≥)."
        )


def _tell_check(expected: Result, result: Result) -> int:
    lines = list(differences(expected, result))
    if not lines:
        say(f"all figures of {count_noun(len(result.rows), 'row')} are those of {expected.author}, {expected.date}")
        return failure.OK
    print_lines(map(printable, lines[:_NAMED]))
    if len(lines) > _NAMED:
        print_lines([f"and {len(lines) - _NAMED:,} more"])
    changed = list(changed_versions(expected, result))
    print_lines(map(printable, changed or ["All versions are the same, so the figures should be too."]))
    return failure.FAILED

"""`wane lab closed-loop`: many tasks in one session of the real agent, with a scripted model."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.lab.common import figure_table, print_lines, round_tokens
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, plain_console, printable, say, write_json
from wane.core.errors import ConfigError
from wane.money import dollars
from wane.strategies.registry import traits
from wane_research.cli.lab.commands import ClosedLoopOptions

if TYPE_CHECKING:
    from wane_research.closed_loop.figures import Figures, TaskResult

_NAMED: Final = 5

NOTES: Final = (
    "lost: tasks that fail here but pass in sessions of their own. peak: the largest request. over: requests over the "
    "budget. again: files that were read again. cost: by the prices and cache rules of {model}, which was not called. "
    "memory: the agent process's peak."
)


def run_closed_loop(options: ClosedLoopOptions) -> int:
    from wane.scripted.witness import MODEL
    from wane_research.closed_loop.figures import NO_MODEL, LoopOptions, to_json
    from wane_research.closed_loop.play import loops, play_all

    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers is {options.workers}; it must be at least 1")
    common = LoopOptions(
        tasks=options.tasks,
        budget=options.budget,
        tokens=options.tokens,
        window=options.window,
        mark_tasks=options.mark_tasks,
        kill_every=options.kill_every,
        seed=options.seed,
        keep=options.keep,
    )
    chosen = loops(common, _strategies(options.strategy), isolated=options.isolated)
    say(NO_MODEL)
    with Bar() as bar:
        on_task = _counting(bar.stage("Doing tasks"), len(chosen) * options.tasks)
        runs = play_all(chosen, on_task, _tell, workers=options.workers or os.cpu_count() or 1)
    if options.as_json:
        write_json(to_json(runs, options.seed))
    else:
        _print(runs)
        print_lines(["", NOTES.format(model=MODEL), "", NO_MODEL], "dim")
    return failure.FAILED if list(problems(runs)) else failure.OK


def problems(runs: Sequence[Figures]) -> Iterator[str]:
    """Yield violations as sentences. A strategy without episodes cannot violate anything."""
    isolated = next((run for run in runs if run.options.isolated), None)
    for run in runs:
        if run.options.isolated or not traits(run.options.strategy).by_episode:
            continue
        lost = run.lost_against(isolated) if isolated else run.failed
        if lost:
            yield f"{run.name}: {count_noun(len(lost), 'task')} lost: {', '.join(map(str, lost))}"
        if run.tally.over_budget:
            yield f"{run.name}: {count_noun(run.tally.over_budget, 'request')} over the budget"
        if run.tally.turns_lost:
            requests = count_noun(run.tally.turns_lost, "request")
            yield f"{run.name}: {requests} without all of the user's turns unchanged"
        if not run.resumed_soundly:
            yield f"{run.name}: a resumed session did not continue with the same view"
        if not run.all_tests_pass:
            yield f"{run.name}: at the end, not all tests of the repository pass"


def _counting(progress: Callable[[int, int], None], total: int) -> Callable[[TaskResult], None]:
    """Return a callback that advances a bar at the end of each task, whatever its run."""
    done, lock = itertools.count(1), threading.Lock()

    def on_task(_: TaskResult) -> None:
        with lock:
            progress(next(done), total)

    return on_task


def _tell(figures: Figures) -> None:
    """Print the result of a run at once, as the others may take long."""
    passed = f"{len(figures.passed)} of {count_noun(len(figures.results), 'task')} passed"
    say(f"{figures.name}: {passed}, {figures.tally.input_tokens:,} input tokens, {figures.seconds:.0f} s")


def _strategies(names: str) -> list[str]:
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise ConfigError("--strategy names nothing; write for example --strategy cwl,truncate")
    return list(dict.fromkeys(chosen))


def _print(runs: Sequence[Figures]) -> None:
    isolated = next((run for run in runs if run.options.isolated), None)
    table = figure_table(
        "strategy", "passed", "lost", "calls", "input", "peak", "over", "again", "cost", "memory", "time"
    )
    for run in runs:
        lost = ""
        if isolated is not None and not run.options.isolated:
            lost = f"{len(run.lost_against(isolated))}"
        tally = run.tally
        passed = f"{len(run.passed)}/{len(run.results)}"
        wire = (
            f"{tally.model_calls:,}",
            round_tokens(tally.input_tokens),
            f"{tally.peak_view:,}",
            f"{tally.over_budget:,}",
        )
        memory = "?" if run.life.memory is None else f"{run.life.memory / 1e6:.0f} MB"
        end = (f"{tally.re_reads:,}", dollars(tally.cost.total), memory, f"{run.seconds:.0f} s")
        table.add_row(run.name, passed, lost, *wire, *end)
    plain_console().print(table)
    print_lines(_details(runs))


def _details(runs: Sequence[Figures]) -> Iterator[str]:
    for run in runs:
        failed = [result for result in run.results if not result.passed]
        for result in failed[:_NAMED]:
            yield f"{run.name}, task {result.number}: {printable(result.why)}"
        if len(failed) > _NAMED:
            yield f"{run.name}: {count_noun(len(failed) - _NAMED, 'more task')} failed; --json names all of them"
        if run.tally.refused:
            refused = count_noun(run.tally.refused, "request")
            yield f"{run.name}: {refused} over the model's window of {run.options.window:,} tokens"
        if run.remains is not None:
            yield f"{run.name}: {run.remains.describe()}"
        if run.resumptions:
            killed = sum(resumption.how != "closed" for resumption in run.resumptions)
            closed = len(run.resumptions) - killed
            times = f"killed {count_noun(killed, 'time')}, closed {count_noun(closed, 'time')}"
            view = "each time with the same view" if run.resumed_soundly else "not always with the same view"
            yield f"{run.name}: {times}, and resumed within {run.life.resume_seconds:.1f} s, {view}"
    yield from problems(runs)

"""Speed and memory of the core. Run with `make bench`; the README's figures come from here.

    python benchmarks/core.py                       all tables
    python benchmarks/core.py --against COMMIT      a turn, beside that of another commit in the same run

Every figure is measured in this one run, and times are processor time, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wane import ContextWindow, Item, Kind, Policy
from workload import never_ends, never_starts, session

BUDGET = 80_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TURNS = 300
INGESTED = 100_000  # messages
IMPORTS = 10
# Smallest steps, so that every measured turn has an eviction to do: no room is made for an index.
EVERY_TURN = Policy(low_water=1.0, description_share=0.2, index_share=0.0)

ROUNDS = 9  # of two commits in turn
COMPARED = 5_000  # messages
COMPARED_TURNS = 1_500
ADDED = "add an item"

Session = Callable[..., Iterator[list[Item]]]
AGENTS: dict[str, Session] = {
    "that ends what it starts": session,
    "that never ends its episode": never_ends,
    "that marks nothing": never_starts,
}


def fill_window(messages: int, policy: Policy, agent: Session = session) -> ContextWindow:
    """Return a window after a session, with a fit before every model call."""
    window = ContextWindow(BUDGET, policy)
    for items in agent(messages):
        if items[0].kind in (Kind.TEXT, Kind.CALL):
            window.fit()
        window.extend(items)
    return window


def exchanges(messages: Iterable[list[Item]]) -> Iterator[list[Item]]:
    """Yield each message of the model with everything before its next one."""
    items: list[Item] = []
    for message in messages:
        if message[0].kind in (Kind.TEXT, Kind.CALL):
            yield items
            items = []
        items += message


def evicting_turns(window: ContextWindow, agent: Session, turns: int = TURNS) -> list[float]:
    """Return the seconds of each of some further turns that evicted; the view is within the budget after each."""
    times: list[float] = []
    upcoming = exchanges(agent(sys.maxsize, first_episode=window.item_count))
    next(upcoming)  # the system prompt's, which this window has
    while len(times) < turns:
        items = next(upcoming)
        start = time.process_time()
        window.extend(items)
        report = window.fit()
        visible = window.visible
        elapsed = time.process_time() - start
        assert visible
        assert report.satisfied
        if report.steps:
            times.append(elapsed)
    return times


def turn_table() -> Table:
    table = Table(title=f"A turn that evicts, near a budget of {BUDGET:,} tokens: add an exchange, fit, list the view")
    table.add_column("an agent")
    for column in ("messages", "median", "p99", "median, ratio to smallest", "visible items"):
        table.add_column(column, justify="right")
    for name, agent in AGENTS.items():
        smallest = None
        for size in SIZES:
            window = fill_window(size, EVERY_TURN, agent)
            gc.collect()
            times = evicting_turns(window, agent)
            median, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
            smallest = smallest or median
            row = [name if size == SIZES[0] else "", f"{size:,}", f"{median * 1e6:,.0f} µs", f"{p99 * 1e6:,.0f} µs"]
            table.add_row(*row, f"{median / smallest:.2f}", f"{len(window.visible):,}")
    return table


def medians() -> dict[str, float]:
    """Return the median seconds of a turn that evicts, by agent, and the seconds of adding an item."""
    seconds: dict[str, float] = {}
    for name, agent in AGENTS.items():
        window = fill_window(COMPARED, EVERY_TURN, agent)
        gc.collect()
        seconds[f"a turn of one {name}"] = statistics.median(evicting_turns(window, agent, COMPARED_TURNS))
    seconds[ADDED] = add_only()
    return seconds


def against_table(commit: str) -> Table:
    """Compare with another commit, whose processes take turns with this one's."""
    repository = Path(__file__).parents[1]
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", repository, "archive", commit, "src"], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for _ in range(ROUNDS):
            theirs.append(_medians_of(Path(folder, "src")))
            ours.append(_medians_of(repository / "src"))
    table = Table(title=f"Processor time, beside {commit}: the median of {ROUNDS} rounds")
    for column in ("what", "here", "there", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name in ours[0]:
        here, there = [row[name] for row in ours], [row[name] for row in theirs]
        ratio = statistics.median(mine / other for mine, other in zip(here, there, strict=True))
        shown = [f"{statistics.median(times) * 1e6:.1f} µs" for times in (here, there)]
        table.add_row(name, *shown, f"{ratio:.2f}")
    return table


def _medians_of(source: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--medians"]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def add_only() -> float:
    """Return the seconds of adding one item of a session to a window without any pass."""
    items = [item for message in session(INGESTED) for item in message]
    start = time.process_time()
    ContextWindow(10**12).extend(items)
    return (time.process_time() - start) / len(items)


def ingest_table() -> Table:
    bare = 1 / add_only()
    start = time.process_time()
    window = fill_window(INGESTED, Policy())
    living = window.item_count / (time.process_time() - start)
    tracemalloc.start()
    window = fill_window(INGESTED, Policy())
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    rows = {
        "items a second, add only": f"{bare:,.0f}",
        "items a second, with a fit before every model call, and making the items": f"{living:,.0f}",
        "bytes that the window keeps for an item of the history": f"{kept / window.item_count:,.0f}",
    }
    return figures(f"Ingesting {window.item_count:,} items", rows)


def import_table() -> Table:
    bare = min(_python("pass") for _ in range(IMPORTS))
    ours = min(_python("from wane import ContextWindow") for _ in range(IMPORTS))
    name = "from wane import ContextWindow, on top of a bare interpreter"
    return figures("Import, in processor time", {name: f"{(ours - bare) * 1e3:.0f} ms"})


def figures(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(title=title)
    table.add_column("what")
    table.add_column("figure", justify="right")
    for name, figure in rows.items():
        table.add_row(name, figure)
    return table


def _python(code: str) -> float:
    before = _children()
    subprocess.run([sys.executable, "-c", code], check=True)
    return _children() - before


def _children() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="compare a turn with that of another commit")
    parser.add_argument("--medians", action="store_true", help="print a turn's seconds as JSON, and nothing else")
    arguments = parser.parse_args()
    console = Console()
    if arguments.medians:
        print(json.dumps(medians()))
    elif arguments.against:
        console.print(against_table(arguments.against))
    else:
        for make in (import_table, ingest_table, turn_table):
            console.print(make())


if __name__ == "__main__":
    main()

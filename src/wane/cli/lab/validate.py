"""`wane lab validate`: the simulated cache against recorded cache reads."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

from wane.cli import failure
from wane.cli.lab.common import figure_table, print_lines, rounded
from wane.cli.lab.reading import located
from wane.cli.terminal.console import stdout_console
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import counted, printable
from wane.lab.money import share
from wane.lab.replaying.gathering import Found, gather
from wane.lab.validation import Validation, validate

NOTES: Final = (
    "read: tokens that came from the cache, as recorded and as simulated. error: mean error of a call's read, as a "
    "share of its input; rest: the same without the calls that differ. within 5%: calls whose read is right to 5% of "
    "their input. differ: the others, for which the provider read nothing, the head (system prompt and tools), what an "
    "earlier request had sent, more than expected, or something else."
)


def run_validate(
    sessions: Sequence[str],
    format: str = "auto",  # noqa: A002 - the flag's word
    outliers: bool = False,
    as_json: bool = False,
) -> int:
    """Print how well the simulation matches recorded cache reads, and return the exit code.

    Raises:
        WaneError: for sessions that cannot be used.
    """
    done: list[Validation] = []
    with Bar() as bar:
        gathered = gather([located(name) for name in sessions], format, sidechains=True, progress=bar.stage("Reading"))
        silent = [it for it in gathered.found if not _reads(it)]
        spoken = [it for it in gathered.found if _reads(it)]
        told = bar.stage("Simulating")
        for number, it in enumerate(spoken):
            done.append(validate(it.session))
            told(number + 1, len(spoken))
    if not done:
        raise failure.InputError("no session recorded its cache reads, so there is nothing to compare with")
    if as_json:
        left_out = [{"name": it.session.name, "path": it.path} for it in silent]
        sys.stdout.write(f"{json.dumps({'sessions': [it.to_dict() for it in done], 'left_out': left_out})}\n")
        return failure.OK
    _print(done, outliers)
    if silent:
        print_lines([f"{counted(len(silent), 'session')} left out: they record no cache reads."])
    print_lines(["", NOTES], "dim")
    return failure.OK


def _print(done: Sequence[Validation], outliers: bool) -> None:
    table = figure_table("session", "calls", "read", "simulated", "error", "rest", "within 5%", "differ")
    for it in done:
        reads = (f"{len(it.rows):,}", rounded(it.recorded), rounded(it.simulated))
        errors = (f"{it.mean_share:.2%}", f"{it.mean_share_of_kept:.2%}", share(it.close))
        table.add_row(printable(it.name), *reads, *errors, f"{sum(it.outliers.values()):,}")
    stdout_console().print(table)
    recorded, simulated = sum(it.recorded for it in done), sum(it.simulated for it in done)
    calls = counted(sum(len(it.rows) for it in done), "call")
    differ: Counter[str] = sum((Counter(it.outliers) for it in done), Counter())
    instead = ", ".join(f"{what} {count:,}" for what, count in sorted(differ.items())) or "none"
    off = f" ({simulated / recorded - 1:+.1%})" if recorded else ""
    total = f"In all, {calls} that read {rounded(recorded)} tokens; simulated {rounded(simulated)}{off}."
    print_lines(["", total, f"Calls that differ, by what the provider read instead: {instead}."])
    for it in done if outliers else ():
        print_lines(["", printable(it.name)])
        print_lines(
            f"  call {row.call}: read {row.recorded:,} of {row.input:,}, not {row.simulated:,}: {row.outlier}"
            for row in it.rows
            if row.outlier
        )


def _reads(found: Found) -> bool:
    return any(call.usage and call.usage.cache_read for call in found.session.calls)

"""`wane lab annotations`: how well agents marked their own work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from wane.cli import failure
from wane.cli.lab.common import figure_table, print_lines, problem_lines, rounded
from wane.cli.lab.reading import located
from wane.cli.terminal.console import stdout_console
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import counted, printable
from wane.lab.annotations import Annotations, annotations_of
from wane.lab.counting import count
from wane.lab.money import share
from wane.lab.replaying.gathering import Found, gather

COLUMNS: Final = (
    "session",
    "marks",
    "refused",
    "episodes",
    "calls",
    "outside",
    "unlinked",
    "again",
    "held",
    "overflow",
)

NOTES: Final = (
    "marks: calls of delimiter; refused: those that were refused. episodes: that the agent marked. calls: mean tool "
    "calls of an episode. outside: share of the agent's work, in tokens, outside any episode. unlinked: of the acts "
    "that edit a file read in an exploration before, those that do not declare it. again: results fetched again after "
    "they had left the view. held: of the identifiers that later calls used and an exploration had shown first, those "
    "that its description holds. overflow: passes that had to take unfinished work."
)
"""The meaning of the columns."""


def run_annotations(
    sessions: Sequence[str],
    format: str = "auto",  # noqa: A002 - the flag's word
    sidechains: bool = False,
    as_json: bool = False,
) -> int:
    """Print how well agents marked their work, and return the exit code.

    Raises:
        WaneError: for sessions that cannot be used.
    """
    with Bar() as bar:
        paths = [located(name) for name in sessions]
        gathered = gather(paths, format, sidechains=sidechains, progress=bar.stage("Reading"))
        done: list[tuple[Found, Annotations]] = []
        told = bar.stage("Reading marks")
        for number, it in enumerate(gathered.found):
            done.append((it, annotations_of(count(it.session))))
            told(number + 1, len(gathered.found))
    if not done:
        raise failure.InputError("there is nothing to look at: no model was called in these sessions")
    total = sum((figures for _, figures in done), Annotations())
    if as_json:
        left_out = [{"path": it.path, "why": it.why} for it in gathered.unread]
        data = {"sessions": [_entry(*it) for it in done], "total": total.to_dict(), "unread": left_out}
        sys.stdout.write(f"{json.dumps(data)}\n")
        return failure.OK
    _print(done, total)
    if gathered.unread:
        print_lines([f"{counted(len(gathered.unread), 'file')} skipped: {gathered.unread[0].why}"])
    return failure.OK


def _entry(found: Found, figures: Annotations) -> dict[str, Any]:
    return {"name": found.session.name, "path": found.path, "parent": found.parent, **figures.to_dict()}


def _print(done: Sequence[tuple[Found, Annotations]], total: Annotations) -> None:
    print_lines(problem_lines(found.session for found, _ in done))
    table = figure_table(*COLUMNS)
    for found, figures in done:
        table.add_row(printable(found.session.name), *_cells(figures))
    if len(done) > 1:
        table.add_row("all", *_cells(total))
    stdout_console().print(table)
    print_lines(["", *_sentences(total)])
    print_lines(["", NOTES], "dim")


def _cells(it: Annotations) -> Iterator[str]:
    yield f"{it.marks:,}"
    yield f"{it.refused.total():,}"
    yield f"{it.episodes:,}"
    yield "-" if it.calls_per_episode is None else f"{it.calls_per_episode:.1f}"
    yield _share(it.outside_share)
    yield f"{it.acts_undeclared:,}/{it.acts_on_files:,}"
    yield f"{it.read_again:,}"
    yield _share(it.held_share)
    yield f"{it.overflows:,}"


def _sentences(it: Annotations) -> Iterator[str]:
    """The figures that have no column, as far as there is something to say."""
    if not it.marked:
        yield f"No episode was marked in {counted(it.sessions, 'session')}."
        return
    yield (
        f"{counted(it.explorations, 'exploration')} and {counted(it.acts, 'act')}, which declare "
        f"{counted(it.declared, 'exploration')}; {it.unended:,} without an end. The longest has "
        f"{counted(it.most_calls, 'tool call')}."
    )
    if it.refused:
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in it.refused.most_common())
        yield f"Refused marks: {kinds}."
    if it.descriptions_needed:
        yield (
            f"Of {counted(it.descriptions, 'description')}, {it.descriptions_needed:,} should hold something that was "
            f"used later, and {it.descriptions_holding:,} do: {it.held:,} of {counted(it.needed, 'identifier')}."
        )
    if it.read_again or it.recalls:
        again = f"{counted(it.read_again, 'result')}, in {counted(it.explorations_repeated, 'exploration')}"
        yield f"Fetched again: {again}. Calls of recall: {it.recalls:,}."
    if it.overflows:
        taken = f"{rounded(it.overflow_tokens)} tokens of it"
        yield f"Passes that had to take unfinished work: {it.overflows:,} of {it.passes:,}, {taken}."


def _share(value: float | None) -> str:
    return "-" if value is None else share(value)

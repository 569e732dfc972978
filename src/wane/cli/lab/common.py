"""What the lab's commands share: reading sessions, saying what was read, and formatting figures.

What only replays need is in `preparing`, which takes longer to import.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from rich.cells import cell_len
from rich.measure import Measurement
from rich.table import Table

from wane.cli.failure import UsageError
from wane.cli.lab.arguments import locate_session
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, first_few, plain_console, printable, say, write_json
from wane.core import Kind
from wane.lab.readers import Gathered, gather, shown_path
from wane.lab.readers.gathering import FileReader
from wane.lab.recorded_session import RecordedSession
from wane.money import share
from wane.prices import kept_prices

NAMED: Final = 5
"""Problems, files and sessions to name; the rest are counted."""

PAGE_SECONDS: Final = 24 * 3_600
"""How long a page is kept that nobody named a file for."""

SCRIPTED_MODEL: Final = "a script answered in the model's place, as in the demo"
"""Why a session cost nothing."""

UNPAID: Final = "nothing was paid, and costs are what these calls would have cost"
"""What that makes of its costs."""

COPIED: Final = "all of its calls count for another one"
"""Why a session that only repeats another one is left out."""


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return Wane's folder in the user's directory for what can be made again."""
    return Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "wane"


def page_for(name: str) -> Path:
    """Return where to write a page that nobody named a file for: in a folder that only the user can read.

    Pages that are older than a day are deleted, so that they do not pile up.
    """
    folder = cache_folder(os.environ, Path.home()) / "pages"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for page in folder.glob("*.html"):
            with suppress(FileNotFoundError):  # another process deletes them, too
                if page.stat().st_mtime < time.time() - PAGE_SECONDS:
                    page.unlink()
    except OSError as error:
        raise UsageError(
            f"no page can be written to {printable(str(folder))}: {error.strerror}; give --output"
        ) from None
    return folder / f"{name}.html"


def keep_prices() -> None:
    """Take the prices of models from the user's directory for what can be made again, and keep them there."""
    kept_prices.use(cache_folder(os.environ, Path.home()) / "prices.json")


class Readable(Protocol):
    """Options of a command that reads sessions."""

    @property
    def format(self) -> str: ...
    @property
    def max_unpacked(self) -> int: ...


def gathered_from(
    names: Sequence[str],
    options: Readable,
    bar: Bar,
    *,
    sidechains: bool,
    joined: bool = False,
    reader: FileReader | None = None,
) -> Gathered:
    """Read the sessions that a command line names, and say which ones it names repeatedly; see `gather`."""
    keep_prices()
    paths, progress = [locate_session(name) for name in names], bar.stage("Reading")
    gathered = gather(
        paths,
        options.format,
        sidechains=sidechains,
        joined=joined,
        max_unpacked=options.max_unpacked,
        progress=progress,
        reader=reader,
    )
    if gathered.repeated:
        verb = "is" if len(gathered.repeated) == 1 else "are"
        files = first_few([shown_path(path) for path in gathered.repeated], NAMED)
        say(f"{count_noun(len(gathered.repeated), 'file')} {verb} named more than once, and read once: {files}")
    return gathered


def print_json(data: dict[str, Any], gathered: Gathered) -> None:
    """Print a result as JSON, with what was left out of it."""
    data["left_out"] = [
        {"name": entry.session.name, "path": entry.path, "why": why_idle(entry.session)} for entry in gathered.idle
    ]
    data["unread"] = [{"path": file.path, "why": file.why} for file in gathered.unread]
    write_json(data)


def why_idle(session: RecordedSession) -> str:
    """Return why a session was left out."""
    if session.calls and not session.own_calls:
        return COPIED
    return "no answer" if session.calls else "no model call"


def held_by_kind(items: Iterable[tuple[Kind, int]], overhead: int = 0) -> str:
    """Return the tokens of items and how many of them are notices, as text; an item is a kind and its tokens."""
    total = notices = 0
    for kind, tokens in items:
        total += tokens
        if kind is Kind.NOTICE:
            notices += tokens
    text = f"{round_tokens(total)} {'token' if total == 1 else 'tokens'}"
    if notices:
        text += f" ({round_tokens(notices)} of them notices)"
    if overhead:
        text += f" and {round_tokens(overhead)} of system prompt and tools"
    return text


def problem_lines(sessions: Iterable[RecordedSession]) -> list[str]:
    """Return lines on what could not be read in some sessions: how much, and where the first problems are."""
    problems = []
    for session in sessions:
        for problem in session.problems:
            line = "" if problem.line is None else f", line {problem.line}"
            problems.append(f"{session.name}{line}: {problem.what}")
    return named_lines("could not be read and left out", count_noun(len(problems), "thing"), problems)


def round_tokens(tokens: float) -> str:
    """Return tokens as people would say them: 940, 66k, 2.6M."""
    if tokens < 1000:
        return f"{tokens:.0f}"
    if tokens < 999_500:
        return f"{tokens / 1000:.0f}k"
    return f"{tokens / 1e6:.1f}M"


def range_of(low: float, high: float) -> str:
    """Return a share in percent, as a range if its bounds differ."""
    if share(low) == share(high):
        return share(low)
    return f"{share(low).removesuffix('%')}-{share(high)}"


def figure_table(*columns: str) -> Table:
    """Return an empty, narrow table of figures with these column heads; the first column has names."""
    heads = ["\n".join(textwrap.wrap(column, _HEAD)) for column in columns[1:]]
    table = plain_table(f"*{columns[0]}", *(f">{head}" for head in heads))
    table.padding = (0, 1, 0, 0)
    table.columns[0].min_width = _NAME
    for column in table.columns:
        column.vertical = "bottom"
    return table


def print_figures(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = (), width: int | None = None
) -> None:
    """Print a table of figures, none of them cut: columns that a terminal has no room for are left out, and named.

    Where there is still no room, the names in the first column take several lines.

    Args:
        columns: the heads.
        rows: the cells of each row; a row without cells is an empty line.
        spare: the columns that may be left out, the first of them first.
        width: characters of a line; None for those of the terminal. Pipes and files have no limit.
    """
    console = plain_console()
    if width is None and (console.is_terminal or os.environ.get("COLUMNS")):
        width = console.width
    left_out: list[str] = []
    waiting = list(spare)
    while True:
        table = figure_table(*(column for column in columns if column not in left_out))
        for row in rows:
            cells = [cell for column, cell in zip(columns, row, strict=False) if column not in left_out]
            table.add_row(*cells)
        needed = Measurement.get(console, console.options.update(max_width=_UNLIMITED), table).maximum
        if width is None or needed <= width or not waiting:
            break
        left_out.append(waiting.pop(0))
    if width is not None and needed > width:
        names = [row[0] for row in rows if row]
        longest = max([_NAME, *map(cell_len, names)])
        longest_word = max([_NAME, *map(cell_len, " ".join(names).split())])
        needed = max(width, needed - longest + longest_word)
    plain_console(width=max(needed, 1)).print(table)
    if left_out:
        headings = ", ".join(column for column in columns if column in left_out)
        print_lines([f"No room for: {headings}. A wider terminal, a pipe and --json have them."], style="dim")


_NAME: Final = 11
"""Characters of the narrowest column of names."""

_HEAD: Final = 10
"""Characters of a line of a head; a longer head takes several."""

_UNLIMITED: Final = 10_000
"""More characters than any table has in a line."""


def print_lines(lines: Iterable[str], style: str = "") -> None:
    """Print paragraphs, filled to the width of the console."""
    console = plain_console()
    for line in lines:
        console.print(line, style=style)


def check_report(path: str | None) -> None:
    """Check that a report can be written, before any work is done for it."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"cannot write the report {path}: its directory does not exist")
    if Path(path).is_dir():
        raise UsageError(f"cannot write the report {path}: it is a directory; name a file")
    is_new = not Path(path).exists()
    try:
        Path(path).open("ab").close()
        if is_new:
            Path(path).unlink()
    except OSError as error:
        raise UsageError(f"cannot write the report {path}: {error.strerror or error}") from None


def named_lines(what: str, how_many: str, entries: Sequence[str], *, has_json: bool = True) -> list[str]:
    """Return a sentence with a number, and below it the first few entries; `has_json` if the command has `--json`."""
    if not entries:
        return []
    lines = [f"{how_many} {what}:"]
    lines += [f"  {printable(entry)}" for entry in entries[:NAMED]]
    if len(entries) > NAMED:
        lines.append(f"  and {len(entries) - NAMED:,} more{'; --json names all of them' if has_json else ''}")
    return lines

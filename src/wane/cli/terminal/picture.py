"""The picture of a context window and the tables beside it, as Rich renderables.

They show plain records, so that the dry run, a saved session, a running one and the demo share them. The tape shows a
window from left to right, with one letter for a share of its tokens. The letter tells the role, its case changes where
another episode begins, and colour only repeats what the letter says.

     before  SUUPPPRRRRRRRWWWWWWWWWWWwwwwwwwRRRRRWWWW  112,340 tokens
     stays   SUUPPP·····RR··························WWWW
     after   SUUPPPRRWWWW                              55,921 tokens
             ├────────────── budget 80,000 ───────────┤
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, is_unicode, printable
from wane.words import TYPES


class Role(StrEnum):
    """The roles of tokens in a window."""

    SYSTEM = "system"
    USER = "user"
    NOTICE = "notice"
    PROLOGUE = "prologue"
    EXPL = "expl"
    ACT = "act"
    TASK = "task"
    IMPLICIT = "implicit"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Band:
    """Neighbouring items of one role and one episode.

    Attributes:
        stays: whether they stay.
        episode: number of their episode; None outside episodes.
        new: whether the pass has put them there.
    """

    role: Role
    tokens: int
    stays: bool = True
    episode: int | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of a window.

    Attributes:
        level: how far it has been stripped (R9); empty if it is no episode.
        why: why it stays or leaves.
        note: a line of its own below the name.
    """

    role: Role
    name: str
    before: int
    after: int
    level: str = ""
    why: str = ""
    builds_on: tuple[str, ...] = ()
    note: str = ""
    depth: int = 0


class _Look(NamedTuple):
    letter: str
    meaning: str
    style: str


_LOOKS: Final = {
    Role.SYSTEM: _Look("S", "system", "black on white"),
    Role.USER: _Look("U", "user", "black on green"),
    Role.NOTICE: _Look("N", "notices", "white on red"),
    Role.PROLOGUE: _Look("P", "prologue", "black on cyan"),
    Role.EXPL: _Look("R", TYPES["expl"], "white on blue"),
    Role.ACT: _Look("W", TYPES["act"], "white on magenta"),
    Role.TASK: _Look("T", TYPES["task"], "black on bright_magenta"),
    Role.IMPLICIT: _Look("I", "unmarked", "black on yellow"),
    Role.INDEX: _Look("X", "index", "white on bright_black"),
}
_LABEL_WIDTH: Final = 9
_NARROWEST: Final = 10
_WHY_WIDTH: Final = 22
_NARROW_TABLE: Final = 56
# Up to this multiple of the window's size, the history is drawn on the window's scale.
_ONE_SCALE: Final = 3


@dataclass(frozen=True, slots=True)
class _Glyphs:
    gone: str
    left: str
    line: str
    right: str


_RowT = TypeVar("_RowT")

_UNICODE: Final = _Glyphs("·", "├", "─", "┤")
_ASCII: Final = _Glyphs(".", "|", "-", "|")


WORDS_HINT: Final = "What a word means: wane words, such as wane words level."
"""A line below tables."""

BEFORE_AFTER: Final = ("before", "after")
"""Labels for the two sides of a pass."""


def add_title(title: str, body: RenderableType) -> RenderableType:
    """Return a renderable under a heading, followed by an empty line."""
    return Group(Text(title, style="bold"), body, Text())


def elide_rows(rows: Sequence[_RowT], limit: int | None) -> Iterator[_RowT | int]:
    """Yield rows, with a number in place of those left out in the middle."""
    if limit is None or len(rows) <= limit:
        yield from rows
        return
    # The end is where the session is now, so more of it is shown.
    head = limit // 3
    yield from rows[:head]
    yield len(rows) - limit
    yield from rows[len(rows) - (limit - head) :]


@dataclass(frozen=True, slots=True)
class EpisodeTable:
    """The table of a window; a narrow terminal gets no levels and reasons.

    Attributes:
        limit: maximum number of rows; rows in the middle are left out and counted. None shows all.
        labels: heads of the columns for the whole of a row and for what stays of it.
    """

    rows: Sequence[Row]
    limit: int | None = None
    labels: tuple[str, str] = BEFORE_AFTER

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = ["", "*episode", f">{self.labels[0]}", f">{self.labels[1]}"]
        wide = options.max_width >= _NARROW_TABLE
        if wide:
            columns += ["level", "*why"]
        table = plain_table(*columns)
        if wide:
            # The names and their notes get the room.
            table.columns[-1].max_width = _WHY_WIDTH
        for row in elide_rows(self.rows, self.limit):
            if isinstance(row, int):
                table.add_row("", Text(f"({row:,} more)", style="dim"))
            else:
                table.add_row(*_row_cells(row)[: len(table.columns)])
        yield table


@dataclass(frozen=True, slots=True)
class WindowPicture:
    """A picture of a window before and after a pass, against its budget.

    Attributes:
        blocks: the window's blocks before the pass, in order, and whether each stays.
        labels: names of the whole window and of what stays of it, with at most seven letters.
    """

    blocks: Sequence[Band]
    budget: int
    labels: tuple[str, str] = BEFORE_AFTER

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = _UNICODE if is_unicode(options.encoding) else _ASCII
        earlier = [block for block in self.blocks if not block.new]
        before = sum(block.tokens for block in earlier)
        visible = [block for block in self.blocks if block.stays]
        after = sum(block.tokens for block in visible)
        total_width = len(f" {before:,} tokens")
        tape = max(_NARROWEST, options.max_width - _LABEL_WIDTH - total_width)
        cases = _cases(self.blocks)
        scale = max(after, self.budget)
        # One scale for all, unless the history is so much larger that the view would be a few cells.
        shared = before <= _ONE_SCALE * scale
        if shared:
            scale = max(before, scale)
        if before != after:
            cells = _cells(earlier, tape, scale if shared else before)
            yield _line(self.labels[0], _letters(cells, cases), before, tape)
            yield _line("stays", _letters(cells, cases, glyphs.gone), None, tape)
            if not shared:
                yield _line("", Text("(above on a scale of its own)", style="dim"), None, tape)
        label = self.labels[1] if before != after else "window"
        style = "bold red" if after > self.budget else ""
        yield _line(label, _letters(_cells(visible, tape, scale), cases), after, tape, style)
        yield _ruler(self.budget, scale, tape, glyphs)
        yield _legend(self.blocks, glyphs)


def _row_cells(row: Row) -> list[RenderableType]:
    look, style = _LOOKS[row.role], "" if row.after else "dim"
    notes = []
    if row.builds_on:
        notes.append(f"on {', '.join(row.builds_on)}")
    if row.note:
        notes.append(row.note)
    lines = [Padding(Text(printable(row.name), style=style), (0, 0, 0, 2 * row.depth))]
    lines += [Padding(Text(printable(note), style="dim"), (0, 0, 0, 2 * row.depth + 2)) for note in notes]
    return [
        Text(look.letter, style=look.style),
        Group(*lines),
        f"{row.before:,}",
        Text(f"{row.after:,}", style=style),
        row.level,
        printable(row.why),
    ]


def _cases(blocks: Iterable[Band]) -> dict[int, bool]:
    """Return whether each episode's letter is upper case: it alternates among the episodes of a role."""
    numbers: dict[Role, set[int]] = {}
    for block in blocks:
        if block.episode is not None:
            numbers.setdefault(block.role, set()).add(block.episode)
    upper: dict[int, bool] = {}
    for episodes in numbers.values():
        for index, number in enumerate(sorted(episodes)):
            upper[number] = index % 2 == 0
    return upper


def _cells(blocks: Sequence[Band], width: int, scale: int) -> list[Band]:
    """Return the block with the largest share of each cell, on a tape where `scale` tokens take `width` cells."""
    total = sum(block.tokens for block in blocks)
    if not total:
        return []
    # In units in which a cell is `total` wide and a token `count`, all numbers are whole.
    count = max(1, round(total * width / scale))
    best: list[tuple[int, Band]] = [(0, blocks[0])] * count
    stop = 0
    for block in blocks:
        start, stop = stop, stop + block.tokens * count
        for cell in range(start // total, -(-stop // total)):
            share = min(stop, (cell + 1) * total) - max(start, cell * total)
            if share > best[cell][0]:
                best[cell] = (share, block)
    return [block for _, block in best]


def _letters(cells: Iterable[Band], cases: Mapping[int, bool], gone: str | None = None) -> Text:
    """Return the tape of some cells; with `gone`, cells that do not stay are drawn with it."""
    text = Text()
    for block in cells:
        if gone is not None and not block.stays:
            text.append(gone, style="dim")
            continue
        look = _LOOKS[block.role]
        upper = block.episode is None or cases[block.episode]
        text.append(look.letter if upper else look.letter.lower(), style=look.style)
    return text


def _line(label: str, tape: Text, tokens: int | None, width: int, style: str = "") -> Text:
    line = Text.assemble((f" {label:<{_LABEL_WIDTH - 1}}", "" if tokens is None else "bold"), tape)
    if tokens is not None:
        line.append(f"{'':{width - len(tape)}} ")
        line.append(count_noun(tokens, "token"), style=style)
    return line


def _ruler(budget: int, scale: int, width: int, glyphs: _Glyphs) -> Text:
    inside = max(2, round(budget * width / scale)) - 2
    label = f" budget {budget:,} "
    if len(label) <= inside:
        line = f"{glyphs.left}{label.center(inside, glyphs.line)}{glyphs.right}"
    else:
        line = f"{glyphs.left}{glyphs.line * inside}{glyphs.right}{label.rstrip()}"
    return Text(f"{'':{_LABEL_WIDTH}}{line}", style="dim")


def _legend(blocks: Sequence[Band], glyphs: _Glyphs) -> Text:
    present = {block.role for block in blocks if block.tokens}
    legend = Text(" " * _LABEL_WIDTH)
    for role, look in _LOOKS.items():
        if role in present:
            legend.append(look.letter, style=look.style)
            legend.append(f" {look.meaning}  ")
    if not all(block.stays for block in blocks):
        legend.append(f"{glyphs.gone} evicted")
    legend.rstrip()
    return legend

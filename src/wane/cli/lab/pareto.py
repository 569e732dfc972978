"""A plot in letters: what each strategy costs and keeps at each budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

HEIGHT: Final = 14
_MARGIN: Final = 8  # columns left of the plot, for the axis
_WIDE: Final = 5.0  # from this ratio of the largest to the smallest cost, the cost axis is logarithmic


@dataclass(frozen=True, slots=True)
class PlottedPoint:
    """A point of a series. All points of a series share a letter: a capital for those on the frontier."""

    name: str
    cost: float
    value: float
    best: bool


def pareto_picture(
    marks: Sequence[PlottedPoint], width: int, cost_label: str, value_label: str, money: Callable[[float], str]
) -> Text:
    """Return the plot with a legend; empty if no mark has a cost.

    If two marks have the same position, the one on the frontier is drawn, or else the earlier one.
    """
    visible = [mark for mark in marks if mark.cost > 0]
    if not visible:
        return Text()
    letters = letters_for(mark.name for mark in marks)
    columns = max(20, width - _MARGIN)
    cheapest, dearest = min(mark.cost for mark in visible), max(mark.cost for mark in visible)
    logarithmic = dearest >= _WIDE * cheapest

    def on_axis(cost: float) -> float:
        return math.log(cost) if logarithmic else cost

    across = _Scale([on_axis(mark.cost) for mark in visible], columns)
    up = _Scale([mark.value for mark in visible], HEIGHT)
    rows: dict[int, dict[int, PlottedPoint]] = {}
    for mark in sorted(visible, key=lambda mark: not mark.best):
        rows.setdefault(up.position(mark.value), {}).setdefault(across.position(on_axis(mark.cost)), mark)
    picture = Text(f"{value_label}\n", style="")
    for row in reversed(range(HEIGHT)):
        edge = f"{100 * up.value(row):.1f}%" if row in (0, HEIGHT - 1) else ""
        picture.append(f"{edge:>{_MARGIN - 2}} |", "dim")
        end = 0
        for column, mark in sorted(rows.get(row, {}).items()):
            picture.append(" " * (column - end))
            letter = letters[mark.name]
            if mark.best:
                picture.append(letter, "bold")
            else:
                picture.append(letter.lower(), "dim")
            end = column + 1
        picture.append("\n")
    low, high = money(cheapest), money(dearest)
    picture.append(f"{'':{_MARGIN - 1}}+{'-' * (columns - 1)}\n", "dim")
    label = f"{cost_label}, logarithmic" if logarithmic else cost_label
    picture.append(f"{'':{_MARGIN}}{low}{label:^{max(0, columns - len(low) - len(high))}}{high}\n", "dim")
    entries = [*(f"{letter} {name}" for name, letter in letters.items()), "capitals: on the frontier"]
    picture.append("\n".join(_pack_entries(entries, width)))
    return picture


def letters_for(names: Iterable[str]) -> dict[str, str]:
    """Return a letter for each name, one from the name if it is free."""
    letters: dict[str, str] = {}
    for name in names:
        if name not in letters:
            usable = [*(c for c in name.upper() if c.isascii() and c.isalpha()), *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "?"]
            letters[name] = next((c for c in usable if c not in letters.values()), "?")
    return letters


class _Scale:
    """Maps values to positions from 0 to `size` - 1."""

    def __init__(self, values: Sequence[float], size: int) -> None:
        self._low = min(values)
        self._high = max(values)
        self._size = size

    def position(self, value: float) -> int:
        span = self._high - self._low
        return round((value - self._low) / span * (self._size - 1)) if span > 0 else 0

    def value(self, position: int) -> float:
        return self._low + (self._high - self._low) * position / (self._size - 1)


def _pack_entries(entries: Iterable[str], width: int) -> list[str]:
    """Return lines with as many whole entries as fit."""
    lines: list[str] = []
    for entry in entries:
        if lines and len(lines[-1]) + 3 + len(entry) <= width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(entry)
    return lines

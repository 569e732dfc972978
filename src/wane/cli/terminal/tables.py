"""Tables without lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import JustifyMethod


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines.

    Args:
        columns: their heads; a leading `>` aligns a column to the right, a `*` lets it wrap.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for column in columns:
        side: JustifyMethod = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip("*>"), overflow="fold", justify=side, no_wrap=not column.startswith("*"))
    return table

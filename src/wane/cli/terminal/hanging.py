"""Lines that go on under their own words where a narrow terminal breaks them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

# Spaces, and a mark or the first cell of a row: `  └ `, `    +    `, `  y  `.
_HEAD: Final = re.compile(r" *(?:[^\w\s] +|\S+ {2,})?")
_WIDEST: Final = 3  # the head takes no more than one in so many columns


def hanging(renderable: RenderableType) -> RenderableType:
    """Return a text as a `HangingText`, and anything else unchanged."""
    return HangingText(renderable) if isinstance(renderable, Text) else renderable


class HangingText:
    """A text whose broken lines go on under the first word after its mark."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split("\n", allow_blank=True):
            line.expand_tabs()
            if line.cell_len <= options.max_width:
                yield line
                continue
            head = _HEAD.match(line.plain)
            length = head.end() if head and head.end() <= options.max_width // _WIDEST else 0
            first, rest = line.divide([length])
            for broken in rest.wrap(console, options.max_width - length):
                broken.rstrip()
                yield first + broken
                first = Text(" " * length)

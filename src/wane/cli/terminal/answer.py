"""A model's answer as Markdown, block by block, as it arrives; and lines that wrap with a hanging indent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.text import Text

from wane.cli.terminal.text import printable

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment

_ENDED_BY_A_GAP: Final = frozenset({"paragraph_open", "heading_open", "fence", "hr", "table_open"})
"""Blocks that nothing can be added to once a line follows them; a list may go on after a blank line."""


class AnswerStream:
    """Takes a text in pieces, and gives back whole blocks."""

    def __init__(self) -> None:
        self.rest = ""
        self._first = True

    def feed(self, text: str) -> list[RenderableType]:
        """Take more text, and return the blocks that are finished."""
        self.rest += text
        if "\n" not in text:
            return []
        *complete, self.rest = _split(self.rest)
        return [renderable for block in complete for renderable in self._blocks(block)]

    def end(self) -> list[RenderableType]:
        """Return what is left, as a block; the next text begins another answer."""
        blocks = [*self.feed("\n"), *self._blocks(self.rest)]
        self.rest, self._first = "", True
        return blocks

    def _blocks(self, text: str) -> list[RenderableType]:
        if not text.strip():
            return []
        gap: list[RenderableType] = [] if self._first else [""]
        self._first = False
        return [*gap, AnswerText(text.strip("\n"))]


class AnswerText:
    """Markdown for a terminal: line breaks as they were written, code in colour, nothing after the end of a line."""

    def __init__(self, text: str) -> None:
        # A terminal would obey control characters.
        self.text = printable(text, keep="\n\t")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        from wane.cli.terminal.markdown import markdown

        lines = [_strip_end(line) for line in console.render_lines(markdown(self.text), options, pad=False)]
        while lines and not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines):
            if any(lines[: number + 1]):
                yield from line
                yield Segment.line()


def _strip_end(line: list[Segment]) -> list[Segment]:
    """Return a line without the spaces at its end."""
    segments = list(line)
    while segments and not segments[-1].text.strip():
        segments.pop()
    if segments:
        segments[-1] = segments[-1]._replace(text=segments[-1].text.rstrip())
    return segments


def _split(text: str) -> list[str]:
    """Return the blocks of a text, and last the one that more text may still change."""
    from markdown_it import MarkdownIt

    lines = text.rpartition("\n")[0].split("\n")
    tokens: list[Token] = MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    blocks = [(token, token.map) for token in tokens if token.map and token.level == 0 and token.nesting >= 0]
    if not blocks:
        return [text]
    last, (first_line, end_line) = blocks[-1]
    ended = last.type in _ENDED_BY_A_GAP and end_line < len(lines)
    if last.type == "fence":
        ended = end_line > first_line + 1 and lines[end_line - 1].strip().startswith(last.markup)
    starts = [start for _, (start, _) in blocks[1:]]
    if ended:
        starts.append(len(lines))
    parts: list[str] = []
    position = 0
    for start in starts:
        parts.append("".join(f"{line}\n" for line in lines[position:start]))
        position = start
    return [*parts, text[len("".join(parts)) :]]


# Spaces, and a mark or the first cell of a row: `  └ `, `    +    `, `  y  `.
_HEAD: Final = re.compile(r" *(?:[^\w\s] +|\S+ {2,})?")
_WIDEST: Final = 3  # the head takes at most this part of the columns: a third


def hanging(renderable: RenderableType) -> RenderableType:
    """Return a text as a `HangingText`, and anything else unchanged."""
    return HangingText(renderable) if isinstance(renderable, Text) else renderable


class HangingText:
    """A text whose wrapped lines continue under the first word after its mark."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split("\n", allow_blank=True):
            line.expand_tabs()
            if line.cell_len <= options.max_width:
                yield line
                continue
            head = _HEAD.match(line.plain)
            indent = head.end() if head else 0
            if indent > options.max_width // _WIDEST:
                indent = 0
            first, words = line.divide([indent])
            for wrapped in words.wrap(console, options.max_width - indent):
                wrapped.rstrip()
                yield first + wrapped
                first = Text(" " * indent)

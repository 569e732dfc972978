"""Draw the pictures of docs/concepts.md, and the figures of README.md.

python scripts/pictures.py [--check] docs/images
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from generated import write_or_check

# A picture has its own background, so that it can be read on a light and a dark page.
_STYLE: Final = """
  svg { font: 14px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .ground { fill: #fbfaf8; stroke: #d9d5cd } .word { fill: #2a2a2a } .note { fill: #66625a; font-size: 12.5px }
  .user { fill: #3f6fb5 } .reasoning { fill: #b9b3a7 } .bulk { fill: #d99a3c } .artifact { fill: #5a9a6e }
  .mark { fill: #8a5fb0 } .gone { fill: none; stroke: #b9b3a7; stroke-dasharray: 3 3 }
  .in { fill: #fff; font-size: 12px }
  .expl { fill: #34808f } .act { fill: #b0573a }
  .line { stroke: #66625a; fill: none; stroke-width: 1.5 } .tip { fill: #66625a } .bar { fill: #c9c4b8 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1e2026; stroke: #3a3d46 } .word { fill: #e6e4df } .note { fill: #a5a29a }
    .reasoning { fill: #6b6e78 } .gone { stroke: #6b6e78 } .line { stroke: #a5a29a } .tip { fill: #a5a29a }
    .bar { fill: #4a4d57 }
  }
"""

_KINDS: Final = {"u": "user", "r": "reasoning", "b": "bulk", "a": "artifact", "m": "mark", ".": "gone"}
_WORDS: Final = (
    ("u", "user"),
    ("r", "reasoning"),
    ("b", "bulk: searches"),
    ("a", "artifacts: reads, runs"),
    ("m", "delimiter"),
)


def text(x: float, y: float, words: str, kind: str = "word", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def block(x: float, y: float, width: float, kind: str, height: float = 26) -> str:
    """Return a piece of the context."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>'


def arrow(path: str) -> str:
    """Return an arrow along a path."""
    return f'<path class="line" marker-end="url(#tip)" d="{path}"/>'


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a complete SVG picture."""
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    size = f'width="{width}" height="{height}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        f'<defs>{tip}<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    )
    return "\n".join((*head, *parts, "</svg>", ""))


def legend(y: float) -> Iterator[str]:
    """Yield the legend of the colours."""
    x = 24.0
    for key, words in _WORDS:
        yield block(x, y - 10, 12, _KINDS[key], 12)
        yield text(x + 18, y, words, "note")
        x += 38 + 6.4 * len(words)


# A session: an exploration, an act that builds on it, another exploration, and an unfinished act.
_SESSION: Final = (
    ("", "u"),
    ("find-bug", "mrbabrm"),
    ("fix-bug", "mrabam"),
    ("", "u"),
    ("map-api", "mbrabam"),
    ("add-flag", "mraa"),
)
# The same after a pass, which removed `fix-bug` and then `find-bug` up to its end.
_AFTER: Final = ("u", "......m", "......", "u", "mbrabam", "mraa")


def window() -> str:
    """Draw a history and its view."""
    parts = [text(24, 42, "history"), text(24, 128, "view"), *legend(208)]
    x, size = 96.0, 19.0
    for (name, items), after in zip(_SESSION, _AFTER, strict=True):
        for index, (item, remaining) in enumerate(zip(items, after, strict=True)):
            at = x + index * size
            parts.append(block(at, 24, size - 3, _KINDS[item]))
            parts.append(block(at, 110, size - 3, _KINDS[remaining]))
        middle = x + len(items) * size / 2 - 1.5
        if name:
            parts.append(text(middle, 72, name, "note", "middle"))
        x += len(items) * size + 10
    parts.append(arrow("M96 84 H660"))
    parts.append(text(668, 88, "time", "note"))
    parts.append(
        text(96, 162, "fix-bug has left, and find-bug but for its description; what the person said stays", "note")
    )
    parts.append(text(96, 180, "nothing is rewritten: the view is the history with holes", "note"))
    return picture(760, 228, "The history, and the view as a filter of it", parts)


_LEVELS: Final = (
    ("as it happened", "mrbbaarabm", 100),
    ("1  reasoning", "m.bbaa.abm", 84),
    ("2  bulk", "m...aa.a.m", 52),
    ("3  artifacts", "m........m", 9),
    ("4  removed", ".........m", 6),
)


def levels() -> str:
    """Draw an exploration that is stripped level by level."""
    parts = [*legend(250), text(560, 30, "tokens it holds", "note")]
    for row, (name, items, share) in enumerate(_LEVELS):
        y = 42 + row * 36
        parts.append(text(24, y + 18, name))
        for index, item in enumerate(items):
            parts.append(block(150 + index * 38, y, 34, _KINDS[item]))
        parts.append(block(560, y + 6, share * 1.7, "bar", 14))
    parts.append(text(509, 30, "its end", "note", "middle"))
    return picture(760, 270, "An exploration is stripped level by level; its description stays", parts)


def graph() -> str:
    """Draw episodes and their dependencies."""
    boxes = (
        (30, 40, "read-docs", "expl", "1", "expl"),
        (30, 120, "find-bug", "expl", "3", "expl"),
        (300, 120, "fix-bug", "act", "2", "act"),
        (300, 40, "map-api", "expl", "-", "expl"),
        (560, 80, "add-flag", "act, open", "-", "act"),
    )
    parts = []
    for x, y, name, type_, order, kind in boxes:
        parts += [block(x, y, 150, kind, 46), text(x + 12, y + 20, name, "in"), text(x + 12, y + 36, type_, "in")]
        parts += [text(x + 138, y + 29, order, "in", "end")]
    parts += [arrow("M300 143 H184"), text(242, 136, "builds on", "note", "middle")]
    parts += [arrow("M560 98 H500 L454 68"), text(507, 60, "builds on", "note", "middle")]
    parts += [
        text(
            30,
            204,
            "The number is the order in which they leave. find-bug waits for fix-bug, which was built on it;",
            "note",
        ),
        text(30, 222, "map-api stays as long as add-flag, which is not finished.", "note"),
    ]
    return picture(760, 246, "An exploration does not leave before the acts that build on it", parts)


# From the table in README.md: strategy, peak view in 1,000 tokens, turns of the user lost, files read again.
_DEMO: Final = (
    ("Wane", 18.0, 0, 4),
    ("truncate", 18.0, 7, 14),
    ("compact", 17.4, 8, 13),
    ("none", 47.8, 0, 0),
)
_MEASURES: Final = (
    ("largest request, in 1,000 tokens", 47.8, "{:g}"),
    ("your messages lost, of 9", 9, "{:g}"),
    ("files read again", 14, "{:g}"),
)


def figures() -> str:
    """Draw the demo's figures as bars: shorter is better."""
    parts = []
    for column, (label, most, shown) in enumerate(_MEASURES):
        x = 120 + column * 215
        parts.append(text(x, 30, label, "note"))
        for row, (name, *values) in enumerate(_DEMO):
            y, width = 44 + row * 34, values[column] / most * 150
            if column == 0:
                parts.append(text(24, y + 16, name))
            parts.append(block(x, y, max(width, 2), "expl" if name == "Wane" else "bar", 22))
            parts.append(text(x + max(width, 2) + 8, y + 16, shown.format(values[column]), "note"))
    return picture(760, 190, "The demo in numbers: shorter bars are better", parts)


PICTURES: Final = {"figures.svg": figures, "window.svg": window, "levels.svg": levels, "graph.svg": graph}


def main(args: list[str]) -> int:
    """Write the pictures to a folder, or check them."""
    return max(write_or_check(Path(args[-1]) / name, draw(), args) for name, draw in PICTURES.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

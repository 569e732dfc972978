"""Film the demo for the README, as an SVG whose frames follow each other.

    python scripts/demo_picture.py docs/images/demo.svg

It runs the demo, which takes a minute, and keeps some of what it draws. Who has asked for less motion sees the last
frame.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import MONOKAI

from wane.cli.demo.live_show import LiveShow
from wane.journal import SessionStore
from wane.scripted.demo.play import DemoOptions, play

COLUMNS: Final = 106
ROWS: Final = 30
FRAMES: Final = 24
SECONDS: Final = 1.1
"""How long a frame stands; the last one stands four times as long."""

_WIDE, _HIGH, _SIZE, _EDGE = 7.8, 16.5, 13, 14
_BACK: Final = "#{:02x}{:02x}{:02x}".format(*MONOKAI.background_color)
_FORE: Final = "#{:02x}{:02x}{:02x}".format(*MONOKAI.foreground_color)

Frame = list[list[Segment]]


def film() -> list[Frame]:
    """Run the demo, and return what it draws."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console = Console(file=screen, force_terminal=True, width=COLUMNS, height=ROWS, color_system="truecolor")
    frames: list[Frame] = []

    class Filmed(LiveShow):
        def _draw(self) -> None:
            super()._draw()
            frames.append(console.render_lines(self._scene.render(console), console.options, pad=False))

    with tempfile.TemporaryDirectory() as folder, Filmed(console) as show:
        asyncio.run(play(DemoOptions(store=SessionStore(Path(folder))), show))
    return frames


def pick_frames(frames: Sequence[Frame], count: int = FRAMES) -> list[Frame]:
    """Return some frames, at equal distances, and the last."""
    return [frames[round(at * (len(frames) - 1) / (count - 1))] for at in range(count)]


def svg(frames: Sequence[Frame]) -> str:
    """Return frames as a picture in which each stands for some time, in turn."""
    wide, high = COLUMNS * _WIDE + 2 * _EDGE, ROWS * _HIGH + 2 * _EDGE
    share = 100 / (len(frames) + 3)
    rules = [
        f"text{{font:{_SIZE}px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}",
        f"g{{visibility:hidden;animation:f {SECONDS * (len(frames) + 3):.1f}s step-end infinite}}",
        f"@keyframes f{{0%{{visibility:visible}}{share:.3f}%{{visibility:hidden}}}}",
        f"@keyframes l{{0%{{visibility:visible}}{4 * share:.3f}%{{visibility:hidden}}}}",
        "g:last-child{animation-name:l}",
        "@media(prefers-reduced-motion:reduce){g{animation:none}g:last-child{visibility:visible}}",
    ]
    drawn = []
    for number, frame in enumerate(frames):
        body = "".join(_line(line, row) for row, line in enumerate(frame))
        drawn.append(f'<g style="animation-delay:{SECONDS * number:.1f}s">{body}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" role="img">\n'
        f"<title>wane demo</title>\n<style>{''.join(rules)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{_BACK}"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _line(segments: Sequence[Segment], row: int) -> str:
    boxes, texts, column = [], [], 0
    top = _EDGE + row * _HIGH
    for style, run in groupby(segments, key=lambda segment: segment.style or Style()):
        text = "".join(segment.text for segment in run).rstrip("\n")
        x, width = _EDGE + column * _WIDE, len(text) * _WIDE
        column += len(text)
        fore, back = _colours(style)
        if back != _BACK:
            boxes.append(f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_HIGH}" fill="{back}"/>')
        if text.strip():
            weight = ' font-weight="700"' if style.bold else ""
            size = f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
            texts.append(f'<tspan x="{x:.1f}" fill="{fore}"{weight} {size}>{escape(text)}</tspan>')
    return "".join(boxes) + (f'<text y="{top + _HIGH - 4:.1f}">{"".join(texts)}</text>' if texts else "")


def _colours(style: Style) -> tuple[str, str]:
    fore = style.color.get_truecolor(MONOKAI).hex if style.color and not style.color.is_default else _FORE
    back = style.bgcolor.get_truecolor(MONOKAI, foreground=False).hex if style.bgcolor else _BACK
    if style.reverse:
        fore, back = back, fore
    if style.dim:
        fore = "#8f8f88"
    return fore, back


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(pick_frames(film())), encoding="utf-8")

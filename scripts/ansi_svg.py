"""Turn a coloured terminal screen into an SVG file for the documentation.

tmux capture-pane -e -p | python scripts/ansi_svg.py docs/images/demo.svg "wane demo"
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

# Removed, because a reader's browser would fetch this font from the web.
_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)


def main(target: str, title: str) -> None:
    """Read ANSI text from standard input and write the picture."""
    from rich._export_format import CONSOLE_SVG_FORMAT  # the default of export_svg, which rich does not export

    text = Text.from_ansi(sys.stdin.read().rstrip())
    console = Console(
        record=True, width=max(line.cell_len for line in text.split()), file=sys.stderr, force_terminal=True
    )
    console.print(text)
    code_format = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    Path(target).write_text(console.export_svg(title=title, theme=MONOKAI, code_format=code_format), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])

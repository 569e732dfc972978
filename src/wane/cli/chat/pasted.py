"""Long pasted texts: a short mark stands for each in the line, and the text takes its place when the line is sent."""

from __future__ import annotations

import re
from typing import Final

from wane.cli.terminal.text import counted

MAX_LINES: Final = 8
"""Lines of a pasted text that stay in the line as they are."""

MAX_CHARS: Final = 1_000
"""Characters of it."""

_MARK: Final = re.compile(r"\[Pasted #(\d+): [\d,]+ (?:lines?|characters)\]")


class Pastes:
    """The long texts that were pasted in a chat."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def folded(self, text: str) -> str:
        """Return what the line shows of a pasted text: the text, or the mark of a long one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= MAX_LINES and len(text) <= MAX_CHARS:
            return text
        self._texts.append(text)
        size = counted(lines, "line") if lines > 1 else f"{len(text):,} characters"
        return f"[Pasted #{len(self._texts)}: {size}]"

    def full(self, line: str) -> str:
        """Return a line with the texts in place of their marks."""
        return _MARK.sub(self._text_of, line)

    def mark_at_end(self, line: str) -> int:
        """Return the length of the mark with which a line ends; 0 if it ends with none."""
        marks = [match for match in _MARK.finditer(line) if match.end() == len(line)]
        return len(marks[0][0]) if marks and self._text_of(marks[0]) != marks[0][0] else 0

    def _text_of(self, mark: re.Match[str]) -> str:
        number = int(mark[1])
        return self._texts[number - 1] if 0 < number <= len(self._texts) else mark[0]

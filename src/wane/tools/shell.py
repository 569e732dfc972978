"""Splits a shell command line into the simple commands that it runs.

It knows only as much of the shell's grammar as judging a command needs: pipes, lists, subshells, substitutions,
here-documents and redirections. Text that cannot be parsed, such as an open quote, is taken as it is. Nothing raises:
the text comes from a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_MAX_DEPTH: Final = 12
_PLAIN: Final = re.compile(r"[^\s;&|<>()'\"\\`$]+")
_INSIDE_QUOTES: Final = re.compile(r'[^"\\`$]+')
_REDIRECTION: Final = re.compile(r"&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|>|<")
_PARENTHESES: Final = re.compile(r"[()]")
_DESCRIPTOR: Final = re.compile(r"\d+|-")


@dataclass(slots=True)
class ShellCommand:
    """One simple command.

    Attributes:
        words: its words, unquoted; a substitution becomes `$()`.
        writes: files that its output is redirected to.
        reads: files that its input is redirected from.
        heredoc: the text of its here-document or here-string; None if it has none.
    """

    words: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    heredoc: str | None = None

    def __bool__(self) -> bool:
        return bool(self.words or self.writes or self.reads)


def parse(line: str) -> list[ShellCommand]:
    """Return the simple commands of a command line in order, including nested ones."""
    scanner = _Scanner(line)
    scanner.commands(closer=None, depth=0)
    return scanner.simples


class _Scanner:
    """Reads a command line from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.simples: list[ShellCommand] = []
        # Here-documents whose text begins after the next newline: their command, delimiter, and whether it is indented.
        self._awaited: list[tuple[ShellCommand, str, bool]] = []

    def commands(self, closer: str | None, depth: int) -> None:
        """Read commands up to a closing character, or to the end of the text."""
        current = ShellCommand()
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == closer:
                self.position += 1
                break
            if char in " \t\r":
                self.position += 1
            elif char == "#":
                self._to("\n")
            elif self.text.startswith("\\\n", self.position):
                self.position += 2
            elif char in "<>" or self.text.startswith("&>", self.position):
                self._redirect(current, depth)
            elif char in ";&|)\n":
                self.position += 1
                current = self._finish(current)
                if char == "\n":
                    self._read_awaited()
            elif char == "(":
                current = self._parenthesis(current, depth)
            else:
                self._take_word(current, depth)
        self._finish(current)

    def _finish(self, current: ShellCommand) -> ShellCommand:
        if current:
            self.simples.append(current)
        return ShellCommand()

    def _parenthesis(self, current: ShellCommand, depth: int) -> ShellCommand:
        if self.text.startswith("((", self.position):
            self._arithmetic()
        elif self.text.startswith("()", self.position):  # a function's head
            self.position += 2
            return ShellCommand()
        else:
            self.position += 1
            self._scan_nested(")", depth)
        return self._finish(current)

    def _scan_nested(self, closer: str, depth: int) -> None:
        if depth < _MAX_DEPTH:
            self.commands(closer, depth + 1)
        else:
            self._past(closer)

    def _take_word(self, current: ShellCommand, depth: int) -> None:
        start = self.position
        word = self._word(depth)
        if self.position == start:  # no character that a word may hold
            self.position += 1
        elif not (word.isdigit() and self.text[self.position : self.position + 1] in ("<", ">")):
            current.words.append(word)

    def _redirect(self, current: ShellCommand, depth: int) -> None:
        if current.words[:1] == ["[["]:  # a comparison
            self.position += 1
            return
        match = _REDIRECTION.match(self.text, self.position)
        assert match is not None
        operator = match[0]
        self.position = match.end()
        if operator in "<>" and self.text.startswith("(", self.position):
            self.position += 1
            self._scan_nested(")", depth)
            current.words.append("$()")
            return
        if operator in (">&", "<&") and (descriptor := _DESCRIPTOR.match(self.text, self.position)):
            self.position = descriptor.end()
            return
        while self.text[self.position : self.position + 1] in (" ", "\t"):
            self.position += 1
        target = self._word(depth)
        if operator in ("<<", "<<-"):
            self._awaited.append((current, target, operator == "<<-"))
        elif operator == "<<<":
            current.heredoc = target
        elif operator.startswith("<"):
            current.reads.append(target)
        else:
            current.writes.append(target)

    def _read_awaited(self) -> None:
        for command, delimiter, indented in self._awaited:
            indent = r"[ \t]*" if indented else ""
            last_line = re.compile(rf"^{indent}{re.escape(delimiter)}[ \t]*$", re.MULTILINE)
            end = last_line.search(self.text, self.position)
            if end is None:
                command.heredoc = self.text[self.position :]
                self.position = len(self.text)
            else:
                command.heredoc = self.text[self.position : end.start()]
                self.position = min(end.end() + 1, len(self.text))
        self._awaited.clear()

    def _word(self, depth: int) -> str:
        pieces = []
        while self.position < len(self.text):
            if plain := _PLAIN.match(self.text, self.position):
                pieces.append(plain[0])
                self.position = plain.end()
                continue
            char = self.text[self.position]
            if char == "'":
                self.position += 1
                pieces.append(self._past("'"))
            elif char == '"':
                self.position += 1
                pieces.append(self._scan_quoted(depth))
            elif char in "\\`$":
                pieces.append(self._special(char, depth))
            else:
                break
        return "".join(pieces)

    def _scan_quoted(self, depth: int) -> str:
        """Read up to the closing double quote."""
        pieces = []
        while self.position < len(self.text):
            if plain := _INSIDE_QUOTES.match(self.text, self.position):
                pieces.append(plain[0])
                self.position = plain.end()
                continue
            char = self.text[self.position]
            if char == '"':
                self.position += 1
                break
            pieces.append(self._special(char, depth))
        return "".join(pieces)

    def _special(self, char: str, depth: int) -> str:
        """Read an escape or an expansion."""
        self.position += 1
        if char == "\\":
            escaped = self.text[self.position : self.position + 1]
            self.position += 1
            return "" if escaped == "\n" else escaped
        if char == "`":
            self.simples += parse(self._past("`"))
            return "$()"
        if self.text.startswith("((", self.position):
            self._arithmetic()
            return "$()"
        if self.text.startswith("(", self.position):
            self.position += 1
            self._scan_nested(")", depth)
            return "$()"
        if self.text.startswith("{", self.position):
            return "$" + self._past("}") + "}"
        return "$"

    def _arithmetic(self) -> None:
        """Skip a pair of parentheses and everything in it."""
        depth = 0
        for match in _PARENTHESES.finditer(self.text, self.position):
            depth += 1 if match[0] == "(" else -1
            self.position = match.end()
            if depth == 0:
                return
        self.position = len(self.text)

    def _to(self, mark: str) -> str:
        """Read up to a mark, or to the end of the text."""
        start = self.position
        end = self.text.find(mark, start)
        self.position = len(self.text) if end < 0 else end
        return self.text[start : self.position]

    def _past(self, mark: str) -> str:
        """Read up to a mark, and skip the mark."""
        read = self._to(mark)
        self.position = min(len(self.text), self.position + len(mark))
        return read

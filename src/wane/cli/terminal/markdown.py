"""Rich's Markdown, changed for answers in a chat. Loads slowly: import it where something is shown."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

_THEME = "ansi_dark"
"""The terminal's own colours, so that it is readable on dark and on light ones."""


def markdown(text: str) -> Markdown:
    """Return Markdown as Rich shows it, with line breaks as they were written."""
    answer = _TerminalMarkdown(text, code_theme=_THEME, hyperlinks=False)
    for token in answer.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return answer


class _Code(CodeBlock):
    """Code without a box or background, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        highlighted = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")
        yield Padding(highlighted, (0, 0, 0, 2))


class _Heading(Heading):
    """A heading at the left, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text: Text = self.text
        text.justify = "left"
        yield text


class _TerminalMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

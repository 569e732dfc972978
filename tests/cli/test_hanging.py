"""Where lines are broken in a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from wane.cli.terminal.hanging import hanging
from wane.cli.terminal.text import plain_console, say


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("● shell make all the tests", "● shell make all the\n  tests\n"),
        ("  └ one two three four five\n    six", "  └ one two three four\n    five\n    six\n"),
        ("  y  yes, this whole line, once", "  y  yes, this whole\n     line, once\n"),
        ("    +    return first + second", "    +    return first + second\n"),
        ("no mark, and so no indent", "no mark, and so no\nindent\n"),
        ("  └ a_name_longer_than_a_line", "  └ a_name_longer_than\n    _a_line\n"),
        ("  └ \n\n  short", "  └ \n\n  short\n"),
    ],
)
def test_a_broken_line_goes_on_under_its_first_word(line: str, broken: str) -> None:
    screen = io.StringIO()
    console = plain_console(screen, width=22 if "return" not in line else 30)
    console.print(hanging(Text(line, style="red")))
    assert screen.getvalue() == broken


def test_colours_stay() -> None:
    screen = io.StringIO()
    console = plain_console(screen, width=16, force_terminal=True, color_system="standard")
    console.print(hanging(Text.assemble("  y  ", ("always or now", "red"))))
    assert screen.getvalue() == "  y  \x1b[31malways or\x1b[0m\n     \x1b[31mnow\x1b[0m\n"


def test_an_error_is_broken_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "unknown option --resumee; did you mean --resume? See wane --help"
    monkeypatch.setenv("COLUMNS", "60")
    screen, file = io.StringIO(), io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    for stream in (screen, file):
        monkeypatch.setattr("sys.stderr", stream)
        say(message)
    assert screen.getvalue() == "wane: unknown option --resumee; did you mean --resume? See\nwane --help\n"
    assert file.getvalue() == f"wane: {message}\n"

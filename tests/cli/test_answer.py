"""What a model says and what is said to the user, on a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.text import Text

from wane.cli.terminal.answer import AnswerStream, AnswerText, hanging
from wane.cli.terminal.text import plain_console, say
from wane.core.errors import MissingExtraError

TEXT = """\
# Title
Some *text* with `code`
second line

1. one

2. two
   - nested

```python
def f():

    return 1
```
after

| a | b |
|---|---|
| 1 | 2 |

[link](http://x.y)

Last line"""
SHOWN = """\
Title

Some text with code
second line

 1 one
 2 two
    • nested

  def f():

      return 1

after

 a  b
 ────
 1  2

link (http://x.y)

Last line
"""


def render_blocks(*blocks: RenderableType, colour: bool = False) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=60, force_terminal=colour, color_system="standard" if colour else None)
    for block in blocks:
        console.print(block)
    return screen.getvalue()


def stream_pieces(pieces: list[str]) -> str:
    stream = AnswerStream()
    blocks = [block for piece in pieces for block in stream.feed(piece)]
    return render_blocks(*blocks, *stream.end())


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_answer_looks_the_same_in_any_pieces(size: int) -> None:
    assert stream_pieces([TEXT[start : start + size] for start in range(0, len(TEXT), size)]) == SHOWN


def test_a_block_is_written_when_it_is_finished_and_not_before() -> None:
    stream = AnswerStream()
    assert stream.feed("```\na\n\nb\n") == []
    assert len(stream.feed("```\n")) == 1
    assert stream.feed("- one\n\n") == [], "a list may go on"
    assert stream.feed("  still one\n") == []
    assert render_blocks(*stream.feed("\nText\n")) == "\n • one\n   still one\n"
    assert len(stream.feed("\n")) == 2
    assert stream.rest == ""


def test_control_characters_do_nothing_no_line_ends_with_spaces_and_code_has_colours() -> None:
    text = render_blocks(AnswerText("a\x1b[31mb\n\n| a | b |\n|---|---|\n| 1 | 2 |"))
    assert r"a\x1b[31mb" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "\x1b[" in render_blocks(AnswerText("```python\ndef f(): pass\n```"), colour=True)


@given(st.lists(st.text("ab`*-#>|1. \n\t\x1b[](", max_size=12), max_size=12))
def test_no_text_is_lost_or_raises(pieces: list[str]) -> None:
    stream = AnswerStream()
    answers = [block for piece in pieces for block in stream.feed(piece)] + stream.end()
    render_blocks(*answers)
    kept = "".join(block.text for block in answers if isinstance(block, AnswerText))
    whole = "".join(pieces)
    assert [kept.count(c) for c in "ab`*#"] == [whole.count(c) + (c == "b" and whole.count("\x1b")) for c in "ab`*#"]


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


def test_a_command_to_paste_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    error = MissingExtraError("Pricing", "lab")
    monkeypatch.setenv("COLUMNS", "40")
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    say(str(error), error.command)
    text, _, command = screen.getvalue().rstrip("\n").rpartition("\n")
    assert text == 'wane: Pricing needs the "lab" extra.\nInstall it with:'
    assert command == error.command
    assert len(command) > 40

"""What no request could carry, and what the tools cannot read, ends neither a turn nor the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.provider import APIS, serve
from tests.agent.work import working
from tests.marks import cross_quick
from wane.agent.session import Outcome
from wane.agent.turn_events import TextDelta, ToolCalled
from wane.cli.chat.narration import Narration
from wane.formats.pydantic_ai import BEYOND_JSON
from wane.testing import Call, Kind, Reply

HALF = "\ud83d"
DIGITS = "9" * 5_000


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", APIS)
def test_a_prompt_with_bytes_that_are_no_text(repository: Path, api: str) -> None:
    with working(serve(api), repository, [Reply("One."), Reply("Two."), Reply("Three.")]) as at:
        assert at.run("h\udcff\udcfe i", "and now").output == "Two."
        at.resume()
        assert at.run("again").output == "Three."
    said = [text for text in at.requests[-1].texts(Kind.USER) if "<" not in text]
    assert said == ["h\ufffd\ufffd i", "and now", "again"]


HALVES = {
    "text": Reply(f"half {HALF}", calls=(Call("read_file", {"path": "app.py"}),)),
    "thinking": Reply(reasoning=f"half {HALF}", calls=(Call("read_file", {"path": "app.py"}),)),
    "arguments": Reply(calls=(Call("read_file", f'{{"path": "{HALF}"}}'),)),
    "delimiter": Reply(calls=(Call("delimiter", f'{{"action": "start", "name": "{HALF}", "type": "expl"}}'),)),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize(("api", "where"), cross_quick(APIS, HALVES))
def test_half_a_character_from_the_model(repository: Path, api: str, where: str) -> None:
    with working(serve(api), repository, [HALVES[where], Reply("One."), Reply("Two."), Reply("Three.")]) as at:
        assert at.run("go", "on").output == "Two."
        at.resume()
        assert at.run("again").output == "Three."


@pytest.mark.parametrize("api", APIS)
def test_half_a_character_in_an_answer_that_was_cut_off(repository: Path, api: str) -> None:
    with working(serve(api), repository, [Reply(f"{HALF} and " * 4_000), Reply("Two.")], keep=False) as at:
        assert at.run(until=lambda event: isinstance(event, TextDelta)).outcome is Outcome.INTERRUPTED
        assert at.run("on").output == "Two."


def test_the_arguments_are_told_as_the_model_wrote_them(repository: Path) -> None:
    raw = '{ "path" : "app.py", '
    with working(serve(APIS[0]), repository, [Reply(calls=(Call("read_file", raw),)), Reply("One.")]) as at:
        assert at.run().output == "One."
    assert [event.arguments for event in at.of(ToolCalled)] == [raw]


NUMBERS = {
    "digits": ("read_file", f'{{"path": "app.py", "offset": {DIGITS}}}', "number out of range"),
    "digits-repaired": ("shell", f'{{"command": "echo hi", "x": {DIGITS},}}', ""),
    "digits-delimiter": ("delimiter", f'{{"action": "end", "x": {DIGITS}}}', "not valid JSON"),
    "digits-recall": ("recall", f'{{"name": "x", "offset": {DIGITS}}}', "Error"),
    "nan": ("read_file", '{"path": "app.py", "offset": NaN}', BEYOND_JSON),
    "infinity": ("shell", '{"command": "touch made", "x": -Infinity}', BEYOND_JSON),
    "nan-delimiter": ("delimiter", '{"action": "start", "name": "x", "type": "expl", "y": NaN}', "not valid JSON"),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize(("api", "number"), cross_quick(APIS, NUMBERS))
def test_a_number_that_cannot_be_read_is_told_to_the_model(repository: Path, api: str, number: str) -> None:
    tool, raw, words = NUMBERS[number]
    script = [Reply(calls=(Call(tool, raw),)), Reply("One."), Reply("Two.")]
    with working(serve(api), repository, script, keep=False) as at:
        assert at.run("go", "on").output == "Two."
    (result,) = at.requests[1].results.values()
    assert words in result
    assert "Interrupted" not in result
    assert not (repository / "made").exists()


def test_arguments_that_no_parser_likes_are_shown_all_the_same() -> None:
    lines: list[str] = []
    narration = Narration(lambda line: lines.append(line.plain))
    for raw in ("[" * 20_000, f'{{"x": {DIGITS}}}', '{"x": NaN}', f'{{"path": "{HALF}"}}', "{}"):
        narration.event(ToolCalled("1", "shell", raw))
    assert len(lines) == 5
    assert all(len(line) < 120 and line.isprintable() for line in lines)

from __future__ import annotations

import pytest

from wane.account import Account
from wane.agent.turn_events import Spent, TextDelta, ToolCalled, ToolReturned, Waiting
from wane.cli.chat.narration import Narration, TurnActivity, format_duration
from wane.cli.terminal.answer import AnswerText


def test_the_line_says_what_is_done_for_how_long_and_how_to_stop() -> None:
    activity = TurnActivity(100.0, Account(1, 1, 0, 500, 50), Account(1, 1, 0, 500, 50))
    assert activity.line(100.0, 80) == "⠋ waiting for the model  0s  Esc stops"
    activity.event(Spent(Account(2, 2, 0, 13_200, 213), 0, 0))
    activity.event(ToolCalled("1", "shell", "{}"), "shell pytest -q")
    activity.event(ToolCalled("2", "shell", "{}"), "shell ls")
    assert activity.line(165.2, 80) == "⠹ shell pytest -q  1m 05s  ↑12.7k ↓163  Esc stops"
    activity.event(ToolReturned("1", "shell", "", failed=False))
    assert activity.doing == "shell ls"
    activity.event(ToolReturned("2", "shell", "", failed=False))
    assert activity.doing == "waiting for the model"
    activity.event(Waiting("it is overloaded", 5.2, 3))
    assert activity.line(165.2, 80).startswith("⠹ trying again in 5 s (attempt 4)  1m 05s")
    activity.event(TextDelta("x"))
    assert activity.line(165.2, 80, unicode=False).startswith(("- ", "\\ ", "| ", "/ "))


@pytest.mark.parametrize("columns", [30, 40, 60, 200])
def test_it_fits(columns: int) -> None:
    activity = TurnActivity(0.0, Account(), Account(3, 3, 0, 12_700_000, 1_630_000), doing="x" * 100)
    line = activity.line(4_000, columns)
    assert len(line) < columns
    assert line.endswith("Esc stops")


def test_durations() -> None:
    assert [format_duration(seconds) for seconds in (0.9, 59, 60, 3_599, 3_600)] == [
        "0s",
        "59s",
        "1m 00s",
        "59m 59s",
        "1h 00m",
    ]


def test_two_answers_of_a_turn_are_no_one_line_though_nothing_is_written_between_them() -> None:
    blocks: list[object] = []
    narration = Narration(blocks.append)
    narration.event(TextDelta("Look:\n\n```\nx = 1\n```"))
    narration.event(ToolCalled("1", "delimiter", '{"action": "end"}'))
    narration.event(ToolReturned("1", "delimiter", "Ended.", failed=False))
    narration.event(TextDelta("Done."))
    narration.flush()
    texts = [block.text for block in blocks if isinstance(block, AnswerText)]
    assert texts == ["Look:", "```\nx = 1\n```", "Done."]


EXTRA = '{"type":"extra_forbidden","loc":["old"],"msg":"Extra inputs are not permitted","input":"x"}'
MISSING = '{"type":"missing","loc":["old_text"],"msg":"Field required","input":{}}'


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            f'{{"error":[{EXTRA},{MISSING}]}}',
            ["old: Extra inputs are not permitted", "old_text: Field required"],
        ),
        ('{"error": "There is no such file."}', ["There is no such file."]),
        ("It broke.", ["It broke."]),
        ('{"error": [1]}', ['{"error": [1]}']),
    ],
)
def test_what_a_call_did_wrong_is_said_in_words(result: str, said: list[str]) -> None:
    lines: list[str] = []
    narration = Narration(lambda line: lines.append(line.plain))
    narration.event(ToolReturned("1", "edit_file", result, failed=True))
    assert "\n".join(lines).endswith("\n    ".join(said))
    assert ("extra_forbidden" in lines[0]) is False

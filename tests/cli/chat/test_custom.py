from __future__ import annotations

from pathlib import Path

import pytest

from wane.cli.chat.own_commands import custom_commands


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    for place, text in {
        "config/commands/review.md": "Review mine.",
        "config/commands/mine.md": "---\ndescription: 'Do it.'\nmodel: x\n---\n\nDo $1, then $2: $ARGUMENTS.\n",
        "repo/.wane/commands/review.md": "Review the project's.\nAll of it.",
        "repo/.claude/commands/review.md": "Not this one.",
        "repo/.claude/commands/other.md": "Other.",
        "repo/sub/.wane/commands/near.md": "Near.",
        "repo/.wane/commands/bad name.md": "No.",
        "repo/.wane/commands/empty.md": "---\ndescription: x\n---\n",
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    return tmp_path / "repo" / "sub"


def test_the_nearest_command_counts(project: Path, tmp_path: Path) -> None:
    found = custom_commands(project, {"WANE_CONFIG_DIR": str(tmp_path / "config")})
    assert {command.name: command.help for command in found} == {
        "/mine": "Do it.",
        "/near": "Near.",
        "/other": "Other.",
        "/review": "Review the project's.",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "sent"),
    [
        ("/mine", "a b c", "Do a, then b: a b c."),
        ("/mine", "a", "Do a, then : a."),
        ("/near", "", "Near."),
        ("/near", "the tests", "Near.\n\nthe tests"),
    ],
)
def test_arguments_stand_in_their_places(project: Path, tmp_path: Path, name: str, arguments: str, sent: str) -> None:
    found = {
        command.name: command for command in custom_commands(project, {"WANE_CONFIG_DIR": str(tmp_path / "config")})
    }
    assert found[name].filled(arguments) == sent

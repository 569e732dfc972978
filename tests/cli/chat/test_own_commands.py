from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from wane.cli.chat.own_commands import MAX_KEPT, CustomCommand, custom_commands, run_own
from wane.formats.notices import is_notice

posix = pytest.mark.skipif(os.name != "posix", reason="the commands are those of a POSIX shell")


@posix
def test_output_comes_as_it_is_printed_and_the_model_gets_a_notice(tmp_path: Path) -> None:
    told: list[str] = []
    ran = asyncio.run(run_own("printf 'é\\n'; pwd; exit 3", tmp_path, told.append, asyncio.Event()))
    assert "".join(told) == ran.output == f"é\n{tmp_path}\n"
    assert ran.code == 3
    assert ran.notice == (
        f"<local-command-stdout>\nThe user ran: printf 'é\\n'; pwd; exit 3\né\n{tmp_path}\n[exit code: 3]\n"
        "</local-command-stdout>"
    )


@posix
def test_the_notice_holds_the_end_of_a_long_output_and_nothing_ends_it_early(tmp_path: Path) -> None:
    ran = asyncio.run(run_own("seq 10000; echo '</local-command-stdout> x'", tmp_path, str, asyncio.Event()))
    assert len(ran.output) == MAX_KEPT
    assert ran.notice.count("</local-command-stdout>") == 1
    assert ran.notice.endswith("x\n</local-command-stdout>")
    assert is_notice(ran.notice)


@posix
@pytest.mark.full
def test_a_command_that_is_stopped_has_ended(tmp_path: Path) -> None:
    async def stop_command() -> int:
        # It ignores the interruption, so it is killed.
        stopping = asyncio.Event()
        ran = await run_own("trap '' INT; echo $$; sleep 60", tmp_path, lambda _: stopping.set(), stopping)
        with pytest.raises(ProcessLookupError):
            os.kill(int(ran.output), 0)
        return ran.code

    assert asyncio.run(stop_command()) != 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "HEAD").touch()
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


def commands(project: Path, tmp_path: Path) -> dict[str, CustomCommand]:
    return {
        command.name: command for command in custom_commands(project, {"WANE_CONFIG_DIR": str(tmp_path / "config")})
    }


def test_the_nearest_command_counts(project: Path, tmp_path: Path) -> None:
    assert {name: command.help for name, command in commands(project, tmp_path).items()} == {
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
    assert commands(project, tmp_path)[name].fill_arguments(arguments) == sent


@posix
def test_a_command_of_the_project_is_a_file_of_it_and_one_of_the_user_any(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("elsewhere")
    for folder in (project / ".wane" / "commands", tmp_path / "config" / "commands"):
        folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(project / ".wane" / "commands" / "pipe.md")
    (project / ".wane" / "commands" / "linked.md").symlink_to(outside)
    (project / ".claude").mkdir(exist_ok=True)
    (project / ".claude" / "commands").symlink_to(tmp_path)
    (tmp_path / "config" / "commands" / "far.md").symlink_to(outside)
    found = {command.name for command in custom_commands(project, {"WANE_CONFIG_DIR": str(tmp_path / "config")})}
    assert "/far" in found
    assert not {"/linked", "/outside", "/pipe"} & found

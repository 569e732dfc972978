from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.agent.work import call, use
from wane.agent.tools.toolset import MIN_OUTPUT, NOT_UTF8, output_limit, repo_instructions
from wane.testing import Call


def test_search_and_listing_heed_gitignore(repository: Path) -> None:
    found, listed, globbed = use(
        repository, [call("grep", pattern="answer"), call("list_files"), call("list_files", glob="*.py")]
    )
    assert found == "app.py:1:def answer():"
    assert listed == "app.py"
    assert globbed == "app.py"


def test_gitignore_holds_outside_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("secret.txt\n")
    (tmp_path / "secret.txt").write_text("word")
    (tmp_path / "open.txt").write_text("word")
    found, listed = use(tmp_path, [call("grep", pattern="word"), call("list_files")])
    assert found == "open.txt:1:word"
    assert listed == "open.txt"


def test_read_write_edit(repository: Path) -> None:
    read, edited, written = use(
        repository,
        [call("read_file", path="app.py", offset=1, limit=1)],
        [call("edit_file", path="app.py", old_text="41", new_text="42")],
        [call("create_directory", path="new"), call("write_file", path="new/x.py", content="x = 1\n")],
    )[:3]
    assert "return 41" in read
    assert edited == "Edited app.py."
    assert (repository / "app.py").read_text() == "def answer():\n    return 42\n"
    assert (repository / "new" / "x.py").read_text() == "x = 1\n"
    assert written


def test_files_outside_are_out_of_reach(repository: Path) -> None:
    (repository.parent / "other.txt").write_text("private")
    (result,) = use(repository, [call("read_file", path="../other.txt")])
    assert "outside" in result
    assert "private" not in result


def test_bytes_that_are_no_text_are_told_and_the_run_goes_on(repository: Path) -> None:
    (repository / "latin.txt").write_bytes(b"caf\xe9\nok\n")
    (repository / "image.bin").write_bytes(b"\x00\xff" * 99)
    read, edited, binary = use(
        repository,
        [call("read_file", path="latin.txt")],
        [call("edit_file", path="latin.txt", old_text="ok", new_text="no")],
        [call("read_file", path="image.bin")],
    )
    assert "caf\ufffd" in read
    assert read.endswith(NOT_UTF8)
    assert "utf-8" in edited
    assert (repository / "latin.txt").read_bytes() == b"caf\xe9\nok\n"
    assert binary.startswith("[Binary file: 198 bytes")


def test_a_failing_tool_never_ends_the_run(repository: Path) -> None:
    (repository / "deep").mkdir(mode=0o000)
    texts = use(
        repository,
        *[[call("read_file", path="missing")]] * 5,
        [call("no_such_tool", x=1)],
        [call("read_file")],
        [call("write_file", path="app.py/x", content="")],
        [call("grep", pattern="(")],
        [Call("read_file", '{"path": "\\ud800"}')],
    )
    assert len(texts) == 10
    assert "File not found" in texts[0]
    assert "no_such_tool" in texts[5]


def test_a_command_gives_its_output_and_exit_code_alone(repository: Path) -> None:
    ok, failed, silent = use(
        repository, [call("shell", command="echo out; echo err >&2")], [call("shell", command="echo no; exit 3")],
        [call("shell", command="true")],
    )  # fmt: skip
    assert ok == "out\nerr"
    assert failed == "no\n[exit code: 3]"
    assert silent == "(no output)"


def test_commands_do_not_see_keys(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("PLAIN", "visible")
    (result,) = use(repository, [call("shell", command="env")])
    assert "sk-secret" not in result
    assert "PLAIN=visible" in result
    assert "ripgreprc" not in result


@pytest.mark.full
def test_results_are_bounded(repository: Path) -> None:
    (repository / "large.txt").write_text("x" * 50_000_000)
    (repository / "lines.txt").write_text("line\n" * 500_000)
    one, many, found, printed = use(
        repository,
        [call("read_file", path="large.txt")],
        [call("read_file", path="lines.txt")],
        [call("grep", pattern="line")],
        [call("shell", command="head -c 50000000 /dev/zero | tr '\\0' y")],
        budget=4_000,
    )
    assert all(len(text) <= MIN_OUTPUT for text in (one, many, found, printed))
    assert "offset=" in many
    assert "truncated" in found


def test_the_log_of_a_long_output_stays(repository: Path) -> None:
    (result,) = use(repository, [call("shell", command="seq 100000")])
    log = Path(result.rpartition(" ")[2].rstrip("]"))
    assert "[only the end is shown; all 588,895 bytes are in " in result
    assert log.read_text().startswith("1\n2\n")


def test_a_running_command_keeps_its_handles(repository: Path) -> None:
    (result,) = use(repository, [call("shell", command="echo begun; exec sleep 60", timeout=0.5)])
    begun, pid, output, status, last = result.splitlines()
    assert begun == "begun"
    assert Path(output.removeprefix("Output: ")).read_text() == "begun\n"
    assert json.loads(Path(status.removeprefix("Status: ")).read_text())["exit_code"] is None
    assert last == "The command is still running."
    number = int(pid.split()[1])
    os.kill(number, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while json.loads(Path(status.removeprefix("Status: ")).read_text())["exit_code"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("budget", "limit"), [(100, 4_000), (20_000, 20_000), (1_000_000, 32_000)])
def test_a_result_takes_a_share_of_the_budget(budget: int, limit: int) -> None:
    assert output_limit(budget) == limit


def test_the_projects_instructions_are_found_up_to_the_repository(repository: Path) -> None:
    (repository.parent / "AGENTS.md").write_text("not ours")
    (repository / "AGENTS.md").write_text("use tabs")
    (repository / "sub").mkdir()
    (repository / "sub" / "CLAUDE.md").write_text("be kind")
    text = repo_instructions(repository / "sub")
    assert text is not None
    assert "use tabs" in text
    assert text.index("use tabs") < text.index("be kind")
    assert "not ours" not in text
    assert repo_instructions(repository.parent / "nowhere") is None


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize(
    "target", ["../outside", "../folder/outside", "/proc/self/environ", ".env", ".git/config", "pipe", "/dev/zero"]
)
def test_instructions_are_read_of_the_projects_own_files_alone(target: str, repository: Path) -> None:
    (repository.parent / "folder").mkdir()
    for path in (repository.parent / "outside", repository.parent / "folder" / "outside", repository / ".env"):
        path.write_text("mark-of-a-secret")
    with (repository / ".git" / "config").open("a") as config:
        config.write("# mark-of-a-secret\n")
    os.mkfifo(repository / "pipe")
    (repository / "notes.md").write_text("use tabs")
    (repository / "CLAUDE.md").symlink_to("notes.md")
    (repository / "AGENTS.md").symlink_to(target)
    assert repo_instructions(repository) == '<context-file path="CLAUDE.md">\nuse tabs\n</context-file>'


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_repository_that_holds_the_home_is_not_the_projects(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repository))
    (repository / "credentials").write_text("mark-of-a-secret")
    unpacked = repository / "unpacked"
    unpacked.mkdir()
    (unpacked / "AGENTS.md").symlink_to("../credentials")
    assert repo_instructions(unpacked) is None


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_an_empty_git_folder_makes_no_project_of_what_is_below(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "other.txt").write_text("not the project's")
    below = tmp_path / "below"
    below.mkdir()
    (below / "AGENTS.md").symlink_to("../other.txt")
    assert repo_instructions(below) is None


def test_instructions_end_somewhere(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("x" * 10_000_000)
    assert len(repo_instructions(repository) or "") < 300_000

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from wane.agent.repositories import RepositoryGuard
from wane.cli.chat.typed import MAX_PASTED_LINES, ChatCompleter, Pastes, history_at, matching, project_paths


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("app.py", "src/app_test.py", "src/deep/map.py", "build/out.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


def completions(project: Path, text: str) -> list[str]:
    completer = ChatCompleter(lambda: [("/context", ""), ("/cost", "")], project)
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


def test_paths_are_completed_anywhere_and_commands_at_the_beginning(project: Path) -> None:
    assert completions(project, "look at @ap") == ["@app.py", "@src/app_test.py", "@src/deep/map.py"]
    assert completions(project, "look at\n@deep/") == ["@src/deep/", "@src/deep/map.py"]
    assert completions(project, "/c") == ["/context", "/cost"]
    assert completions(project, "a /c") == []
    assert completions(project, "me@ap") == []


def test_paths_are_those_that_git_does_not_ignore(project: Path) -> None:
    assert "build/out.py" in project_paths(project)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    assert set(project_paths(project)) == {
        ".gitignore", "app.py", "src/", "src/app_test.py", "src/deep/", "src/deep/map.py",
    }  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="needs programs of POSIX")
def test_completing_a_path_starts_nothing_of_a_repositorys_settings(project: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {mark}; :"], cwd=project, check=True)
    assert "build/out.py" in project_paths(project), "Git is not asked"
    assert not mark.exists()
    digest = RepositoryGuard(project, os.environ).digest
    assert "build/out.py" not in project_paths(project, digest), "but once the user trusts the settings"
    assert not mark.exists()


def test_names_come_before_folders() -> None:
    assert matching(["test/x.py", "src/test.py", "test.py"], "TEST") == ["test.py", "src/test.py", "test/x.py"]


def test_the_history_is_kept_for_its_user_alone(tmp_path: Path) -> None:
    root = tmp_path / "state"
    history = history_at(root, lambda line: line != "y", Pastes())
    for line in ("first", "y", "two\nlines"):
        history.append_string(line)
    assert list(history_at(root, bool, Pastes()).load_history_strings()) == ["two\nlines", "first"]
    (file,) = root.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    unsaved = history_at(None, lambda line: line != "y", Pastes())
    unsaved.append_string("y")
    assert unsaved.get_strings() == []


def test_a_long_text_is_a_mark_until_the_line_is_sent() -> None:
    pastes = Pastes()
    short = "\n".join("x" * MAX_PASTED_LINES)
    assert pastes.fold_paste(f"{short}\n") == f"{short}\n"
    text = "\r\n".join(str(number) for number in range(120))
    mark = "[Pasted #1: 120 lines]"
    assert pastes.fold_paste(text) == mark
    assert pastes.fold_paste("x" * 2_000) == "[Pasted #2: 2,000 characters]"
    line = f"compare {mark} with [Pasted #2: 2,000 characters], not [Pasted #3: 9 lines]"
    whole = text.replace("\r\n", "\n")
    assert pastes.full(line) == f"compare {whole} with {'x' * 2_000}, not [Pasted #3: 9 lines]"
    # One key removes a mark whole.
    assert pastes.mark_at_end(f"see {mark}") == len(mark)
    assert pastes.mark_at_end(f"{mark} and") == pastes.mark_at_end("[Pasted #7: 50 lines]") == 0

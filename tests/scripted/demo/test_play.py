"""Runs in this process: a script that is wrong is found out, and what is shown fits the terminal."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.marks import first_quick
from wane.cli.demo.live_show import LineShow, LiveShow
from wane.core.errors import ConfigError
from wane.scripted.demo.demo_summary import Counts, Summary
from wane.scripted.demo.moves import Replace, ScriptStep, Task
from wane.scripted.demo.play import NOISE_FILES, DemoOptions, Show, Workspace, play
from wane.scripted.demo.script import TASKS
from wane.scripted.model_calls import write
from wane.scripted.repository import ScriptedError, environment, python_for_commands
from wane.scripted.witness import Tally


def run(*script: Task, show: Show | None = None, **options: object) -> Summary:
    return asyncio.run(play(DemoOptions(script=script, **options), show or Show()))  # type: ignore[arg-type]


def with_wrong_edit(task: Task) -> Task:
    """The task with the first edit's new text broken."""

    def broken(step: ScriptStep) -> ScriptStep:
        moves = (replace(m, new=m.new.replace("+ 1", "+ 2")) if isinstance(m, Replace) else m for m in step.moves)
        return replace(step, moves=tuple(moves))

    return replace(task, steps=tuple(map(broken, task.steps)))


@pytest.mark.full
def test_a_wrong_edit_fails_its_task_and_the_run() -> None:
    summary = run(with_wrong_edit(TASKS[0]))
    assert summary.passed == 0
    assert "test_task_01" in summary.results[0].why
    assert summary.to_dict()["ok"] is False
    assert summary.problems == [f"task 1 failed: {summary.results[0].why}"]


def test_a_model_that_passes_the_tests_by_changing_them_is_found_out() -> None:
    cheat = write("tests/test_task_01.py", "import unittest\n")
    summary = run(replace(TASKS[0], steps=(ScriptStep("Make it pass.", (cheat,)), ScriptStep("Done."))))
    assert summary.passed == 0
    assert "tests were changed" in summary.results[0].why


@pytest.mark.full
def test_a_task_that_does_not_end_is_given_up() -> None:
    summary = run(TASKS[0], most_calls=3)
    assert summary.results[0].model_calls == 4
    assert summary.results[0].why == "interrupted"


def test_what_must_not_be_is_a_problem_with_episodes_and_a_finding_without() -> None:
    tally = Tally(over_budget=2, turns_lost=3, most_turns_lost=1)
    for strategy, problems in (("cwl", 2), ("truncate", 0), ("none", 0)):
        summary = Summary(strategy, "id", 100, (), tally, Counts(), 1.0)  # type: ignore[arg-type]
        assert len(summary.problems) == problems
        assert summary.to_dict()["user_turns_intact"] is False


def test_the_repository_needs_nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = tmp_path / "gitconfig"
    hostile.write_text('[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n[user]\n\tname = ""\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(hostile))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    workspace = Workspace(tmp_path / "new")
    assert len(list((workspace.directory / "var").iterdir())) == NOISE_FILES
    assert not (workspace.directory / "tests/test_task_01.py").exists()
    workspace.give(1)
    assert not workspace.verify(1).passed
    with pytest.raises(ConfigError, match="not empty"):
        Workspace(tmp_path / "new")


def test_tests_that_pass_already_prove_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "new")
    (workspace.directory / "unittest.py").write_text("")  # every run of the tests now does nothing, and well
    with python_for_commands(), pytest.raises(ScriptedError, match="before it is done"):
        workspace.give(1)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups")
def test_ctrl_c_does_not_reach_what_it_runs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "new")
    with python_for_commands():
        workspace.give(1)
        (workspace.directory / "unittest.py").write_text("import os; print(os.getpgid(0))")
        assert int(workspace.verify(1).output) != os.getpgid(0)


@pytest.mark.full
@pytest.mark.parametrize(
    ("width", "height", "encoding"), first_quick((80, 24, "utf-8"), (120, 40, "utf-8"), (80, 24, "ascii"))
)
def test_the_picture_fits_the_terminal(width: int, height: int, encoding: str) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    console = Console(file=screen, force_terminal=True, width=width, height=height, legacy_windows=False)
    frames: list[list[str]] = []

    class Filmed(LiveShow):
        def _draw(self) -> None:
            super()._draw()
            assert self._scene is not None
            lines = console.render_lines(self._scene.render(console), console.options, pad=False)
            frames.append(["".join(segment.text for segment in line) for line in lines])

    with Filmed(console) as show:
        summary = run(*TASKS[:2], show=show, budget=9_000)
    assert summary.passed == 2
    assert summary.counts.passes
    assert show.session == summary.session
    assert max(map(len, frames)) < height
    assert max(len(line.rstrip("\n")) for frame in frames for line in frame) <= width
    assert "not a language model" in frames[0][0]
    drawn = {line.strip() for frame in frames for line in frame}
    assert {"now     reading in splitting", "now     work in fix-split, building on splitting"} <= drawn
    assert any(line.startswith("stays") for line in drawn)
    screen.flush()


@pytest.mark.full
def test_lines_tell_tasks_and_what_the_model_is() -> None:
    out = io.StringIO()
    run(TASKS[0], show=LineShow(Console(file=out, width=80)))
    lines = out.getvalue().splitlines()
    assert "not a language model" in lines[0]
    assert lines[-1].startswith("task  1/1 passed  A split loses no cent")


def test_the_repositorys_tests_say_the_same_wherever_it_lies(tmp_path: Path) -> None:
    """The model reads what they say, so that a longer path or another time would make two runs differ."""
    said = []
    for name in ("a", "a-directory-with-a-much-longer-name"):
        workspace = Workspace(tmp_path / name)
        workspace.give(1)
        done = subprocess.run(
            ["sh", "check"], cwd=workspace.directory, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        said.append(done.stdout + done.stderr)
    assert said[0] == said[1]
    assert 'File "tests/test_task_01.py", line ' in said[0]
    assert re.search(r"^Ran \d+ tests$", said[0], re.MULTILINE)

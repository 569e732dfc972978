"""Small runs of the closed loop with the real agent, its tools, its journal and the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from wane.cli.main import main
from wane.core.errors import ConfigError
from wane.lab.readers import read_file
from wane_research.closed_loop.figures import Figures, LoopOptions
from wane_research.closed_loop.play import ClosedLoop, loops, play_all

pytest.importorskip("anthropic", reason="the anthropic extra is not installed")

SMALL = LoopOptions(tasks=6, budget=11_000, tokens=1)


def quietly(_: object) -> None:
    pass


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Figures]:
    """The same tasks by episodes, with restarts on the way; by recency; and each in a session of its own."""
    options = replace(SMALL, keep=tmp_path_factory.mktemp("loop"))
    cwl, truncate, isolated = loops(options, ["cwl", "truncate"], isolated=True)
    chosen = [replace(cwl, kill_every=22), truncate, isolated]
    return {run.name: run for run in play_all(chosen, quietly, quietly, workers=2)}


@pytest.mark.wide
def test_by_episodes_no_task_is_lost_that_passes_alone(runs: Mapping[str, Figures]) -> None:
    assert len(runs["isolated"].passed) == SMALL.tasks
    assert runs["cwl"].lost_against(runs["isolated"]) == []
    assert runs["cwl"].all_tests_pass


@pytest.mark.wide
def test_the_budget_is_held_and_every_turn_is_there(runs: Mapping[str, Figures]) -> None:
    tally = runs["cwl"].tally
    assert tally.over_budget == 0
    assert tally.peak_view <= SMALL.budget
    assert tally.turns_lost == 0
    assert runs["cwl"].passes > 0, "something must have been evicted"


@pytest.mark.wide
def test_a_killed_session_goes_on_with_the_view_that_it_had(runs: Mapping[str, Figures]) -> None:
    run = runs["cwl"]
    assert len(run.resumptions) >= 2
    assert run.resumed_soundly


@pytest.mark.wide
def test_passes_of_a_process_that_was_killed_count(
    runs: Mapping[str, Figures], tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = next(tmp_path_factory.getbasetemp().glob("loop*"))
    (session,) = read_file(next((kept / "cwl" / "sessions").rglob("*.jsonl")))
    assert runs["cwl"].passes == len(session.evictions)


@pytest.mark.wide
def test_recency_loses_what_the_user_decided(runs: Mapping[str, Figures]) -> None:
    run = runs["truncate"]
    assert run.tally.turns_lost > 0
    assert run.passes > 0
    lost = run.lost_against(runs["isolated"])
    assert lost
    why = {result.number: result.why for result in run.results}
    assert all("I do not see" in why[number] for number in lost)


@pytest.mark.wide
def test_what_was_kept_can_be_looked_at(runs: Mapping[str, Figures], tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = next(tmp_path_factory.getbasetemp().glob("loop*"))
    assert (kept / "cwl" / "repository" / ".git").is_dir()
    assert len(list((kept / "cwl" / "sessions").rglob("*.jsonl"))) == 1
    assert len(list((kept / "isolated" / "sessions").rglob("*.jsonl"))) == SMALL.tasks
    assert runs["cwl"].journal_bytes > 0


@pytest.mark.wide
def test_lines_of_tasks_take_the_place_of_descriptions(runs: Mapping[str, Figures]) -> None:
    without = runs["cwl"].remains
    marked = ClosedLoop(replace(SMALL, mark_tasks=True)).play()
    assert len(marked.passed) == SMALL.tasks
    assert without is not None
    assert marked.remains is not None
    assert (without.lines, without.lost, marked.remains.descriptions, marked.remains.lost) == (0, 0, 0, 0)
    assert without.descriptions > 0
    assert marked.remains.lines > 0
    assert runs["truncate"].remains is runs["isolated"].remains is None


@pytest.mark.wide
def test_the_same_seed_gives_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lab", "closed-loop", "--tasks", "1", "--budget", "11k", "--tokens", "1k", "--json"]
    assert main(arguments) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["model"] == "scripted"
    assert [run["name"] for run in told["runs"]] == ["cwl"]
    again = ClosedLoop(LoopOptions(tasks=1, budget=11_000, tokens=1_000)).play()
    assert [asdict(result) for result in again.results] == [
        {**result, "ties": tuple(map(tuple, result["ties"]))} for result in told["runs"][0]["results"]
    ]
    assert again.tally.input_tokens == told["runs"][0]["input_tokens"]


def test_a_strategy_that_there_is_none_of_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="'magic' is unknown"):
        ClosedLoop(LoopOptions(strategy="magic"))
    assert main(["lab", "closed-loop", "--strategy", "magic"]) == 2
    for tasks in ("0", "201"):
        assert main(["lab", "closed-loop", "--tasks", tasks]) == 2
    assert "1 to 200 tasks" in capsys.readouterr().err


def test_a_place_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "mine").touch()
    with pytest.raises(ConfigError, match="not empty"):
        ClosedLoop(LoopOptions(tasks=1, keep=tmp_path)).play()

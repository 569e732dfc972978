"""`wane demo` as users run it, with each strategy: what it prints, what it leaves, how it exits."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.marks import first_quick
from wane.cli.main import main
from wane.money import dollars
from wane.scripted.witness import MODEL

pytestmark = pytest.mark.full

STRATEGIES = first_quick("cwl", "truncate", "none")
WANE = (sys.executable, "-m", "wane.cli.main")
INSTALLED = Path(sys.executable).with_name("wane")
KEPT_IN = "kept"
ROOT = Path(__file__).parents[3]
RAN = "ran"


@dataclass(frozen=True)
class Run:
    """One run of the command that has ended."""

    summary: dict[str, Any]
    code: int
    progress: str
    directory: Path


def project_with_programs(directory: Path) -> Path:
    """Make the project in which the demo is started: it has programs of its own, which leave a mark when they run."""
    project = directory / "project"
    programs = project / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("git", "sh", "rg", "bwrap"):
        (programs / name).write_text(f"#!/bin/sh\n>> {shlex.quote(str(directory / RAN))} echo {name}\nexit 1\n")
        (programs / name).chmod(0o755)
    return project


def environment(directory: Path) -> dict[str, str]:
    """A user's environment without a home, git settings, keys or a network to speak of."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != INSTALLED.parent]
    return kept | {
        "PATH": os.pathsep.join([str(directory / "project" / "bin"), *folders]),
        "HOME": str(directory),
        "WANE_SESSION_DIR": str(directory / "sessions"),
        "WANE_CONFIG_DIR": str(directory / "config"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "TMPDIR": str(directory),
        "PYTHONUTF8": "1",
    }


def start(directory: Path, *arguments: str, wane: Sequence[str] = WANE) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [*wane, "demo", *arguments]
    project = project_with_programs(directory)
    return subprocess.Popen(
        command, cwd=project, env=environment(directory), stdout=pipe, stderr=pipe, encoding="utf-8"
    )


class Runs(dict[str, Run]):
    """A run with each strategy that a test asks for."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories

    def __missing__(self, strategy: str) -> Run:
        directory = self._directories.mktemp(strategy)
        process = start(directory, "--strategy", strategy, "--json", "--keep", str(directory / KEPT_IN))
        out, err = process.communicate()
        assert out, err
        self[strategy] = Run(json.loads(out), process.returncode, err, directory)
        return self[strategy]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    return Runs(tmp_path_factory)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_tasks_pass_with_every_strategy(runs: Mapping[str, Run], strategy: str) -> None:
    run = runs[strategy]
    assert run.summary["problems"] == []
    assert run.summary["tasks"] >= 8
    assert run.summary["tasks_passed"] == run.summary["tasks"]
    assert run.code == 0
    assert not (run.directory / RAN).exists(), "nothing of the project where it was started ran"


def test_episodes_keep_the_budget_and_the_users_words_and_later_tasks_need_earlier_ones(
    runs: Mapping[str, Run],
) -> None:
    summary = runs["cwl"].summary
    assert summary["passes"] >= 5
    assert summary["evicted_tokens"] > 2 * summary["budget"]
    assert summary["peak_view_tokens"] <= summary["budget"]
    assert summary["over_budget"] == 0
    assert summary["user_turns_intact"] is True
    assert 0.7 < summary["prefix_reuse"] < 1
    assert all(summary[name] >= 1 for name in ("described", "re_read", "recalled", "in_view", "rejected"))
    progress = runs["cwl"].progress
    assert "not a language model" in progress.splitlines()[0]
    assert (progress.count("passed"), progress.count("pass ")) == (summary["tasks"], summary["passes"])


DOCUMENTED = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")


def documented_column(strategy: str) -> dict[str, str]:
    """The column of a strategy in the table of the docs, by row."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENTED.splitlines() if line[:1] == "|"
    ]
    column = rows[0].index({"cwl": "Wane"}.get(strategy, f"`{strategy}`"))
    return {row[0]: row[column] for row in rows[2:]}


@pytest.mark.skipif(
    f"with Python {sys.version_info.major}.{sys.version_info.minor}." not in DOCUMENTED,
    reason="another version of Python writes other tracebacks",
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_docs_have_the_figures_of_a_run(runs: Mapping[str, Run], strategy: str) -> None:
    summary = runs[strategy].summary
    lost = summary["most_turns_lost"]
    assert documented_column(strategy) == {
        "tasks that pass": f"{summary['tasks_passed']} of {summary['tasks']}",
        "largest view, in tokens": f"{summary['peak_view_tokens']:,}",
        "requests over the budget": f"{summary['over_budget'] + summary['unmet']}",
        "user turns missing from a request, at most": f"{lost} of {summary['tasks']}" if lost else "0",
        "model calls": f"{summary['model_calls']}",
        "input tokens": f"{summary['input_tokens']:,}",
        "share of them from a prefix cache": f"{summary['prefix_reuse']:.0%}",
        "cost": f"${summary['cost_usd']:.2f}",
        "read again": f"{summary['re_read']}",
        "recalled": f"{summary['recalled']}" if strategy == "cwl" else "-",
    }


@pytest.mark.wide
def test_truncation_keeps_the_budget_and_loses_the_users_words(runs: Mapping[str, Run]) -> None:
    summary = runs["truncate"].summary
    assert summary["peak_view_tokens"] <= summary["budget"]
    assert summary["user_turns_intact"] is False
    assert summary["re_read"] > runs["cwl"].summary["re_read"]
    assert summary["recalled"] == 0
    # It evicts, but nobody counts how often.
    assert summary["passes"] is summary["evicted_tokens"] is None
    assert 0 < summary["most_turns_lost"] < summary["tasks"]


@pytest.mark.wide
def test_without_management_all_stays_and_the_window_grows(runs: Mapping[str, Run]) -> None:
    summary = runs["none"].summary
    assert summary["user_turns_intact"] is True
    assert summary["re_read"] == 0
    assert summary["peak_view_tokens"] > 2.6 * summary["budget"]
    assert summary["input_tokens"] > 1.5 * runs["cwl"].summary["input_tokens"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_session_says_the_same_everywhere(
    runs: Mapping[str, Run],
    strategy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = runs[strategy]
    session, cost = run.summary["session"], pytest.approx(run.summary["cost_usd"], abs=1e-5)
    monkeypatch.setenv("WANE_SESSION_DIR", str(run.directory / "sessions"))

    def wane(*arguments: str) -> tuple[str, str]:
        assert main(arguments) == 0
        told = capsys.readouterr()
        return told.out, told.err

    shown = json.loads(wane("show", session, "--json")[0])
    assert len(shown["turns"]) == run.summary["tasks"]
    assert len(shown["passes"]) == (run.summary["passes"] or 0)
    assert shown["usage"]["model_calls"] == run.summary["model_calls"]
    assert shown["usage"]["input_tokens"] == run.summary["input_tokens"]
    assert shown["usage"]["cost_usd"] == cost
    replayed = json.loads(wane("replay", session, "--strategy", "none", "--json")[0])
    assert replayed["recorded"]["cost_usd"] == cost
    assert replayed["price_model"] == MODEL
    would = "nothing was paid, and costs are what these calls would have cost"
    assert would in " ".join(wane("replay", session, "--strategy", "none")[0].split())
    _, viewed = wane("view", session, "--output", str(tmp_path / "session.html"))
    assert f"{dollars(run.summary['cost_usd'])} as recorded" in " ".join(viewed.split())
    assert would in " ".join(viewed.split())
    assert main(["report", session]) == 2
    refused = " ".join(capsys.readouterr().err.split())
    assert "1 session left out: a script answered in the model's place, as in the demo, and nothing was paid" in refused


def test_the_repository_is_kept_where_it_was_asked_for(runs: Mapping[str, Run]) -> None:
    run = runs["cwl"]
    repository = run.directory / KEPT_IN
    log = subprocess.run(["git", "log", "--oneline"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(log.stdout.splitlines()) == 1 + 2 * run.summary["tasks"]
    assert run.summary["repository"] == str(repository.resolve())
    assert not list(run.directory.glob("wane-demo-*"))


@pytest.mark.parametrize("number", first_quick("SIGINT", "SIGTERM", "SIGHUP"))
def test_a_demo_that_is_stopped_leaves_things_tidy(
    tmp_path: Path, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(signal, number):
        pytest.skip(f"there is no {number} here")
    # Under nohup it would be ignored.
    former = signal.signal(getattr(signal, number), signal.SIG_DFL)
    process = start(tmp_path, wane=(str(INSTALLED),))
    signal.signal(getattr(signal, number), former)
    assert process.stdout is not None
    session = ""
    for line in process.stdout:
        session = line.split()[-1] if "session" in line else session
        if line.startswith("task  1"):
            break
    process.send_signal(getattr(signal, number))
    _, err = process.communicate()
    assert process.returncode == 130
    stopped, _, to_type = err.partition("to see what was done so far: ")
    named, *arguments = shlex.split(to_type)
    assert (stopped, Path(named).resolve(), arguments) == ("wane: stopped; ", INSTALLED.resolve(), ["show", session])
    assert not list(tmp_path.glob("wane-demo-*"))
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
    assert main(["show", session]) == 0


def test_without_git_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["demo", "--json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("wane: the demo works in a git repository, and git was not found")


def test_a_directory_in_use_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "mine.txt").write_text("mine")
    assert main(["demo", "--keep", str(used)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in used.iterdir()] == ["mine.txt"]

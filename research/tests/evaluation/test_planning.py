"""What is known before the first call: cost, runs, and what is missing."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from research.tests.evaluation.trials import CSV, needs_trials

from wane.cli.main import main
from wane.core.errors import ConfigError
from wane_research.evaluation.planning.checks import clients, problems
from wane_research.evaluation.planning.estimate import estimates
from wane_research.evaluation.planning.power import power
from wane_research.evaluation.results import VERSION, Arm, ResultsError, Run, Trial, Usage, append, begin
from wane_research.evaluation.running.config import Config, EnvironmentSettings, Limits, Task
from wane_research.evaluation.statistics import chance, difference, equivalence_margin


def config(**changes: Any) -> Config:
    values: dict[str, Any] = {
        "benchmark": "terminal-bench-2.0",
        "path": "tasks",
        "models": ("openai:gpt-5.4",),
        "protocols": ("single",),
        **changes,
    }
    return Config(**values)


def task(folder: Path, image: str) -> Task:
    (folder / "environment").mkdir(parents=True)
    (folder / "environment" / "Dockerfile").write_text(f"FROM {image}\n")
    return Task(folder.name, folder, None)


def results(folder: Path, model: str, costs: list[float | None], rewards: list[float | None] | None = None) -> Arm:
    arm = Arm("terminal-bench-2.0", model, "cwl", 80_000, "single")
    names = tuple(f"task-{number}" for number in range(len(costs)))
    path = folder / model.replace(":", "-") / "results.jsonl"
    begin(path, Run(VERSION, arm, 1, names, 1, "", 0.03, datetime(2026, 6, 10, tzinfo=UTC)))
    for number, (name, cost) in enumerate(zip(names, costs, strict=True)):
        reward = 1.0 if rewards is None else rewards[number]
        usage = Usage(1, 1_000, 0, 0, 100, cost)
        append(path, Trial(arm, 1, number + 1, name, reward, usage=usage))
    return arm


# Runs


@pytest.mark.full
@pytest.mark.parametrize(("tasks", "runs"), [(30, 3), (89, 5), (1, 6)])
def test_equal_arms_are_shown_equal_within_the_margin_in_four_of_five_experiments(tasks: int, runs: int) -> None:
    # Trials that pass in half of the cases; the verdict is that of a report.
    random, shown, tries = Random(7), 0, 400
    margin = equivalence_margin(0.25, tasks, runs)
    assert margin is not None

    def arm() -> dict[str, dict[int, float]]:
        scores: dict[str, dict[int, float]] = {}
        for task in range(tasks):
            scores[str(task)] = {run: float(random.random() < 0.5) for run in range(runs)}
        return scores

    for _ in range(tries):
        found = difference(arm(), arm(), margin)
        shown += found is not None and found.verdict == "equivalent"
    # Two standard errors of so many tries are four points.
    assert shown / tries >= 0.75
    # With one task only some differences can be, so that the margin is a bound.
    assert shown / tries <= 0.85 or tasks == 1


def test_one_trial_of_each_arm_shows_nothing() -> None:
    assert equivalence_margin(0.1, 1, 1) is None
    # Where nothing varies, the least error of a difference is left, at the level of the test.
    assert equivalence_margin(0.0, 89, 1_000) == pytest.approx(1.6624 / 91, abs=1e-5)


@needs_trials
def test_five_runs_of_real_trials_cannot_tell_less_than_three_points_from_chance() -> None:
    found = power([CSV], 0.05)
    (five,) = [size for size in found.sizes if size.runs == 5]
    assert found.tasks == 89
    assert five.chance == pytest.approx(0.0335, abs=0.0005) == chance(found.widest.variance or 0, 89, 5)
    assert found.needed == 7
    assert power([CSV], 0.02).needed is None
    assert power([CSV], 0.03, tasks=300).needed == 6
    assert sum(spread.trials + spread.ungraded for spread in found.spreads) == 3_560


def test_power_of_results_and_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        results(tmp_path / str(number), "openai:a", [None, None], [number % 2, None])
    assert main(["eval", "power", str(tmp_path), "--margin", "0.5", "--json"]) == 0
    (arm,) = json.loads(capsys.readouterr().out)["arms"]
    assert (arm["tasks"], arm["trials"], arm["ungraded"]) == (1, 3, 3)
    assert arm["variance"] == pytest.approx(1 / 3)
    table = tmp_path / "trials.csv"
    table.write_text("model,task,reward\nm,a,1\nm,a,0\nm,b,1\nm,b,\n")
    assert main(["eval", "power", str(table)]) == 0
    out = capsys.readouterr().out
    assert "1 not graded" in out
    assert "needs more than 200 runs on so few tasks" in out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("model,task\nm,a\n", "not there: reward"),
        ("model,task,reward\nm,a,2\n", "line 2: reward: '2' is not from 0 to 1"),
        ("model,task,reward\nm,a,nan\n", "'nan' is not from 0 to 1"),
        ("model,task,reward\nm,a,x\n", "'x' is not from 0 to 1"),
    ],
)
def test_table_that_is_none_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ConfigError, match=told):
        power([tmp_path / "t.csv"], 0.03)


def test_without_a_second_try_the_spread_is_not_known(tmp_path: Path) -> None:
    results(tmp_path, "openai:a", [None])
    with pytest.raises(ResultsError, match="no task was tried twice"):
        power([tmp_path], 0.03)
    with pytest.raises(ConfigError, match="margin: 0 is not above 0"):
        power([tmp_path], 0)


# Cost


def test_cost_by_the_paper_scales_with_tasks_and_prices() -> None:
    (paper,) = estimates(config(), 89)
    assert (paper.low, paper.high, paper.tokens) == (55.0, 55.0, 80_000_000)
    (five,) = estimates(config(runs=5), 89)
    assert five.low == pytest.approx(275)
    (cheap,) = estimates(config(models=("anthropic:claude-sonnet-5",)), 89)
    assert cheap.low is not None
    assert cheap.high is not None
    assert 0 < cheap.low < cheap.high < 55  # cheaper by a fifth to a third, by kind of token
    (uncapped,) = estimates(config(strategies=("none",)), 89)
    assert (uncapped.low, uncapped.high) == (pytest.approx(55 / 0.8), pytest.approx(55 / 0.3))


def test_cost_that_nothing_tells_is_not_known() -> None:
    (other,) = estimates(config(benchmark="my-own"), 10)
    assert (other.low, other.tokens) == (None, None)
    assert "cost not known" in other.describe()
    (unpriced,) = estimates(config(models=("openai:not-in-any-list",)), 89)
    assert (unpriced.low, unpriced.tokens) == (None, 80_000_000)


def test_cost_by_trials_that_are_there_comes_first(tmp_path: Path) -> None:
    results(tmp_path, "openai:gpt-5.4", [1.0, 3.0, None])
    own, other = estimates(config(output=str(tmp_path), runs=2, strategies=("cwl", "none")), 3)
    # Three of six are done; the cost of one of them is not known.
    assert (own.done, own.trials, own.low, own.high) == (3, 6, 6.0, 6.0)
    assert own.source == "from 2 trials of the same arm"
    assert (other.done, other.low) == (0, 12.0)
    assert "other arms with openai:gpt-5.4" in other.source


# What is missing


def test_check_names_each_thing_that_is_missing_with_its_remedy(tmp_path: Path) -> None:
    chosen = config(
        models=("anthropic:claude-sonnet-5", "openai:not-in-any-list", "antropic:claude-sonnet-5"),
        env={"MY_KEY": "${MY_KEY}"},
        environment=EnvironmentSettings(kwargs={"bases": str(tmp_path / "bases")}),
        limits=Limits(cost_total=5),
    )
    wrong = "\n".join(problems(chosen, [task(tmp_path / "one", "tiny:1"), task(tmp_path / "two", "tiny:1")], {}))
    assert "no key for anthropic:claude-sonnet-5: export ANTHROPIC_API_KEY" in wrong
    assert "models: antropic:claude-sonnet-5: Pydantic AI knows no provider 'antropic'" in wrong
    assert wrong.count("knows no provider") == 1
    assert "MY_KEY is ${MY_KEY}, which is not set here" in wrong
    assert "no prices are known for openai:not-in-any-list, so cost_total cannot hold" in wrong
    assert "tasks: one, two: no root file system for the image tiny:1" in wrong
    assert "eval_bases.sh" in wrong


def test_check_finds_nothing_where_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "bases" / "tiny:1" / "bin").mkdir(parents=True)
    chosen = config(environment=EnvironmentSettings(kwargs={"bases": str(tmp_path / "bases")}))
    wrong = problems(chosen, [task(tmp_path / "one", "tiny:1")], {"OPENAI_API_KEY": "x"})
    about_here = re.compile("Harbor|linux cannot run here|GB free")  # of the machine that runs this test
    assert [problem for problem in wrong if not about_here.search(problem)] == []


def test_check_spends_nothing_and_says_what_it_would_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "tasks" / "one"
    task(folder, "tiny:1")
    (folder / "task.toml").write_text('schema_version = "1.4"\n')
    path = tmp_path / "tb2.yaml"
    path.write_text(
        "benchmark: terminal-bench-2.0\npath: tasks\nmodels: [openai:gpt-5.4]\nprotocols: [single]\n"
        f"environment: {{type: linux, kwargs: {{bases: {tmp_path / 'bases'}}}}}\n"
    )
    pytest.importorskip("yaml")
    assert main(["eval", "check", str(path)]) == 1
    out = capsys.readouterr().out
    assert "openai:gpt-5.4 cwl 80000 single: 1 of 1 trials to come; about $0.618, 0.9M tokens" in out
    assert "! tasks: one: no root file system for the image tiny:1" in out
    assert not (tmp_path / "tb2-results").exists()


def test_a_client_that_another_package_brought_is_looked_at() -> None:
    pytest.importorskip("pydantic_ai")
    assert not list(clients(["test:x", "function:y"]))
    for line in clients(["anthropic:a", "openai-chat:b", "openai:c", "cohere:d"]):
        assert re.fullmatch(
            r'models: (\w+) needs \S+, and \S+ is (not )?installed: .+ install .*"pydantic-ai-slim\[\1\]"', line
        )

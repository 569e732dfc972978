from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from wane.agent.faults import SILENCE
from wane.core.errors import ConfigError
from wane_research.evaluation.running.config import (
    Config,
    Limits,
    Sample,
    draw_sample,
    hung_after,
    in_order,
    load,
    read,
)

LEAST: dict[str, Any] = {"benchmark": "b", "path": "tasks", "models": ["anthropic:claude-sonnet-5"]}


def config(**changes: Any) -> Config:
    return read({**LEAST, **changes}, Path("/somewhere/tb2.yaml"))


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tb2.yaml"
    file.write_text(
        "benchmark: terminal-bench-2.0\npath: tb2\nmodels: [anthropic:claude-sonnet-5]\nbudgets: [80000, 120k]\n"
        "limits: {cost_total: 10}\nsample: {count: 3, seed: 4}\nenvironment: {type: docker}\n",
        encoding="utf-8",
    )
    found = load(file)
    assert (found.path, found.output) == (str(tmp_path / "tb2"), str(tmp_path / "tb2-results"))
    assert found.budgets == ("80000", "120k")
    assert found.limits == Limits(cost_total=10.0)
    assert found.sample == Sample(3, 4)
    assert found.environment.type == "docker"


def test_a_single_value_may_stand_for_a_list() -> None:
    assert config(models="openai:gpt-5", budgets=80000).arms()[0].model == "openai:gpt-5"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"strategy": "cwl"}, "unknown field 'strategy'"),
        ({"runs": 0}, "runs: 0 is less than 1"),
        ({"strategies": ["forget"]}, "strategies: 'forget' is not one of none, truncate"),
        ({"strategies": []}, "strategies: at least one is needed"),
        ({"budgets": ["80"]}, "budgets: budget '80' has no unit; did you mean 80k?"),
        ({"budgets": ["50%"]}, "budgets: budget '50%' is a share of the model's window"),
        ({"models": ["claude"]}, "models: 'claude' is not written as provider:model"),
        ({"benchmark": " "}, "benchmark: it is empty"),
        ({"path": ""}, "path: it is empty"),
        ({"env": {"": "x"}}, "env: '' is not a variable's name"),
        ({"models": []}, "models: at least one is needed"),
        ({"annotate": "nobody"}, "annotate: 'nobody' is not one of 'model', 'infer'"),
        ({"limits": {"cost_total": -1}}, "limits: cost_total: -1 is not a number above 0"),
        ({"limits": {"cost_total": float("nan")}}, "limits: cost_total: nan is not a number above 0"),
        ({"limits": {"minutes_per_task": float("inf")}}, "limits: minutes_per_task: inf is not a number above 0"),
        ({"margin": 3}, "margin: 3 is not from 0 to 1"),
        ({"env": {"ANTHROPIC_API_KEY": "written-here"}}, "env: ANTHROPIC_API_KEY: a key does not belong in a file"),
    ],
)
def test_an_error_names_the_key(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    assert told in str(caught.value)
    assert "tb2.yaml" in str(caught.value)
    assert "written-here" not in str(caught.value)


@pytest.mark.parametrize("absent", sorted(LEAST))
def test_a_missing_field_shows_the_whole_minimal_file(absent: str) -> None:
    data = {name: value for name, value in LEAST.items() if name != absent}
    with pytest.raises(ConfigError, match=absent) as caught:
        read(data, Path("/somewhere/tb2.yaml"))
    _, _, least = str(caught.value).partition("The least that a configuration needs:")
    assert read(yaml.safe_load(least), Path("/somewhere/tb2.yaml")).models == ("anthropic:claude-sonnet-5",)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml cannot be read"):
        load(tmp_path / "nowhere.yaml")
    for text, why in (
        ("a: [", ""),
        ("benchmark: a\npath: b\nlimits: {patience: 3, patience: 4}\n", ": line 3 .* twice"),
    ):
        (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"bad\.yaml is not YAML{why}"):
            load(tmp_path / "bad.yaml")


def test_arms_are_all_combinations_each_once() -> None:
    arms = config(strategies=["cwl", "none", "agent:pi"], budgets=["80k", "120k"]).arms()
    assert [(arm.strategy, arm.budget, arm.protocol) for arm in arms] == [
        ("cwl", 80_000, "isolated"),
        ("cwl", 80_000, "single"),
        ("cwl", 120_000, "isolated"),
        ("cwl", 120_000, "single"),
        ("none", None, "isolated"),
        ("none", None, "single"),
        ("agent:pi", None, "isolated"),
    ]


def test_there_is_an_arm_for_each_marker_where_anybody_marks() -> None:
    strategies = ["cwl", "truncate", "agent:pi", "agent:pi@paper"]
    arms = config(strategies=strategies, protocols="isolated", annotate=["model", "infer"]).arms()
    assert [(arm.strategy, arm.annotate) for arm in arms] == [
        ("cwl", "model"),
        ("cwl", "infer"),
        ("truncate", None),
        ("agent:pi", None),
        ("agent:pi@paper", "model"),
        ("agent:pi@paper", "infer"),
    ]
    (one,) = config(protocols="isolated", annotate="infer").arms()
    assert one.strategy_text == "cwl, marks by infer"


def test_reference_solutions_need_no_model() -> None:
    (arm,) = config(models=[], strategies=["agent:oracle"]).arms()
    assert (arm.model, arm.budget, arm.protocol) == ("", None, "isolated")
    with pytest.raises(ConfigError, match="protocols: agents other than Wane run only in isolated sessions"):
        config(strategies=["agent:oracle"], protocols=["single"]).arms()


def test_each_run_has_an_order_of_its_own_by_the_seed() -> None:
    tasks = tuple("abcdefgh")
    first = in_order(tasks, 7, 1)
    assert sorted(first) == list(tasks)
    assert first == in_order(tasks, 7, 1)
    assert len({first, in_order(tasks, 7, 2), in_order(tasks, 8, 1), tasks}) == 4
    assert in_order(tasks, None, 2) == tasks
    # Leaving tasks out keeps the order of the others.
    assert in_order(tasks[2:], 7, 1) == tuple(task for task in first if task in tasks[2:])


def test_a_sample_is_drawn_by_its_own_seed() -> None:
    tasks = tuple("abcdefgh")
    sample = draw_sample(tasks, Sample(3, 1))
    assert len(sample) == 3
    assert sample == draw_sample(tasks, Sample(3, 1)) != draw_sample(tasks, Sample(3, 2))
    assert list(sample) == sorted(sample)
    assert draw_sample(tasks, None) == tasks
    with pytest.raises(ConfigError, match="sample: count is 9, but there are only 8 tasks"):
        draw_sample(tasks, Sample(9, 1))


def test_wane_is_not_killed_while_a_call_is_silent() -> None:
    assert hung_after(100, patience=0) > 100 + SILENCE

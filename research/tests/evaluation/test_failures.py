"""What fails besides the agent ends one trial, with its reason and as the environment's, and never the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from research.tests.evaluation.test_evaluation import Model
from research.tests.evaluation.whole import TASKS, results

from wane.testing import ScriptedServer
from wane_research.evaluation.results import NOTHING, ContextFigures, Trial

pytestmark = pytest.mark.wide

# By task, a Dockerfile whose environment cannot be made, and what is said of it.
BROKEN = {
    "no-base": ("FROM nowhere:9\n", "SandboxError", "no root file system for the image nowhere:9"),
    "no-download": (
        "FROM tiny:1\nRUN bash -c 'exec 3<>/dev/tcp/127.0.0.1/1'\n",
        "SandboxError",
        "Connection refused",
    ),
    "two-stages": ("FROM tiny:1 AS one\nFROM tiny:1\nCOPY --from=one /bin /x\n", "DockerfileError", ""),
    "no-dockerfile": (None, "FileNotFoundError", "the environment linux needs a Dockerfile"),
}


@pytest.fixture
def tasks(place: Path, tmp_path: Path) -> Path:
    """The usual tasks, with broken ones between them."""
    folder = tmp_path / "tasks"
    shutil.copytree(place / "tasks", folder)
    for name, (dockerfile, _, _) in BROKEN.items():
        shutil.copytree(place / "tasks" / "birch", folder / name)
        path = folder / name / "environment" / "Dockerfile"
        path.unlink()
        if dockerfile is not None:
            path.write_text(dockerfile)
    return folder


def by_task(tmp_path: Path, protocol: str = "isolated") -> dict[str, Trial]:
    return {it.task: it for it in results(tmp_path / "out", protocol).trials}


@pytest.mark.wide
def test_an_environment_that_cannot_be_made_ends_one_trial(
    evaluate_to_end: Callable[..., str], tasks: Path, tmp_path: Path
) -> None:
    order = ["no-base", "apple", "no-download", "birch", "two-stages", "no-dockerfile", "cedar"]
    with ScriptedServer(Model()) as server:
        run = {"path": str(tasks), "tasks": order, "seed": None, "protocols": ["single"]}
        out = evaluate_to_end(server.url, **run)
    found = by_task(tmp_path, "single")
    assert {name: found[name].reward for name in TASKS} == dict.fromkeys(TASKS, 1.0)
    for name, (_, error, said) in BROKEN.items():
        it = found[name]
        assert (it.error, it.ended_by, it.phase, it.reward) == (error, "environment", "set-up", None)
        assert said in it.error_message
        assert (it.usage, it.context, it.seconds) == (NOTHING, ContextFigures(), None)
        assert f"{name}  -    $0.00  {error}" in out
    # The session goes on behind them, and there is nothing to be done again.
    assert (found["cedar"].usage.model_calls, found["cedar"].error) == (2, "")
    out = evaluate_to_end("", "resume", str(tmp_path / "out"))
    assert "7 trials" in out


def test_an_agent_that_cannot_be_set_up_is_the_environments_failure(
    evaluate_to_end: Callable[..., str], tmp_path: Path
) -> None:
    # The image of an instance that lacks its checkout.
    out = evaluate_to_end("", benchmark="swe-bench-lite", tasks=["apple"], protocols=["isolated"], code=1)
    assert "no trial counts in " in out
    trial = by_task(tmp_path)["apple"]
    assert (trial.error, trial.ended_by, trial.usage) == ("RuntimeError", "environment", NOTHING)
    assert "/testbed is not a git checkout" in trial.error_message


@pytest.mark.wide
def test_what_harbor_cannot_collect_or_store_ends_one_trial(
    evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path
) -> None:
    kwargs = {"bases": str(place / "bases"), "no_logs": "apple", "no_room": "birch"}
    environment = {"type": "research.tests.evaluation.failing:FailingEnvironment", "kwargs": kwargs}
    evaluate_to_end("", models=[], strategies=["agent:oracle"], seed=None, environment=environment)
    found = by_task(tmp_path)
    assert (found["apple"].error, found["apple"].error_message) == ("RuntimeError", "the container is gone")
    assert found["apple"].reward is None
    # It was graded before.
    birch = found["birch"]
    assert (birch.reward, birch.error, birch.ended_by) == (1.0, "IsADirectoryError", "environment")
    assert (found["cedar"].reward, found["cedar"].error) == (1.0, "")
    # The reference solution asks no model.
    assert (birch.usage, birch.context) == (NOTHING, None)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("echo 2 >/logs/verifier/reward.txt", "the verifier's reward 2 is not from 0 to 1"),
        (
            """echo '{"a": 1, "b": 0}' >/logs/verifier/reward.json""",
            "the verifier gave a, b, and none that is named reward",
        ),
    ],
)
def test_a_reward_that_cannot_be_used_is_the_verifiers_error(
    evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path, written: str, said: str
) -> None:
    shutil.copytree(place / "tasks", tmp_path / "tasks")
    (tmp_path / "tasks" / "apple" / "tests" / "test.sh").write_text(f"#!/bin/bash\n{written}\n")
    run = {"models": [], "strategies": ["agent:oracle"], "seed": None, "tasks": ["apple", "birch"]}
    evaluate_to_end("", **run, path=str(tmp_path / "tasks"))
    found = by_task(tmp_path)
    apple = found["apple"]
    assert (apple.reward, apple.error, apple.ended_by) == (None, "RewardError", "verifier")
    assert apple.error_message == said
    assert found["birch"].reward == 1.0


@pytest.mark.wide
def test_an_environment_that_breaks_while_the_agent_works_has_no_score(
    evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path
) -> None:
    kwargs = {"bases": str(place / "bases"), "breaks": "apple"}
    environment = {"type": "research.tests.evaluation.failing:FailingEnvironment", "mount": True, "kwargs": kwargs}
    with ScriptedServer(Model()) as server:
        evaluate_to_end(
            server.url, seed=None, tasks=["apple", "birch"], protocols=["isolated"], environment=environment
        )
    found = by_task(tmp_path)
    apple = found["apple"]
    assert (apple.reward, apple.error, apple.ended_by, apple.counts) == (None, "SandboxError", "environment", False)
    assert (found["birch"].reward, found["birch"].counts) == (1.0, True)

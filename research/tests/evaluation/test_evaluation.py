"""Whole evaluations: Harbor, real environments and the real agent; only the model is a script.

They need namespaces, and Python 3.12 with Harbor, which research/scripts/eval_env.sh installs beside the developers'.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from research.tests.evaluation.longcli_task import BASE, INSTRUCTION, NAME, make_benchmark
from research.tests.evaluation.machines import make_base, make_python_base
from research.tests.evaluation.study import Model as StudyModel
from research.tests.evaluation.study import short_study, write_task
from research.tests.evaluation.whole import COMMAND, PATIENCE, SOURCES, TASKS, results, wait_for_end

from tests.marks import first_quick
from wane.core import DELIMITER
from wane.scripted.model_calls import act
from wane.scripted.sight import asks_for_summary
from wane.testing import Call, Kind, Reply, Request, ScriptedServer
from wane_research.evaluation.results import FILE_NAME, RunResults, Trial, read

READ_TRAJECTORY = """
import sys
from harbor.models.trajectories import Trajectory
Trajectory.model_validate_json(open(sys.argv[1]).read())
"""


@dataclass
class Model:
    """Does each task in one command, in an episode that it leaves open if it has `delimiter`, and says so."""

    stuck_in: str = ""  # the task in which it does not answer, once
    slow_in: str = ""  # the task whose command takes for ever
    stuck: threading.Event = field(default_factory=threading.Event)  # set when that has come
    go_on: threading.Event = field(default_factory=threading.Event)
    turns: list[tuple[str, ...]] = field(default_factory=list)  # the user's turns in each request

    def __call__(self, request: Request) -> Reply:
        parts = request.parts
        last = max(at for at, part in enumerate(parts) if part.kind is Kind.USER and "Write the word" in part.text)
        self.turns.append(tuple(text for text in request.texts(Kind.USER) if "Write the word" in text))
        name = next(name for name in TASKS if f"the word {name} " in parts[last].text)
        if any(part.kind is Kind.CALL for part in parts[last:]):
            return Reply(f"The word {name} is written.")
        if name == self.stuck_in and not self.stuck.is_set():
            self.stuck.set()
            self.go_on.wait(PATIENCE)
        starts = (act(name, ()),) if DELIMITER in request.tools else ()
        wait = "; sleep 1000" if name == self.slow_in else ""
        return Reply(calls=(*starts, Call("shell", {"command": f"echo {name} >/app/{name}.txt{wait}"})))


def essence(found: RunResults) -> list[tuple[Any, ...]]:
    """What of a run must be the same each time."""
    return [(it.task, it.position, it.reward, it.error, it.usage, it.context) for it in found.trials]


def session_of(found: RunResults, trial: Trial) -> str:
    return json.loads((found.path.parent / trial.journal).read_text().splitlines()[0])["id"]


@pytest.mark.wide
def test_both_protocols_and_the_report(evaluate_to_end: Callable[..., str], python: str, tmp_path: Path) -> None:
    model = Model()
    with ScriptedServer(model) as server:
        evaluate_to_end(server.url)
        assert not server.refusals
    single, isolated = (results(tmp_path / "out", protocol) for protocol in ("single", "isolated"))
    assert single.run.order == isolated.run.order
    for found in (single, isolated):
        assert [(it.task, it.reward, it.error) for it in found.trials] == [(name, 1.0, "") for name in found.run.order]
        assert all(it.usage.model_calls == 2 and (it.usage.cost or 0) > 0 for it in found.trials)
    assert len({session_of(single, it) for it in single.trials}) == 1
    assert len({session_of(isolated, it) for it in isolated.trials}) == 3
    # The same line ahead of each task, and in one session all tasks so far.
    assert all(turn.startswith(single.run.new_environment) for turns in model.turns for turn in turns)
    assert sorted(len(turns) for turns in model.turns) == [1] * 8 + [2] * 2 + [3] * 2
    # Each has the trajectory of its own task, as Harbor reads it.
    for found in (single, isolated):
        for it in found.trials:
            path = found.path.parent / it.directory / "agent" / "trajectory.json"
            subprocess.run([python, "-c", READ_TRAJECTORY, path], check=True)
            sources = [step["source"] for step in json.loads(path.read_text())["steps"]]
            assert sources == ["user", "agent", "agent"]
    # No key was kept.
    kept = [
        path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"a-key-of-this-test" in path.read_bytes()
    ]
    assert not kept
    out = evaluate_to_end("", "report", str(tmp_path / "out"))
    assert "trees" in out
    assert "100" in out


@pytest.mark.wide
def test_each_marker_has_an_arm_and_its_effect_a_row(evaluate_to_end: Callable[..., str], tmp_path: Path) -> None:
    with ScriptedServer(Model()) as server:
        evaluate_to_end(server.url, annotate=["model", "infer"], protocols=["isolated"])
        assert not server.refusals
    out = evaluate_to_end("", "report", str(tmp_path / "out"), "--json")
    effects = {it["measure"]: (it["value"], it["other"], it["tasks"]) for it in json.loads(out)["marking"]}
    assert effects["model calls"] == (2, 2, 3)
    assert effects["episodes without end"] == (0, 1, 3)


@pytest.mark.wide
def test_a_run_that_is_killed_in_a_task_goes_on_as_if_it_had_not(
    evaluate: Callable[..., Any], evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path
) -> None:
    with ScriptedServer(Model()) as server:
        evaluate_to_end(server.url, protocols=["single"], output="undisturbed")
    undisturbed = results(tmp_path / "undisturbed", "single")
    model = Model(stuck_in=undisturbed.run.order[1])
    with ScriptedServer(model) as server:
        process = evaluate(server.url, protocols=["single"])
        assert model.stuck.wait(PATIENCE)
        process.kill()
        wait_for_end(process)
        model.go_on.set()
        broken = results(tmp_path / "out", "single")
        assert essence(broken) == essence(undisturbed)[:1]
        evaluate_to_end(server.url, "resume", str(tmp_path / "out"))
    found = results(tmp_path / "out", "single")
    assert essence(found) == essence(undisturbed)
    assert [(it.task, it.why) for it in found.abandoned] == [(undisturbed.run.order[1], "killed")]
    assert len({session_of(found, it) for it in found.trials}) == 1
    # The environment of the task that was killed is gone too.
    assert not list((place / "bases" / "cache").glob("run-*"))


@pytest.mark.wide
def test_time_and_money_end_tasks_and_the_session_lives_on(evaluate_to_end: Callable[..., str], tmp_path: Path) -> None:
    with ScriptedServer(Model(slow_in="birch")) as server:
        limits = {"minutes_per_task": 0.75, "cost_total": 100}
        evaluate_to_end(server.url, protocols=["single"], seed=None, limits=limits)
    found = results(tmp_path / "out", "single")
    assert [(it.task, it.error, it.reward) for it in found.trials] == [
        ("apple", "", 1.0),
        # Graded as it is when the time is over.
        ("birch", "AgentTimeoutError", 1.0),
        ("cedar", "", 1.0),
    ]
    assert "the time limit of 0.75 minutes is reached" in found.trials[1].error_message
    assert len({session_of(found, it) for it in found.trials}) == 1

    one = found.trials[0].usage.cost or 0.0
    with ScriptedServer(Model()) as server:
        limited = {"output": "limited", "protocols": ["single"], "seed": None}
        out = evaluate_to_end(server.url, **limited, limits={"cost_total": one * 1.2}, code=3)
        assert "in total is reached" in out
        assert [it.task for it in results(tmp_path / "limited", "single").trials] == ["apple"]
        evaluate_to_end(server.url, **limited, limits={"cost_per_task": one / 10})
    found = results(tmp_path / "limited", "single")
    assert [(it.task, it.ended_by) for it in found.trials] == [
        ("apple", None),
        ("birch", "limit"),
        ("cedar", "limit"),
    ]


@pytest.mark.wide
def test_reference_solutions(evaluate_to_end: Callable[..., str], tmp_path: Path) -> None:
    evaluate_to_end("", models=[], strategies=["agent:oracle"], seed=None)
    found = results(tmp_path / "out", "isolated")
    assert [(it.task, it.reward) for it in found.trials] == [(name, 1.0) for name in TASKS]


@pytest.mark.wide
@pytest.mark.parametrize(("protocol", "sessions"), first_quick(("single", 1), ("isolated", 3)))
def test_a_task_of_several_steps(
    evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path, protocol: str, sessions: int
) -> None:
    tasks = tmp_path / "tasks"
    shutil.copytree(place / "tasks" / "apple", tasks / "apple")
    steps = tasks / "steps"
    shutil.copytree(place / "tasks" / "birch" / "environment", steps / "environment")
    (steps / "task.toml").write_text(
        'schema_version = "1.4"\nmulti_step_reward_strategy = "mean"\n[metadata]\n[agent]\ntimeout_sec = 120.0\n'
        '[verifier]\ntimeout_sec = 60.0\n[environment]\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    )
    for step, name in (("one", "birch"), ("two", "cedar")):
        (steps / "steps" / step / "tests").mkdir(parents=True)
        (steps / "steps" / step / "instruction.md").write_text(f"Write the word {name} to /app/{name}.txt.\n")
        (steps / "steps" / step / "tests" / "test.sh").write_text(
            f'#!/bin/bash\n[ "$(cat /app/{name}.txt)" = {name} ] && echo 1 >/logs/verifier/reward.txt\n'
        )
    model = Model()
    with ScriptedServer(model) as server:
        evaluate_to_end(server.url, path=str(tasks), protocols=[protocol], seed=None)
    found = results(tmp_path / "out", protocol)
    assert [(it.task, it.reward, it.usage.model_calls) for it in found.trials] == [("apple", 1.0, 2), ("steps", 1.0, 4)]
    assert [(it.name, it.reward) for it in found.trials[1].steps] == [("one", 1.0), ("two", 1.0)]
    assert len({path.name for path in (tmp_path / "out").rglob("sessions/*/*.jsonl")}) == sessions
    assert all(it.context is not None and it.context.peak_view > 0 for it in found.trials)
    # The second step is no new environment.
    seen = [turns[-1].startswith("This is a new task") for turns in model.turns]
    assert seen == [True] * 4 + [protocol == "isolated"] * 2


@pytest.mark.wide
def test_a_model_that_acts_on_what_it_sees(evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path) -> None:
    make_python_base(place / "bases")
    write_task(tmp_path / "study" / "depot", short_study())
    arms = {"strategies": ["cwl", "compact", "truncate"], "protocols": ["single"], "budgets": ["14k"]}
    with ScriptedServer(StudyModel()) as server:
        evaluate_to_end(server.url, path=str(tmp_path / "study"), seed=None, concurrency=3, **arms)
        assert not server.refusals
        requests = server.requests
    found = {it.run.arm.strategy: it for it in map(read, (tmp_path / "out").rglob(FILE_NAME))}
    trials = {strategy: it.trials[0] for strategy, it in found.items()}
    assert all(it.context is not None and it.context.passes > 0 for it in trials.values())
    # Those for summaries are counted too.
    assert any(map(asks_for_summary, requests))
    assert sum(it.usage.model_calls for it in trials.values()) == len(requests)
    rewards = {
        "cwl": [1.0, 1.0, 1.0, 1.0],
        # The summary holds the user's words.
        "compact": [1.0, 1.0, 1.0, 1.0],
        # The name that the last step needs was evicted with the second turn.
        "truncate": [1.0, 1.0, 1.0, 0.0],
    }
    assert trials.keys() == rewards.keys()
    for strategy, trial in trials.items():
        assert [step.reward for step in trial.steps] == rewards[strategy], strategy


@pytest.mark.wide
def test_what_an_agent_changed_is_kept_for_the_grader(
    evaluate: Callable[..., Any], evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path
) -> None:
    checkout = make_base(place / "bases", "swebench/sweb.eval.x86_64.trees_1776_trees-1:latest") / "testbed"
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    checkout.mkdir()
    (checkout / "kept.txt").write_text("kept\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "lite.jsonl").write_text(
        json.dumps(
            {
                "instance_id": "trees__trees-1",
                "repo": "trees/trees",
                "base_commit": "0" * 40,
                "problem_statement": "Write the word apple somewhere.",
            }
        )
    )
    tasks = tmp_path / "tasks"
    assert wait_for_end(evaluate("", "swe-bench", str(tmp_path / "lite.jsonl"), str(tasks)))[0] == 0
    commands = (
        "echo apple >new.txt; git -c user.name=y -c user.email=y@example.org commit -qam mine; echo more >>kept.txt"
    )
    script = [Reply(calls=(Call("shell", {"command": commands}),)), Reply("Done.")]
    with ScriptedServer(script) as server:
        evaluate_to_end(server.url, benchmark="swe-bench-lite", path=str(tasks), protocols=["isolated"])
    (trial,) = results(tmp_path / "out", "isolated").trials
    assert (trial.reward, trial.error) == (None, "")
    evaluate_to_end("", "predictions", str(tmp_path / "out"))
    (path,) = (tmp_path / "out").rglob("predictions.jsonl")
    prediction = json.loads(path.read_text())
    assert prediction["instance_id"] == "trees__trees-1"
    applied = subprocess.run([*git, "apply", "-"], input=prediction["model_patch"], text=True, check=False)
    assert applied.returncode == 0
    assert (checkout / "new.txt").read_text() == "apple\n"
    assert (checkout / "kept.txt").read_text() == "kept\nmore\n"


@pytest.mark.wide
@pytest.mark.parametrize(("sum_of", "steps"), first_quick(("abs(a) + b", (0.5, 1.0)), ("a + b", (1.0, 1.0))))
def test_a_task_of_longcli_is_graded_by_its_own_tests(
    evaluate_to_end: Callable[..., str], place: Path, tmp_path: Path, sum_of: str, steps: tuple[float, float]
) -> None:
    if not (place / "bases" / BASE).exists():
        make_python_base(place / "bases", BASE)
    make_benchmark(tmp_path / "clone")
    evaluate_to_end("", "longcli", str(tmp_path / "clone"), str(tmp_path / "tasks"))
    # A score that the agent wrote itself does not count.
    command = (
        f"cat INSTRUCTION.md; printf 'def add(a, b):\\n    return {sum_of}\\n' >>lab/add.py; "
        'mkdir test_output; echo \'{"is_pass": 1, "step_score": 9}\' >test_output/f2p_score.json'
    )
    with ScriptedServer([Reply(calls=(Call("shell", {"command": command}),)), Reply("Done.")]) as server:
        evaluate_to_end(server.url, path=str(tmp_path / "tasks"), protocols=["isolated"])
        assert INSTRUCTION in server.requests[1].texts(Kind.RESULT)[0]
    (trial,) = results(tmp_path / "out", "isolated").trials
    assert (trial.task, trial.reward, trial.error) == (NAME, float(steps[0] == 1.0), "")
    (path,) = (tmp_path / "out").rglob("reward.json")
    rewards = json.loads(path.read_text())
    assert (rewards["f2p"], rewards["p2p"]) == steps
    assert (path.parent / "test_output" / "p2p_output.txt").exists()


@pytest.mark.full
def test_without_harbor_the_command_says_how_to_get_it(tmp_path: Path, place: Path) -> None:
    if not subprocess.run([sys.executable, "-c", "import harbor"], capture_output=True, check=False).returncode:
        pytest.skip("Harbor is installed for this Python")
    (tmp_path / "c.yaml").write_text(json.dumps({"benchmark": "b", "path": str(place / "tasks"), "models": ["a:b"]}))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "eval", "run", str(tmp_path / "c.yaml")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    assert done.returncode == 1
    assert f'pip install "{Path(__file__).parents[2]}[eval]"' in done.stderr
    assert not (tmp_path / "c-results").exists()


@pytest.mark.full
def test_a_mistake_in_the_configuration_is_told_before_harbor_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    nowhere = tmp_path / "nowhere"
    config.write_text(json.dumps({"benchmark": "b", "path": str(nowhere), "models": ["a:b"]}))
    for text, why in (
        (config.read_bytes(), str(nowhere)),
        (b"\xff\xfe", "is not text in UTF-8; give the configuration"),
    ):
        config.write_bytes(text)
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "eval", "run", str(config)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )
        assert done.returncode == 2
        assert why in done.stderr
        assert "Harbor" not in done.stderr

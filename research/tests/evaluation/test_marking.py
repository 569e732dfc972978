"""What marking does to the model: runs of the real agent over a real wire, with scripts that differ in known ways.

There is no Harbor in them, and no Docker: a trial is a session of the agent in this process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest

from wane.core import DEFAULT_BUDGET, DELIMITER
from wane.scripted.model_calls import act, end, explore, read, shell, write
from wane.testing import Call, Kind, Reply, Request, ScriptedServer
from wane_research.evaluation.report import report, to_markdown
from wane_research.evaluation.report.marking import MEASURES, MarkingEffect
from wane_research.evaluation.results import FILE_NAME, VERSION, Arm, ContextFigures, Run, Trial, Usage, append, begin
from wane_research.evaluation.results import read as read_results
from wane_research.evaluation.running.config import Config
from wane_research.evaluation.running.journals import SESSIONS
from wane_research.evaluation.running.runner import Evaluation
from wane_research.evaluation.running.trial import Attempt
from wane_research.evaluation.statistics import t_quantile

pytest.importorskip("pydantic_ai")
pytest.importorskip("anthropic")

from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, SessionConfig
from wane.journal import SessionStore
from wane.testing.connected_models import anthropic_model

TASKS = 10

DIFFERS = {
    "plain": set[str](),
    "busy": {"model calls"},
    "hasty": {"exploring calls before the first change"},
    "forgetful": {"repeated reads"},
    "open": {"episodes without end"},
}
"""What each model does differently where it marks its work itself."""


def plan(model: str, task: int, *, marks: bool) -> list[tuple[Call, ...]]:
    """The replies to a task. How often it checks is chance, so that no two arms are quite the same."""
    files = Random(task).randint(2, 3)
    checks = Random(f"{model}/{task}/{marks}").randint(0, 2)
    reads = [read(f"part-{number}.txt") for number in range(files)]
    other = [shell("true")] * files
    if model == "hasty" and marks:
        reads, other = reads[:1], [*other[1:], *other]  # as many calls in all, but later
    else:
        other = other[1:]
    after = [read("part-0.txt"), *[shell("true")] * 2]
    if model == "forgetful" and marks:
        after[1:] = [read("part-0.txt")] * 2
    busy = []
    if model == "busy" and marks:
        busy = [shell("true")] * 6
    steps = [(call,) for call in (*reads, write("answer.txt", f"{task}\n"), *after, *other, *busy)]
    steps += [(shell("true"),)] * checks
    if marks:
        look, change = f"look-{task}", f"write-{task}"
        steps[0] = (explore(look), *steps[0])
        steps[len(reads)] = (end(look, "Read the parts."), act(change, [look]), *steps[len(reads)])
        if model != "open":
            steps[-1] = (*steps[-1], end(change))
    return steps


def decide(request: Request) -> Reply:
    """Take the next step of the plan: as many are done as there are answers since the task was given."""
    task, done = 0, 0
    for message in request.messages:
        told = " ".join(part.text for part in message.parts if part.kind is Kind.USER)
        if given := re.search(r"Task (\d+)\.", told):
            task, done = int(given[1]), 0
        done += message.role == "assistant"
    steps = plan(request.model, task, marks=DELIMITER in request.tools)
    return Reply("Go on.", calls=steps[done]) if done < len(steps) else Reply("Done.")


class Trials:
    """Does trials: the agent in a folder, by the arm's settings."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self, _config: Config, attempt: Attempt) -> Trial:
        arm, app = attempt.arm, attempt.directory / "app"
        app.mkdir(parents=True)
        for number in range(3):
            (app / f"part-{number}.txt").write_text(f"{number}\n", encoding="utf-8")
        model = anthropic_model(self.url, arm.model.partition(":")[2], 0)
        settings = AgentSettings(model=model, budget=arm.budget or DEFAULT_BUDGET, yolo=True)
        settings = settings.replace(strategy=arm.strategy, annotate=arm.annotate or "model")
        store = SessionStore(attempt.directory / "agent" / SESSIONS)
        session = self._session(attempt.earlier, SessionConfig(app, settings, store))
        number = attempt.task.name.removeprefix("task-")
        await session.run(f"Task {number}. Write its number to answer.txt.")
        session.close()
        assert session.journal is not None
        usage, context = attempt.figures()
        return Trial(
            arm,
            attempt.run,
            attempt.position,
            attempt.task.name,
            float((app / "answer.txt").read_text(encoding="utf-8") == f"{number}\n"),
            usage=usage,
            context=context,
            journal=session.journal.path.relative_to(attempt.folder).as_posix(),
            directory=attempt.directory.relative_to(attempt.folder).as_posix(),
        )

    def _session(self, earlier: Path | None, config: SessionConfig) -> AgentSession:
        """A new session, or the one of the trials before, copied into the folder of this one."""
        if earlier is None:
            return AgentSession.create(config)
        assert config.store is not None
        journal = config.store.root / earlier.parent.name / earlier.name
        journal.parent.mkdir(parents=True)
        journal.write_bytes(earlier.read_bytes())
        return AgentSession.resume(journal, config)


def evaluate(folder: Path, models: list[str], tasks: int, **changes: Any) -> Path:
    """Run an evaluation, and return the folder with its results."""
    for number in range(tasks):
        place = folder / "tasks" / f"task-{number}"
        place.mkdir(parents=True)
        (place / "task.toml").write_text("[agent]\ntimeout_sec = 60.0\n", encoding="utf-8")
    config = Config(
        "numbers",
        str(folder / "tasks"),
        tuple(f"anthropic:{model}" for model in models),
        protocols=("isolated",),
        annotate=("model", "infer", "host"),
        output=str(folder / "out"),
    )
    with ScriptedServer(decide) as server:
        evaluation = Evaluation(replace(config, **changes), lambda *_: None, Trials(server.url))
        with evaluation:
            asyncio.run(evaluation.run())
        assert not server.refusals
    return folder / "out"


def effects(out: Path, model: str, annotate: str = "infer") -> Mapping[str, MarkingEffect]:
    """What the report of one model's runs says of an arm against that whose model marks, by measure."""
    found = report(sorted(out.glob(f"anthropic-{model}-*")))
    assert {effect.to.annotate for effect in found.marking} == {"model"}
    return {effect.measure: effect for effect in found.marking if effect.arm.annotate == annotate}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(tmp_path_factory.mktemp("marking"), list(DIFFERS), TASKS)


@pytest.mark.wide
@pytest.mark.parametrize("annotate", ["infer", "host"])
@pytest.mark.parametrize("model", DIFFERS)
def test_the_report_tells_what_differs_and_nothing_else(out: Path, model: str, annotate: str) -> None:
    found = effects(out, model, annotate)
    assert set(found) == set(MEASURES)
    assert {measure for measure, effect in found.items() if effect.told_apart} == DIFFERS[model]
    assert all(effect.tasks == TASKS for effect in found.values())


@pytest.mark.wide
def test_figures_are_those_of_the_plans(out: Path) -> None:
    found = effects(out, "forgetful")
    marked = fmean(len(plan("forgetful", task, marks=True)) + 1 for task in range(TASKS))
    unmarked = fmean(len(plan("forgetful", task, marks=False)) + 1 for task in range(TASKS))
    assert (found["model calls"].value, found["model calls"].other) == pytest.approx((unmarked, marked))
    assert (found["repeated reads"].value, found["repeated reads"].other) == (0, 2)
    assert found["score"].value == found["score"].other == 1


@pytest.mark.wide
def test_in_one_session_each_task_has_its_own_figures(tmp_path: Path) -> None:
    out = evaluate(tmp_path, ["forgetful"], 3, protocols=("single",), annotate=("model",))
    (results,) = map(read_results, out.rglob(FILE_NAME))
    for trial in results.trials:
        steps = plan("forgetful", int(trial.task.removeprefix("task-")), marks=True)
        reads = 0
        while "write_file" not in [call.tool for call in steps[reads]]:
            reads += 1
        assert trial.usage.model_calls == len(steps) + 1
        assert trial.context is not None
        assert (trial.context.explored_first, trial.context.repeated, trial.context.unended) == (reads, 2, 0)


@pytest.mark.wide
def test_an_evaluation_has_an_arm_for_each_marker(tmp_path: Path) -> None:
    out = evaluate(tmp_path, ["open"], 2, strategies=("cwl", "none"))
    found = report([out])
    arms = [(row.arm.strategy, row.arm.annotate) for row in found.rows]
    assert arms == [("cwl", "host"), ("cwl", "infer"), ("cwl", "model"), ("none", None)]
    text = to_markdown(found)
    assert "## What marking does" in text
    for marker in ("infer", "host"):
        assert f"| {marker} | model | episodes without end | 2 | 0.00 | 1.00 | -1.00 |" in text
    # Two tasks show nothing, however clear they look.
    assert {effect.told_apart for effect in found.marking} == {False}


# Figures by hand

BY_MODEL = Arm("numbers", "test:model", "cwl", 80_000, "isolated", "model")
BY_INFER = replace(BY_MODEL, annotate="infer")


def write_runs(folder: Path, arm: Arm, calls: Mapping[str, list[int]], context: ContextFigures | None = None) -> None:
    """Write the runs of an arm, by the model calls of each task's trials."""
    for number in range(1, 1 + len(next(iter(calls.values())))):
        path = folder / f"{arm.annotate}-{number}" / FILE_NAME
        begin(path, Run(VERSION, arm, number, tuple(calls), 1, "", 0.03, datetime(2026, 11, 24, tzinfo=UTC)))
        for position, (task, of_runs) in enumerate(calls.items(), start=1):
            usage = Usage(model_calls=of_runs[number - 1])
            append(path, Trial(arm, number, position, task, 1.0, usage=usage, context=context))


def test_the_interval_is_that_of_differences_within_tasks(tmp_path: Path) -> None:
    write_runs(tmp_path, BY_MODEL, {"a": [10], "b": [40], "c": [20], "d": [30], "only-here": [500]})
    write_runs(tmp_path, BY_INFER, {"a": [13], "b": [44], "c": [22], "d": [33]})
    (score, calls) = report([tmp_path]).marking
    assert (score.measure, score.value, score.other, score.told_apart) == ("score", 1, 1, False)
    assert (calls.arm, calls.to, calls.tasks, calls.value, calls.other) == (BY_INFER, BY_MODEL, 4, 28, 25)
    # Differences of 3, 4, 2 and 3 vary too little to say much by four tasks: the error is at least mean / (tasks + 2).
    half = t_quantile(1 - 0.05 / 2 / 2, 3) * 26.5 / 6
    assert calls.interval is not None
    assert (calls.interval.low, calls.interval.high) == pytest.approx((3 - half, 3 + half))
    assert calls.detectable == pytest.approx(half + t_quantile(0.8, 3) * 26.5 / 6)


def test_runs_that_lie_far_apart_widen_it(tmp_path: Path) -> None:
    tasks = [f"task-{number}" for number in range(40)]
    write_runs(tmp_path, BY_MODEL, {task: [10, 10, 10] for task in tasks})
    write_runs(tmp_path, BY_INFER, {task: [2, 12, 22] for task in tasks})
    (_, calls) = report([tmp_path]).marking
    assert (calls.value, calls.other, calls.told_apart) == (12, 10, False)
    assert calls.interval is not None
    assert calls.interval.width > 40


def test_what_is_not_known_is_not_compared(tmp_path: Path) -> None:
    """Such as of results that were written before these figures were."""
    write_runs(tmp_path, BY_MODEL, {"a": [10], "b": [10]}, ContextFigures(explored_first=2, repeated=0, unended=1))
    write_runs(tmp_path, BY_INFER, {"a": [10], "b": [10]}, ContextFigures())
    assert {effect.measure for effect in report([tmp_path]).marking} == {"score", "model calls"}


def test_arms_that_differ_in_anything_else_are_not_compared(tmp_path: Path) -> None:
    write_runs(tmp_path / "1", BY_MODEL, {"a": [10], "b": [10]})
    write_runs(tmp_path / "2", replace(BY_INFER, budget=50_000), {"a": [10], "b": [10]})
    assert report([tmp_path]).marking == ()

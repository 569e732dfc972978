from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from wane.core import Policy
from wane.core.errors import ConfigError
from wane.journal import ConfigRecord, Journal, UsageRecord
from wane_research.evaluation.results import FILE_NAME, NOTHING, ErrorKind, Protocol, RunResults, Trial, Usage, read
from wane_research.evaluation.running.config import Config, Limits, Sample, find_tasks
from wane_research.evaluation.running.journals import PROMPT, SESSIONS, STORE, estimate_of, usage_of
from wane_research.evaluation.running.runner import Evaluation, EvaluationError, PausedError, StoppedError
from wane_research.evaluation.running.trial import COST_LIMIT, Attempt

COST = 1.0


class Killed(BaseException):
    """Stands for a process that dies: nothing after it runs."""


class Tasks:
    """Does trials without Harbor: each goes on with the session before it and makes one model call for $1."""

    def __init__(self, dies_in: str = "", fails_in: str = "") -> None:
        self.tried: list[str] = []  # names of the tasks that were begun, in order
        self.calls: dict[str, int] = {}  # by task, the model calls that its session held before it
        self.allowed: dict[str, float | None] = {}
        self.dies_in = dies_in  # the task in which the process dies, after its model call
        self.fails_in = fails_in  # the task that ends in an error, if another agent does it
        self.at_work = self.most_at_work = 0

    async def __call__(self, _config: Config, attempt: Attempt) -> Trial:
        name = attempt.task.name
        self.tried.append(name)
        self.allowed[name] = attempt.allowance
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await asyncio.sleep(0)
            return self._done(attempt, name)
        finally:
            self.at_work -= 1

    def _done(self, attempt: Attempt, name: str) -> Trial:
        sessions = attempt.directory / "agent" / "sessions" / "app"
        sessions.mkdir(parents=True)
        if attempt.earlier:
            path = sessions / attempt.earlier.name
            path.write_bytes(attempt.earlier.read_bytes())
            journal = Journal.open(path)
        else:
            journal = Journal.create(sessions, cwd=Path("/"), message_format="openai")
            journal.append(ConfigRecord(80_000, Policy()))
        self.calls[name] = usage_of(journal.path).model_calls
        out_of_money = attempt.allowance is not None and attempt.allowance < COST
        cost = attempt.allowance if out_of_money else COST
        journal.append(UsageRecord(0, 100, 10, cost=cost))
        journal.commit()
        journal.close()
        if name == self.dies_in:
            raise Killed
        return Trial(
            attempt.arm,
            attempt.run,
            attempt.position,
            name,
            1.0,
            error=COST_LIMIT if out_of_money else "",
            usage=attempt.usage_so_far(),
            journal=journal.path.relative_to(attempt.folder).as_posix(),
            directory=attempt.directory.relative_to(attempt.folder).as_posix(),
        )


@pytest.fixture
def config(tmp_path: Path) -> Config:
    for name in "abcd":
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        (folder / "task.toml").write_text("[agent]\ntimeout_sec = 60.0\n", encoding="utf-8")
    return Config(
        "b", str(tmp_path / "tasks"), ("anthropic:m",), protocols=("single",), seed=3, output=str(tmp_path / "out")
    )


def run(config: Config, tasks: Tasks, again: Collection[ErrorKind] = ()) -> Evaluation:
    with Evaluation(config, lambda *_: None, tasks, again) as evaluation:
        asyncio.run(evaluation.run())
    return evaluation


def results(config: Config) -> Iterator[RunResults]:
    return (read(path) for path in sorted(Path(config.output).rglob(FILE_NAME)))


def test_one_session_goes_through_all_tasks_in_the_order_of_the_run(config: Config) -> None:
    tasks = Tasks()
    evaluation = run(config, tasks)
    (found,) = results(config)
    assert sorted(tasks.tried) == list("abcd") != tasks.tried
    assert list(found.run.order) == tasks.tried == [trial.task for trial in found.trials]
    assert [tasks.calls[name] for name in tasks.tried] == [0, 1, 2, 3]
    assert [trial.usage.cost for trial in found.trials] == [COST] * 4
    assert (evaluation.done, evaluation.total, evaluation.spent.exact) == (4, 4, 4 * COST)


@pytest.mark.parametrize(
    ("changes", "tasks", "whole"),
    [
        ({"tasks": ("a", "c")}, 2, 4),
        ({"exclude": ("b", "d")}, 2, 4),
        ({"sample": Sample(2, 1)}, 2, 4),
        ({"benchmark": "swe-bench-lite"}, 4, 300),
    ],
)
def test_how_many_tasks_the_benchmark_has_is_kept(
    config: Config, changes: dict[str, Any], tasks: int, whole: int
) -> None:
    run(replace(config, **changes), Tasks())
    (found,) = results(config)
    assert (len(found.run.order), found.run.benchmark_tasks) == (tasks, whole)


def test_isolated_tasks_have_sessions_of_their_own(config: Config) -> None:
    tasks = Tasks()
    run(replace(config, protocols=("isolated",), runs=2), tasks)
    assert set(tasks.calls.values()) == {0}
    orders = [found.run.order for found in results(config)]
    assert tasks.tried == [*orders[0], *orders[1]]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("place", range(4))
def test_a_task_that_was_killed_is_rolled_back(config: Config, place: int) -> None:
    undisturbed = Tasks()
    run(replace(config, output=config.output + "-undisturbed"), undisturbed)
    dies_in = undisturbed.tried[place]
    with pytest.raises(Killed):
        run(config, Tasks(dies_in))
    again = Tasks()
    run(config, again)
    assert again.tried == undisturbed.tried[place:]
    assert again.calls == {name: undisturbed.calls[name] for name in again.tried}
    (found,) = results(config)
    assert [trial.task for trial in found.trials] == undisturbed.tried
    assert [(it.task, it.why, it.usage.cost) for it in found.abandoned] == [(dies_in, "killed", COST)]
    journal = found.path.parent / found.trials[-1].journal
    assert usage_of(journal).model_calls == 4


def test_errors_of_a_kind_are_tried_again_where_nothing_built_on_them(config: Config) -> None:
    isolated = replace(config, protocols=("isolated",), limits=Limits(cost_per_task=0.25, cost_total=50))
    run(isolated, Tasks())
    (found,) = results(config)
    assert [(trial.ended_by, trial.usage.cost) for trial in found.trials] == [("limit", 0.25)] * 4
    tasks = Tasks()
    evaluation = run(replace(isolated, limits=Limits()), tasks, again=("limit",))
    assert len(tasks.tried) == 4
    (found,) = results(config)
    assert [trial.error for trial in found.trials] == [""] * 4
    assert [it.why for it in found.abandoned] == ["again"] * 4
    assert evaluation.spent.exact == pytest.approx(5)


class Refusing(Tasks):
    """The provider refuses the first request of the trials from one place on, as many as are said."""

    def __init__(self, place: int, times: int = 9, told: str = "HTTP 412: account suspended") -> None:
        super().__init__()
        self.refused = range(place, place + times)
        self.told = told

    def _done(self, attempt: Attempt, name: str) -> Trial:
        if len(self.tried) - 1 not in self.refused:
            return super()._done(attempt, name)
        attempt.directory.mkdir(parents=True)
        place = (attempt.arm, attempt.run, attempt.position, name)
        return Trial(*place, 0.0, error="NonZeroAgentExitCodeError", error_message=self.told, usage=NOTHING)


@pytest.mark.parametrize("protocol", ["single", "isolated"])
@pytest.mark.parametrize("place", [0, 2])
def test_a_provider_that_refuses_everything_pauses_the_run(config: Config, place: int, protocol: Protocol) -> None:
    config = replace(config, protocols=(protocol,))
    refusing = Refusing(place)
    with pytest.raises(PausedError, match=rf"with {place} of 4 trials done: refused in .: HTTP 412"):
        run(config, refusing)
    # The first one would be the agent's own, if the next were not refused too.
    begun = refusing.tried[place:]
    assert len(begun) == (2 if place else 1)
    (found,) = results(config)
    assert [(it.task, it.why) for it in found.abandoned] == [(name, "not tried: refused") for name in begun]
    tasks = Tasks()
    assert run(config, tasks).done == 4
    assert sorted(tasks.tried) == sorted(set("abcd") - set(refusing.tried[:place]))


@pytest.mark.parametrize(("place", "told"), [(0, "HTTP 400: the prompt was flagged"), (1, "HTTP 400: odd"), (3, "no")])
def test_a_task_that_is_refused_alone_counts(config: Config, place: int, told: str) -> None:
    run(config, Refusing(place, 1, told))
    (found,) = results(config)
    assert len(found.trials) == 4
    assert [number for number, trial in enumerate(found.trials) if trial.ended_by == "agent"] == [place]
    assert {trial.ended_by for trial in found.trials} == {None, "agent"}


class OtherAgents(Tasks):
    """Does trials of another agent: its own transcript is in its logs, and the proxy's session if it used one."""

    def _done(self, attempt: Attempt, name: str) -> Trial:
        logs = attempt.directory / "agent"
        transcript = logs / SESSIONS / "projects" / "-app" / "0f0d6b8e-0000-4000-8000-000000000000.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text('{"type":"user"}\n', encoding="utf-8")
        if "@" in attempt.arm.strategy:
            with Journal.create(logs / STORE, cwd=Path("/"), message_format="anthropic") as journal:
                journal.append(UsageRecord(0, 100, 10, cost=COST))
        if name == self.dies_in:
            raise Killed
        usage = Usage(input_tokens=100, output_tokens=10, cost=COST)
        directory = attempt.directory.relative_to(attempt.folder).as_posix()
        error = "AgentTimeoutError" if name == self.fails_in else ""
        return Trial(
            attempt.arm, attempt.run, attempt.position, name, 1.0, error=error, usage=usage, directory=directory
        )


def test_what_a_killed_trial_of_another_agent_cost_is_in_the_sessions_of_the_proxy(config: Config) -> None:
    rival = replace(config, strategies=("agent:claude-code@cwl",), protocols=("isolated",))
    with pytest.raises(Killed):
        run(rival, OtherAgents(dies_in="b"))
    evaluation = run(rival, OtherAgents())
    (found,) = results(config)
    assert [(it.task, it.why, it.usage.cost) for it in found.abandoned] == [("b", "killed", COST)]
    assert evaluation.spent.exact == 5 * COST


def test_what_another_agent_said_that_a_trial_cost_is_kept_when_it_is_done_again(config: Config) -> None:
    rival = replace(config, strategies=("agent:claude-code",), protocols=("isolated",))
    run(rival, OtherAgents(fails_in="b"))
    # Killed while it is done again: the first attempt is counted once, and what the second cost is not known.
    with pytest.raises(Killed):
        run(rival, OtherAgents(dies_in="b"), again=("timeout",))
    evaluation = run(rival, OtherAgents())
    (found,) = results(config)
    assert [(it.task, it.why, it.usage.cost) for it in found.abandoned] == [("b", "again", COST), ("b", "killed", None)]
    assert evaluation.spent.describe() == "at least $5.00 (cost known of 5 of 6 trials)"
    assert found.missing == ()


def test_a_limit_says_what_it_cannot_hold_where_a_cost_is_not_known(config: Config) -> None:
    rival = replace(config, strategies=("agent:claude-code",), protocols=("isolated",))
    with pytest.raises(Killed):
        run(rival, OtherAgents(dies_in="b"))
    with pytest.raises(StoppedError, match=r"in total is reached; the cost of 1 of 4 trials is not known: .* \$3.00,"):
        run(replace(rival, limits=Limits(cost_total=3)), OtherAgents())
    assert run(replace(rival, limits=Limits(cost_total=9)), OtherAgents()).not_limited
    # Nothing is promised without a limit.
    assert not run(replace(rival, limits=Limits()), OtherAgents()).not_limited


def test_nothing_is_known_of_a_session_that_is_not_here(config: Config) -> None:
    run(config, Tasks())
    (found,) = results(config)
    (task, *_) = find_tasks(Path(config.path), (), ())
    earlier = found.path.parent / found.trials[-1].journal
    assert estimate_of(earlier) == 4 * COST
    attempt = Attempt(found.run.arm, 1, 5, task, found.path.parent, earlier)
    # Killed in an environment that is not on this machine: its logs are not here yet.
    (attempt.directory / "agent").mkdir(parents=True)
    assert attempt.usage_so_far() == NOTHING
    (attempt.directory / "agent" / PROMPT).write_text("Do it.", encoding="utf-8")
    assert attempt.usage_so_far() == Usage()
    by_wane = replace(attempt, arm=replace(attempt.arm, strategy="agent:codex@cwl"))
    assert by_wane.usage_so_far() == by_wane.figures()[0] == Usage()


def test_two_processes_do_not_share_a_folder(config: Config) -> None:
    with (
        Evaluation(config, lambda *_: None, Tasks()),
        pytest.raises(EvaluationError, match="another process is running the evaluation"),
        Evaluation(config, lambda *_: None, Tasks()),
    ):
        pass
    run(config, Tasks())


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"seed": 4}, "another order"), ({"margin": 0.5}, "another margin"), ({"new_environment": ""}, "new_environment")],
)
def test_results_of_another_configuration_are_refused(config: Config, changes: dict[str, Any], told: str) -> None:
    run(config, Tasks())
    with pytest.raises(EvaluationError, match=told):
        run(replace(config, **changes), Tasks())


def test_a_limit_in_total_stops_all_and_a_higher_one_goes_on(config: Config) -> None:
    limited = replace(config, runs=2, limits=Limits(cost_total=5.5))
    tasks = Tasks()
    with pytest.raises(StoppedError, match=r"the limit of \$5.5 in total is reached. 5 of 8 trials are done"):
        run(limited, tasks)
    # The sixth was begun with what was left; it is no result, and what it took is counted.
    assert len(tasks.tried) == 6
    assert tasks.allowed[tasks.tried[5]] == pytest.approx(0.5)
    again = Tasks()
    evaluation = run(replace(limited, limits=Limits(cost_total=100)), again)
    assert again.tried[0] == tasks.tried[5]
    assert evaluation.done == 8
    assert evaluation.spent.exact == pytest.approx(8.5)


def test_a_limit_of_a_run_stops_that_run_alone(config: Config) -> None:
    tasks = Tasks()
    with pytest.raises(StoppedError, match=r"the limit of \$2 for a run is reached. 4 of 8"):
        run(replace(config, runs=2, limits=Limits(cost_per_run=2)), tasks)
    assert [len(found.trials) for found in results(config)] == [2, 2]


def test_concurrency_is_over_runs(config: Config) -> None:
    tasks = Tasks()
    run(replace(config, runs=3, concurrency=2, limits=Limits(cost_total=50)), tasks)
    assert tasks.most_at_work == 2
    assert all(found.missing == () for found in results(config))


def test_tasks_are_found_by_name(config: Config) -> None:
    folder = Path(config.path)
    assert [task.name for task in find_tasks(folder, (), ("b",))] == ["a", "c", "d"]
    assert [task.name for task in find_tasks(folder, ("c", "a"), ())] == ["c", "a"]
    (folder / "a" / "task.toml").write_text(
        '[agent]\ntimeout_sec = 5\n[[steps]]\nname = "x"\n[[steps]]\nname = "y"\nagent = {timeout_sec = 9}\n',
        encoding="utf-8",
    )
    (task,) = find_tasks(folder, ("a",), ())
    assert (task.seconds, task.steps) == (9.0, ("x", "y"))
    with pytest.raises(ConfigError, match="tasks: nowhere not found"):
        find_tasks(folder, ("nowhere",), ())
    with pytest.raises(ConfigError, match=r"exclude: no task of .* is left"):
        find_tasks(folder, ("a",), ("a",))
    with pytest.raises(ConfigError, match="path: there are no tasks"):
        find_tasks(folder.parent / "none", (), ())

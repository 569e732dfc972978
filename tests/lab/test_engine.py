"""Engines give the same results, raise what jobs raise, and leave nothing behind; Ray takes 15 seconds of it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.tales import AUTOMATIC, Tale, working
from wane.core.errors import ConfigError, MissingExtraError
from wane.lab.processes import WorkerLostError, cores, run_in_processes
from wane.lab.replaying.compare import run_all
from wane.lab.replaying.jobs import InProcess, Job, JobEngine, OnRay, Processes, get_engine
from wane.lab.replaying.strategy_replay import Replay
from wane.strategies.registry import STRATEGY_NAMES
from wane.strategies.strategy import StrategySettings

STUDIED = [
    working(40, 100, "long").study_session(),
    working(9, 50, "short").study_session(),
    Tale("tiny").user(5).says(5).study_session(),
]
SUBJECTS = [it.subject for it in STUDIED]
SETTINGS = StrategySettings(budget=1500, annotate="infer")
JOBS = [
    Job(number, name, SETTINGS, AUTOMATIC, trace=True) for name in STRATEGY_NAMES for number in range(len(SUBJECTS))
]


def comparable(replays: list[Replay]) -> list[object]:
    """What must not depend on where a replay ran."""
    figures: list[object] = []
    for done in replays:
        changes = done.trace and done.trace.changes
        figures.append((done.session, done.strategy, done.budget, replace(done.totals, seconds=0), done.calls, changes))
    return figures


EXPECTED = comparable(run_all(InProcess(), STUDIED, JOBS))


def children() -> list[int | None]:
    return [process.pid for process in multiprocessing.active_children()]


def bad(at: int) -> list[Job]:
    return [*JOBS[:at], Job(0, "nonesuch", SETTINGS, AUTOMATIC), *JOBS[at:]]


class TestProcesses:
    @pytest.mark.quick(1)
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_the_same_results_as_in_process(self, workers: int) -> None:
        told: list[tuple[int, int]] = []
        done = run_all(Processes(workers), STUDIED, JOBS, lambda *it: told.append(it))
        assert comparable(done) == EXPECTED
        assert told == [(number, len(JOBS)) for number in range(1, len(JOBS) + 1)]
        assert not children()

    @pytest.mark.parametrize("at", [0, 5])
    def test_the_error_of_a_job_arrives(self, at: int) -> None:
        with pytest.raises(ConfigError, match="strategy 'nonesuch' is unknown"):
            list(Processes(2).run(SUBJECTS, bad(at)))
        assert not children()

    def test_few_jobs_need_no_process(self) -> None:
        [(_, done)] = Processes(4).run(SUBJECTS, JOBS[:1])
        assert comparable([done]) == EXPECTED[:1]
        assert list(Processes(4).run(SUBJECTS, [])) == []


class UnsendableError(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def work(job: int) -> int:
    if job == 3:
        raise UnsendableError(1, 2)
    if job == 5:
        raise ValueError("five")
    if job == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if job == 9:
        time.sleep(60)
    return job * job


class TestWorkers:
    def test_an_error_says_where_it_was_raised(self) -> None:
        with pytest.raises(ValueError, match="five") as caught:
            list(run_in_processes(work, [5, 1], 2))
        assert "in work" in str(caught.value.__cause__)

    def test_an_error_that_cannot_be_sent_is_told(self) -> None:
        with pytest.raises(RuntimeError, match="UnsendableError: 1 and 2"):
            list(run_in_processes(work, [3, 1], 2))

    @pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
    def test_a_process_that_was_killed_is_noticed(self) -> None:
        with pytest.raises(WorkerLostError, match="memory ran out"):
            list(run_in_processes(work, [7, 1], 2))
        assert not children()

    def test_a_job_in_the_middle_is_not_waited_for(self) -> None:
        results, started = run_in_processes(work, [9, 1, 9], 2), time.monotonic()
        assert next(results) == (1, 1)
        results.close()
        assert not children()
        assert time.monotonic() - started < 40, "a job takes a minute"


@pytest.mark.wide
def test_ray_is_started_and_stopped_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert not ray.is_initialized()
    results = OnRay(workers=1).run(SUBJECTS, JOBS)
    next(results)
    assert ray.is_initialized()
    assert ray.cluster_resources()["CPU"] == 1
    results.close()
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def engine() -> Iterator[JobEngine]:
    """One cluster for several tests; that an engine starts and stops its own is a test by itself."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    engine = OnRay(workers=2)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield engine
    ray.shutdown()


@pytest.mark.full
class TestRay:
    def test_the_same_results_as_in_process(self, engine: JobEngine) -> None:
        assert comparable(run_all(engine, STUDIED, JOBS)) == EXPECTED

    def test_no_statistics_are_sent(self, engine: JobEngine) -> None:
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        # Its place has moved between versions, and is nobody's interface.
        usage = pytest.importorskip("ray._common.usage.usage_lib", reason="this Ray has it elsewhere")
        assert not usage.usage_stats_enabled()

    def test_the_error_of_a_job_arrives_as_itself(self, engine: JobEngine) -> None:
        with pytest.raises(ConfigError, match="strategy 'nonesuch' is unknown"):
            list(engine.run(SUBJECTS, bad(2)))

    def test_a_cluster_that_was_there_goes_on_when_jobs_are_stopped(self, engine: JobEngine) -> None:
        import ray

        results = engine.run(SUBJECTS, JOBS)
        next(results)
        results.close()
        assert ray.is_initialized()
        assert comparable(run_all(engine, STUDIED, JOBS[:2])) == EXPECTED[:2]


def test_engines_by_name() -> None:
    assert isinstance(get_engine("processes", 2), Processes)
    assert cores() >= 1
    with pytest.raises(ConfigError, match="engine 'threads' is unknown; known: processes, ray"):
        get_engine("threads")
    with pytest.raises(ConfigError, match="number of workers is 0"):
        get_engine("processes", 0)


def test_an_error_about_an_extra_survives_the_way_between_processes() -> None:
    error = MissingExtraError("Pricing", "lab")
    same = pickle.loads(pickle.dumps(error))
    assert (str(same), same.part, same.extra) == (str(error), "Pricing", "lab")

"""Runs many replays: in this process, over processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

from wane.core.errors import ConfigError, MissingExtraError, WaneError
from wane.lab.processes import cores, run_in_processes
from wane.lab.replaying.strategy_replay import Pricing, Replay, Subject
from wane.lab.replaying.strategy_replay import replay as run_replay
from wane.strategies.registry import get_strategy, traits
from wane.strategies.strategy import StrategySettings

ENGINES: Final = ("processes", "ray")
"""Names that `get_engine` takes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to do.

    Attributes:
        subject: number of the session in the sequence that the engine is given.
        strategy: name of the strategy.
        settings: its settings; the overhead is replaced by the session's.
        pricing: prices and cache rules.
        trace: whether to record what left the view, and when.
        label: the caller's name for the job.
    """

    subject: int
    strategy: str
    settings: StrategySettings
    pricing: Pricing
    trace: bool = False
    label: str = ""

    def run(self, subject: Subject) -> Replay:
        """Run the job.

        Raises:
            ConfigError: for an unknown strategy, or settings that cannot work.
            MissingExtraError: for a strategy whose extra is not installed.
        """
        settings = replace(self.settings, overhead=subject.material.overhead)
        if settings.annotate == "host" and not traits(self.strategy).by_episode:
            settings = replace(settings, annotate="infer")  # if it has episodes, it does not take a host's marks
        strategy = get_strategy(self.strategy, settings)
        return run_replay(subject, strategy, settings.budget, self.pricing, trace=self.trace)


class JobEngine(Protocol):
    """Runs jobs, in any order."""

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result when it is done; closing the generator stops the rest.

        Raises:
            WaneError: the error of a job; it stops the rest.
        """
        ...


class InProcess:
    """Runs one job after another in this process."""

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result, in order."""
        for job in jobs:
            yield job, job.run(subjects[job.subject])


class Processes:
    """Spreads jobs over processes of this machine, one per core if their number is not given."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result when it is done."""
        if self._workers == 1 or len(jobs) < 2:
            yield from InProcess().run(subjects, jobs)
            return
        subjects = list(subjects)
        yield from run_in_processes(partial(_run_job, subjects), jobs, self._workers)


class OnRay:
    """Spreads jobs over a Ray cluster: the one of `RAY_ADDRESS`, or else one started on this machine.

    A cluster started here has `workers` processes, or one per core, reports no usage statistics and ends with the last
    job.

    Raises:
        MissingExtraError: without the extra `ray`.
    """

    def __init__(self, workers: int | None = None) -> None:
        # Ray reads this when it is loaded and when it starts: send no usage statistics.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise MissingExtraError("The Ray engine", "ray") from None
        self._ray: Any = ray
        self._workers = workers

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result when it is done."""
        ray = self._ray
        started = not ray.is_initialized()
        try:
            if started:
                # Without an address, Ray would join any cluster on this machine.
                address = os.environ.get("RAY_ADDRESS") or "local"
                options: dict[str, Any] = {}
                if address == "local":
                    options = {"num_cpus": self._workers, "include_dashboard": False}
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
            references = [ray.put(subject) for subject in subjects]
            work = ray.remote(Job.run)
            # Two for each core: what runs when the caller stops ends by itself. To cancel a task that is about to end
            # makes Ray 2.60 end the whole process of the caller.
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            waiting = iter(jobs)
            running = {work.remote(job, references[job.subject]): job for job in islice(waiting, most)}
            while running:
                [done], _ = ray.wait(list(running))
                try:
                    replay: Replay = ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    cause = error.cause
                    raise cause if isinstance(cause, WaneError) else error from None
                job = running.pop(done)
                if (following := next(waiting, None)) is not None:
                    running[work.remote(following, references[following.subject])] = following
                yield job, replay
        finally:
            if started:
                ray.shutdown()


def get_engine(name: str, workers: int | None = None) -> JobEngine:
    """Return an engine by its name in ENGINES, with a number of processes; None for one per core.

    Raises:
        ConfigError: for another name, or fewer than one process.
        MissingExtraError: for `ray` without its extra.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"the number of workers is {workers}; it must be at least 1")
    if name == "processes":
        return Processes(workers)
    if name == "ray":
        return OnRay(workers)
    raise ConfigError(f"engine {name!r} is unknown; known: {', '.join(ENGINES)}")


def _run_job(subjects: Sequence[Subject], job: Job) -> Replay:
    return job.run(subjects[job.subject])

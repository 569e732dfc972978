"""Many replays at once: in this process, over processes, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from wane.core.errors import ConfigError, MissingExtraError, WaneError
from wane.lab.replaying.replay import Pricing, Replay, Subject
from wane.lab.replaying.replay import replay as run_replay
from wane.lab.replaying.workers import run_in_processes
from wane.strategies.base import Settings
from wane.strategies.registry import get_strategy

ENGINES: Final = ("processes", "ray")
"""Names that `get_engine` takes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to do.

    Attributes:
        subject: number of the session, in the sequence that the engine is given.
        strategy: name of the strategy.
        settings: what it is made with; the overhead is that of the session, whatever stands here.
        pricing: prices and cache rules.
        trace: whether to record what left the view and when.
        label: what the caller knows the job by.
    """

    subject: int
    strategy: str
    settings: Settings
    pricing: Pricing
    trace: bool = False
    label: str = ""

    def run(self, subject: Subject) -> Replay:
        """Do it.

        Raises:
            ConfigError: for an unknown strategy, or settings that cannot work.
            MissingExtraError: for a strategy whose extra is not installed.
        """
        settings = replace(self.settings, overhead=subject.material.overhead)
        strategy = get_strategy(self.strategy, settings)
        return run_replay(subject, strategy, settings.budget, self.pricing, trace=self.trace)


class Engine(Protocol):
    """Does jobs, in whatever order suits it."""

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result as it is done; closing the generator stops what is left.

        Raises:
            WaneError: what a job raised; the rest is not done then.
        """
        ...


class InProcess:
    """Does one job after the other, here."""

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result, in order."""
        for job in jobs:
            yield job, job.run(subjects[job.subject])


class Processes:
    """Spreads jobs over processes of this machine.

    Args:
        workers: number of processes; None for one a core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result as it is done."""
        if self._workers == 1 or len(jobs) < 2:
            yield from InProcess().run(subjects, jobs)
            return
        yield from run_in_processes(partial(_work, list(subjects)), jobs, self._workers)


class OnRay:
    """Spreads jobs over a Ray cluster: the one of `RAY_ADDRESS`, else one that is started on this machine.

    A cluster that is started here reports nothing about its use, and is gone when the last job is done.

    Args:
        address: of the cluster; None for `RAY_ADDRESS` or one of our own.
        workers: number of processes of a cluster that is started here; None for one a core.

    Raises:
        MissingExtraError: without the extra `ray`.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        # Read when Ray is loaded and when it starts; its own word for "send no statistics about this cluster".
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise MissingExtraError("The Ray engine", "ray") from None
        self._ray: Any = ray
        self._address = address
        self._workers = workers

    def run(self, subjects: Sequence[Subject], jobs: Sequence[Job]) -> Generator[tuple[Job, Replay], None, None]:
        """Yield each job with its result as it is done."""
        ray = self._ray
        started = not ray.is_initialized()
        running: dict[Any, Job] = {}
        try:
            if started:
                self._start()
            held = [ray.put(subject) for subject in subjects]
            work = ray.remote(_run_with)
            running.update((work.remote(job, held[job.subject]), job) for job in jobs)
            while running:
                done, _ = ray.wait(list(running))
                yield running.pop(done[0]), self._result(done[0])
        finally:
            if started:
                ray.shutdown()
            else:
                for reference in running:
                    ray.cancel(reference, force=True)

    def _start(self) -> None:
        # Without an address, Ray would join any cluster that it finds on this machine.
        address = self._address or os.environ.get("RAY_ADDRESS") or "local"
        own: dict[str, Any] = {"num_cpus": self._workers, "include_dashboard": False} if address == "local" else {}
        self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)

    def _result(self, reference: Any) -> Replay:
        try:
            result: Replay = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, WaneError) else error from None
        return result


def get_engine(name: str, workers: int | None = None) -> Engine:
    """Return an engine by name.

    Args:
        name: one of ENGINES.
        workers: number of processes; None for one a core.

    Raises:
        ConfigError: for another name, or less than one process.
        MissingExtraError: for `ray` without its extra.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"the number of workers is {workers}; it must be at least 1")
    if name == "processes":
        return Processes(workers)
    if name == "ray":
        return OnRay(workers=workers)
    raise ConfigError(f"engine {name!r} is unknown; known: {', '.join(ENGINES)}")


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _work(subjects: Sequence[Subject], job: Job) -> Replay:
    return job.run(subjects[job.subject])


def _run_with(job: Job, subject: Subject) -> Replay:
    return job.run(subject)

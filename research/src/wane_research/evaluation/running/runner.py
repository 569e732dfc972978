"""Runs all trials of a configuration, and resumes where an interrupted run stopped."""

from __future__ import annotations

import asyncio
import json
import platform
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Self, TypeAlias

from filelock import FileLock, Timeout

import wane
from wane.core.errors import WaneError
from wane.journal.codec import encode
from wane.money import dollars
from wane_research.evaluation.results import (
    FILE_NAME,
    VERSION,
    Abandoned,
    Arm,
    ErrorKind,
    Run,
    Total,
    Trial,
    Usage,
    append,
    begin,
    read,
)
from wane_research.evaluation.running.config import RIVAL, Config, Task, draw_sample, find_tasks, in_order, size_of
from wane_research.evaluation.running.trial import COST_LIMIT, START, Attempt, try_task

Try: TypeAlias = Callable[[Config, Attempt], Awaitable[Trial]]  # does a trial

Tell: TypeAlias = Callable[[Trial, int, int], None]
"""Called with each trial that has ended, the number of finished trials, and the number of all trials."""

CONFIG_FILE: Final = "config.json"  # the configuration, beside the results
_LOCK: Final = ".lock"

_FLAGGED: Final = re.compile(r"flagged|polic(y|ies)|moderation|content.?filter|safety", re.IGNORECASE)
"""Words of a refusal because of a task's subject."""


class EvaluationError(WaneError, RuntimeError):
    """An evaluation cannot run: another process runs it, or its folder holds other results."""


class StoppedError(WaneError, RuntimeError):
    """A limit of cost ended the evaluation before all was done."""


class PausedError(WaneError, RuntimeError):
    """No more trials make sense: a provider failed for longer than the patience or refused, or Wane does not start."""


@dataclass(slots=True)
class _OneRun:
    arm: Arm
    number: int
    folder: Path
    tasks: tuple[Task, ...]
    done: dict[str, Trial] = field(default_factory=dict)
    spent: Total = field(default_factory=Total)
    stopped: bool = False

    @property
    def file(self) -> Path:
        return self.folder / FILE_NAME

    def missing(self) -> Iterator[Attempt]:
        for position, task in enumerate(self.tasks, start=1):
            if task.name not in self.done:
                yield Attempt(self.arm, self.number, position, task, self.folder, self._earlier(position))

    def next_attempt(self, position: int | None) -> Attempt | None:
        """Return the next missing attempt; with a position, only the one there."""
        for attempt in self.missing():
            if position in (None, attempt.position):
                return attempt
        return None

    def failures(self) -> list[ErrorKind]:
        """Return what ended the trials that do not count; one that waits for a grader is not among them."""
        trials = [trial for trial in self.done.values() if not trial.counts]
        return [trial.ended_by for trial in trials if trial.ended_by is not None]

    def _earlier(self, position: int) -> Path | None:
        """Return the session as the task before left it; None for the first task, and in isolated sessions."""
        if self.arm.protocol == "isolated":
            return None
        for task in reversed(self.tasks[: position - 1]):
            trial = self.done.get(task.name)
            # A trial whose environment did not start left no session, so the latest is an earlier one.
            if trial is not None and trial.journal:
                return self.folder / trial.journal
        return None


class Evaluation:
    """All runs of a configuration, in one folder. Use it as a context manager: it locks the folder.

    `try_task`: does a trial; by default with Harbor.
    `again`: kinds of errors; isolated trials that ended in one are done again. In a single session they stand, because
    later tasks build on them.
    """

    def __init__(self, config: Config, tell: Tell, try_task: Try = try_task, again: Collection[ErrorKind] = ()) -> None:
        self._config = config
        self._tell = tell
        self._try = try_task
        self._again = again
        self._folder = Path(config.output)
        tasks = find_tasks(Path(config.path), config.tasks, config.exclude)
        chosen = set(draw_sample(tuple(task.name for task in tasks), config.sample))
        self._tasks = {task.name: task for task in tasks if task.name in chosen}
        self._runs = [self._run(arm, number) for number in range(1, config.runs + 1) for arm in config.arms()]
        self._lock = FileLock(self._folder / _LOCK)
        self._reserved = 0.0
        self._busy = 0
        self._stopped = False
        self._reasons: dict[str, None] = {}
        self._paused: dict[str, None] = {}
        self._refused: dict[str, tuple[_OneRun, Attempt]] = {}  # by model, the latest trial if it was refused

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            # The system releases it when the process dies, even by SIGKILL.
            self._lock.acquire(timeout=0)
        except Timeout:
            raise EvaluationError(f"another process is running the evaluation in {self._folder}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def total(self) -> int:
        return sum(len(run.tasks) for run in self._runs)

    @property
    def done(self) -> int:
        return sum(len(run.done) for run in self._runs)

    @property
    def uncounted(self) -> dict[ErrorKind, int]:
        """Number of trials that do not count, by what ended them."""
        causes: Counter[ErrorKind] = Counter()
        for run in self._runs:
            causes.update(run.failures())
        return dict(causes)

    @property
    def empty(self) -> list[str]:
        """The names of the runs in which every trial failed and none counts."""
        failed = [run for run in self._runs if run.done and len(run.failures()) == len(run.done)]
        return [f"{run.folder.parent.name}, run {run.number}" for run in failed]

    @property
    def spent(self) -> Total:
        """Dollars that all runs have cost so far, including abandoned trials."""
        return sum((run.spent for run in self._runs), Total())

    @property
    def not_limited(self) -> str:
        """A sentence about costs that the limits do not cover; "" if there are none."""
        limits, spent = self._config.limits, self.spent
        if spent.exact is not None or (limits.cost_per_run is None and limits.cost_total is None):
            return ""
        return (
            f"the cost of {spent.of - spent.known_trials:,} of {spent.of:,} trials is not known: the limits of a run "
            f"and in total count only the known {dollars(spent.at_least)}, and more may have been spent"
        )

    async def run(self) -> None:
        """Do all trials that have no result.

        Raises:
            StoppedError: if a limit of cost ended it; results stay, and it can continue with a higher limit.
            PausedError: if a provider ended it. The interrupted trials are done again.
            EvaluationError: if the folder holds results of another configuration.
        """
        for run in self._runs:
            self._open(run)
        # Kept beside the results, so that the evaluation can be resumed from there.
        new = self._folder / f"{CONFIG_FILE}.new"
        new.write_text(json.dumps(encode(self._config), indent=2), encoding="utf-8")
        new.replace(self._folder / CONFIG_FILE)
        slots = asyncio.Semaphore(self._config.concurrency)
        lanes: list[tuple[_OneRun, int | None]] = []
        for run in self._runs:
            # A session over tasks does them one after the other; isolated ones do not wait for each other.
            if run.arm.protocol == "single":
                lanes.append((run, None))
            else:
                lanes += [(run, attempt.position) for attempt in run.missing()]
        try:
            async with asyncio.TaskGroup() as group:
                for run, position in lanes:
                    group.create_task(self._lane(run, position, slots))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self._paused:
            raise PausedError(f"paused, with {self.done} of {self.total} trials done: {'; '.join(self._paused)}")
        if self._reasons:
            reasons = [*self._reasons]
            if self.not_limited:
                reasons.append(self.not_limited)
            done = f"{self.done} of {self.total} trials are done"
            raise StoppedError(f"{'; '.join(reasons)}. {done}; raise it and go on")

    def _run(self, arm: Arm, number: int) -> _OneRun:
        words = [arm.model, arm.strategy, str(arm.budget or ""), arm.protocol, arm.annotate]
        name = re.sub(r"[^\w.-]+", "-", "-".join(word for word in words if word))
        order = in_order(tuple(self._tasks), self._config.seed, number)
        tasks = tuple(self._tasks[name] for name in order)
        return _OneRun(arm, number, self._folder / name / f"run-{number}", tasks)

    def _open(self, run: _OneRun) -> None:
        """Read the results of a run, or begin it if there are none, and clear away trials that did not end."""
        header = _header(self._config, run)
        ended: dict[str, Trial] = {}
        if run.file.exists():
            results = read(run.file)
            ended = {trial.task: trial for trial in results.trials}
            # Limits may differ, as users may raise them.
            for name in ("arm", "run", "order", "new_environment", "margin"):
                begun, wanted = getattr(results.run, name), getattr(header, name)
                if begun != wanted:
                    raise EvaluationError(
                        f"{results.path} was begun with another {name}: {begun!r}, not {wanted!r}. Choose another "
                        "output, or the configuration that it was begun with"
                    )
            again = self._again if run.arm.protocol == "isolated" else ()
            run.done = {trial.task: trial for trial in results.trials if trial.ended_by not in again}
            paid = [trial.usage for trial in run.done.values()] + [trial.usage for trial in results.abandoned]
            run.spent = Total.cost(paid)
        else:
            begin(run.file, header)
        for attempt in run.missing():
            if (trial := ended.get(attempt.task.name)) is not None:
                self._abandon(run, attempt, "again", trial.usage)
            elif attempt.directory.exists():
                self._abandon(run, attempt, "killed", attempt.usage_so_far())

    def _abandon(self, run: _OneRun, attempt: Attempt, why: str, usage: Usage) -> None:
        """Record the usage of an attempt that is no result, and delete its files."""
        append(run.file, Abandoned(attempt.arm, attempt.run, attempt.task.name, why, usage))
        run.spent += Total.cost([usage])
        if attempt.directory.exists():  # not if the environment could not be made
            shutil.rmtree(attempt.directory)

    async def _lane(self, run: _OneRun, position: int | None, slots: asyncio.Semaphore) -> None:
        async with slots:
            self._busy += 1
            try:
                # Look again after each attempt: the next one continues the session that it left.
                while attempt := run.next_attempt(position):
                    if self._stopped or run.stopped or not await self._attempt(run, attempt):
                        return
            finally:
                self._busy -= 1

    async def _attempt(self, run: _OneRun, attempt: Attempt) -> bool:
        allowance, scope = self._allowance(run)
        if allowance is not None and allowance <= 0:
            return self._stop(run, scope)
        reserved = allowance or 0.0
        self._reserved += reserved
        try:
            trial = await self._try(self._config, replace(attempt, allowance=allowance))
        except asyncio.CancelledError:
            if attempt.directory.exists():
                self._abandon(run, attempt, "stopped", attempt.usage_so_far())
            raise
        finally:
            self._reserved -= reserved
        priced = trial.usage.cost is not None or trial.usage.known_cost > 0
        if trial.error == COST_LIMIT and (scope != "task" or not priced):
            # Not the task's own limit: with more money it would have gone on, so it is no result.
            self._abandon(run, attempt, "cost limit", trial.usage)
            return self._stop(run, scope if priced else "price")
        if trial.ended_by == "provider" or trial.error == START:
            return self._pause(run, attempt, trial)
        # The agent's first request was refused, and not because of the task's subject. One such refusal may still be
        # due to the task. Two in a row, or one before any answer, mean that the account or the model is unusable.
        own = not trial.arm.strategy.startswith(RIVAL)
        unanswered = own and trial.ended_by == "agent" and trial.usage.model_calls == 0
        if unanswered and not _FLAGGED.search(trial.error_message):
            if not self._answers(run.arm.model):
                return self._pause(run, attempt, replace(trial, error="refused"))
            self._refused[run.arm.model] = (run, attempt)
        else:
            self._refused.pop(run.arm.model, None)
        append(run.file, trial)
        run.done[trial.task] = trial
        run.spent += Total.cost([trial.usage])
        self._tell(trial, self.done, self.total)
        return True

    def _answers(self, model: str) -> bool:
        """Return whether a model has answered before, and did not refuse the task before this one."""
        if (before := self._refused.pop(model, None)) is not None:
            run, attempt = before
            self._abandon(run, attempt, "not tried: refused", run.done.pop(attempt.task.name).usage)
            return False
        for run in self._runs:
            if run.arm.model == model and any(trial.usage.model_calls for trial in run.done.values()):
                return True
        return False

    def _pause(self, run: _OneRun, attempt: Attempt, trial: Trial) -> bool:
        self._abandon(run, attempt, f"not tried: {trial.error}", trial.usage)
        self._stopped = True
        self._paused[f"{trial.error} in {trial.task}: {trial.error_message}"] = None
        return False

    def _stop(self, run: _OneRun, scope: str) -> bool:
        limits = self._config.limits
        if scope == "run":
            run.stopped = True
            reason = f"the limit of ${limits.cost_per_run:g} for a run is reached"
        elif scope == "total":
            self._stopped = True
            reason = f"the limit of ${limits.cost_total:g} in total is reached"
        else:
            self._stopped = True
            reason = f"a limit of cost cannot be kept, because the price of {run.arm.model} is not known"
        self._reasons[reason] = None
        return False

    def _allowance(self, run: _OneRun) -> tuple[float | None, str]:
        """Return the dollars that the next trial of a run may take, and the limit behind them: task, run or total."""
        limits = self._config.limits
        options: list[tuple[float, str]] = []
        if limits.cost_total is not None:
            # Running trials have reserved what they may still spend; the trials that begin next share the rest.
            free = limits.cost_total - self.spent.at_least - self._reserved
            options.append((free / max(1, self._config.concurrency - self._busy + 1), "total"))
        if limits.cost_per_run is not None:
            options.append((limits.cost_per_run - run.spent.at_least, "run"))
        if limits.cost_per_task is not None:
            options.append((limits.cost_per_task, "task"))
        return min(options, default=(None, ""))


def _header(config: Config, run: _OneRun) -> Run:
    try:
        harbor = version("harbor")
    except PackageNotFoundError:
        harbor = ""
    return Run(
        version=VERSION,
        arm=run.arm,
        run=run.number,
        order=tuple(task.name for task in run.tasks),
        seed=config.seed,
        # Another agent gets the task as it is.
        new_environment="" if run.arm.strategy.startswith(RIVAL) else config.new_environment,
        margin=config.margin,
        created=datetime.now(UTC),
        benchmark_tasks=size_of(config.benchmark, Path(config.path)),
        versions={"wane": wane.__version__, "harbor": harbor, "python": platform.python_version()},
        settings={"limits": encode(config.limits), "environment": config.environment.type, "path": config.path},
    )

"""Several runs of the same tasks, at the same time: each has an agent's process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Protocol

from wane.scripted.closed_loop.figures import Figures, LoopOptions, TaskResult
from wane.scripted.closed_loop.play import ClosedLoop, OnTask


class Watcher(Protocol):
    """Is told how the runs go on, from one thread at a time for each run."""

    def task_ended(self, run: str, result: TaskResult) -> None:
        """A task of a run has ended."""
        ...

    def run_ended(self, figures: Figures) -> None:
        """A run has ended."""
        ...


def loops(options: LoopOptions, strategies: Sequence[str], *, isolated: bool) -> list[LoopOptions]:
    """Return what to run: each strategy, and the tasks in sessions of their own to compare with.

    Args:
        options: what all have in common.
        strategies: names of the strategies.
        isolated: whether to compare.
    """
    chosen = [replace(options, strategy=name, isolated=False) for name in strategies]
    if isolated:
        # Sessions of one task stay far below the budget, where the strategy makes no difference.
        chosen.append(replace(options, strategy=strategies[0], isolated=True, kill_every=0))
    if options.keep is None:
        return chosen
    return [replace(it, keep=options.keep / (it.name)) for it in chosen]


def play_all(chosen: Sequence[LoopOptions], watcher: Watcher, *, workers: int) -> list[Figures]:
    """Run all, as many at a time as there are workers, and return the figures in order.

    The first error ends all of them, and so does Ctrl-C.

    Raises:
        ScriptedError: as `ClosedLoop.play` does.
        ConfigError: likewise.
    """
    runs = [ClosedLoop(it, _told(watcher, it.name)) for it in chosen]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run.play) for run in runs]
        try:
            for future in as_completed(futures):
                watcher.run_ended(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for run in runs:
                run.stop()
            raise
    return [future.result() for future in futures]


def _told(watcher: Watcher, name: str) -> OnTask:
    return lambda result: watcher.task_ended(name, result)

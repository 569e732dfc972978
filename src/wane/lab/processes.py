"""Runs work in several processes of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, TypeVar

from wane.core.errors import WaneError
from wane.extensions import blame_extensions
from wane.interrupts import hold_interrupts

_JobT = TypeVar("_JobT")
_ResultT = TypeVar("_ResultT")

# Forked workers share the data of the work; others are sent a copy once. The system libraries of macOS do not survive a
# fork.
_METHOD: Final = "fork" if sys.platform == "linux" else "spawn"

_works: list[Callable[[Any], Any]] = []
"""The work of a worker process."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerLostError(WaneError, RuntimeError):
    """A process ended in the middle of its work, most often because memory ran out."""


def run_in_processes(
    work: Callable[[_JobT], _ResultT], jobs: Sequence[_JobT], workers: int
) -> Generator[tuple[_JobT, _ResultT], None, None]:
    """Run jobs in other processes, and yield each with its result when it is done.

    They begin in the order of `jobs`. Closing the generator ends the processes immediately; so does an error. Jobs and
    results must be picklable, and the work, too, where processes are not forked.

    Raises:
        WorkerLostError: if a process ended by itself.
        Exception: the error of a job; a RuntimeError with its text if it cannot be sent between processes.
    """
    others = multiprocessing.active_children()
    context: Any = multiprocessing.get_context(_METHOD)
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, initializer=_begin, initargs=(work,))
    processes: list[Any] = []
    try:
        # In the middle of a fork, Python would only print Ctrl-C; a new process would get it before it ignores it.
        with hold_interrupts():
            running = {pool.submit(_do, job): job for job in jobs}
            processes += [process for process in multiprocessing.active_children() if process not in others]
        for future in as_completed(running):
            yield running[future], future.result()
    except BrokenProcessPool:
        raise WorkerLostError(
            "a worker process was ended from outside, most often because memory ran out; try fewer --workers"
        ) from None
    finally:
        # The pool itself would wait for the jobs that have begun. A process that has just been forked still has our
        # handlers, and would survive a softer signal.
        for process in processes:
            process.kill()
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[[Any], Any]) -> None:
    # Ctrl-C goes to all processes of a terminal; the process that waits for this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.freeze()  # what was there before the work stays, so that no search for garbage needs to pass through it
    _works.append(work)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(job: Any) -> Any:
    try:
        with blame_extensions():
            return _works[-1](job)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - we made it
        except Exception:
            # The pool would only say that it is broken.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise

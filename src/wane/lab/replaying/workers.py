"""Spreads work over processes of this machine, which end when nobody waits for them any more."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeVar, cast

from wane.core.errors import WaneError

_JobT = TypeVar("_JobT")
_ResultT = TypeVar("_ResultT")

# Forked workers share the data of the work; elsewhere each is sent a copy once. On macOS the system's own libraries do
# not survive a fork.
_METHOD: Final = "fork" if sys.platform == "linux" else "spawn"


class WorkerLostError(WaneError, RuntimeError):
    """A process ended in the middle of its work, most often because memory ran out."""


def run_in_processes(
    work: Callable[[_JobT], _ResultT], jobs: Sequence[_JobT], workers: int
) -> Generator[tuple[_JobT, _ResultT], None, None]:
    """Run jobs in other processes, and yield each with its result when it is done.

    Closing the generator ends the processes immediately; so does an error.

    Args:
        work: does one job; must be picklable where processes are not forked.
        jobs: the jobs; they and their results must be picklable.
        workers: maximum number of processes.

    Raises:
        WorkerLostError: if a process ended by itself.
        Exception: whatever a job raised; a RuntimeError with its text if it cannot be sent between processes.
    """
    crew = _Crew(work, min(workers, len(jobs)))
    try:
        yield from crew.run(jobs)
    finally:
        crew.end()


class _Crew:
    """The processes and their pipes.

    A pool would not do: its processes cannot be stopped in the middle of a job, and it waits for ever for one that the
    system has killed.
    """

    def __init__(self, work: Callable[[Any], Any], size: int) -> None:
        context: Any = multiprocessing.get_context(_METHOD)
        self._ours: list[Connection] = []
        self._processes: list[Any] = []
        with _uninterrupted():
            for _ in range(size):
                self._hire(context, work)

    def _hire(self, context: Any, work: Callable[[Any], Any]) -> None:
        ours, theirs = context.Pipe()
        self._ours.append(ours)
        # A forked process inherits our ends, and while it holds one open, the others do not notice that we are gone.
        inherited = list(self._ours) if _METHOD == "fork" else []
        process = context.Process(target=_serve, args=(theirs, inherited, work), daemon=True)
        process.start()
        theirs.close()
        self._processes.append(process)

    def run(self, jobs: Sequence[_JobT]) -> Iterator[tuple[_JobT, Any]]:
        upcoming = iter(jobs)
        busy: dict[Connection, _JobT] = {}
        for connection, job in zip(self._ours, upcoming, strict=False):
            connection.send(job)
            busy[connection] = job
        while busy:
            ready = wait(list(busy))
            for connection in [it for it in self._ours if it in ready]:
                done = busy.pop(connection)
                result = _received(connection)
                for job in islice(upcoming, 1):
                    connection.send(job)
                    busy[connection] = job
                yield done, result

    def end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        for connection in self._ours:
            connection.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C until the processes are started.

    In the middle of a fork, Python would only print it; in the new process it would arrive before it is ignored there.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(connection: Connection) -> Any:
    try:
        good, result = connection.recv()
    except (EOFError, ConnectionError):
        raise WorkerLostError(
            "a worker process was ended from outside, most often because memory ran out; try fewer --workers"
        ) from None
    if not good:
        raise result
    return result


def _serve(connection: Connection, inherited: Sequence[Connection], work: Callable[[Any], Any]) -> None:
    """Do jobs until the other end closes; this runs in a process of its own."""
    # Ctrl-C goes to all processes of a terminal; the process that waits for this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    # The other end is gone, while receiving or sending.
    with suppress(EOFError, ConnectionError):
        while True:
            job = connection.recv()
            try:
                answer = (True, work(job))
            except Exception as error:  # raised again by the other process
                answer = (False, _portable(error))
            connection.send(answer)


def _portable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with its text if it cannot be sent."""
    if not isinstance(error, WaneError):
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    try:
        same = pickle.loads(pickle.dumps(error))  # noqa: S301 - we made it
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return cast(Exception, same)

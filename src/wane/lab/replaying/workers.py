"""Work spread over processes of this machine, which end when nobody waits for them any more."""

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

# Forked, workers share what the work brings along; elsewhere each is sent a copy once. Where forking is offered but
# the system's own libraries do not bear it, as on macOS, it is not done.
_METHOD: Final = "fork" if sys.platform == "linux" else "spawn"


class WorkerLostError(WaneError, RuntimeError):
    """A process ended in the middle of its work: most often the system had no memory left for it."""


def run_in_processes(
    work: Callable[[_JobT], _ResultT], jobs: Sequence[_JobT], workers: int
) -> Generator[tuple[_JobT, _ResultT], None, None]:
    """Do jobs in other processes, and yield each with its result as it is done.

    Closing the generator ends the processes, whatever they are at; so does an error.

    Args:
        work: does one job. It need only be picklable where processes are not forked.
        jobs: the jobs; they and the results must be picklable.
        workers: number of processes, at most.

    Raises:
        WorkerLostError: if a process ended by itself.
        Exception: what a job raised; one that cannot be sent between processes as a RuntimeError that tells it.
    """
    crew = _Crew(work, min(workers, len(jobs)))
    try:
        yield from crew.run(jobs)
    finally:
        crew.end()


class _Crew:
    """The processes, and by connection to one what it is at.

    With pipes of our own, and not with a pool: a pool's processes cannot be stopped in the middle of a job, and
    it waits for ever for one that the system has killed.
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
        # A forked process has our ends too, and while it holds one open, nobody behind it notices our end.
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
    """Have Ctrl-C wait until processes are started.

    In the middle of a fork, Python would print it and go on; in the process that is made, it would come before the
    signal is ignored there.
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
    """Do jobs until there are no more, in a process of its own."""
    # Ctrl-C goes to all processes of a terminal; ours is told by the one that waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    # Nobody is there any more, at either.
    with suppress(EOFError, ConnectionError):
        while True:
            job = connection.recv()
            try:
                answer = (True, work(job))
            except Exception as error:  # whatever it is, it is raised where the job came from
                answer = (False, _portable(error))
            connection.send(answer)


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same if it cannot be sent."""
    if not isinstance(error, WaneError):
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    try:
        same = pickle.loads(pickle.dumps(error))  # noqa: S301 - of our own making
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return cast(Exception, same)

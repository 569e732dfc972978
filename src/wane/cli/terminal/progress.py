"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

_T = TypeVar("_T")

_SECONDS: Final = 0.1
"""Minimum time between two drawings."""


class Bar:
    """A bar for several stages of work, which disappears at the end. Use it as a context manager.

    It draws only when progress is reported, and has no thread, because processes are forked while it is shown.
    """

    def __init__(self) -> None:
        self._drawn = 0.0
        self._progress: Progress | None = None
        if sys.stderr.isatty():
            # Here, because it takes as long to import as a small session to read, and mostly nobody looks.
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(file=sys.stderr), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def over(self, name: str, items: Sequence[_T]) -> Iterator[_T]:
        """Yield items as a stage; each one counts as done when the next one is requested."""
        advance = self.stage(name)
        for number, item in enumerate(items):
            advance(number, len(items))
            yield item

    def stage(self, name: str) -> Callable[[int, int], None]:
        """Begin a stage, and return a function that takes the number of items done and the number of all items."""
        progress = self._progress
        if progress is None:
            return lambda *_: None
        for earlier in progress.task_ids:
            progress.remove_task(earlier)
        task = progress.add_task(name, total=None)
        progress.refresh()

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if time.monotonic() - self._drawn >= _SECONDS or done == total:
                progress.refresh()
                self._drawn = time.monotonic()

        return advance

"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_T = TypeVar("_T")

_SECONDS: Final = 0.1
"""Minimum time between two drawings."""


class Bar:
    """A bar for several stages of work, which disappears at the end. Use it as a context manager.

    It draws only when progress is reported, and has no thread, because processes are forked while it is shown.
    """

    def __init__(self) -> None:
        console = Console(file=sys.stderr)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        visible = sys.stderr.isatty()
        self._progress = Progress(*columns, console=console, auto_refresh=False, transient=True, disable=not visible)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def over(self, name: str, items: Sequence[_T]) -> Iterator[_T]:
        """Yield items as a stage; each one counts as done when the next one is requested."""
        advance = self.stage(name)
        for number, item in enumerate(items):
            advance(number, len(items))
            yield item

    def stage(self, name: str) -> Callable[[int, int], None]:
        """Begin a stage, and return a function that takes the number of items done and the number of all items."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        task = self._progress.add_task(name, total=None)
        self._progress.refresh()

        def advance(done: int, total: int) -> None:
            self._progress.update(task, completed=done, total=total)
            if time.monotonic() - self._drawn >= _SECONDS or done == total:
                self._progress.refresh()
                self._drawn = time.monotonic()

        return advance

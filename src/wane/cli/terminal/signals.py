"""Handles signals while an event loop runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPT: Final = (signal.SIGINT,)
"""Ctrl-C, and `kill -INT`."""

END: Final = tuple(number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
"""`kill`, and a closed terminal."""


@contextmanager
def handled(numbers: tuple[signal.Signals, ...], handle: Callable[[], object]) -> Iterator[None]:
    """Let signals call a function in the running loop instead of their usual handlers, where that is possible.

    A signal to end that is ignored, as under `nohup`, stays ignored.

    Args:
        numbers: the signals.
        handle: called in the loop for each signal.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: was for number, was in before.items() if number in INTERRUPT or was is not signal.SIG_IGN}
    try:
        for number in before:
            loop.add_signal_handler(number, handle)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, was in before.items():
            loop.remove_signal_handler(number)
            # Removing restores the default, not the handler of asyncio or the caller.
            signal.signal(number, was)

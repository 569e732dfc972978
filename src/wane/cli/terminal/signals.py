"""What signals do while an event loop runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPT: Final = (signal.SIGINT,)
"""Ctrl-C, and `kill -INT`."""

END: Final = tuple(number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
"""`kill`, and a terminal that is closed."""


@contextmanager
def handled(numbers: tuple[signal.Signals, ...], handle: Callable[[], object]) -> Iterator[None]:
    """Have signals call a function of the running loop instead of what they did, where that is possible.

    One that ends things and is ignored, as under `nohup`, stays so.

    Args:
        numbers: the signals.
        handle: called in the loop for each that comes.
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
            # Removing leaves the default, and not what asyncio itself or the caller had there.
            signal.signal(number, was)

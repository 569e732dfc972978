"""Ctrl-C, held back while it would do harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C in this block; it is raised at its end. Processes that are started in the block never get it."""
    if threading.current_thread() is not threading.main_thread():  # Python raises it in no other
        yield
        return
    received: list[int] = []
    # Processes inherit what is blocked. This process may get the signal in another thread, such as the one that draws
    # a bar of progress, and would handle it in this one: so the handler is replaced as well.
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if os.name == "posix" else set()
    try:
        yield
    finally:
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)

"""Signals while an event loop runs, and while a program has the terminal that this one waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final


def _available(*names: str) -> tuple[signal.Signals, ...]:
    """Return the signals of these names that this system has; Windows has few."""
    return tuple(signal.Signals[name] for name in names if name in signal.Signals.__members__)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


INTERRUPT: Final = (signal.SIGINT,)
"""Ctrl-C, and `kill -INT`."""

END: Final = _available("SIGTERM", "SIGHUP")
"""`kill`, and a closed terminal."""


@contextmanager
def handle_signals(numbers: tuple[signal.Signals, ...], handle: Callable[[], object]) -> Iterator[None]:
    """Let signals call a function in the running loop instead of their usual handlers, where that is possible.

    A signal to end that is ignored, as under `nohup`, stays ignored.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in numbers if number in INTERRUPT or not _is_ignored(number)}
    try:
        for number in before:
            loop.add_signal_handler(number, handle)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            # Removing restores the default, not the handler of asyncio or the caller.
            signal.signal(number, handler)


_PASSED_ON: Final = _available("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_FROM_KEYS: Final = _available("SIGINT", "SIGQUIT")
"""Signals that a terminal sends to all programs in its foreground, so also to the child."""

_BY_SIGNAL: Final = 128
"""Shells add this to the number of the signal that ended a program."""


def run_child(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program with this one's input, output and terminal, and return its exit code.

    Signals are passed on to the program, which decides whether to end; this one ends after it.
    """
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if not running:
            early.append(number)
        elif number not in _FROM_KEYS or not _in_foreground():
            _send(running[0], number)

    # Handlers instead of ignored signals, because a program inherits those that are ignored.
    with catch_signals(_PASSED_ON, handle):
        child = subprocess.Popen(command, env=dict(environ))  # noqa: S603 - what the user asks to run
        running.append(child)
        for number in early:
            _send(child, number)
        code = child.wait()
    return code if code >= 0 else _BY_SIGNAL - code


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    if child.poll() is None:
        child.send_signal(number)


def _in_foreground() -> bool:
    """Return whether this program is in a terminal's foreground, where the child gets its signals as well."""
    if os.name == "nt":
        # A console sends Ctrl-C to all its programs, and no program can send it to another one.
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def catch_signals(
    numbers: Iterable[signal.Signals], handle: Callable[[int, FrameType | None], object]
) -> Iterator[Callable[[], None]]:
    """Let signals call a function instead of their usual handlers; yield a function that restores these, for a fork.

    A signal that is ignored, as under `nohup`, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in numbers if not _is_ignored(number)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield restore
    finally:
        restore()

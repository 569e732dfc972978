"""Ctrl-C, held back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wane.interrupts import hold_interrupts

posix = pytest.mark.skipif(os.name != "posix", reason="signals are sent to processes here")

# Stands in for orjson: Ctrl-C comes while it loads.
LOADING = """
import signal
signal.raise_signal(signal.SIGINT)
loads, dumps = float, repr
"""
IMPORTING = """
try:
    import wane.fast_json
except KeyboardInterrupt:
    import orjson
    print("held", orjson.dumps(1))
"""


@posix
@pytest.mark.parametrize("threads", [0, 1], ids=["alone", "beside-a-thread"])
def test_an_interrupt_is_raised_at_the_end(threads: int) -> None:
    reached, stop = list[int](), threading.Event()

    def interrupt() -> None:
        with hold_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            # Python calls a handler between two of its steps.
            for number in range(1_000_000):
                reached.append(number)

    others = [threading.Thread(target=stop.wait) for _ in range(threads)]
    for thread in others:
        thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    finally:
        stop.set()
    assert len(reached) == 1_000_000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_without_an_interrupt_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    with hold_interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_orjson_loads_waits_until_it_has(tmp_path: Path) -> None:
    (tmp_path / "orjson.py").write_text(LOADING)
    command = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "held 1\n", "")

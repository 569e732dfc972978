"""Signals while a loop runs."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from wane.cli.terminal.signals import END, INTERRUPT, handle_signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no loop signal handlers here")


async def _send_signal(number: signal.Signals, came: list[str]) -> None:
    with handle_signals(INTERRUPT + END, lambda: came.append("came")):
        os.kill(os.getpid(), number)
        for _ in range(100):
            await asyncio.sleep(0)
            if came:
                break


@pytest.mark.parametrize("number", INTERRUPT + END)
def test_a_signal_calls_the_function_and_afterwards_does_what_it_did(number: signal.Signals) -> None:
    came: list[str] = []
    before = signal.signal(number, lambda *_: came.append("before"))
    try:
        asyncio.run(_send_signal(number, came))
        os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)
    assert came == ["came", "before"]


@pytest.mark.parametrize("number", END)
def test_what_is_ignored_stays_so(number: signal.Signals) -> None:
    came: list[str] = []
    before = signal.signal(number, signal.SIG_IGN)
    try:
        asyncio.run(_send_signal(number, came))
    finally:
        signal.signal(number, before)
    assert came == []

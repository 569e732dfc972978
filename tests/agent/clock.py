"""An event loop whose clock is fast, for turns that wait for a provider."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

RATE: Final = 20
"""Seconds of the loop's clock in one second."""

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Waits as long as a fast clock says."""

    def select(self, timeout: float | None = None) -> Any:
        return super().select(None if timeout is None else timeout / RATE)


class _Loop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return super().time() * RATE


def run_fast(turn: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, in an event loop with a fast clock."""
    with asyncio.Runner(loop_factory=lambda: _Loop(_Selector())) as runner:
        return runner.run(turn)

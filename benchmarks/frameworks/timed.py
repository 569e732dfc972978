"""What the runs of `benchmarks/frameworks/speed.py` share: a clock, a history, and a tool's output."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

MESSAGES = 1_000
CALLS = 40
TEXT = "what a tool has returned, and what nobody needs for long; " * 40
ASKED = "Go on."

Run = Callable[[int | None, "Clock"], None]
"""Runs an agent to its end; with Wane at a budget, or without if that is None."""


class Clock:
    """Takes the time of each answer of a model, and tells when it has answered often enough."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def ticks(self) -> int | None:
        """Take the time, and return the number of the call; None at the end."""
        self.times.append(time.process_time())
        return len(self.times) if len(self.times) <= CALLS else None

    @property
    def seconds(self) -> float:
        """Median time between two answers. The first call takes the history in."""
        return statistics.median(
            later - earlier for earlier, later in zip(self.times[1:], self.times[2:], strict=False)
        )


def look(at: int) -> str:
    """Look at something."""
    return f"{at}: {TEXT}"


def pairs() -> range:
    """Numbers of the calls in the history, each with its result; a question is ahead of them."""
    return range(MESSAGES // 2)

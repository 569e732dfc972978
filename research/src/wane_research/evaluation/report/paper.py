"""The paper's own table (arXiv 2606.11213, section 6), to stand beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the paper.

    Attributes:
        benchmark: its name, as results here name it.
        title: its name, as people write it.
        tasks: number of tasks; None if the paper does not say.
        runs: runs of each arm.
        single: score of one session through all tasks.
        isolated: score of a session per task.
    """

    benchmark: str
    title: str
    tasks: int | None
    runs: int
    single: float
    isolated: float


MODEL: Final = "GPT-5.4"
BUDGET: Final = 80_000
MARGIN: Final = 0.03
"""The paper speaks of differences of at most three points."""

PUBLISHED: Final = (
    Published("terminal-bench-2.0", "Terminal-Bench 2.0", 89, 5, 0.6825, 0.6840),
    Published("swe-bench-lite", "SWE-bench Lite", 50, 3, 0.43, 0.40),
    Published("recovery-bench", "Recovery-Bench", None, 3, 0.668, 0.6975),
    Published("longcli-bench", "LongCLI-Bench", 20, 3, 0.20, 0.20),
)
"""All rows. No variance was published, nor the runs' own scores."""

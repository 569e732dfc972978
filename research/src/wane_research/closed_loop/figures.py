"""The figures of a run of the closed loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wane.scripted.witness import Tally
from wane_research.closed_loop.remains import Remains
from wane_research.closed_loop.session import Life
from wane_research.closed_loop.witness import Resumption

NO_MODEL: Final = (
    "The model is a script, not a language model: this shows what a strategy leaves in view, "
    "not how well a model works with it."
)
"""The caveat on every figure."""


_TOLD_OTHERWISE: Final = ("cost", "view_tokens", "peak_request", "over_budget", "most_turns_lost")


WINDOW: Final = 200_000
"""Tokens that the model's own window holds unless told otherwise: longer requests are refused."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """The options of a run.

    Attributes:
        strategy: how the context is kept.
        tasks: how many tasks.
        budget: tokens that the view may hold.
        tokens: input tokens that a session within the budget should take in all; see `make_work`.
        window: tokens of the model's own window.
        mark_tasks: let the model mark tasks, too (R17).
        isolated: give each task in a session of its own, with the earlier turns that it depends on.
        kill_every: model calls between restarts of the agent's process; 0 for none.
        seed: tells one run from another.
        keep: where to keep repository and sessions; None removes them at the end.
    """

    strategy: str = "cwl"
    tasks: int = 89
    budget: int = 80_000
    tokens: int = 80_000_000
    window: int = WINDOW
    mark_tasks: bool = False
    isolated: bool = False
    kill_every: int = 0
    seed: int = 0
    keep: Path | None = None

    @property
    def name(self) -> str:
        """The strategy, or `isolated`."""
        return "isolated" if self.isolated else self.strategy


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task.

    Attributes:
        number: from 1.
        passed: whether its acceptance test and all tests of its area passed.
        ties: its dependencies: the kind of link, and the distance in tasks.
        input_tokens: tokens of its model calls.
        re_reads: files that it read and that had been read before in the session.
        why: why it failed; "" if it passed.
    """

    number: int
    passed: bool
    ties: tuple[tuple[str, int], ...]
    model_calls: int
    input_tokens: int
    re_reads: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run.

    Attributes:
        tally: the counts on the wire.
        resumptions: the first request after each restart.
        life: figures of the agent's processes.
        all_tests_pass: whether all tests of the repository passed at the end.
        seconds: how long the run took.
        passes: how often the strategy evicted anything, by the journals.
        journal_bytes: size of all journals.
        remains: what is left of the tasks at the end, if one session holds all and is kept by episode.
    """

    options: LoopOptions
    results: tuple[TaskResult, ...]
    tally: Tally
    resumptions: tuple[Resumption, ...]
    life: Life
    all_tests_pass: bool
    seconds: float
    passes: int
    journal_bytes: int
    remains: Remains | None

    @property
    def name(self) -> str:
        """The strategy, or `isolated`."""
        return self.options.name

    @property
    def passed(self) -> set[int]:
        """Numbers of the tasks that passed."""
        return {result.number for result in self.results if result.passed}

    @property
    def mean_view(self) -> float:
        """Mean tokens of a request, without the notes at its end."""
        views = self.tally.model_calls - self.tally.summaries
        return self.tally.view_tokens / views if views else 0.0

    @property
    def resumed_soundly(self) -> bool:
        """Whether the session continued with an unchanged view after every restart."""
        return not self.life.views_changed and all(resumption.sound for resumption in self.resumptions)

    def lost_against(self, isolated: Figures) -> list[int]:
        """Return the tasks that fail here and pass in sessions of their own."""
        return sorted(isolated.passed - self.passed)

    def to_dict(self, isolated: Figures | None = None) -> dict[str, Any]:
        """Return the figures as JSON data; `isolated` are those of the same tasks in sessions of their own."""
        tally = asdict(self.tally)
        return {
            "name": self.name,
            "tasks": len(self.results),
            "tasks_passed": len(self.passed),
            "tasks_lost": None if isolated is None or self.options.isolated else self.lost_against(isolated),
            **{name: count for name, count in tally.items() if name not in _TOLD_OTHERWISE},
            "cost_usd": round(self.tally.cost.total, 4),
            "mean_view": round(self.mean_view),
            "over_budget_calls": self.tally.over_budget,
            "user_turns_intact": not self.tally.turns_lost,
            "passes": self.passes,
            "restarts": len(self.resumptions),
            "killed": sum(resumption.how != "closed" for resumption in self.resumptions),
            "resumed_soundly": self.resumed_soundly,
            "resume_seconds": round(self.life.resume_seconds, 2),
            "all_tests_pass": self.all_tests_pass,
            "seconds": round(self.seconds, 1),
            "peak_memory_bytes": self.life.memory,
            "journal_bytes": self.journal_bytes,
            "remains": self.remains and asdict(self.remains),
            "history_items": self.life.items,
            "results": [asdict(result) for result in self.results],
        }


def to_json(runs: Sequence[Figures], seed: int) -> dict[str, Any]:
    """Return several runs of the same tasks as JSON data."""
    isolated = next((run for run in runs if run.options.isolated), None)
    return {
        "model": "scripted",
        "note": NO_MODEL,
        "seed": seed,
        "budget": runs[0].options.budget if runs else None,
        "window": runs[0].options.window if runs else None,
        "tasks": len(runs[0].results) if runs else 0,
        "runs": [run.to_dict(isolated) for run in runs],
    }

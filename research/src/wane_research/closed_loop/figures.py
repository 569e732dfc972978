"""The figures of a run of the closed loop: counts on the wire, what restarts changed, and what is left of the tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from wane.core import Kind, Level
from wane.formats import get_format
from wane.formats.base import readable
from wane.journal import read
from wane.rebuilding import rebuild
from wane.scripted import witness as scripted
from wane.scripted.sight import is_note
from wane.scripted.witness import Tally
from wane.testing import Request
from wane_research.closed_loop.session import Life


@dataclass(frozen=True, slots=True)
class Resumption:
    """The first request after a restart, compared with the last one before it."""

    call: int  # number of the request
    how: str  # how the process before it ended; see `session.How`
    same: bool  # whether it continues the earlier request exactly
    passed: bool  # whether it lacks content that a pass took because the budget would have been exceeded
    sound: bool  # whether nothing came back, moved or changed, and nothing is missing without need


class Witness(scripted.Witness):
    """Watches the requests of a run."""

    def __init__(self, budget: int) -> None:
        self.resumptions: list[Resumption] = []
        self._restarted = ""
        super().__init__(budget)

    @override
    def begin(self) -> None:
        super().begin()
        self._last: list[int] = []

    def restarted(self, how: str) -> None:
        self._restarted = how

    @override
    def see(self, request: Request) -> None:
        super().see(request)
        ids = [self._number(part) for part in request.parts if not is_note(part)]
        if self._restarted:
            self._compare(ids, request)
        self._last = ids

    def _compare(self, ids: list[int], request: Request) -> None:
        """Compare the first request after a restart with the last one before it."""
        before = self._last
        same = ids[: len(before)] == before
        # A pass was due if the earlier view and everything since exceed the budget. The agent counts the content since
        # the last report by itself, so its figure may differ a little.
        unevicted = [*before, *(number for number in ids if number > max(before, default=-1))]
        tokens = request.tool_tokens + sum(self._tokens[number] for number in unevicted)
        passed = not same and tokens > 0.995 * self.budget
        # Compare calls and results, which have ids: the same words may occur twice.
        earlier, now = (
            [number for number in numbers if self._kinds[number] in (Kind.CALL, Kind.RESULT)]
            for numbers in (before, ids)
        )
        newest = max(earlier, default=-1)
        old = [number for number in now if number <= newest]
        gone = set(earlier) - set(old)
        ordered = old == [number for number in earlier if number not in gone]
        sound = ordered and (same or passed)
        self.resumptions.append(Resumption(request.number, self._restarted, same, passed, sound))
        self._restarted = ""


_FACT: Final = re.compile(r"`\w+`|\bis \d+")
"""What a description says of later use: the function, the highest QUOTA, the ticket."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left at the end of a session."""

    descriptions: int  # explorations of which nothing but the description is in view
    lines: int  # tasks of which nothing but their line is in view (R17)
    tokens: int  # what both hold
    seen: int  # tasks whose facts stand in a description or a line in view, whatever the user said of them
    recalled: int  # other tasks whose exploration can be recalled with its facts
    lost: int  # all other tasks

    def describe(self) -> str:
        return (
            f"{self.descriptions:,} descriptions and {self.lines:,} lines of tasks hold {self.tokens:,} tokens. "
            f"Facts of tasks in view: {self.seen:,}; by recall: {self.recalled:,}; lost: {self.lost:,}"
        )


def remains(journal: Path, tasks: int) -> Remains:
    """Return what is left of the first tasks of a session, by its journal."""
    file = read(journal)
    rebuilt = rebuild(file.records, get_format(file.header.format))
    episodes = rebuilt.episodes
    stripped = [episode for episode in episodes if episode.level is Level.REMOVE and episode.description]
    lines = sum(episode.is_task for episode in stripped)
    visible = {episode.name: episode.description for episode in episodes if episode.level is not Level.DESCRIPTION}
    seen = recalled = lost = 0
    for number in range(1, tasks + 1):
        look = f"t{number}-look"
        described = next((episode.description for episode in episodes if episode.name == look), None)
        facts = _FACT.findall(described or "")
        texts = [visible.get(name) or "" for name in (look, f"t{number}")]
        if not facts:
            lost += 1
        elif any(all(fact in text for fact in facts) for text in texts):
            seen += 1
        else:
            # The content of the exploration, as `recall` gives it page by page.
            indexes = [index for span in rebuilt.window.members(look) for index in span]
            recallable = "\n\n".join(readable(rebuilt.items[index][1]) for index in indexes)
            if all(fact in recallable for fact in facts):
                recalled += 1
            else:
                lost += 1
    tokens = sum(episode.tokens for episode in stripped)
    return Remains(len(stripped) - lines, lines, tokens, seen, recalled, lost)


NO_MODEL: Final = (
    "The model is a script, not a language model: this shows what a strategy leaves in view, "
    "not how well a model works with it."
)
"""The caveat on every figure."""


_TOLD_OTHERWISE: Final = ("cost", "view_tokens", "peak_request", "over_budget", "most_turns_lost")


WINDOW: Final = 200_000  # tokens that the model's own window holds unless told otherwise: longer requests are refused


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """The options of a run."""

    strategy: str = "cwl"  # how the context is kept
    tasks: int = 89  # how many tasks
    budget: int = 80_000  # tokens that the view may hold
    tokens: int = 80_000_000  # input tokens that a session within the budget should take in all; see `make_work`
    window: int = WINDOW  # tokens of the model's own window
    mark_tasks: bool = False  # let the model mark tasks, too (R17)
    isolated: bool = False  # give each task in a session of its own, with the earlier turns that it depends on
    kill_every: int = 0  # model calls between restarts of the agent's process; 0 for none
    seed: int = 0  # tells one run from another
    keep: Path | None = None  # where to keep repository and sessions; None removes them at the end

    @property
    def name(self) -> str:
        return "isolated" if self.isolated else self.strategy


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task."""

    number: int  # from 1
    passed: bool  # whether its acceptance test and all tests of its area passed
    ties: tuple[tuple[str, int], ...]  # its dependencies: the kind of link, and the distance in tasks
    model_calls: int
    input_tokens: int  # tokens of its model calls
    re_reads: int  # files that it read and that had been read before in the session
    why: str = ""  # why it failed; "" if it passed


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run."""

    options: LoopOptions
    results: tuple[TaskResult, ...]
    tally: Tally  # the counts on the wire
    resumptions: tuple[Resumption, ...]  # the first request after each restart
    life: Life  # figures of the agent's processes
    all_tests_pass: bool  # whether all tests of the repository passed at the end
    seconds: float  # how long the run took
    passes: int  # how often the strategy evicted anything, by the journals
    journal_bytes: int  # size of all journals
    remains: Remains | None  # what is left of the tasks at the end, if one session holds all and is kept by episode

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def passed(self) -> set[int]:
        return {result.number for result in self.results if result.passed}

    @property
    def mean_view(self) -> float:
        """Mean tokens of a request, without the notes at its end."""
        views = self.tally.model_calls - self.tally.summaries
        return self.tally.view_tokens / views if views else 0.0

    @property
    def resumed_soundly(self) -> bool:
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

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
from wane.formats.message_format import readable
from wane.journal import read
from wane.rebuilding import Rebuilt, rebuild
from wane.scripted import witness as scripted
from wane.scripted.sight import is_note
from wane.scripted.witness import Tally
from wane.testing import Request
from wane_research.closed_loop.session import Life


@dataclass(frozen=True, slots=True)
class Resumption:
    """The first request after a restart, compared with the last one before it."""

    call: int  # number of the request
    how: str  # how the earlier process ended; see `session.How`
    same: bool  # whether it continues the earlier request exactly
    passed: bool  # whether it lacks content that a pass had to evict
    sound: bool  # whether nothing came back, moved or changed, and everything missing had to be evicted


class Witness(scripted.RequestWitness):
    """Watches the requests of a run."""

    def __init__(self, budget: int) -> None:
        self.resumptions: list[Resumption] = []
        self._restarted = ""
        super().__init__(budget)

    @override
    def begin(self) -> None:
        super().begin()
        self._last: list[int] = []

    def note_restart(self, how: str) -> None:
        self._restarted = how

    @override
    def see(self, request: Request) -> None:
        super().see(request)
        ids = [self._number(part) for part in request.parts if not is_note(part)]
        if self._restarted:
            self._compare(ids, request)
        self._last = ids

    def _compare(self, ids: list[int], request: Request) -> None:
        before = self._last
        same = ids[: len(before)] == before
        # A pass was due if the earlier view and everything since exceed the budget. The agent itself counts the content
        # since the last report, so its figure may differ a little.
        latest = max(before, default=-1)
        unevicted = before + [number for number in ids if number > latest]
        tokens = request.tool_tokens + sum(self._tokens[number] for number in unevicted)
        passed = not same and tokens > 0.995 * self.budget
        earlier, now = self._with_ids(before), self._with_ids(ids)
        newest = max(earlier, default=-1)
        old = [number for number in now if number <= newest]
        gone = set(earlier) - set(old)
        ordered = old == [number for number in earlier if number not in gone]
        sound = ordered and (same or passed)
        self.resumptions.append(Resumption(request.number, self._restarted, same, passed, sound))
        self._restarted = ""

    def _with_ids(self, numbers: list[int]) -> list[int]:
        """Return the calls and results: they have ids, while the same words may occur twice."""
        return [number for number in numbers if self._kinds[number] in (Kind.CALL, Kind.RESULT)]


_FACT: Final = re.compile(r"`\w+`|\bis \d+")
"""The facts of a description that later tasks may use: the function, the highest QUOTA, the ticket."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left at the end of a session."""

    descriptions: int  # explorations with only their description in view
    lines: int  # tasks with only their line in view (R17)
    tokens: int  # tokens of both
    seen: int  # tasks whose facts are in a description or a line in view; the user's words do not count
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
        if not facts:
            lost += 1
        elif _holds(visible.get(look), facts) or _holds(visible.get(f"t{number}"), facts):
            seen += 1
        elif _holds(_recallable(rebuilt, look), facts):
            recalled += 1
        else:
            lost += 1
    tokens = sum(episode.tokens for episode in stripped)
    return Remains(len(stripped) - lines, lines, tokens, seen, recalled, lost)


def _recallable(rebuilt: Rebuilt, name: str) -> str:
    """Return the content of an episode, as `recall` gives it page by page."""
    indexes = [index for span in rebuilt.window.members(name) for index in span]
    return "\n\n".join(readable(rebuilt.items[index][1]) for index in indexes)


def _holds(text: str | None, facts: Sequence[str]) -> bool:
    return text is not None and all(fact in text for fact in facts)


NO_MODEL: Final = (
    "The model is a script, not a language model: this shows what a strategy leaves in view, "
    "not how well a model works with it."
)
"""The caveat on every figure."""


_NOT_IN_JSON: Final = ("cost", "view_tokens", "peak_request", "over_budget", "most_turns_lost")


WINDOW: Final = 200_000  # default tokens of the model's own window; longer requests are refused


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """The options of a run."""

    strategy: str = "cwl"  # how the context is kept
    tasks: int = 89  # number of tasks
    budget: int = 80_000  # tokens that the view may hold
    tokens: int = 80_000_000  # input tokens that a session within the budget should take in all; see `make_work`
    window: int = WINDOW  # tokens of the model's own window
    mark_tasks: bool = False  # whether the model also marks tasks (R17)
    isolated: bool = False  # whether each task gets a session of its own, with the earlier turns that it depends on
    kill_every: int = 0  # model calls between restarts of the agent's process; 0 for none
    seed: int = 0  # selects the repository and the tasks
    keep: Path | None = None  # folder to keep repository and sessions in; None removes them at the end

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
    def failed(self) -> list[int]:
        return [result.number for result in self.results if not result.passed]

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
        lost = None
        if isolated is not None and not self.options.isolated:
            lost = self.lost_against(isolated)
        return {
            "name": self.name,
            "tasks": len(self.results),
            "tasks_passed": len(self.passed),
            "tasks_lost": lost,
            **{name: count for name, count in tally.items() if name not in _NOT_IN_JSON},
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

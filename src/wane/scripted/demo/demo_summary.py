"""The counts of a demo run, and its summary.

`DemoWitness` watches the demo's session; the model sees none of it. A fact that the model has seen before is still in
view, or in the description of an evicted exploration, or the model reads it again or recalls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wane.agent.session import AgentSession
from wane.conversation.events import BudgetUnmet, Event, MessageTaken, PassRan
from wane.core import Episode, FitReport, Item, Level
from wane.money import dollars
from wane.scripted import witness as scripted
from wane.scripted.demo.mind import Decision
from wane.scripted.witness import MODEL, Tally
from wane.strategies.registry import traits
from wane.testing import Request

NO_MODEL: Final = (
    "The model was a script, not a language model: this shows the mechanism, not how well a model works with it."
)
"""The caveat on every figure of the demo."""


@dataclass(slots=True)
class Counts:
    """What only the session shows.

    Attributes:
        passes: passes that ran.
        evicted_tokens: tokens that they took.
        unmet: requests that went out over the budget because nothing more could be evicted (R13).
        rejected: `delimiter` calls that were refused.
        in_view: how often a step used a fact that was still in view from an earlier task.
        described: how often one from the description of an exploration that was stripped.
    """

    passes: int = 0
    evicted_tokens: int = 0
    unmet: int = 0
    rejected: int = 0
    in_view: int = 0
    described: int = 0


class DemoWitness(scripted.RequestWitness):
    """Watches the requests of a run, and listens to the session that they come from.

    Attributes:
        counts: the counts of the session; `on_pass` is called with each pass.
        items: the history's items, in order.
    """

    def __init__(self, budget: int, session: AgentSession, on_pass: Callable[[FitReport], None]) -> None:
        super().__init__(budget)
        self.counts = Counts()
        self.items: list[Item] = []
        self._on_pass = on_pass
        self._tasks: dict[str, int] = {}  # by call id, the task in which it was first seen
        self._owners: dict[str, Episode | None] = {}  # by call id
        session.conversation.listeners.append(self._note)

    def take_decision(self, request: Request, decision: Decision) -> None:
        """Take in a request and the model's decision on it."""
        for part in request.parts:
            if part.call_id is not None:
                self._tasks.setdefault(part.call_id, len(self.turns))
        sources = {source.call_id: source for source in decision.knowledge.values()}
        for call_id, source in sources.items():
            owner = self._owners.get(call_id)
            if source.described:
                self.counts.described += owner is not None and owner.level is not Level.NONE
            else:
                self.counts.in_view += self._tasks[call_id] < len(self.turns)

    def _note(self, event: Event) -> None:
        match event:
            case MessageTaken(_, _, items, added):
                self.items += items
                for item, outcome in zip(items, added, strict=True):
                    if item.tool is not None and item.call_id is not None:
                        self._owners[item.call_id] = outcome.episode
                    self.counts.rejected += outcome.verdict is not None and not outcome.verdict.accepted
            case PassRan(report):
                self.counts.passes += 1
                self.counts.evicted_tokens += report.tokens_before - report.tokens_after
                self._on_pass(report)
            case BudgetUnmet():
                self.counts.unmet += 1


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task.

    Attributes:
        passed: whether all of the repository's tests passed when the agent was done.
        input_tokens: tokens of its model calls.
        why: why it failed; "" if it passed.
    """

    number: int
    title: str
    passed: bool
    model_calls: int
    input_tokens: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run.

    Attributes:
        session: its id; None if it was not kept.
        repository: the kept repository; None if it was not kept.
    """

    strategy: str
    session: str | None
    budget: int
    results: tuple[TaskResult, ...]
    tally: Tally
    counts: Counts
    seconds: float
    repository: Path | None = None

    @property
    def passed(self) -> int:
        """Number of tasks that passed."""
        return sum(result.passed for result in self.results)

    @property
    def prefix_reuse(self) -> float:
        """Share of all input tokens that repeated the beginning of the request before."""
        return self.tally.cache_read_tokens / self.tally.input_tokens if self.tally.input_tokens else 0.0

    @property
    def over_budget(self) -> int:
        """Views over the budget that a pass could have brought below it."""
        return max(0, self.tally.over_budget - self.counts.unmet)

    @property
    def problems(self) -> list[str]:
        """Violations, as sentences. Without episodes only the tasks count; the other figures are for comparison."""
        problems = [f"task {result.number} failed: {result.why}" for result in self.results if not result.passed]
        if traits(self.strategy).by_episode:
            if self.over_budget:
                problems.append(f"{self.over_budget} views were over a budget that could be met")
            if self.tally.most_turns_lost:
                problems.append(
                    f"{self.tally.most_turns_lost} turns of the user were not in a request as they were said"
                )
        return problems

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        tally = self.tally
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "model": "scripted, not a language model",
            "strategy": self.strategy,
            "session": self.session,
            "repository": None if self.repository is None else str(self.repository),
            "tasks": len(self.results),
            "tasks_passed": self.passed,
            "budget": self.budget,
            "user_turns_intact": not tally.turns_lost,
            "prefix_reuse": round(self.prefix_reuse, 4),
            "cost_usd": round(tally.cost.total, 6),
            "model_calls": tally.model_calls,
            "input_tokens": tally.input_tokens,
            "cached_tokens": tally.cache_read_tokens,
            "output_tokens": tally.output_tokens,
            "peak_view_tokens": tally.peak_view,
            "peak_request_tokens": tally.peak_request,
            "summaries": tally.summaries,
            # What a strategy without episodes does is no pass, and is not counted.
            "passes": self.counts.passes if traits(self.strategy).by_episode else None,
            "unmet": self.counts.unmet,
            "over_budget": self.over_budget,
            "evicted_tokens": self.counts.evicted_tokens if traits(self.strategy).by_episode else None,
            "rejected": self.counts.rejected,
            "in_view": self.counts.in_view,
            "described": self.counts.described,
            "re_read": tally.re_reads,
            "recalled": tally.recalls,
            "most_turns_lost": tally.most_turns_lost,
            "seconds": round(self.seconds, 1),
            "results": [asdict(result) for result in self.results],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the summary as rows for people: name, figure, and meaning."""
        tally, counts, by_episode = self.tally, self.counts, traits(self.strategy).by_episode
        summaries = f", {tally.summaries:,} of them for a summary" if tally.summaries else ""
        yield "model calls", f"{tally.model_calls:,}", f"in {self.seconds:.0f} seconds{summaries}"
        reuse = f"{self.prefix_reuse:.0%} repeat the beginning of the request before"
        yield "input tokens", f"{tally.input_tokens:,}", reuse
        yield "cost", dollars(tally.cost.total), f"what these calls would have cost with {MODEL}"
        over = self.over_budget + counts.unmet
        against = f"{over:,} requests were over the budget" if over else "of a budget"
        yield "largest view", f"{tally.peak_view:,}", f"{against} of {self.budget:,}"
        if by_episode:
            evicted = f"{counts.evicted_tokens:,} tokens evicted, without a model call or a summary"
            yield "passes", f"{counts.passes:,}", evicted
        if tally.turns_lost:
            lost = f"up to {tally.most_turns_lost} of {len(self.results)} were missing from a request"
            yield "user's turns", "lost", lost
        else:
            yield "user's turns", "intact", "all in every request, byte for byte"
        yield "needed again", "", ""
        yield "  in view", f"{counts.in_view:,}", "still there from an earlier task"
        if by_episode:
            yield "  described", f"{counts.described:,}", "the description of a stripped exploration was enough"
        yield "  read again", f"{tally.re_reads:,}", "had left the view, and was looked up once more"
        if by_episode:
            yield "  recalled", f"{tally.recalls:,}", "nothing could produce it again; it came back exactly"

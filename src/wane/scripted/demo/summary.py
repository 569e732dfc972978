"""The summary of a demo run: counts, a verdict, and the words for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wane.agent.options import Strategy
from wane.money import dollars
from wane.scripted.demo.witness import Passes
from wane.scripted.witness import MODEL, Tally
from wane.strategies.base import traits

NO_MODEL: Final = (
    "The model was a script, not a language model: this shows the mechanism, not how well a model works with it."
)
"""The caveat on every figure of the demo."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task.

    Attributes:
        number: from 1.
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
        budget: tokens that the view may hold.
        tally: the counts of the requests.
        passes: the counts of the passes.
        had: how the model found what it had seen before; see `Witness`.
        repository: the kept repository; None if it was not kept.
    """

    strategy: Strategy
    session: str | None
    budget: int
    results: tuple[TaskResult, ...]
    tally: Tally
    passes: Passes
    had: Mapping[str, int]
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
        return max(0, self.tally.over_budget - self.passes.unmet)

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
            "passes": self.passes.ran if traits(self.strategy).by_episode else None,
            "unmet": self.passes.unmet,
            "over_budget": self.over_budget,
            "evicted_tokens": self.passes.evicted_tokens if traits(self.strategy).by_episode else None,
            "rejected": self.passes.rejected,
            "in_view": self.had.get("in view", 0),
            "described": self.had.get("described", 0),
            "re_read": tally.re_reads,
            "recalled": tally.recalls,
            "most_turns_lost": tally.most_turns_lost,
            "seconds": round(self.seconds, 1),
            "results": [asdict(result) for result in self.results],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the summary as rows for people: name, figure, and meaning."""
        tally = self.tally
        summaries = f", {tally.summaries:,} of them for a summary" if tally.summaries else ""
        yield "model calls", f"{tally.model_calls:,}", f"in {self.seconds:.0f} seconds{summaries}"
        yield (
            "input tokens",
            f"{tally.input_tokens:,}",
            f"{self.prefix_reuse:.0%} repeat the beginning of the request before",
        )
        yield "cost", dollars(tally.cost.total), f"what these calls would have cost with {MODEL}"
        yield "largest view", f"{tally.peak_view:,}", self._against_budget()
        if traits(self.strategy).by_episode:
            yield (
                "passes",
                f"{self.passes.ran:,}",
                f"{self.passes.evicted_tokens:,} tokens evicted, without a model call or a summary",
            )
        lost = f"up to {tally.most_turns_lost} of {len(self.results)} were missing from a request"
        yield (
            "user's turns",
            "lost" if tally.turns_lost else "intact",
            lost if tally.turns_lost else "all in every request, byte for byte",
        )
        yield from self._memory_rows()

    def _memory_rows(self) -> Iterator[tuple[str, str, str]]:
        """How the model found again what it had seen before."""
        yield "needed again", "", ""
        yield "  in view", f"{self.had.get('in view', 0):,}", "still there from an earlier task"
        if traits(self.strategy).by_episode:
            yield (
                "  described",
                f"{self.had.get('described', 0):,}",
                "the description of a stripped exploration was enough",
            )
        yield "  read again", f"{self.tally.re_reads:,}", "had left the view, and was looked up once more"
        if traits(self.strategy).by_episode:
            yield "  recalled", f"{self.tally.recalls:,}", "nothing could produce it again; it came back exactly"

    def _against_budget(self) -> str:
        over = self.over_budget + self.passes.unmet
        if not over:
            return f"of a budget of {self.budget:,}"
        return f"{over:,} requests were over the budget of {self.budget:,}"

"""What really went over the wire, watched from the server's side: the model and the agent know nothing of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from wane.closed_loop.sight import is_note
from wane.core import Kind
from wane.lab.cache import PrefixCache, rules_for
from wane.lab.prices import Cost, Prices
from wane.testing import Part, Reply, Request, Usage

_SAMPLE: Final = 100
"""Calls whose times are compared: the first with a well-filled view, and the last."""

_FILLED: Final = 0.7
"""Share of the budget from which a view is well filled."""


@dataclass(slots=True)
class Tally:
    """Counts of one run, all sessions of it together.

    Attributes:
        model_calls: requests that were answered.
        refused: requests that were longer than the model's window.
        input_tokens: what the answered ones held.
        cache_read_tokens: how many of these the provider's cache would have had.
        cache_write_tokens: how many it would have written.
        output_tokens: what the replies held.
        cost: dollars, by the prices of the model that is named.
        peak_view: the largest request, without the notes at its end that are in no history.
        view_tokens: what all requests held without those.
        over_budget: requests that held more than the budget without those.
        turns_lost: requests in which a turn of the user's was missing or was not as it was said.
        reads: files that were read.
        re_reads: files that were read and had been read before in the session.
        re_read_tokens: what the latter brought.
        recalls: pages of episodes that were recalled.
        stale_edits: edits that failed because the file was not as the model had seen it.
        summaries: requests among them in which the strategy had a summary written. They are no views.
    """

    model_calls: int = 0
    refused: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: Cost = field(default_factory=Cost)
    peak_view: int = 0
    view_tokens: int = 0
    over_budget: int = 0
    turns_lost: int = 0
    reads: int = 0
    re_reads: int = 0
    re_read_tokens: int = 0
    recalls: int = 0
    stale_edits: int = 0
    summaries: int = 0


@dataclass(frozen=True, slots=True)
class Resumption:
    """What the first request after a restart showed, against the last one before it.

    Attributes:
        call: number of the request.
        how: how the process before it ended; see `session.How`.
        same: whether it went on exactly where the one before was.
        passed: whether it lacks what a pass took, in which case the budget would have been exceeded.
        sound: whether nothing came back, moved or changed, and nothing is lacking without need.
    """

    call: int
    how: str
    same: bool
    passed: bool
    sound: bool


class Witness:
    """Watches the requests of a run.

    Args:
        budget: tokens that a view may hold.
        model: whose prices and cache rules hold, as `provider:model`.
    """

    def __init__(self, budget: int, model: str) -> None:
        self.budget = budget
        self.tally = Tally()
        self.turns: list[str] = []
        self.resumptions: list[Resumption] = []
        self.gaps: list[float] = []
        self._prices = Prices.of(model)
        self._rules = rules_for(*model.split(":", 1))
        self._restarted = ""
        self._replied = 0.0
        self.begin()

    def begin(self) -> None:
        """A session begins."""
        self.turns = []
        self._numbers: dict[tuple[Kind, str | None, str], int] = {}
        self._tokens: list[int] = []
        self._kinds: list[Kind] = []
        self._cache: PrefixCache | None = None
        self._last: list[int] = []
        self._read: set[str] = set()
        self._seen_results: set[str] = set()

    def restarted(self, how: str) -> None:
        """The session was closed or killed, and goes on."""
        self._restarted = how

    def paused(self) -> None:
        """The agent has nothing to do for a while: the time until the next request says nothing."""
        self._replied = 0.0

    def see(self, request: Request) -> None:
        """Take in a request, before it is answered."""
        tally = self.tally
        view = [part for part in request.parts if not is_note(part)]
        tokens = request.tool_tokens + sum(part.tokens for part in view)
        tally.peak_view = max(tally.peak_view, tokens)
        if self._replied and tally.peak_view > _FILLED * self.budget:
            self.gaps.append(time.perf_counter() - self._replied)
        tally.view_tokens += tokens
        tally.over_budget += tokens > self.budget
        tally.turns_lost += [part.text for part in view if part.kind is Kind.USER] != self.turns
        self._count_results(request)
        ids = [self._number(part) for part in view]
        if self._restarted:
            self._compare(ids, request)
        self._last = ids

    def answer(self, request: Request, reply: Reply, *, aside: bool = False) -> Usage:
        """Take in the answer, and return what the provider would report.

        Args:
            request: the request.
            reply: the answer.
            aside: whether it is a summary and no step of the work.
        """
        tally = self.tally
        tally.summaries += aside
        tally.model_calls += 1
        if self._cache is None:
            system = len(request.texts(Kind.SYSTEM))
            self._cache = PrefixCache(self._rules, request.tool_tokens, kinds=self._kinds, system=system)
        use = self._cache.request([self._number(part) for part in request.parts], self._tokens, aside=aside)
        tally.input_tokens += use.total
        tally.cache_read_tokens += use.read
        tally.cache_write_tokens += use.written
        tally.output_tokens += reply.tokens
        tally.cost += self._prices.cost(use, reply.tokens)
        for call in reply.calls:
            tally.recalls += call.tool == "recall"
        self._replied = time.perf_counter()
        return Usage(input=use.total, output=reply.tokens, cache_read=use.read, cache_write=use.written)

    def pace(self) -> tuple[float, float]:
        """Return the median seconds from a reply to the next request, of 100 early and of the last 100 calls."""
        if not self.gaps:
            return 0.0, 0.0
        return statistics.median(self.gaps[:_SAMPLE]), statistics.median(self.gaps[-_SAMPLE:])

    def _number(self, part: Part) -> int:
        key = (part.kind, part.call_id, f"{part.tool or ''}{part.text}")
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._tokens)
            self._tokens.append(part.tokens)
            self._kinds.append(part.kind)
        return number

    def _count_results(self, request: Request) -> None:
        """Count what the latest calls have brought."""
        results = request.results
        latest = next((m for m in reversed(request.messages) if m.role == "assistant"), None)
        for part in latest.parts if latest else ():
            result = results.get(part.call_id or "")
            if part.kind is not Kind.CALL or result is None or part.call_id in self._seen_results:
                continue
            self._seen_results.add(part.call_id or "")
            if part.tool == "read_file" and result.startswith("["):
                self.tally.reads += 1
                if part.text in self._read:
                    self.tally.re_reads += 1
                    self.tally.re_read_tokens += -(-len(result) // 4)
                self._read.add(part.text)
            elif part.tool == "edit_file" and not result.startswith("Edited"):
                self.tally.stale_edits += 1

    def _compare(self, ids: list[int], request: Request) -> None:
        """Hold the first request after a restart against the last one before it."""
        before, self._last = self._last, ids
        same = ids[: len(before)] == before
        passed = not same and self._due(before, ids, request.tool_tokens)
        # By calls and results, which have ids: words may be said twice.
        known, now = (list(filter(self._has_id, numbers)) for numbers in (before, ids))
        newest = max(known, default=-1)
        old = [number for number in now if number <= newest]
        gone = set(known) - set(old)
        ordered = old == [number for number in known if number not in gone]
        sound = ordered and (same or passed)
        self.resumptions.append(Resumption(request.number, self._restarted, same, passed, sound))
        self._restarted = ""

    def _has_id(self, number: int) -> bool:
        return self._kinds[number] in (Kind.CALL, Kind.RESULT)

    def _due(self, before: Sequence[int], ids: Sequence[int], tool_tokens: int) -> bool:
        """Whether a pass was due: all that was in view, with what has come since, is over the budget."""
        fresh = [number for number in ids if number > max(before, default=-1)]
        # The agent goes by its own count of what has come since the last report, which may differ a little.
        return tool_tokens + self._sum(before) + self._sum(fresh) > 0.995 * self.budget

    def _sum(self, numbers: Sequence[int]) -> int:
        return sum(self._tokens[number] for number in numbers)

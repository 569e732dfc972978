"""Counts the real content of the requests from the model's side; neither the script nor the agent knows of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from wane.caches import rules_for
from wane.core import Kind
from wane.lab.cache.prefix import PrefixCache
from wane.prices import CacheUse, Cost, Prices
from wane.scripted.sight import asks_for_summary, is_note, view_tokens
from wane.scripted.summary import summarise
from wane.testing import Part, Reply, Request, Usage

MODEL: Final = "anthropic:claude-sonnet-5"
"""The model whose prices and cache rules apply. The script answers in its place."""


@dataclass(slots=True)
class Tally:
    """Counts of one run, over all its sessions.

    Attributes:
        model_calls: requests that were answered.
        refused: requests that were longer than the model's window.
        cache_read_tokens: those of them that would come from the provider's cache.
        cache_write_tokens: those of them that would be written to it.
        cost: dollars, by the prices of `MODEL`.
        peak_view: the largest request, without the notes at its end that are in no history.
        peak_request: the largest request with these notes.
        view_tokens: tokens of all requests without the notes.
        over_budget: requests over the budget without the notes.
        turns_lost: requests in which a turn of the user's was missing or changed.
        most_turns_lost: the most turns of the user's that one request lacked or had changed.
        re_reads: files that were read and had been read before in the session.
        re_read_tokens: tokens of these second reads.
        recalls: pages of episodes that were recalled.
        summaries: requests for a summary that the strategy made. They are no views.
    """

    model_calls: int = 0
    refused: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: Cost = field(default_factory=Cost)
    peak_view: int = 0
    peak_request: int = 0
    view_tokens: int = 0
    over_budget: int = 0
    turns_lost: int = 0
    most_turns_lost: int = 0
    reads: int = 0
    re_reads: int = 0
    re_read_tokens: int = 0
    recalls: int = 0
    summaries: int = 0


class RequestWitness:
    """Watches the requests of a run.

    Args:
        summarise: writes a summary when a strategy asks for one.
        model: whose prices and cache rules apply.

    Attributes:
        turns: the user's turns in this session.
    """

    def __init__(self, budget: int, summarise: Callable[[Request], Reply] = summarise, *, model: str = MODEL) -> None:
        self.budget = budget
        self._summarise = summarise
        self.tally = Tally()
        self._prices = Prices.of(model)
        self._rules = rules_for(*model.split(":", 1))
        self.begin()

    def begin(self) -> None:
        """A session begins."""
        self.turns: list[str] = []
        self._numbers: dict[tuple[Kind, str | None, str], int] = {}
        self._tokens: list[int] = []
        self._kinds: list[Kind] = []
        self._cache: PrefixCache | None = None
        self._read: set[str] = set()
        self._counted: set[str] = set()

    def answer(self, request: Request, decide: Callable[[Request], Reply]) -> Reply:
        """Count a request, and return its answer with the usage that the provider would report.

        `decide` gives the model's answer to a step of its work, but not to a request for a summary.
        """
        aside = asks_for_summary(request)
        if aside:
            reply = self._summarise(request)
        else:
            self.see(request)
            reply = decide(request)
        use, tally = self._use_cache(request, aside), self.tally
        tally.summaries += aside
        tally.model_calls += 1
        tally.input_tokens += use.total
        tally.cache_read_tokens += use.read
        tally.cache_write_tokens += use.written
        tally.output_tokens += reply.tokens
        tally.cost += self._prices.cost(use, reply.tokens)
        tally.recalls += sum(call.tool == "recall" for call in reply.calls)
        return replace(reply, usage=Usage(use.total, reply.tokens, use.read, use.written))

    def see(self, request: Request) -> None:
        """Take in a step of the work, before it is answered."""
        tally, tokens = self.tally, view_tokens(request)
        tally.peak_view = max(tally.peak_view, tokens)
        tally.peak_request = max(tally.peak_request, request.tokens)
        tally.view_tokens += tokens
        tally.over_budget += tokens > self.budget
        if lost := count_lost(self.turns, request):
            tally.turns_lost += 1
            tally.most_turns_lost = max(tally.most_turns_lost, lost)
        self._count_results(request)

    def _use_cache(self, request: Request, aside: bool) -> CacheUse:
        """The use that a request makes of the provider's cache."""
        if self._cache is None:
            system = len(request.texts(Kind.SYSTEM))
            self._cache = PrefixCache(self._rules, request.tool_tokens, kinds=self._kinds, system=system)
        view = [self._number(part) for part in request.parts if not is_note(part)]
        use = self._cache.request(view, self._tokens, aside=aside)
        # Pydantic AI sets its breakpoint ahead of the notes, so no cached prefix holds them.
        return replace(use, fresh=use.fresh + sum(part.tokens for part in request.parts if is_note(part)))

    def _number(self, part: Part) -> int:
        """A number that is the same for the same part."""
        key = (part.kind, part.call_id, f"{part.tool or ''}{part.text}")
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._tokens)
            self._tokens.append(part.tokens)
            self._kinds.append(part.kind)
        return number

    def _count_results(self, request: Request) -> None:
        """Count the results of the latest calls."""
        results = request.results
        latest = next((m for m in reversed(request.messages) if m.role == "assistant"), None)
        for part in latest.parts if latest else ():
            result = results.get(part.call_id or "")
            if part.kind is not Kind.CALL or result is None or part.call_id in self._counted:
                continue
            self._counted.add(part.call_id or "")
            if part.tool == "read_file" and result.startswith("["):
                self.tally.reads += 1
                if part.text in self._read:
                    self.tally.re_reads += 1
                    self.tally.re_read_tokens += -(-len(result) // 4)
                self._read.add(part.text)


def count_lost(turns: Sequence[str], request: Request) -> int:
    """Return how many turns of the user a request lacks, has changed or has in another place.

    Turns between which everything has left are one message on the wire, with a blank line between them (R12b).
    """
    said = "\n\n".join(["", *request.texts(Kind.USER), ""])
    lost = at = 0
    for turn in turns:
        found = said.find(f"\n\n{turn}\n\n", at)
        if found < 0:
            lost += 1
        else:
            at = found + len(turn) + 2
    return lost

"""Watches the views that a strategy makes in a replay: what remains of the user's words, and evidence recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from wane.core import Added, Item, Kind
from wane.formats.base import Part
from wane.lab.counting import Material
from wane.strategies.base import Fitted, Slot, Strategy, SummaryNeeded
from wane_research.bench.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Words:
    """What remains of the user's words; a share is of their tokens so far that the view holds unchanged.

    Attributes:
        shares: the sum of the shares of all calls.
        calls: calls after the user's first word.
        lowest: the lowest share.
    """

    shares: float = 0.0
    calls: int = 0
    lowest: float = 1.0


class Watched(Strategy):
    """A strategy whose views are looked at; it does what the strategy does.

    Args:
        strategy: the strategy.
        material: the session that is replayed.
        evidence: what its calls needed.
    """

    def __init__(self, strategy: Strategy, material: Material, evidence: Evidence) -> None:
        self.name = strategy.name
        self._strategy, self._calls, self._evidence = strategy, material.session.calls, evidence
        self._users = [(at, item.tokens) for at, item in enumerate(material.items) if item.kind is Kind.USER]
        self._call = 0
        self._shares: list[float] = []
        self.recalls: list[float] = []

    def add(self, item: Item, part: Part) -> Added | None:
        """Take in the next item."""
        return self._strategy.add(item, part)

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next view, and look at it."""
        return self._look(self._strategy.fit(cold=cold))

    def summarised(self, text: str, tokens: int) -> Fitted | SummaryNeeded:
        """Take in a summary, and look at the view that follows."""
        return self._look(self._strategy.summarised(text, tokens))

    @property
    def words(self) -> Words:
        """What remained of the user's words."""
        return Words(fsum(self._shares), len(self._shares), min(self._shares, default=1.0))

    def _look(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        # A call has one view, whatever summaries came before it.
        if isinstance(outcome, Fitted):
            call = self._calls[self._call]
            if not call.inherited:
                self._measure(call.first, outcome.view)
            self._call += 1
        return outcome

    def _measure(self, before: int, view: Sequence[Slot]) -> None:
        recall = self._evidence.recall(self._call, view)
        if recall is not None:
            self.recalls.append(recall)
        spoken = [(at, tokens) for at, tokens in self._users if at < before]
        if total := sum(tokens for _, tokens in spoken):
            in_view = set(view)
            self._shares.append(sum(tokens for at, tokens in spoken if at in in_view) / total)

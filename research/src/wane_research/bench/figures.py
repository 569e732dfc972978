"""The figures of the benchmark: of one strategy at one budget, and of the views of a replay.

Evidence recall is the metric by which ctxkernel measures itself, reimplemented from its `ctxkernel/eval.py`. A step is
a model call that acted. Its evidence is the names that its calls use, that the history holds, and that neither the user
nor the system said. The recall of a step is the share of its evidence still in view; the metric is the mean over
steps. See research/docs/loss.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import fsum
from typing import Any, Final

from wane.core import Added, Item, Kind
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.lab.counting import Material
from wane.lab.recorded_session import RecordedSession
from wane.lab.replaying.strategy_replay import Replay
from wane.strategies.strategy import Fitted, Slot, Strategy, Substitute, SummaryNeeded

_TOKEN: Final = re.compile(r"[A-Za-z0-9_./\-]{4,}")
_NAME: Final = re.compile(r"[/._0-9]|[a-z][A-Z]")
_PINNED: Final = frozenset({Kind.SYSTEM, Kind.USER, Kind.NOTICE})
_SHORTEST: Final = 4


def names(text: str) -> set[str]:
    """Return the name-shaped words of a text: with `/`, `.`, `_`, a digit, or a capital after a small letter."""
    words = {word.strip("./-") for word in _TOKEN.findall(text)}
    return {word for word in words if len(word) >= _SHORTEST and _NAME.search(word)}


def render_part(part: Part) -> str:
    return f"{part.tool} {part.arguments or ''}" if part.kind is Kind.CALL else part.text


class Evidence:
    """The names that the calls of a session needed. All runs over the session share it."""

    def __init__(self, session: RecordedSession) -> None:
        parts = session.parts
        words = [names(render_part(part)) for part in parts]
        # By model call, the names that it needed; empty for a call that is no step
        self.needed: list[frozenset[str]] = []
        self._holders: dict[str, list[int]] = {}
        self._texts: dict[str, frozenset[str]] = {}  # by text of a substitute: the needed names in it
        history: set[str] = set()
        pinned: set[str] = set()
        added = 0
        for call in session.calls:
            for index in range(added, call.first):
                history |= words[index]
                if parts[index].kind in _PINNED:
                    pinned |= words[index]
            added = max(added, call.first)
            output = range(call.first, call.stop)
            used = set().union(*(words[index] for index in output if parts[index].kind is Kind.CALL))
            self.needed.append(frozenset() if call.inherited else frozenset((used & history) - pinned))
        every = frozenset().union(*self.needed)
        for index, held in enumerate(words):
            for word in held & every:
                self._holders.setdefault(word, []).append(index)

    def recall(self, call: int, view: Sequence[Slot]) -> float | None:
        """Return the share of the names needed by a model call that its view holds; None if it is no step."""
        needed = self.needed[call]
        if not needed:
            return None
        items: set[int] = set()
        texts: set[str] = set()
        for slot in view:
            if isinstance(slot, Substitute):
                texts |= self._in_text(slot.text)
            else:
                items.add(slot)
        in_view = sum(word in texts or not items.isdisjoint(self._holders[word]) for word in needed)
        return in_view / len(needed)

    def _in_text(self, text: str) -> frozenset[str]:
        if text not in self._texts:
            self._texts[text] = frozenset(names(text) & self._holders.keys())
        return self._texts[text]


class Watched(Strategy):
    """Wraps a strategy and measures its views."""

    def __init__(self, strategy: Strategy, material: Material, evidence: Evidence) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._calls = material.session.calls
        self._evidence = evidence
        self._users = [(at, item.tokens) for at, item in enumerate(material.items) if item.kind is Kind.USER]
        self._call = 0
        self.shares: list[float] = []  # by call after the user's first word, the share of the user's words in view
        self.recalls: list[float] = []

    def add(self, item: Item, part: Part) -> Added | None:
        return self._strategy.add(item, part)

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        return self._look(self._strategy.fit(cold=cold))

    def take_summary(self, text: str, tokens: int) -> Fitted | SummaryNeeded:
        return self._look(self._strategy.take_summary(text, tokens))

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
        slots = set(view)
        spoken = in_view = 0
        for index, tokens in self._users:
            if index < before:
                spoken += tokens
                in_view += tokens if index in slots else 0
        if spoken:
            self.shares.append(in_view / spoken)


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and sums. `total` adds up several recordings."""

    calls: int  # model calls of the recordings
    viewed: int  # tokens of all requests
    peak: int  # tokens of the largest
    over: int  # requests over the budget
    cost: float  # dollars for all model calls, the strategy's own included
    again: float  # dollars for fetching again what was evicted and needed
    own_calls: int  # model calls that the strategy itself made
    read: int  # input tokens read from the cache
    written: int  # input tokens written to it
    fresh: int  # all other input tokens
    rewrites: int  # requests that did not begin with the whole request before
    uses: int  # uses of names that had occurred before
    in_view: int  # uses whose name was in view
    in_view_at_best: float  # the same if each summary without text were the best of its length
    edits: int  # edits of files read before
    grounded: int  # edits among them with the file's latest read in view
    repeats: int  # calls made again
    faults: int  # repeats whose earlier result was no longer in view
    pairs: int  # calls without their result and results without their call, over all views
    steps: int  # calls that needed a name, by ctxkernel's metric
    intact_steps: int  # steps that lost no name
    evidence: float  # sum of the steps' evidence recall
    words: float  # sum of the shares of the user's words in view
    worded: int  # calls after the user's first word
    words_lowest: float  # the lowest share

    @classmethod
    def of(cls, replay: Replay, watched: Watched) -> Figures:
        totals, loss = replay.totals, replay.totals.loss
        return cls(
            calls=totals.calls,
            viewed=totals.viewed,
            peak=totals.peak,
            over=totals.over_used,
            cost=totals.dollars,
            again=totals.reread_cost,
            own_calls=totals.own_calls,
            read=totals.read,
            written=totals.written,
            fresh=totals.fresh,
            rewrites=totals.prefix_breaks,
            uses=loss.uses,
            in_view=loss.in_view,
            in_view_at_best=loss.in_view_at_best,
            edits=loss.edits,
            grounded=loss.grounded,
            repeats=loss.repeats,
            faults=loss.faults,
            pairs=loss.invalid_pairs,
            steps=len(watched.recalls),
            intact_steps=sum(recall == 1 for recall in watched.recalls),
            evidence=fsum(watched.recalls),
            words=fsum(watched.shares),
            worded=len(watched.shares),
            words_lowest=min(watched.shares, default=1.0),
        )

    @classmethod
    def read_from(cls, data: Any) -> Figures:
        expected = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or data.keys() != expected:
            raise FormatError(f"its figures are not the {len(expected)} that this version measures; measure again")
        for name, value in data.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise FormatError(f"the figure {name!r} is {value!r:.40}, not a number")
        return cls(**data)

    @property
    def view(self) -> float:
        """Mean tokens of a request."""
        return self.viewed / self.calls if self.calls else 0.0

    @property
    def recall(self) -> float:
        """Reference recall; 1.0 without uses."""
        return _share(self.in_view, self.uses)

    @property
    def recall_at_best(self) -> float:
        """The same if each summary without text were the best of its length."""
        return _share(self.in_view_at_best, self.uses)

    @property
    def grounding(self) -> float:
        """Share of the edits whose file's latest read was in view; 1.0 without edits."""
        return _share(self.grounded, self.edits)

    @property
    def evidence_recall(self) -> float:
        """Mean of the steps' evidence recall; 1.0 without steps. Summaries without text hold nothing."""
        return _share(self.evidence, self.steps)

    @property
    def words_share(self) -> float:
        """Mean share of the user's words in view; 1.0 without words."""
        return _share(self.words, self.worded)


def total(several: Iterable[Figures]) -> Figures:
    recordings = list(several)
    values: dict[str, Any] = {}
    for field in fields(Figures):
        column = [getattr(figures, field.name) for figures in recordings]
        if field.name == "peak":
            values[field.name] = max(column)
        elif field.name == "words_lowest":
            values[field.name] = min(column)
        else:
            # Exact sums, so that the order of the recordings does not count.
            values[field.name] = fsum(column) if field.type == "float" else sum(column)
    return Figures(**values)


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 1.0

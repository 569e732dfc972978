"""The figures of the benchmark: of one strategy at one budget, over one recording or several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import fsum
from typing import Any

from wane.core.errors import FormatError
from wane.lab.replaying.replay import Replay
from wane_research.bench.evidence import Watched


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and sums; those of several recordings add up with `total`."""

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
    rewrites: int  # requests that did not begin with the whole one before
    uses: int  # uses of names that had occurred before
    in_view: int  # uses that the view held
    in_view_at_best: float  # the same if summaries without text were the best of their length
    edits: int  # edits of files read before
    grounded: int  # those whose file's latest read the view held
    repeats: int  # calls made again
    faults: int  # those whose earlier result the view did not hold
    pairs: int  # calls without their result and results without their call, over all views
    steps: int  # calls that needed a name, by ctxkernel's metric
    intact_steps: int  # steps that lost none
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
            over=totals.over_budget,
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
            raise FormatError(f"figures are not the {len(expected)} that this version measures")
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
        """The same if summaries without text were the best of their length."""
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
    listed = list(several)
    values: dict[str, Any] = {}
    for field in fields(Figures):
        column = [getattr(figures, field.name) for figures in listed]
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

"""What a session's requests paid again although the provider had cached it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from wane.journal import NoteRecord
from wane.prices import TokenUsage, prices_of
from wane.proxy.sessions.prefix import SentPrefix
from wane.rewrites import CACHE_NOTE, SMALLEST, Cause, CauseTotals, Certainty, Explanation

_HOUR: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class RewrittenPrefix:
    """A request that did not read all that the provider had cached of the one before.

    Attributes:
        tokens: tokens that it paid again, at most.
        dollars: what they cost more than reading them; None if the model's price is unknown.
        explanation: why.
    """

    tokens: int
    dollars: float | None
    explanation: Explanation

    def note(self) -> NoteRecord:
        """Return the record of it, which stands ahead of that of its usage."""
        return NoteRecord(CACHE_NOTE, {**self.explanation.to_dict(), "tokens": self.tokens})


@dataclass(frozen=True, slots=True)
class AnsweredPrefix:
    """A request that was answered.

    Attributes:
        prefix: the request.
        usage: its usage, as the provider reported it.
        at: when it was answered.
        upstream: the second provider's address if that one answered, as the first was down; else empty.
        reported: the provider's word for why it could not read its cache; empty if it gave none.
    """

    prefix: SentPrefix
    usage: TokenUsage
    at: datetime
    upstream: str = ""
    reported: str = ""

    @property
    def cached(self) -> int:
        """Tokens that the provider holds of it; without reported writes, less a step of automatic caches."""
        read, written = self.usage.cache_read, self.usage.cache_write
        return read + written if written else max(read, self.usage.input - SMALLEST)


@dataclass(slots=True)
class CacheWatch:
    """Compares each request of a session with the one before; the first one of a process with none.

    Attributes:
        totals: what was paid again so far in this process, by cause.
        passes: how often the strategy has changed the view; count each before its request.
    """

    totals: dict[Cause, CauseTotals] = field(default_factory=dict)
    passes: int = 0
    _before: dict[tuple[str, str], tuple[AnsweredPrefix, int]] = field(default_factory=dict)  # by upstream and model
    _caches: bool = False
    _last: tuple[str, str] = ("", "")
    _head: int = 0  # the fewest tokens that a request has read: about what other sessions share

    def answered(self, answer: AnsweredPrefix, lifetime: float) -> RewrittenPrefix | None:
        """Take in a request that was answered; return what it paid again, if anything.

        Args:
            answer: the request.
            lifetime: seconds that the provider's cache lives, unless a request asked for an hour.
        """
        usage, prefix = answer.usage, answer.prefix
        if usage.input <= 0:
            return None
        key = (answer.upstream, prefix.model)
        before, passes = self._before.get(key) or self._before.get(self._last) or (None, 0)
        # Other models and providers keep their caches, but only the last request of each counts.
        self._before[key], self._last = (answer, self.passes), key
        self._caches |= usage.cache_read + usage.cache_write > 0
        self._head = min(usage.cache_read or usage.input, self._head or usage.input)
        if before is None or not self._caches:
            return None
        tokens = min(before.cached, usage.input) - usage.cache_read
        if tokens <= SMALLEST:
            return None
        explanation = answer.prefix.explain(before.prefix, evicted=passes != self.passes)
        explanation = self._beyond(before, answer, lifetime, explanation).with_report(answer.reported)
        rewritten = RewrittenPrefix(tokens, _dollars(answer, tokens), explanation)
        total = self.totals.setdefault(explanation.cause, CauseTotals())
        total.add(explanation.certainty, tokens, rewritten.dollars)
        return rewritten

    def branch(self) -> CacheWatch:
        """Return one for a session that branches off from this one: it knows its requests, and has paid nothing yet."""
        return replace(self, totals={}, _before=dict(self._before))

    def _beyond(
        self, before: AnsweredPrefix, answer: AnsweredPrefix, lifetime: float, change: Explanation
    ) -> Explanation:
        """Return what explains more than a change of the request: another upstream, or an expired cache."""
        besides = "" if change.cause is Cause.UNEXPLAINED else f"; besides, {change.evidence}"
        if answer.upstream != before.upstream:
            what = f"{answer.upstream or 'the first upstream'} answered, which has a cache of its own"
            return Explanation(Cause.UPSTREAM, Certainty.RECORDED, what + besides, change.diff)
        lifetime = _HOUR if before.prefix.hour else lifetime
        seconds = (answer.at - before.at).total_seconds()
        if seconds < lifetime or answer.usage.cache_read > self._head + SMALLEST:
            return change
        what = f"the answers are {seconds:,.0f} s apart, and the cache lives for {lifetime:,.0f} s"
        return Explanation(Cause.IDLE, Certainty.RECORDED, what + besides, change.diff)

    def to_dict(self) -> Mapping[str, Any]:
        """Return the totals as JSON-able data, by cause."""
        return {cause: total.to_dict() for cause, total in self.totals.items()}


def _dollars(answer: AnsweredPrefix, tokens: int) -> float | None:
    prices, usage = prices_of(answer.prefix.model), answer.usage
    if prices is None:
        return None
    return prices.repeated(tokens, usage.input, answer.at, written=usage.cache_write > 0, hour=answer.prefix.hour)

"""What a session's requests paid again although the provider had cached it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from wane.journal import NoteRecord
from wane.prices import TokenUsage
from wane.rewrites import CACHE_NOTE, SMALLEST, Cause, Certainty, Explanation, SentPrefix

_HOUR: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class RewrittenPrefix:
    """A request that did not read all that the provider had cached of the one before.

    Attributes:
        tokens: tokens that it paid again, at most.
        explanation: why.
    """

    tokens: int
    explanation: Explanation

    def note(self) -> NoteRecord:
        """Return the record of it, which stands ahead of that of its usage."""
        return NoteRecord(CACHE_NOTE, {**self.explanation.to_dict(), "tokens": self.tokens})


@dataclass(frozen=True, slots=True)
class _Sent:
    prefix: SentPrefix
    usage: TokenUsage
    passes: int
    at: datetime
    upstream: str

    @property
    def cached(self) -> int:
        """Tokens that the provider holds of it; without reported writes, less a step of automatic caches."""
        read, written = self.usage.cache_read, self.usage.cache_write
        return read + written if written else max(read, self.usage.input - SMALLEST)


@dataclass(slots=True)
class CacheWatch:
    """Compares each request of a session with the one before; the first one of a process with none.

    Attributes:
        tokens: tokens paid again so far in this process, by cause.
        requests: how many requests paid them, by cause.
        passes: how often the strategy has changed the view; count each before its request.
    """

    tokens: dict[Cause, int] = field(default_factory=dict)
    requests: dict[Cause, int] = field(default_factory=dict)
    passes: int = 0
    _before: dict[tuple[str, str], _Sent] = field(default_factory=dict)  # by upstream and model
    _caches: bool = False
    _last: tuple[str, str] = ("", "")

    def answered(
        self, prefix: SentPrefix, usage: TokenUsage, at: datetime, lifetime: float, upstream: str = ""
    ) -> RewrittenPrefix | None:
        """Take in a request with its usage; return what it paid again, if anything.

        Args:
            prefix: the request.
            usage: its usage, as the provider reported it.
            at: when it was answered.
            lifetime: seconds that the provider's cache lives, unless the request asked for an hour.
            upstream: the second provider's address if that one answered, as the first was down; else empty.
        """
        if usage.input <= 0:
            return None
        sent, key = _Sent(prefix, usage, self.passes, at, upstream), (upstream, prefix.model)
        before = self._before.get(key) or self._before.get(self._last)
        # Other models and providers keep their caches, but only the last request of each counts.
        self._before[key], self._last = sent, key
        self._caches |= usage.cache_read + usage.cache_write > 0
        if before is None or not self._caches:
            return None
        tokens = min(before.cached, usage.input) - usage.cache_read
        if tokens <= SMALLEST:
            return None
        rewritten = RewrittenPrefix(tokens, _explanation(before, sent, lifetime))
        cause = rewritten.explanation.cause
        self.tokens[cause] = self.tokens.get(cause, 0) + tokens
        self.requests[cause] = self.requests.get(cause, 0) + 1
        return rewritten

    def to_dict(self) -> Mapping[str, Any]:
        """Return the totals as JSON-able data, by cause."""
        return {cause: {"requests": self.requests[cause], "tokens": self.tokens[cause]} for cause in self.tokens}


def _explanation(before: _Sent, sent: _Sent, lifetime: float) -> Explanation:
    if sent.upstream != before.upstream:
        what = f"{sent.upstream or 'the first upstream'} answered, which has a cache of its own"
        return Explanation(Cause.UPSTREAM, Certainty.RECORDED, what)
    if before.prefix.hour:
        lifetime = _HOUR
    seconds = (sent.at - before.at).total_seconds()
    if seconds >= lifetime:
        what = f"the answers are {seconds:,.0f} s apart, and the cache lives for {lifetime:,.0f} s"
        return Explanation(Cause.IDLE, Certainty.RECORDED, what)
    return sent.prefix.explain(before.prefix, evicted=sent.passes != before.passes)

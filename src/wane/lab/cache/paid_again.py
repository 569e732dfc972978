"""Finds the requests of a recorded session that paid again for a prefix that the provider had cached, and why.

A recording holds usage, times and content, but no requests. So a cause is what the provider reported, an event that was
recorded between two requests, or what the end of the read implies; `Certainty` tells which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from wane.caches import (
    RESUMED,
    SKILL_ENDED,
    SKILL_LOADED,
    UNSURE,
    CacheRules,
    breaks_cache,
    dates_prompt,
    describe_duration,
    describe_pause,
    drops_reasoning,
    rules_for,
)
from wane.core import Kind
from wane.core.items import ASSISTANT
from wane.core.light import light_dataclass
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession
from wane.prices import prices_of
from wane.rewrites import SMALLEST, Cause, CauseTotals, Certainty, Explanation

_RECENT: Final = 8
"""How many requests back the end of a read may match the end of a request; further back, it could match by chance."""

_SKILL: Final = "Base directory for this skill: "
"""How Claude Code begins the text of a skill."""

_EXIT: Final = "<command-name>/exit</command-name>"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A request that did not read all that the provider had cached of the one before.

    Attributes:
        call: number of its model call in the session, from 0.
        at: when it was answered, in seconds since 1970 UTC; None if unknown.
        model: its model, as recorded; empty if unknown.
        cached: tokens of the request before that the provider had cached.
        input: all its input tokens.
        read: input tokens that it read from the cache.
        dollars: what `tokens` cost on top of the price of reading them; None if the price is unknown.
        explanation: why, and how that is known.
    """

    call: int
    at: float | None
    model: str
    cached: int
    input: int
    read: int
    dollars: float | None
    explanation: Explanation

    @property
    def tokens(self) -> int:
        """Tokens that were paid again; an upper bound after a compaction, because its summary is new."""
        return min(self.cached, self.input) - self.read

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        figures = {name: getattr(self, name) for name in self.__slots__ if name != "explanation"}
        return {**figures, "tokens": self.tokens, **self.explanation.to_dict()}

    @property
    def time(self) -> datetime | None:
        """When it was answered."""
        return None if self.at is None else datetime.fromtimestamp(self.at, UTC)


@dataclass(frozen=True, slots=True)
class Examination:
    """A session's requests, each compared with the one before; without those of its sub-agents.

    Attributes:
        session: the session.
        rewrites: the requests that paid again, in order.
        written: tokens that all calls wrote to the cache, as reported; 0 if the provider does not report writes.
        compared: calls that could be compared with one before; 0 if the session recorded no cache reads or writes.
        without_usage: calls without recorded usage, which may have paid again, too.
        requests: calls with recorded usage; of a single one there is nothing to compare.
    """

    session: RecordedSession
    rewrites: tuple[Rewrite, ...]
    written: int
    compared: int
    without_usage: int
    requests: int

    @property
    def tokens(self) -> int:
        """Tokens of all rewrites."""
        return sum(rewrite.tokens for rewrite in self.rewrites)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data; `tokens` is null if nothing could be compared."""
        return {
            "name": self.session.name,
            "source": self.session.source,
            "compared": self.compared,
            "requests": self.requests,
            "without_usage": self.without_usage,
            "written": self.written,
            "tokens": self.tokens if self.compared else None,
            "rewrites": [rewrite.to_dict() for rewrite in self.rewrites],
        }


def totals_by_cause(rewrites: Iterable[Rewrite]) -> dict[Cause, CauseTotals]:
    """Return the totals of each cause."""
    totals: dict[Cause, CauseTotals] = {}
    for rewrite in rewrites:
        why = rewrite.explanation
        totals.setdefault(why.cause, CauseTotals()).add(why.certainty, rewrite.tokens, rewrite.dollars)
    return totals


def examine(session: RecordedSession) -> Examination:
    """Compare each request of a session with the one before.

    Requests without recorded usage are left out. If no cache reads or writes were recorded, nothing can be compared.
    """
    return summed_up(session, Requests(session).rewrites())


def summed_up(session: RecordedSession, rewrites: Iterable[Rewrite]) -> Examination:
    """Return the examination of a session, given what its own requests paid again; it needs no content of a session."""
    sent = [call for call in session.calls if call.usage and call.usage.total_input]
    own = [call.usage for call in sent if call.usage and not call.inherited]
    without = sum(not call.inherited for call in session.calls) - len(own)
    if not any(call.usage and (call.usage.cache_read or call.usage.cache_write) for call in sent):
        return Examination(session, (), 0, 0, without, len(own))
    written = sum(usage.cache_write for usage in own)
    compared = sum(not call.inherited for call in sent[1:])
    return Examination(session, tuple(rewrites), written, compared, without, len(own))


@light_dataclass(frozen=True, slots=True)
class ReportedRequest:
    """A request with reported usage.

    Attributes:
        number: number of its call.
        call: the call.
        usage: the usage.
        rules: the rules of its cache.
        for_hour: tokens at the beginning of its prefix that are cached for an hour, which may be a part of it.
    """

    number: int
    call: ModelCall
    usage: CallUsage
    rules: CacheRules
    for_hour: int = 0

    @property
    def cached(self) -> int:
        """Tokens of its prefix that the provider has cached after it."""
        if self.usage.cache_write or self.rules.charges_writes:
            return self.usage.cache_read + self.usage.cache_write
        grid, hidden = self.rules.grid, self.rules.hidden
        return max(0, (self.usage.total_input + hidden) // grid * grid - hidden)

    def seconds_since(self, earlier: ReportedRequest) -> float | None:
        """Return the time between two answers; None if it is not known, or the clock went back."""
        if self.call.at is None or earlier.call.at is None or self.call.at < earlier.call.at:
            return None
        return self.call.at - earlier.call.at


class Requests:
    """The requests of a session with reported usage, each to be compared with the one before."""

    def __init__(self, session: RecordedSession) -> None:
        self.sent: list[ReportedRequest] = []
        self._session = session
        self._turns = session.user_turns  # once, because it looks at all parts
        for_hour: dict[str | None, int] = {}
        for number, (call, hour) in enumerate(zip(session.calls, session.hours, strict=True)):
            if call.usage and call.usage.total_input:
                rules = rules_for(call.provider, call.model or "", hour=hour)
                # What lives longer must come first: before a write for an hour, all that was read lives as long.
                read, written = call.usage.cache_read, call.usage.cache_write_hour
                lasting = read + written if written else min(read, for_hour.get(call.model, 0))
                for_hour[call.model] = lasting
                self.sent.append(ReportedRequest(number, call, call.usage, rules, lasting))
        reads = [request.usage.cache_read for request in self.sent if request.usage.cache_read]
        # The most tokens that can be ahead of the conversation.
        self._head = SMALLEST
        if reads:
            self._head += min(self.sent[0].usage.total_input, *reads)

    def pairs(self) -> Iterator[tuple[int, ReportedRequest, ReportedRequest]]:
        """Yield each request but the first, with its position in `sent` and the request to compare it with.

        Requests from before the session branched off count for another session; the first own request follows them.
        """
        for position in range(1, len(self.sent)):
            if not self.sent[position].call.inherited:
                yield position, self.sent[position], self._before(position)

    def rewrites(self) -> Iterator[Rewrite]:
        """Yield the requests that paid again."""
        for position, sent, before in self.pairs():
            usage = sent.usage
            tokens = min(before.cached, usage.total_input) - usage.cache_read
            if tokens <= SMALLEST:
                continue
            model = sent.call.model or ""
            sizes = before.cached, usage.total_input, usage.cache_read
            why = self._explain(position, before)
            yield Rewrite(sent.number, sent.call.at, model, *sizes, _dollars(sent, tokens), why)

    def _before(self, position: int) -> ReportedRequest:
        """Return the request to compare with: the last one of the same model, or the last one."""
        model = self.sent[position].call.model
        for earlier in reversed(self.sent[:position]):
            if earlier.call.model == model:
                return earlier
        return self.sent[position - 1]

    def _explain(self, position: int, before: ReportedRequest) -> Explanation:
        """Return the first known cause: a report, the time passed, an event, or what the end of the read implies."""
        sent = self.sent[position]
        event = self._event(sent, before)
        reported = sent.usage.rewritten
        if reported is not None and event is not None and reported.cause is Cause.MESSAGES:
            # The provider saw other messages; the event is what changed them.
            return replace(event, evidence=f"{event.evidence}; {reported.evidence}")
        return (
            reported
            or self._explain_expiry(sent, before)
            or _expired_in_part(sent, before)
            or event
            or _recorded_change(sent, before)
            or self._left_out_reasoning(sent, before)
            or self._end_of_read(position, before)
        )

    def _event(self, sent: ReportedRequest, before: ReportedRequest) -> Explanation | None:
        """Return an event between two requests that explains it; None if none was recorded."""
        if before.call.model != sent.call.model:
            what = f"the model was {before.call.model}, and is {sent.call.model}"
            return Explanation(Cause.MODEL, Certainty.RECORDED, what)
        efforts = before.call.effort, sent.call.effort
        if all(efforts) and efforts[0] != efforts[1]:
            what = f"the client set how much the model thinks from {efforts[0]} to {efforts[1]}"
            return Explanation(Cause.SETTINGS, Certainty.RECORDED, what)
        first, last = before.call.first, sent.call.first
        if any(first < compaction.position <= last for compaction in self._session.compactions):
            return Explanation(Cause.COMPACTION, Certainty.RECORDED, "the agent compacted its history")
        for eviction in self._session.evictions:
            if first < eviction.position <= last:
                who = f"{eviction.client} evicted" if eviction.client else "a pass evicted"
                return Explanation(Cause.EVICTION, Certainty.RECORDED, f"{who} content from the view")
        return None

    def _explain_expiry(self, sent: ReportedRequest, before: ReportedRequest) -> Explanation | None:
        """Return whether the cache had expired; then at most a head that other sessions share was read."""
        # The cache lives as long as the call asked that wrote it: a client may change that within a session.
        seconds, lifetime = sent.seconds_since(before), before.rules.lifetime
        if seconds is None or seconds < lifetime or sent.usage.cache_read > self._head:
            return None
        what = describe_pause(seconds, lifetime)
        return Explanation(Cause.IDLE, Certainty.RECORDED, what)

    def _left_out_reasoning(self, sent: ReportedRequest, before: ReportedRequest) -> Explanation | None:
        """Return whether the request left out reasoning of earlier turns, as some models' APIs do.

        Then the read ends with the request whose answer holds the first of this reasoning.
        """
        turns = self._turns if drops_reasoning(sent.call.model or "") else ()
        cleared = sorted({*self._session.reasoning_cleared, *turns})
        since = max((position for position in cleared if position <= before.call.first), default=0)
        until = max((position for position in cleared if position <= sent.call.first), default=0)
        reasoning = [index for index in range(since, until) if self._session.parts[index].kind is Kind.REASONING]
        if not reasoning:
            return None
        answered = next((earlier for earlier in self.sent if earlier.call.stop > reasoning[0]), sent)
        if abs(answered.cached - sent.usage.cache_read) > SMALLEST:
            return None
        what = "the user spoke, and the API leaves out the reasoning of earlier turns"
        return Explanation(Cause.REASONING, Certainty.INFERRED, what)

    def _end_of_read(self, position: int, before: ReportedRequest) -> Explanation:
        """Return what the end of the read implies if nothing was recorded but new messages."""
        sent = self.sent[position]
        read, seconds = sent.usage.cache_read, sent.seconds_since(before)
        shrunk = before.usage.total_input - sent.usage.total_input
        spoken = self._user_spoke(before, sent)
        if again := self._read_again(position, before):
            what = f"this request read {read:,} tokens, and the next one {again:,} that were cached before both"
            return Explanation(Cause.ROUTING, Certainty.INFERRED, what)
        what = f"the read ends at {read:,} tokens"
        if read <= self._head:
            ago = "" if seconds is None else f" {seconds:,.0f} s before"
            what = f"only {read:,} tokens were read" if read else "nothing was read"
            what += f", though {before.cached:,} were cached{ago}"
            if not read and spoken and dates_prompt(self._session.source, sent.call.at):
                what += f"; {self._session.source} wrote the time of its start into its system prompt"
                return Explanation(Cause.SYSTEM, Certainty.INFERRED, what)
            if read and breaks_cache(event := self.client_event(before, sent), sent.call.version):
                what += f"; {event}, at which {self._session.source} {sent.call.version} changed its messages"
                return Explanation(Cause.MESSAGES, Certainty.INFERRED, what)
        elif distance := self._distance(position):
            what = f"the read ends where the request {distance} before ended"
            return Explanation(Cause.ROUTING, Certainty.INFERRED, what)
        elif shrunk > 0:
            what = f"the request is {shrunk:,} tokens smaller than the one before, though the history grew"
            return Explanation(Cause.MESSAGES, Certainty.INFERRED, what)
        if not sent.rules.breakpoints and not spoken and shrunk <= 0:
            what += "; this is within a turn, and the history only grew"
            return Explanation(Cause.ROUTING, Certainty.INFERRED, what)
        if not sent.rules.breakpoints and seconds is not None and seconds > UNSURE:
            what += f"; {seconds:,.0f} s had passed, after which providers no longer promise an entry"
            return Explanation(Cause.IDLE, Certainty.INFERRED, what)
        return Explanation(Cause.HEAD if read <= self._head else Cause.UNEXPLAINED, Certainty.UNKNOWN, what)

    def client_event(self, before: ReportedRequest, sent: ReportedRequest) -> str:
        """Return the event between two requests at which Claude Code may have changed its messages; empty if none."""
        first, last = before.call.first, sent.call.first
        versions = {before.call.version, sent.call.version} - {""}
        if len(versions) == 2 or any(_EXIT in words for words in self._texts(first, last)):
            return RESUMED
        if self._loads_skill(first, last):
            return SKILL_LOADED
        turn = max((turn for turn in self._turns if turn <= first), default=0)
        ended = self._user_spoke(before, sent) and self._loads_skill(turn, first)
        return SKILL_ENDED if ended else ""

    def _loads_skill(self, first: int, last: int) -> bool:
        return any(words.startswith(_SKILL) for words in self._texts(first, last))

    def _texts(self, first: int, last: int) -> Iterator[str]:
        """Yield what a person or the client said between two parts: a result may quote such words."""
        for part in self._session.parts[first:last]:
            if part.kind is not Kind.RESULT and part.kind not in ASSISTANT:
                yield part.text

    def _read_again(self, position: int, before: ReportedRequest) -> int:
        """Return how much the next request read from an entry that a request should have read; 0 if it did not.

        Then the entry was not lost, and nothing before its end had changed.
        """
        if position + 1 == len(self.sent):
            return 0
        sent, later = self.sent[position], self.sent[position + 1]
        again = later.usage.cache_read
        if not sent.usage.cache_read < again <= min(before.cached, sent.cached - 1):
            return 0
        # From an automatic cache the next request also reads the part of this one's entry that both share.
        if self._event(later, sent) or (not sent.rules.breakpoints and self._user_spoke(sent, later)):
            return 0
        return again

    def _distance(self, position: int) -> int:
        """Return how many requests back one ended where a request's read ends; 0 if none of the recent ones did."""
        sent = self.sent[position]
        if not sent.rules.breakpoints:
            for distance in range(2, min(_RECENT, position) + 1):
                if self.sent[position - distance].cached == sent.usage.cache_read:
                    return distance
        return 0

    def _user_spoke(self, before: ReportedRequest, sent: ReportedRequest) -> bool:
        return any(before.call.first < turn <= sent.call.first for turn in self._turns)


def _expired_in_part(sent: ReportedRequest, before: ReportedRequest) -> Explanation | None:
    """Return whether only what was cached for an hour was read, because the rest, cached for less, had expired."""
    seconds = sent.seconds_since(before)
    lifetime = rules_for(before.call.provider, before.call.model or "").lifetime
    if seconds is None or seconds < lifetime or not before.for_hour:
        return None
    if abs(sent.usage.cache_read - before.for_hour) > SMALLEST:
        return None
    apart, kept = describe_duration(seconds), describe_duration(lifetime)
    what = f"the answers are {apart} apart, and what was cached for {kept} was not read; the"
    what += f" {before.for_hour:,} tokens ahead of it were cached for an hour"
    return Explanation(Cause.IDLE, Certainty.RECORDED, what)


def _recorded_change(sent: ReportedRequest, before: ReportedRequest) -> Explanation | None:
    """Return what the client changed, or that it changed nothing; None if it does not record its requests."""
    earlier, later = before.call.request, sent.call.request
    if earlier is None or later is None:
        return None
    if not later.breakpoints:
        return Explanation(Cause.BREAKPOINTS, Certainty.RECORDED, "the client set no breakpoint in this request")
    unchanged = "the client sent all that it had sent before, and more behind it"
    return earlier.change_to(later) or Explanation(Cause.UNEXPLAINED, Certainty.RECORDED, unchanged)


def _dollars(sent: ReportedRequest, tokens: int) -> float | None:
    """Return what a request paid for tokens on top of the price of reading them."""
    name = sent.call.priced_as
    prices = prices_of(name) if name else None
    if prices is None:
        return None
    at = None if sent.call.at is None else datetime.fromtimestamp(sent.call.at, UTC)
    return prices.repeated_cost(tokens, sent.usage.use, at)

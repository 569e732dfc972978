"""A session in memory, and one request of its client: rounds until the model has something for the client."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final
from weakref import WeakSet

from wane.core import DELIMITER, ContextWindow, Kind
from wane.core.errors import HistoryError, JournalError
from wane.journal import Receipts, Record
from wane.prices import NO_USAGE
from wane.proxy import jsons
from wane.proxy.sessions.caching import AnsweredPrefix, CacheWatch, RewrittenPrefix, SentPrefix
from wane.proxy.sessions.figures import EpisodeStatus, Facts, SessionStatus, ViewStatus
from wane.proxy.sessions.history import FullHistory
from wane.proxy.sessions.keys import SessionsInMemory
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.sessions.session import RequestView, Session
from wane.proxy.store.base import Log, SessionChangedError, SessionLostError, StoreError, in_thread_if
from wane.proxy.store.marks import SessionDigests
from wane.proxy.wire.base import (
    MAX_ROUNDS,
    AnsweredRound,
    Body,
    Correction,
    Equipped,
    Message,
    OwnCall,
    Round,
    ViewMessage,
)
from wane.recall import RECALL
from wane.tools.delegation import prompts_of

_LOGGER: Final = logging.getLogger("wane.proxy")
_UNSTORED: Final = "the session could not be stored"
_MOST_VIEWS: Final = 240
_MOST_KEPT: Final = 32 * 1024 * 1024
"""Bytes of a request up to which its content is stored, and not its digest alone."""

TRIES: Final = 10
"""Attempts to add to a session while other processes do so too."""

MOST_RECALLS: Final = 4
"""Calls of `recall` answered in one reply, because a page may take a tenth of the budget."""

TOO_MANY: Final = (
    f"Error: `recall` was called {MOST_RECALLS} times in a row, as often as it can be. Work with what these brought: "
    "it answers again after your next call of a tool other than `delimiter`."
)
"""The result of any further call."""


@dataclass(slots=True, eq=False)
class CachedSession:
    """A session in memory.

    Attributes:
        session: its state.
        log: its records; None if another process has them open, so that they can only be read.
        id: its id, which begins with the root by which it is found.
        created: when it began.
        last: when its last request arrived, or its last reply ended.
        title: beginning of the user's first message.
        facts: figures of its last request.
        requests: number of requests.
        turns: its open requests.
        strict: whether failing to store it is an error.
        warning: why it is not stored; usually empty.
        remark: a note for the next request only; usually empty.
        lost: whether the store has lost it.
        memory: the sessions in memory.
        views: views of its latest requests in this process.
        sender: who sent its requests, as far as the client tells.
        parent: for a sub-agent's session, the id of the session that started it, or `UNKNOWN_PARENT`; else empty.
        corrections: corrections without which the provider has refused requests.
        elsewhere: corrections without which a second provider has refused them, while the first was down.
        caching: what its requests paid again, and why.
        receipts: makes the records of its requests; None if nothing of it is stored.
        keeps_requests: whether these hold the requests, and not their digests alone.
    """

    session: Session
    log: Log | None
    id: str
    created: datetime
    last: datetime
    memory: SessionsInMemory[CachedSession]
    title: str = ""
    facts: Facts | None = None
    requests: int = 0
    turns: WeakSet[object] = field(default_factory=WeakSet)
    strict: bool = False
    warning: str = ""
    remark: str = ""
    lost: bool = False
    views: deque[ViewStatus] = field(default_factory=lambda: deque(maxlen=_MOST_VIEWS))
    sender: Sender = NOBODY
    parent: str = ""
    corrections: list[Correction] = field(default_factory=list)
    elsewhere: list[Correction] = field(default_factory=list)
    caching: CacheWatch = field(default_factory=CacheWatch)
    receipts: Receipts | None = None
    keeps_requests: bool = True
    # Records that wait for the store. There is no limit, as they hold little more than each request of the client.
    _waiting: list[Record] = field(default_factory=list)
    _keys: list[str] = field(default_factory=list)  # of answers, which wait for the store too
    _outdated: bool = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the session alone, brought up to date with what other processes did.

        If the store cannot be reached, the session lives in memory until it can, except in strict mode.

        Raises:
            StoreError: in strict mode, if the store fails.
            JournalError: if the records of other processes do not fit.
            HistoryError: likewise.
        """
        assert self.log is not None
        async with AsyncExitStack() as stack:
            try:
                news = await stack.enter_async_context(self.log.hold())
            except SessionLostError:
                self.lost = True
            except StoreError as error:
                self._warn(error)
            else:
                if news and self._waiting:
                    raise JournalError(f"session {self.id}: another process continued it while it could not be stored")
                if self._outdated:
                    self.session, self._outdated = self.session.blank(), False
                    self.receipts = Receipts()
                self.session.follow(news)
                self._follow(news)
                if news:
                    self.mark(stored=True)
            yield

    def mark(self, *, stored: bool = False) -> None:
        """Note new keys of the session in memory, and for the store unless it has them."""
        entries = self.session.entries
        self.memory.add(self, entries.fresh_pairs, entries.chain.fresh)
        self._keys = [] if stored else [*self._keys, *entries.chain.fresh]
        entries.fresh_pairs, entries.chain.fresh = [], []

    async def append(self, records: Sequence[Record]) -> None:
        """Add records to the log. The session must be held.

        Raises:
            SessionChangedError: if another process has added to it since it was held. The session in memory is then
                outdated, and is read again at the next hold.
            StoreError: in strict mode, if they cannot be stored.
        """
        self.mark()
        waiting = [*self._waiting, *records]
        if not waiting or self.log is None:
            return
        try:
            await self.log.append(waiting, SessionDigests(self.session.entries.chain.head, self._keys))
        except SessionChangedError:
            self.log.rewind()
            self._outdated = True
            raise
        except StoreError as error:
            self._waiting = waiting
            self._follow(records)
            self._warn(error)
            return
        self._follow(records)
        self._waiting, self._keys = [], []
        if self.warning.startswith(_UNSTORED):
            self.warning = ""

    def placed(
        self, equipped: Equipped, view: RequestView, extra: Sequence[Message] = (), *, ahead: bool = False
    ) -> Body:
        """Return a client's body with a view in place of its own messages, with all known corrections.

        Args:
            equipped: the client's body.
            view: the view.
            extra: messages that follow it: rounds that are not in the history yet.
            ahead: whether this is only a preview, so that no correction is kept for later requests.
        """
        wire, body = self.session.wire, equipped.body
        placed = wire.with_messages(equipped, [*view.messages, *map(ViewMessage, extra)], view.history)
        for correction in self.corrections:
            placed = correction(placed, body)
        if (expected := wire.correction_ahead(placed, body)) is not None:
            self.corrections += [] if ahead else [expected]
            placed = expected(placed, body)
        return placed

    def after(self, source: CachedSession) -> CachedSession:
        """Compare its first request with the last one of the session that it branches off from; return itself."""
        self.caching = source.caching.branch()
        return self

    async def sync(self) -> None:
        """Wait until appended records would survive a crash of the machine."""
        if self.log is not None and not self._waiting:
            try:
                await self.log.sync()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    async def close(self) -> None:
        """Close the log."""
        if self.log is not None:
            try:
                await self.log.close()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    def status(self) -> SessionStatus | None:
        """Return what the live page shows; None before the first request."""
        if self.facts is None:
            return None
        engine = self.session.engine
        # The view of other strategies has no episodes.
        window = engine.window if engine.evicts else ContextWindow()
        episodes, notices, pinned = window.episodes, window.notices, window.pinned
        statuses = tuple(
            EpisodeStatus(
                episode.name,
                episode.type.value,
                "active" if not episode.closed else episode.level.value if episode.rank else "closed",
                episode.tokens,
                notices.get(episode.number, 0),
                episode.task.name if episode.task else None,
                episode.abandoned,
            )
            for episode in episodes
            if episode.tokens
        )
        return SessionStatus(
            self.facts,
            self.title,
            self.created,
            self.last,
            self.requests,
            pinned.system,
            pinned.user,
            sum(notices.values()) + pinned.notices,
            statuses,
            max(0, window.started - len(episodes)),
            self.session.used,
            self.session.ledger.money,
            tuple(self.views),
            self.caching.to_dict(),
            "" if self.sender.agent else self.sender.session,
        )

    def _follow(self, records: Sequence[Record]) -> None:
        if self.receipts is not None:
            self.receipts.follow(records)

    def _warn(self, error: StoreError) -> None:
        if self.strict:
            raise error
        if not self.warning:
            _LOGGER.warning("session %s continues in memory: %s", self.id, error)
        self.warning = f"{_UNSTORED}: {error}"


class SessionTurn:
    """One request of a client, from the body sent upstream to the end of the reply.

    Args:
        delegated: called with the prompts of the reply's calls that start sub-agents, if any, before it ends.
        finished: called once the client's reply is complete.
        cached: the session, which has taken in the request.
        sent: the client's body.
        equipped: the same with the proxy's own tools.
        history: the whole history, for recall.
        view: what the request shows.
        own: see below.

    Attributes:
        body: the first body to send upstream.
        own: names of the proxy's own tools in it; empty if the strategy needs none.
        asked: the latest body, which a watching proxy replaces by what it sent.
        facts: figures of the view.
        rewritten: what its latest round paid again; None if nothing.
        large: whether its requests are so large that comparing them is worth a thread.
    """

    def __init__(
        self,
        delegated: Callable[[CachedSession, Sequence[str]], Awaitable[None]],
        finished: Callable[[CachedSession], None],
        cached: CachedSession,
        sent: Body,
        equipped: Equipped,
        history: FullHistory,
        view: RequestView,
        own: frozenset[str],
    ) -> None:
        assert cached.facts is not None
        self.own = own
        self.facts: Facts = cached.facts
        self._delegated = delegated
        self._finished, self._cached, self._wire = finished, cached, cached.session.wire
        self._sent, self._equipped, self._history, self._view = sent, equipped, history, view
        self.body = cached.placed(equipped, view)
        if view.reminder is not None and DELIMITER in own:
            self.body = self._wire.noted(self.body, view.reminder)
        self.asked = self.body
        cached.caching.passes += view.changed
        self.rewritten: RewrittenPrefix | None = None
        self.large = False
        self._position = len(cached.session.entries)  # of the client's message for the reply
        self._rounds: list[Round] = []
        self._answered: list[AnsweredRound] = []
        self._marks: list[str] = []  # arguments of the `delimiter` calls so far
        self._recalls = 0
        cached.turns.add(self)

    def refused(self, correction: Correction, *, elsewhere: bool = False) -> None:
        """Apply a correction to all later requests, since the provider has refused reasoning without it.

        Args:
            correction: the correction; the request was already sent again with it.
            elsewhere: whether a second provider refused it, so that it is for requests to that one alone.
        """
        (self._cached.elsewhere if elsewhere else self._cached.corrections).append(correction)
        self.asked = correction(self.asked, self._sent)

    async def sent(self, body: bytes, url: str) -> None:
        """Record a request that is about to be sent upstream, as its bytes are.

        Raises:
            StoreError: in strict mode, if it cannot be stored.
        """
        cached = self._cached
        if cached.receipts is None:
            return
        keep = cached.keeps_requests and len(body) <= _MOST_KEPT
        try:
            for _ in range(TRIES):
                with suppress(SessionChangedError):
                    async with cached.held():
                        make = partial(cached.receipts.of, body, url, keep=keep)
                        await cached.append([await in_thread_if(self.large, make)])
                    break
        except (JournalError, HistoryError) as error:
            # Another process has continued the session with what does not fit. The client still gets its reply.
            _LOGGER.warning("session %s: a request was not recorded: %s", self.facts.session, error)

    def elsewhere(self, content: bytes) -> bytes:
        """Return a request for the second provider, without the reasoning that it has refused in this session."""
        corrections = self._cached.elsewhere
        if not corrections:
            return content
        body = jsons.loads(content)
        for correction in corrections:
            body = correction(body, self._sent)
        return jsons.dumps(body)

    async def answered(self, round_: Round, upstream: str = "") -> Body | None:
        """Take in a reply of the provider.

        Args:
            round_: the reply.
            upstream: the second provider's address if that one answered, which has a cache of its own.

        Returns:
            The next body to send upstream, if the model called only own tools; None if the client's reply is
            complete. It has been recorded then, so the server may close the client's reply.
        """
        self._rounds.append(round_)
        results = self._wire.results(self._answers(round_.own)) if round_.own else ()
        self._answered.append(AnsweredRound(round_.message, results))
        await self._watch(round_, upstream)
        over = not round_.alone or len(self._rounds) >= MAX_ROUNDS
        await self._record(over=over)
        if over:
            calls = (part for part in self._wire.format.parts(round_.message) if part.kind is Kind.CALL)
            prompts = [prompt for call in calls for prompt in prompts_of(call.tool or "", call.arguments)]
            if prompts:
                await self._delegated(self._cached, prompts)
            return None
        extra = [message for round_ in self._answered for message in (round_.message, *round_.results)]
        await self._make_room(extra)
        last = len(self._rounds) == MAX_ROUNDS - 1
        equipped = self._wire.equip(self._sent, [], "") if last else self._equipped
        self.asked = self._cached.placed(equipped, self._view, extra)
        return self.asked

    async def _watch(self, round_: Round, upstream: str) -> None:
        """Compare the round's request with the one before it."""
        asked, large = self.asked, self.large
        messages = self._wire.messages(asked)
        prefix = await in_thread_if(large, lambda: SentPrefix.of(asked, messages, large=large))
        answer = AnsweredPrefix(prefix, round_.usage or NO_USAGE, datetime.now(UTC), upstream, round_.cache_miss)
        self.rewritten = self._cached.caching.answered(answer)

    async def _make_room(self, extra: Sequence[Message]) -> None:
        """Run a pass if the rounds so far take the request over its budget."""
        cached = self._cached
        try:
            async with cached.held():
                session = cached.session
                if session.engine.item_count == self._history.items:
                    view = session.fit(self._history, self._equipped.body, extra_messages=extra)
                    await cached.append(view.records)
                    cached.caching.passes += view.changed
                    self._view = view
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session: the view stays as it is.
            _LOGGER.warning("session %s: %s", self.facts.session, error)

    def _answers(self, calls: Sequence[OwnCall]) -> list[tuple[OwnCall, str]]:
        """The own calls of the latest round with their results, in order."""
        marks = [call.arguments for call in calls if call.tool == DELIMITER]
        judged = self._cached.session.engine.window.foresee([*self._marks, *marks])
        verdicts = (verdict.answer(recall=RECALL in self.own) for verdict in judged[len(self._marks) :])
        self._marks += marks
        return [(call, self._recalled(call) if call.tool == RECALL else next(verdicts)) for call in calls]

    def _recalled(self, call: OwnCall) -> str:
        self._recalls += 1
        return TOO_MANY if self._recalls > MOST_RECALLS else self._cached.session.recall(call, self._history)

    async def _record(self, *, over: bool) -> None:
        try:
            for _ in range(TRIES - 1):
                with suppress(SessionChangedError):
                    return await self._append(over=over)
            await self._append(over=over)
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session. The client still gets its reply.
            _LOGGER.warning("session %s: a reply was not recorded: %s", self.facts.session, error)
        finally:
            if over:
                self._finished(self._cached)

    async def _append(self, *, over: bool) -> None:
        cached, usage = self._cached, self._rounds[-1].usage
        async with cached.held():
            session = cached.session
            records: list[Record] = [] if self.rewritten is None else [self.rewritten.note()]
            # The usage of this request does not apply once another request has added to the session.
            if session.engine.item_count == self._history.items:
                records += session.observe(usage or NO_USAGE, self.facts.model)
            else:
                records += session.paid(usage or NO_USAGE, self.facts.model)
            if over:
                records += session.keep(self._rounds, self._answered, self._position)
            await cached.append(records)

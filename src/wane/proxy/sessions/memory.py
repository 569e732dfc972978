"""The sessions in memory: finds them there, brings them up to date with the store, and has their figures."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from weakref import WeakSet

from wane.budgets import AutoBudget
from wane.conversation.thrashing import Thrashing
from wane.core import ContextWindow, Episode, Room
from wane.core.episodes import Choice
from wane.core.errors import JournalError
from wane.journal import Receipts, RecentRequests, Record
from wane.journal.titles import better_title, is_command, title_of
from wane.prices import NO_USAGE, TokenUsage
from wane.proxy.sessions.caching import CacheWatch
from wane.proxy.sessions.client_messages import Arrival, pair
from wane.proxy.sessions.managed_session import RequestView, Session
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.store.stores import (
    SessionChangedError,
    SessionDigests,
    SessionLog,
    SessionLostError,
    Sought,
    StoreError,
    root_of,
)
from wane.proxy.wire.wire import Body, Correction, Equipped, Message, ViewMessage
from wane.savings import Money

_LOGGER: Final = logging.getLogger("wane.proxy")
_UNSTORED: Final = "the session could not be stored"


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures of a request's view, for headers, the log and metrics.

    Attributes:
        session: the session's id.
        api: name of the wire.
        provider: name of its provider in OpenTelemetry's conventions.
        model: the requested model.
        view: tokens of the view.
        budget: tokens that it may hold: those that were set, or more where what is fixed leaves too little (R22).
        history: tokens of the whole history, evicted or not.
        evicted: tokens that are not in the view.
        evicted_now: tokens that were evicted for this request.
        used: usage of all rounds of the session before this request, as the provider reported it.
        satisfied: whether the view is within the budget.
        room: the room that the budget leaves for the work; None if no budget is kept.
        thrashing: the evidence that the window evicts content that the work needs; usually None.
        note: a note for people, such as why the budget cannot be met, or that the session could not be stored; usually
            empty.
        owner: the member of a team to whom the session belongs; empty for none.
        parent: for a sub-agent's session, the id of the session that started it, or `?` if that is not known; else
            empty.
        chosen: the budget `auto` of the session; None if another one was set.
    """

    session: str
    api: str
    provider: str
    model: str
    view: int
    budget: int
    history: int
    evicted: int
    evicted_now: int = 0
    used: TokenUsage = NO_USAGE
    satisfied: bool = True
    room: Room | None = None
    thrashing: Thrashing | None = None
    note: str = ""
    owner: str = ""
    parent: str = ""
    chosen: AutoBudget | None = None

    @property
    def warning(self) -> str:
        """The text of `x-wane-warning`; empty for none."""
        if self.thrashing is None:
            return self.note
        return f"{self.note} {self.thrashing.warning}".strip()

    @property
    def advice(self) -> str:
        """Which budget would help the session, and why, or which one is used instead; empty if it is enough."""
        if self.thrashing is not None:
            return self.thrashing.warning
        return "" if self.room is None else self.room.remark

    @property
    def tight(self) -> bool:
        """Whether the budget leaves too little room."""
        return self.room is not None and self.room.tight

    @property
    def widened(self) -> bool:
        """Whether passes work with a larger budget than was set."""
        return self.room is not None and self.room.widened


@dataclass(frozen=True, slots=True)
class EpisodeStatus:
    """An episode as the live page shows it.

    Attributes:
        name: its name; None for an implicit one.
        type: `expl`, `act` or `task`.
        state: `active`, `closed`, or the level to which it has been stripped.
        tokens: its tokens in the view.
        notices: how many of them are notices of the harness.
        task: name of the task that it belongs to; None if it is in none.
        abandoned: whether it is a task that was abandoned, or is in such a task.
        number: by which a person chooses for it; see `SessionIndex.choose`.
        choice: what a person has chosen for it (R23); empty for nothing.
    """

    name: str | None
    type: str
    state: str
    tokens: int
    notices: int = 0
    task: str | None = None
    abandoned: bool = False
    number: int = 0
    choice: Choice = ""


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """The view of a request.

    Attributes:
        at: when it arrived, in UTC.
        view: its tokens.
        evicted: tokens that were evicted for it.
        history: tokens of the whole history then, evicted or not.
    """

    at: datetime
    view: int
    evicted: int
    history: int


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as `/wane/status` shows it, with times in UTC.

    Attributes:
        facts: figures of its last request.
        title: the beginning of the user's first message.
        created: when its first request arrived.
        last: when its last request arrived.
        requests: the number of requests.
        system: tokens of system messages, which are never evicted.
        user: tokens of the user's turns, which are never evicted.
        notices: tokens of notices in the view: those ahead of the first answer, and those of its episodes.
        episodes: the episodes with tokens in the view, in order of start.
        removed: the number of episodes that were removed whole.
        used: usage of all its rounds, as the provider reported it.
        money: their cost.
        views: its latest requests, oldest first.
        rewritten: what its requests in this process paid again although it was cached, by cause; see `CauseTotals`.
        client: the client's own id of the session; empty if it sends none.
        followed: the part of `money` that this process has read from records; see `SavingsMeter`.
        unlisted: models without known prices; see `SavingsMeter`.
    """

    facts: Facts
    title: str
    created: datetime
    last: datetime
    requests: int
    system: int
    user: int
    notices: int
    episodes: tuple[EpisodeStatus, ...]
    removed: int
    used: TokenUsage = NO_USAGE
    money: Money = field(default_factory=Money)
    views: tuple[ViewStatus, ...] = ()
    rewritten: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    client: str = ""
    followed: Money = field(default_factory=Money)
    unlisted: tuple[str, ...] = ()

    @property
    def own_money(self) -> Money:
        """The cost of the requests that this process made."""
        return self.money.minus(self.followed)


class SessionsInMemory:
    """The sessions in memory, by id and by content.

    A request is compared only with sessions that share a pair with it (an answer and the message after it), and with
    those of its root that have no pair yet; if it continues none of them, also with those that have its latest known
    answer. So other sessions cost nothing. Pairs need no shapes, which take longer to compute than everything else.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, CachedSession] = {}
        self._by_key: dict[int, tuple[CachedSession, ...]] = {}
        self._keys: dict[str, list[int]] = {}
        self._opening: dict[str, dict[str, CachedSession]] = {}  # by root, those without a pair
        self._roots: dict[str, set[str]] = {}  # ids by root

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[CachedSession]:
        return iter(list(self._sessions.values()))

    def get(self, session_id: str) -> CachedSession | None:
        """Return the session with an id; None if it is not in memory."""
        return self._sessions.get(session_id)

    def has_root(self, root: str) -> bool:
        """Return whether a session has this root. It needs no digests of messages, which take long."""
        return root in self._roots

    def enter(self, session: CachedSession) -> None:
        """Add a session."""
        self._sessions[session.id] = session
        self._keys[session.id] = []
        root = root_of(session.id)
        self._opening.setdefault(root, {})[session.id] = session
        self._roots.setdefault(root, set()).add(session.id)

    def add_keys(self, session: CachedSession, pairs: Sequence[int], answers: Sequence[str]) -> None:
        """Add keys of a session's pairs (`pair`) and answers (`Chain`), unless it has left memory."""
        keys = self._keys.get(session.id)
        if keys is None:
            return
        if pairs:
            self._close_opening(session)
        alone = (session,)  # one for all keys that no other session has: nearly all
        for key in [*pairs, *(int(answer, 16) for answer in answers)]:
            others = self._by_key.get(key)
            if others is None or session not in others:
                self._by_key[key] = alone if others is None else (*others, session)
                keys.append(key)

    def remove(self, session: CachedSession) -> None:
        """Drop a session."""
        if self._sessions.pop(session.id, None) is None:
            return
        for key in self._keys.pop(session.id):
            others = tuple(holder for holder in self._by_key[key] if holder is not session)
            if others:
                self._by_key[key] = others
            else:
                del self._by_key[key]
        self._close_opening(session)
        ids = self._roots[root_of(session.id)]
        ids.discard(session.id)
        if not ids:
            del self._roots[root_of(session.id)]

    def sharing(self, arrivals: Sequence[Arrival]) -> Counter[CachedSession]:
        """Return the sessions that share pairs of messages with a request, and the number of pairs."""
        counts: Counter[CachedSession] = Counter()
        sessions = self._by_key
        digests = [arrival.digest for arrival in arrivals]
        for key in map(pair, digests, digests[1:]):
            if key in sessions:  # most pairs are none, as they do not begin with an answer
                for session in sessions[key]:
                    counts[session] += 1
        return counts

    def opening(self, root: str) -> Sequence[CachedSession]:
        """Return the sessions of a root that have no pair yet."""
        return tuple(self._opening.get(root, {}).values())

    def find_answered(self, root: str, sought: Sought) -> Sequence[CachedSession]:
        """Return the sessions of a root with the latest answer of a request that any of them has."""
        for answer in sought.answers if self.has_root(root) else ():
            if holders := self._by_key.get(int(answer, 16)):
                return holders
        return ()

    def _close_opening(self, session: CachedSession) -> None:
        root = root_of(session.id)
        opening = self._opening.get(root, {})
        opening.pop(session.id, None)
        if not opening:
            self._opening.pop(root, None)


@dataclass(slots=True, eq=False)
class CachedSession:
    """A session in memory.

    Attributes:
        log: its records; None if another process has them open, so that this one can only read them.
        last: when its last request arrived, or its last reply ended.
        title: the user's first words, or a command of the client until there are any; empty before either.
        titled: whether it has its final title.
        exchanges: its open requests.
        strict: whether failing to store it is an error.
        warning: why it is not stored; usually empty.
        remark: a note for the next request only; usually empty.
        lost: whether the store has lost it.
        views: views of its latest requests in this process.
        parent: for a sub-agent's session, the id of the session that started it, or `UNKNOWN_PARENT`; else empty.
        corrections: corrections without which the provider has refused requests.
        elsewhere: corrections without which the second provider has refused them, while the first was down.
        caching: compares its requests, to say what they paid again and why.
        receipts: makes the records of its requests; None if the session is not stored.
        recent: the latest requests of all sessions.
        keeps_requests: whether these records hold whole requests, and not only their digests.
    """

    session: Session
    log: SessionLog | None
    id: str
    created: datetime
    last: datetime
    memory: SessionsInMemory
    title: str = ""
    titled: bool = False
    facts: Facts | None = None
    requests: int = 0
    exchanges: WeakSet[object] = field(default_factory=WeakSet)
    strict: bool = False
    warning: str = ""
    remark: str = ""
    lost: bool = False
    views: deque[ViewStatus] = field(default_factory=lambda: deque(maxlen=240))
    sender: Sender = NOBODY
    parent: str = ""
    corrections: list[Correction] = field(default_factory=list)
    elsewhere: list[Correction] = field(default_factory=list)
    caching: CacheWatch = field(default_factory=CacheWatch)
    receipts: Receipts | None = None
    recent: RecentRequests | None = None
    keeps_requests: bool = True
    # Records that wait for the store. They need no limit: each request of the client has nearly as much.
    _waiting: list[Record] = field(default_factory=list)
    _keys: list[str] = field(default_factory=list)  # of answers, which wait for the store too
    _outdated: bool = False

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the session exclusively, brought up to date with what other processes did.

        While the store cannot be reached, the session lives in memory, except in strict mode.

        Raises:
            StoreError: in strict mode, if the store fails.
            JournalError: if the records of other processes are inconsistent with those known here.
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
                    self._outdated = False
                    self.session = self.session.blank()
                    self.receipts = Receipts(recent=self.recent)
                if news:
                    self.session.follow(news)
                    self._follow(news)
                    self.note_keys(stored=True)
            yield

    def note_keys(self, *, stored: bool = False) -> None:
        """Index new keys of the session in memory, and keep them for the next `append` unless they are stored."""
        entries = self.session.entries
        self.memory.add_keys(self, entries.fresh_pairs, entries.chain.fresh)
        if stored:
            self._keys = []
        else:
            self._keys += entries.chain.fresh
        entries.fresh_pairs = []
        entries.chain.fresh = []

    async def append(self, records: Sequence[Record]) -> None:
        """Append records to the log. The session must be held.

        Raises:
            SessionChangedError: if another process has added to it since the hold began. The session in memory is then
                outdated, and is read again at the next hold.
            StoreError: in strict mode, if they cannot be stored.
        """
        self.note_keys()
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
        self._waiting = []
        self._keys = []
        if self.warning.startswith(_UNSTORED):
            self.warning = ""

    def place_view(
        self, equipped: Equipped, view: RequestView, rounds: Sequence[Message] = (), *, preview: bool = False
    ) -> Body:
        """Return a client's body with a view in place of its own messages, with all known corrections.

        Rounds that are not in the history yet may follow the view. A preview adds no correction for later requests.
        """
        wire = self.session.wire
        body = equipped.body
        messages = [*view.messages, *map(ViewMessage, rounds)] if rounds else view.messages
        placed = wire.with_messages(equipped, messages, view.history)
        for correction in self.corrections:
            placed = correction(placed, body)
        expected = wire.correction_ahead(placed, body)
        if expected is not None:
            if not preview:
                self.corrections.append(expected)
            placed = expected(placed, body)
        return placed

    def note_view(self, view: RequestView, model: str, owner: str) -> Facts:
        """Note the figures of a request's view, and return them. Warn when the budget begins to be too small.

        Args:
            view: the view.
            model: the requested model.
            owner: the member of a team who asks; empty for none.
        """
        session, engine, report, before = self.session, self.session.engine, view.report, self.facts
        shortfall = session.shortfall(report)
        self.facts = facts = Facts(
            session=self.id,
            api=session.wire.name,
            provider=session.wire.provider,
            model=model,
            view=engine.tokens,
            budget=session.budget,
            owner=owner,
            parent=self.parent,
            history=engine.tokens + view.evicted,
            evicted=view.evicted,
            evicted_now=0 if report is None else report.tokens_before - report.tokens_after,
            used=session.used,
            satisfied=not shortfall,
            room=session.room(model),
            thrashing=engine.thrashing,
            note=self.warning or self.remark or shortfall,
            chosen=session.chosen,
        )
        self.remark = ""
        self.views.append(ViewStatus(self.last, facts.view, facts.evicted_now, facts.history))
        if before is None and session.chosen is not None:
            _LOGGER.info("session %s: %s", self.id, session.chosen)
        thrashes = facts.thrashing is not None and (before is None or before.thrashing is None)
        tightens = facts.tight and (before is None or not before.tight)
        widens = facts.widened and (before is None or not before.widened)
        if thrashes or tightens:
            _LOGGER.warning("session %s: %s", self.id, facts.advice)
        elif shortfall and (before is None or before.satisfied):
            _LOGGER.warning("session %s: the view is over its budget: %s", self.id, shortfall)
        elif widens:
            _LOGGER.info("session %s: %s", self.id, facts.advice)
        return facts

    def take_title(self, arrivals: Sequence[Arrival]) -> None:
        """Take the session's title from the messages of a request."""
        for arrival in arrivals:
            self.title = better_title(self.title, title_of(arrival.message)) or ""
            self.titled = bool(self.title) and not is_command(self.title)
            if self.titled:
                return

    async def sync(self) -> None:
        """Wait until appended records would survive a crash of the machine."""
        if self.log is not None and not self._waiting:
            try:
                await self.log.sync()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    async def close(self) -> None:
        """Close the log; what is appended is synced before."""
        await self.sync()
        if self.log is not None:
            try:
                await self.log.close()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    def status(self) -> SessionStatus | None:
        """Return the figures for the live page; None before the first request."""
        if self.facts is None:
            return None
        engine = self.session.engine
        # The view of other strategies has no episodes.
        window = engine.window if engine.evicts else ContextWindow()
        live = window.episodes
        notices = window.notices
        pinned = window.pinned
        return SessionStatus(
            facts=self.facts,
            title=self.title,
            created=self.created,
            last=self.last,
            requests=self.requests,
            system=pinned.system,
            user=pinned.user,
            notices=sum(notices.values()) + pinned.notices,
            episodes=tuple(_status_of(episode, notices) for episode in live if episode.tokens),
            removed=max(0, window.started - len(live)),
            used=self.session.used,
            money=self.session.costs.money,
            unlisted=tuple(self.session.costs.unlisted),
            views=tuple(self.views),
            rewritten=self.caching.to_dict(),
            client="" if self.sender.agent else self.sender.session,
            followed=self.session.costs.followed,
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


def _status_of(episode: Episode, notices: Mapping[int, int]) -> EpisodeStatus:
    state = "active"
    if episode.closed:
        state = episode.level.value if episode.rank else "closed"
    return EpisodeStatus(
        episode.name,
        episode.type.value,
        state,
        episode.tokens,
        notices.get(episode.number, 0),
        episode.task.name if episode.task else None,
        episode.abandoned,
        episode.number,
        episode.choice,
    )

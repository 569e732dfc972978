"""All sessions of a proxy: finds the one that a request continues, in memory or in the store, or begins one.

A client names no session that could be relied on. It sends its whole history, so its messages tell which session they
continue. To each known session a request is one of these:

    Continue    It has all of the session's messages, and goes on behind them.
    Fork        It has the session's beginning alone, or is beside it: a new session gets what both share.
    Retake      The client wrote the session anew, such as by a compaction: a new one gets its hidden rounds.
    Fresh       None of these: a new session.

`SessionIndex` is what the server holds. It has a `SessionFinder` for each owner, which decides, and keeps the owner's
sessions in memory (`memory.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from wane.conversation.context import ContextSettings
from wane.conversation.request import DELIMITER_TOOL, RECALL_ALONE, RECALL_TOOL, TASKS_TOOL, Tool
from wane.core import DELIMITER, RECALL, Kind
from wane.core.episodes import Choice
from wane.core.errors import HistoryError, JournalError, SessionNotFoundError
from wane.core.guidance import guidance
from wane.formats.notices import ASIDES
from wane.journal import (
    CLIENT_NOTE,
    FORK_NOTE,
    REPLY_NOTE,
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    Receipts,
    RecentRequests,
    Record,
)
from wane.proxy.sessions.client_messages import (
    ASSISTANT,
    EDITS,
    Arrival,
    Chain,
    Overlap,
    RequestAlignment,
    Trail,
    client_note,
    edits_note,
    edits_of,
    entries_of,
    reply_of,
)
from wane.proxy.sessions.managed_session import Session
from wane.proxy.sessions.memory import CachedSession, SessionsInMemory, SessionStatus
from wane.proxy.sessions.sender import Parentage, Sender
from wane.proxy.store.stores import MemoryStore, SessionBusyError, SessionDigests, Store, StoreError, root_of
from wane.proxy.wire.wire import Body, Equipped, Wire
from wane.strategies.registry import check_unaided, traits

IDLE: Final = 900.0
"""Seconds without a request after which a stored session leaves memory by default."""

_LOGGER: Final = logging.getLogger("wane.proxy")
_UNSYNCED: Final = 0.2  # seconds for which records may wait to be synced
_DRIFT: Final = 0.05  # share of the budget that edits may change before the session is begun anew
_LATEST: Final = 32  # messages by which the session of most requests is found
_CANDIDATES: Final = 8  # sessions to compare with a request, the most likely first


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How the sessions of a proxy are managed and stored; see `SessionIndex`. Sub-agents have settings of their own."""

    settings: ContextSettings
    agent_settings: ContextSettings
    strict: bool
    keep_requests: bool
    recent: RecentRequests


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request of a client, with its messages and the root by which its session is found."""

    wire: Wire
    body: Body
    arrivals: Sequence[Arrival]
    root: str
    sender: Sender


@dataclass(frozen=True, slots=True)
class Continue:
    """The request continues a session at its end; the alignment tells how far both agree."""

    cached: CachedSession
    alignment: RequestAlignment


@dataclass(frozen=True, slots=True)
class Fork:
    """The request leaves a session before its end, is beside it, or another agent's: a new one gets what both share."""

    source: CachedSession
    alignment: RequestAlignment


@dataclass(frozen=True, slots=True)
class Retake:
    """The client rewrote a session, or the store lost it: a new one gets its hidden rounds, all or those `shared`."""

    source: CachedSession
    shared: Overlap | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """The request continues no known session; `unread` says why one that it may continue cannot be read."""

    unread: str = ""


Decision: TypeAlias = Continue | Fork | Retake | Fresh
"""What a request is to the known sessions."""


class SessionFinder:
    """Finds the sessions of one owner, and keeps them in memory. It calls `began` with the id of each new session."""

    def __init__(
        self, store: Store, owner: str, options: SessionOptions, began: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self.owner = owner
        self.memory = SessionsInMemory()
        self.parentage = Parentage(store, owner)
        self._store = store
        self._options = options
        self._began = began

    async def find(self, request: IncomingRequest, holds: AsyncExitStack) -> Decision:
        """Return what a request is to the known sessions, in memory and in the store.

        The compared sessions stay held by `holds`, so the one that is continued is up to date.

        Raises:
            StoreError: in strict mode, if the store fails, or the request may continue a session that cannot be read.
        """
        aligned: list[tuple[CachedSession, RequestAlignment]] = []
        unread = ""
        arrivals = request.arrivals
        for candidate in self.likely(request.root, arrivals):
            aligned += await self._current([candidate], arrivals, holds)
            if aligned and _knows(*aligned[-1], arrivals):
                break
        else:
            compared = {cached.id for cached, _ in aligned}
            further, unread = await self._further(request, compared, holds)
            aligned += further
        decision = _decide(aligned, request, unread)
        if not isinstance(decision, Fresh) or not _has_answers(arrivals):
            return decision
        # A session in memory that shares enough messages with the request, wherever they stand.
        part: Retake | None = None
        longest = 0
        for cached, _ in self.memory.sharing(arrivals).most_common(_CANDIDATES):
            overlap = cached.session.overlap(arrivals) if cached.session.wire is request.wire else None
            if overlap is not None and overlap.count > longest:
                part, longest = Retake(cached, overlap), overlap.count
        if part is not None:
            return part
        if unread and self._options.strict:
            raise StoreError(unread)
        return decision

    def likely(self, root: str, arrivals: Sequence[Arrival]) -> Iterator[CachedSession]:
        """Yield the sessions in memory that are compared with a request, the most likely first.

        Most requests have the last messages of the session that they continue, so those are looked up first.
        """
        latest = self.alike(root, arrivals, latest=_LATEST)[:1]
        first = latest[0][0] if latest and _knows(*latest[0], arrivals) else None
        if first is not None:
            yield first
        for candidate, _ in self.alike(root, arrivals)[:_CANDIDATES]:
            if candidate is not first:
                yield candidate

    async def begin(self, decision: Fork | Retake | Fresh, request: IncomingRequest) -> CachedSession:
        """Begin the session that a decision asks for. It is not held yet."""
        match decision:
            case Fork(source, alignment):
                return await self._fork_session(source, alignment, request)
            case Retake(source, shared):
                if shared is not None or not source.lost:
                    return await self._retaken(source, request, shared)
                # Such as when the database was emptied.
                await self.forget(source)
                again = await self._retaken(source, request, shared)
                again.remark = f"the store has lost session {source.id}; it continues as {again.id}"
                _LOGGER.warning("%s", again.remark)
                return again
            case Fresh(unread):
                cached = await self.fresh(request)
                cached.remark = unread if _has_answers(request.arrivals) else ""
                return cached

    def alike(
        self, root: str, arrivals: Sequence[Arrival], latest: int | None = None
    ) -> list[tuple[CachedSession, RequestAlignment]]:
        """Return the sessions in memory with this root that the request may continue, the most likely first.

        Args:
            root: the root.
            arrivals: the messages of the request.
            latest: how many of the last ones to look up; None for all.
        """
        sought = arrivals if latest is None else arrivals[-latest:]
        alike = [cached for cached in self.memory.sharing(sought) if cached.id.startswith(root)]
        alike += self.memory.opening(root)
        alike.sort(key=lambda cached: cached.last, reverse=True)
        aligned = [(cached, cached.session.align(arrivals)) for cached in alike]
        return sorted(aligned, key=lambda pair: _fit(*pair), reverse=True)

    async def _current(
        self, sessions: Sequence[CachedSession], arrivals: Sequence[Arrival], holds: AsyncExitStack
    ) -> list[tuple[CachedSession, RequestAlignment]]:
        """Hold sessions, bring them up to date, and compare them; leave out those with inconsistent records.

        A session that another process has open is compared in the state in which it was read.
        """
        sound = []
        for cached in sessions:
            try:
                if cached.log is not None:
                    await holds.enter_async_context(cached.hold())
                sound.append((cached, cached.session.align(arrivals)))
            except (JournalError, HistoryError) as error:
                _LOGGER.warning("%s", error)
                await self.forget(cached)
        return sound

    async def _further(
        self, request: IncomingRequest, compared: Collection[str], holds: AsyncExitStack
    ) -> tuple[list[tuple[CachedSession, RequestAlignment]], str]:
        """Hold and compare further sessions, in memory and in the store.

        Returns:
            The sessions with their alignments, and why one of the store could not be read; empty if all could be.
        """
        root = request.root
        arrivals = request.arrivals
        trail = Trail(root, arrivals)
        answered = [cached for cached in self.memory.find_answered(root, trail) if cached.id not in compared]
        aligned = await self._current(answered[:_CANDIDATES], arrivals, holds)
        problem = ""
        try:
            matches = await self._store.find(root, trail)
            # Those in memory store their digests by themselves.
            without_digests = [session_id for session_id in matches.without_digests if not self.memory.get(session_id)]
            for session_id in without_digests:
                why = await self._store_digests(session_id)
                problem = problem or why
            if without_digests:
                matches = await self._store.find(root, trail)
        except StoreError as error:
            if self._options.strict:
                raise
            _LOGGER.warning("%s", error)
            return aligned, ""
        compared = {*compared, *(cached.id for cached in answered)}
        candidates = [match for match in matches.sessions if match.id not in compared]
        candidates.sort(key=lambda match: trail.distance(match.head))
        for match in candidates[:_CANDIDATES]:
            try:
                cached = self.memory.get(match.id) or await self._open(request.wire, match.id)
                aligned += await self._current([cached], arrivals, holds)
            except (StoreError, JournalError, HistoryError) as error:
                problem = _skip_warning(match.id, error)
            if aligned and _knows(*aligned[-1], arrivals):
                break
        return aligned, problem

    async def _store_digests(self, session_id: str) -> str:
        """Store the digests of a session that has none; return why it cannot be read, empty if it can."""
        try:
            records = await self._store.read(session_id)
            chain = Chain(root_of(session_id))
            for record in records:
                if isinstance(record, NoteRecord) and record.topic == CLIENT_NOTE:
                    for entry in entries_of(record):
                        chain.append(entry.digest, entry.shape)
                elif isinstance(record, NoteRecord) and record.topic == REPLY_NOTE:
                    reply = reply_of(record)
                    if not reply.inherited:
                        chain.take_reply(reply.number, reply.shape)
            await self._store.add_digests(session_id, SessionDigests(chain.head, chain.fresh))
        except (StoreError, JournalError) as error:
            return _skip_warning(session_id, error)
        return ""

    async def _open(self, wire: Wire, session_id: str) -> CachedSession:
        try:
            log = await self._store.open(session_id)
        except SessionBusyError:
            parent = (await self._store.header(session_id)).parent
            return self._restore_session(wire, session_id, await self._store.read(session_id), parent)
        try:
            async with log.hold() as records:
                cached = self._restore_session(wire, session_id, records, log.header.parent)
        except BaseException:
            await log.close()
            raise
        if cached.session.cut_short:
            # Without a log it gets a fork, which continues its complete requests.
            await log.close()
            return cached
        cached.log = log
        self.memory.enter(cached)
        cached.note_keys(stored=True)
        return cached

    def _restore_session(self, wire: Wire, session_id: str, records: Sequence[Record], parent: str) -> CachedSession:
        session = self._repeat_records(wire, session_id, records, parent)
        times = [record.at for record in records if record.at is not None] or [datetime.now(UTC)]
        cached = CachedSession(
            session, None, session_id, times[0], times[-1], self.memory, strict=self._options.strict, parent=parent
        )
        self._equip_receipts(cached, records)
        return cached

    def _repeat_records(self, wire: Wire, session_id: str, records: Sequence[Record], parent: str) -> Session:
        """Return a session in the state after the records of a stored one."""
        infers = any(isinstance(record, ConfigRecord) and record.annotate == "infer" for record in records)
        session = Session(wire, self._settings_of(parent), root_of(session_id), infer=infers)
        session.follow(records)
        return session

    def _equip_receipts(self, cached: CachedSession, records: Sequence[Record]) -> None:
        """Let a session record its requests, if it is stored; these records are in its log already."""
        if self._store.persistent:
            cached.keeps_requests = self._options.keep_requests
            cached.recent = self._options.recent
            cached.receipts = Receipts(recent=cached.recent)
            cached.receipts.follow(records)

    async def fresh(self, request: IncomingRequest) -> CachedSession:
        """Begin a session that shares nothing with any other.

        If its history has answers already, they have no marks, so its episodes are inferred.
        """
        parent = await self._parent(request)
        infer = _has_answers(request.arrivals)
        session = Session(request.wire, self._settings_of(parent), request.root, infer=infer)
        return await self._store_session(session, [], parent)

    async def _retaken(
        self, cached: CachedSession, request: IncomingRequest, shared: Overlap | None = None
    ) -> CachedSession:
        """Begin a session with the rounds of one that its client rewrote or forked: all, or those of `shared`."""
        parent = await self._parent(request, cached)
        session = cached.session.blank(request.root, self._settings_of(parent))
        shared = shared or Overlap(0, 0, len(cached.session.entries))
        return await self._store_session(session, session.inherit(cached.session, shared), parent, cached)

    async def _fork_session(
        self, cached: CachedSession, alignment: RequestAlignment, request: IncomingRequest
    ) -> CachedSession:
        """Fork a session, with everything that happened to the messages that both share."""
        shared = Overlap(0, 0, alignment.common)
        if not self._store.persistent:
            return await self._retaken(cached, request, shared)
        try:
            records = [*_first(await self._store.read(cached.id), alignment.common), NoteRecord(FORK_NOTE)]
        except StoreError as error:
            _LOGGER.warning("%s", error)
            return await self._retaken(cached, request, shared)
        parent = await self._parent(request, cached)
        session = self._repeat_records(cached.session.wire, cached.id, records, parent)
        return await self._store_session(session, records, parent, cached)

    async def _parent(self, request: IncomingRequest, source: CachedSession | None = None) -> str:
        """Return the id of the session that started a new one, by its first request; see `Parentage.parent`.

        A session that continues or forks a source has the same parent, unless the client names another, or only asks
        something beside it.
        """
        if source is not None and _is_aside(request.arrivals):
            return source.id
        if source is not None and not request.sender.agent:
            return source.parent
        texts: list[str] = []
        if source is None and not _has_answers(request.arrivals):
            for arrival in request.arrivals:
                texts += [part.text for part in arrival.parts if part.kind is Kind.USER]
        return await self.parentage.parent(request.sender, texts[-4:])

    def _settings_of(self, parent: str) -> ContextSettings:
        """Return the settings of a session with this parent, if it has one."""
        return self._options.agent_settings if parent else self._options.settings

    async def _store_session(
        self,
        session: Session,
        records: Sequence[Record],
        parent: str,
        source: CachedSession | None = None,
    ) -> CachedSession:
        """Store a new session and enter it into memory.

        If it has a source, its first request is compared with the latest one of the source.
        """
        now = datetime.now(UTC)
        name = session.wire.name
        warning = ""
        try:
            log = await self._store.create(session.root, name, self.owner, parent)
        except StoreError as error:
            if self._options.strict:
                raise
            log = await MemoryStore().create(session.root, name, self.owner, parent)
            warning = f"not stored: {error}"
            _LOGGER.warning("session %s lives in memory only: %s", log.id, error)
        cached = CachedSession(
            session, log, log.id, now, now, self.memory, strict=self._options.strict, warning=warning, parent=parent
        )
        self._equip_receipts(cached, ())
        self.memory.enter(cached)
        async with log.hold():
            await cached.append(records)
        await self._began(self.owner, cached.id)
        if source is not None:
            cached.caching = source.caching.branch()
        return cached

    async def forget(self, cached: CachedSession) -> None:
        """Drop a session from memory."""
        self.memory.remove(cached)
        await cached.close()


def _decide(
    aligned: Sequence[tuple[CachedSession, RequestAlignment]], request: IncomingRequest, unread: str
) -> Decision:
    """Return what a request is to the sessions that were compared with it."""
    # Two agents may begin alike. An agent that continues the work of another one gets a fork of its session.
    candidates = [pair for pair in aligned if pair[1].answered or not pair[0].sender.is_other(request.sender)]
    # If the store has lost a session, another process may have stored it again.
    candidates.sort(key=lambda pair: pair[0].lost)
    best, alignment = max(candidates, key=lambda pair: _fit(*pair), default=(None, RequestAlignment(0)))
    if best is None or not alignment.common:
        return Fresh(unread)
    at_end = alignment.common == len(best.session.entries)
    if not (alignment.answered or at_end):
        return Fresh(unread)
    if best.lost or best.session.drift(best.session.edits(request.arrivals, alignment)) > _DRIFT * best.session.budget:
        return Retake(best)
    if not at_end or best.log is None or best.sender.is_other(request.sender) or _is_aside(request.arrivals):
        return Fork(best, alignment)
    return Continue(best, alignment)


def _is_aside(arrivals: Sequence[Arrival]) -> bool:
    """Return whether a client asks something of its own, which its next request will not hold."""
    parts = arrivals[-1].parts
    return bool(parts) and parts[-1].text.startswith(ASIDES)


def _skip_warning(session_id: str, error: Exception) -> str:
    problem = f"session {session_id} is skipped: {error}"
    _LOGGER.warning("%s", problem)
    return problem


def _knows(cached: CachedSession, alignment: RequestAlignment, arrivals: Sequence[Arrival]) -> bool:
    """Return whether a request continues a session at its end, and has no further answers."""
    if cached.lost or not 0 < len(cached.session.entries) == alignment.common:
        return False
    return not _has_answers(arrivals[max(alignment.common, alignment.answered) :])


def _has_answers(arrivals: Sequence[Arrival]) -> bool:
    return any(arrival.shape[:1] == ASSISTANT for arrival in arrivals)


def _fit(cached: CachedSession, alignment: RequestAlignment) -> tuple[int, bool, int]:
    """Rank sessions by how well a request continues them.

    Of two sessions that share the same answers, one that ends there ranks before one that goes on: its further messages
    may be the same by chance. Of those that end there, the last used one ranks first.
    """
    ends = alignment.common == len(cached.session.entries)
    return alignment.answered, ends, 0 if ends else alignment.common


def _first(records: Sequence[Record], count: int) -> list[Record]:
    """Return the records of a session about the first `count` messages of its client."""
    copied: list[Record] = []
    entries_left = count
    messages_left = 0  # of the history, for the latest entries
    for number, record in enumerate(records):
        if isinstance(record, NoteRecord) and record.topic == CLIENT_NOTE:
            entries = entries_of(record)[:entries_left]
            if not entries:
                return [*copied, *_later(records[number:], count)]
            entries_left -= len(entries)
            messages_left = sum(entry.messages for entry in entries)
            copied.append(replace(client_note(entries), at=record.at))
        elif isinstance(record, MessageRecord):
            if not messages_left:
                return [*copied, *_later(records[number:], count)]
            messages_left -= 1
            copied.append(record)
        else:
            copied.append(record)
    return copied


def _later(records: Iterable[Record], count: int) -> Iterator[Record]:
    """Yield later edits of the first `count` messages of the client, which apply to every fork, and replies to them."""
    for record in records:
        if not isinstance(record, NoteRecord):
            continue
        if record.topic == REPLY_NOTE and reply_of(record).number == count:
            yield record
        elif record.topic == EDITS:
            edits = [edit for edit in edits_of(record) if edit.number < count]
            if edits:
                yield replace(edits_note(edits), at=record.at)


class SessionIndex:
    """The index of all sessions of a proxy.

    Args:
        store: stores the sessions' records.
        settings: how their contexts are managed.
        strict: whether failing to store a session is an error.
        idle: seconds without a request after which a stored session leaves memory.
        agent_budget: tokens that the view of a sub-agent may hold; None for the budget of all other sessions.
        keep_requests: whether to store requests whole, and not only their digests.

    Attributes:
        strict: whether failing to store a session is an error.
        began: called with the owner and the id of each new session; None to call nothing.

    Raises:
        ConfigError: for a strategy that calls a model.
    """

    def __init__(
        self,
        store: Store,
        settings: ContextSettings | None = None,
        *,
        strict: bool = False,
        idle: float = IDLE,
        agent_budget: int | None = None,
        keep_requests: bool = True,
    ) -> None:
        self.settings = settings = settings or ContextSettings()
        leaving = traits(check_unaided(settings.strategy)).leaving
        self.store = store
        self.strict = strict
        self.idle = idle
        self.began: Callable[[str, str], Awaitable[None]] | None = None
        agent_settings = settings if agent_budget is None else replace(settings, budget=agent_budget)
        self._options = SessionOptions(settings, agent_settings, strict, keep_requests, RecentRequests())
        policy = settings.eviction
        tasks = settings.tasks
        self._tools: list[Tool] = []
        if settings.marked:
            self._tools.append(TASKS_TOOL if tasks else DELIMITER_TOOL)
        if settings.recall:
            self._tools.append(RECALL_TOOL)
        self._guidance = {
            frozenset({DELIMITER}): guidance(policy, leaving=leaving, tasks=tasks),
            frozenset({DELIMITER, RECALL}): guidance(policy, recall=True, leaving=leaving, tasks=tasks),
            frozenset({RECALL}): RECALL_ALONE,
        }
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unsynced: dict[str, CachedSession] = {}  # by id
        self._timer: asyncio.TimerHandle | None = None  # until these are synced
        self._syncing: set[asyncio.Task[None]] = set()
        self._finders: dict[str, SessionFinder] = {}  # by owner

    @property
    def owners(self) -> Sequence[str]:
        """The members with sessions in memory."""
        return [owner for owner in self._finders if owner]

    def finder_of(self, owner: str) -> SessionFinder:
        """Return the finder of an owner's sessions. It finds no sessions of others, because roots cover the owner."""
        finder = self._finders.get(owner)
        if finder is None:
            finder = self._finders[owner] = SessionFinder(self.store, owner, self._options, self._note_begun)
        return finder

    def gate_of(self, root: str) -> asyncio.Lock:
        """Return the lock that lets one request of a root at a time find its session."""
        return self._gates.setdefault(root, asyncio.Lock())

    def status(self) -> Sequence[SessionStatus]:
        """Return all sessions in memory, members' included, the most recently used first."""
        statuses = []
        for finder in self._finders.values():
            for cached in finder.memory:
                status = cached.status()
                if status is not None:
                    statuses.append(status)
        return sorted(statuses, key=lambda status: status.last, reverse=True)

    async def choose(self, session_id: str, number: int, choice: Choice, owner: str = "") -> None:
        """Put a person's choice for an episode of a session in memory in force (R23), from its next request on.

        Args:
            session_id: the session's id.
            number: the episode's number.
            choice: to keep it in view, to let it go, or neither any more.
            owner: the member of a team who asks, for sessions of their own alone; empty for all sessions.

        Raises:
            SessionNotFoundError: if there is no such session in the memory of this process.
            ConfigError: if nothing can be chosen: for a task, another choice, or a strategy without episodes.
            UnknownEpisodeError: for an episode that is not in view.
            WaneError: if the session cannot be brought up to date or stored.
        """
        finders = [finder for name, finder in self._finders.items() if owner in ("", name)]
        cached = next(filter(None, (finder.memory.get(session_id) for finder in finders)), None)
        if cached is None or cached.log is None:
            raise SessionNotFoundError(f"session {session_id} is not in the memory of this process")
        async with cached.hold():
            await cached.append(cached.session.choose(number, choice))
        await cached.sync()

    async def sweep(self) -> None:
        """Drop idle stored sessions from memory, and the oldest ones of an owner who has more than a thousand."""
        now = datetime.now(UTC)
        for finder in list(self._finders.values()):
            memory = finder.memory
            sessions = [cached for cached in memory if not cached.exchanges]
            sessions.sort(key=lambda cached: cached.last)
            too_many = len(memory) - 1_000
            for number, cached in enumerate(sessions):
                # A sub-agent stays as long as the session that started it, so that the sums of both are complete.
                parent = memory.get(cached.parent) or cached
                idle = self.store.persistent and (now - max(cached.last, parent.last)).total_seconds() > self.idle
                if idle or number < too_many:
                    await finder.forget(cached)
            await finder.parentage.tidy()

    async def close(self) -> None:
        """Drop all sessions from memory."""
        for finder in list(self._finders.values()):
            await self._empty(finder)
        await self.store.close()

    async def drop(self, owner: str) -> None:
        """Drop the sessions of a member from memory, unless one of them is in use."""
        if not any(cached.exchanges for cached in self._finders[owner].memory):
            await self._empty(self._finders.pop(owner))

    async def _empty(self, finder: SessionFinder) -> None:
        self.sync_now()
        await asyncio.gather(*self._syncing)
        for cached in finder.memory:
            await finder.forget(cached)

    def sync_later(self, cached: CachedSession) -> None:
        """Sync a session's records in the background a moment later, together with those of its next requests."""
        cached.last = datetime.now(UTC)
        self._unsynced[cached.id] = cached
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_UNSYNCED, self.sync_now)

    def sync_now(self) -> None:
        """Begin to sync the records that have not been, and pack what their sessions need no more soon."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for cached in self._unsynced.values():
            cached.session.engine.pack()
            if cached.memory.get(cached.id) is cached:  # else it was synced when it was dropped
                task = asyncio.create_task(cached.sync())
                self._syncing.add(task)
                task.add_done_callback(self._syncing.discard)
        self._unsynced.clear()

    async def _note_begun(self, owner: str, session_id: str) -> None:
        if self.began is not None:
            await self.began(owner, session_id)

    # Wane's own tools

    def own_tools(self, wire: Wire, body: Body) -> frozenset[str]:
        """Return the names of the own tools for a request; none if the client has a `delimiter` of its own."""
        client_tools = wire.tools(body)
        if DELIMITER in client_tools:
            return frozenset()
        return frozenset(tool.name for tool in self._tools) - client_tools

    def equip(self, wire: Wire, body: Body, own: frozenset[str]) -> Equipped:
        """Return a body with own tools, and the guidance on them."""
        tools = [tool for tool in self._tools if tool.name in own]
        return wire.equip(body, tools, self._guidance.get(own, ""))

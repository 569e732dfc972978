"""The index of all sessions: it finds the session of a request by content, in memory or in the store."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, get_args
from weakref import WeakValueDictionary

from wane.conversation.context import ContextSettings
from wane.conversation.request import DELIMITER_TOOL, RECALL_ALONE, RECALL_TOOL, TASKS_TOOL
from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError, FormatError, HistoryError, JournalError, WaneError
from wane.core.guidance import guidance
from wane.journal import Receipts, Record
from wane.journal.titles import title_of
from wane.proxy.sessions.figures import Facts, SessionStatus, ViewStatus
from wane.proxy.sessions.history import FullHistory
from wane.proxy.sessions.keys import ASSISTANT, SessionsInMemory, Trail
from wane.proxy.sessions.messages import (
    Alignment,
    Arrival,
    Entry,
    Overlap,
    client_note,
    infers,
    marks_of,
    prefix,
    root_of,
)
from wane.proxy.sessions.parentage import Parentage
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.sessions.session import RequestView, Session
from wane.proxy.sessions.turn import TRIES, CachedSession, SessionTurn
from wane.proxy.settings import StrategyName
from wane.proxy.store.base import MemoryStore, SessionBusyError, SessionChangedError, Store, StoreError
from wane.proxy.store.base import root_of as stored_root
from wane.proxy.wire.base import Body, Equipped, Message, Wire
from wane.recall import RECALL
from wane.strategies.base import traits
from wane.tools.delegation import handed_over

IDLE: Final = 900.0
"""Seconds without a request after which a stored session leaves memory by default."""

_LOGGER: Final = logging.getLogger("wane.proxy")
_CANDIDATES: Final = 8  # sessions that are read to compare them with a request, the most likely first
_READINGS: Final = 3  # of a session whose records do not fit, before it begins anew
_CHANGING: Final = "the session keeps changing under the request"
_MOST_IN_MEMORY: Final = 1_000  # sessions
_MOST_TEXTS: Final = 4  # of a first request that are compared with prompts of calls, the last ones
_AT_ONCE: Final = 200  # new messages taken in before other requests get their turn
_LARGE: Final = 2_000_000  # bytes of a body that is processed in a thread
_EDITED_SHARE: Final = 0.05  # share of the budget that edits may change before the session is taken in again


class _UnreadableError(WaneError):
    """A session's records fit neither the request nor themselves."""


class SessionIndex:
    """The index of all sessions of a proxy.

    Args:
        store: stores the sessions' records.
        settings: how their contexts are managed.
        strict: whether failing to store a session is an error.
        idle: seconds without a request after which a stored session leaves memory.
        owner: the member of a team whose sessions these are; empty for none.
        agent_budget: tokens that the view of a sub-agent may hold; None for as many as that of any other session.
        keep_requests: whether requests are stored, and not their digests alone.

    Attributes:
        store: see above.
        settings: see above.
        agent_settings: how the contexts of sub-agents are managed.
        idle: see above.
        owner: see above.
        began: called with the owner and the id of each new session; None for nobody.

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
        owner: str = "",
        agent_budget: int | None = None,
        keep_requests: bool = True,
    ) -> None:
        self._keeps_requests = keep_requests
        self.settings = self.agent_settings = settings or ContextSettings()
        if agent_budget is not None:
            self.agent_settings = replace(self.settings, budget=agent_budget)
        if traits(self.settings.strategy).summarises:
            raise ConfigError(
                f"a proxy calls no model by itself, so it cannot run the strategy {self.settings.strategy!r}; it runs "
                f"{', '.join(get_args(StrategyName))}"
            )
        self.store = store
        self.idle = idle
        self.owner = owner
        self.began: Callable[[str, str], Awaitable[None]] | None = None
        self._strict, self._agent_budget = strict, agent_budget
        self._parentage = Parentage(store, owner)
        self._others: dict[str, SessionIndex] = {}
        policy, tasks = self.settings.eviction, self.settings.tasks
        delimiter = TASKS_TOOL if tasks else DELIMITER_TOOL
        self._tools = [delimiter] * self.settings.marked + [RECALL_TOOL] * self.settings.recall
        self._guidance = {
            frozenset({DELIMITER}): guidance(policy, tasks=tasks),
            frozenset({DELIMITER, RECALL}): guidance(policy, recall=True, tasks=tasks),
            frozenset({RECALL}): RECALL_ALONE,
        }
        self._sessions: SessionsInMemory[CachedSession] = SessionsInMemory()
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._syncing: set[asyncio.Task[None]] = set()

    def of(self, owner: str) -> SessionIndex:
        """Return the index of a member's sessions in the same store, which shares nothing with any other.

        Roots cover the owner, so that no request finds the session of another member in the store either.
        """
        if owner == self.owner:
            return self
        if owner not in self._others:
            index = SessionIndex(
                self.store,
                self.settings,
                strict=self._strict,
                idle=self.idle,
                owner=owner,
                agent_budget=self._agent_budget,
                keep_requests=self._keeps_requests,
            )
            index.began = self.began
            self._others[owner] = index
        return self._others[owner]

    @property
    def owners(self) -> Sequence[str]:
        """The members with an index in memory."""
        return tuple(self._others)

    async def turn(self, wire: Wire, body: Body, *, size: int = 0, sender: Sender = NOBODY) -> SessionTurn:
        """Find the session of a request, take in its new messages, and prepare the view.

        Args:
            wire: the request's protocol.
            body: the client's body, which can be managed.
            size: its size in bytes; a large body is processed outside the event loop.
            sender: who sent it, as far as its client tells.

        Raises:
            FormatError: if the body's messages violate the protocol.
            WaneError: if Wane cannot manage the request for any other reason.
        """
        messages = wire.messages(body)
        arrivals = await asyncio.to_thread(_arrivals, wire, messages) if size > _LARGE else _arrivals(wire, messages)
        root = root_of(wire, arrivals, self.owner)
        gate = self._gates.setdefault(root, asyncio.Lock())
        async with gate:
            problem, failures = _CHANGING, 0
            for _ in range(TRIES):
                try:
                    if (turn := await self._tried(wire, body, arrivals, root, sender)) is not None:
                        return turn
                except _UnreadableError as error:
                    problem, failures = str(error), failures + 1
                    if failures >= _READINGS:
                        break
            if self._strict:
                raise StoreError(problem)
            return await self._rebuilt(wire, body, arrivals, root, sender, problem)

    async def _tried(
        self, wire: Wire, body: Body, arrivals: Sequence[Arrival], root: str, sender: Sender
    ) -> SessionTurn | None:
        """Let the request's session take it in; return None if another process has added to the session in between.

        Raises:
            _UnreadableError: if what is known of the session fits neither the request nor itself.
            WaneError: if the request cannot be managed, whatever its session.
        """
        cached, entry_count = None, 1
        try:
            async with AsyncExitStack() as holds:
                cached, alignment = await self._find(wire, arrivals, root, sender, holds)
                if alignment is None:
                    await holds.enter_async_context(cached.held())
                    alignment = cached.session.align(arrivals)
                entry_count = len(cached.session.entries)
                if alignment.common == entry_count:
                    return await self._take(cached, body, arrivals, alignment, sender)
        except SessionChangedError:
            return None
        except (FormatError, StoreError):
            raise
        except Exception as error:
            if cached is not None:
                await self._forget(cached)
            if not entry_count:
                raise
            expected = isinstance(error, WaneError)
            name = "the session" if cached is None else f"session {cached.id}"
            problem = f"{name} could not be continued: {error if expected else type(error).__name__}"
            _LOGGER.warning("%s", problem, exc_info=not expected)
            raise _UnreadableError(problem) from error
        return None

    async def _rebuilt(
        self, wire: Wire, body: Body, arrivals: Sequence[Arrival], root: str, sender: Sender, problem: str
    ) -> SessionTurn:
        """Let a new session take in the whole history of a request, whose own session cannot be continued."""
        cached = await self._fresh(wire, arrivals, root, sender)
        cached.remark = f"{problem}; it starts over as {cached.id}"
        _LOGGER.warning("%s", cached.remark)
        async with cached.held():
            return await self._take(cached, body, arrivals, Alignment(0), sender)

    async def peek(self, wire: Wire, body: Body) -> Body:
        """Return what `turn` would send upstream, to count its tokens; no session changes.

        A body that continues no known session is a fragment that the client wants counted by itself. It is returned
        unchanged.

        Raises:
            WaneError: as `turn` does.
        """
        continued = await self._ahead(wire, body)
        return body if continued is None else continued[0].placed(self._equipped(wire, body), continued[1], ahead=True)

    async def shortened(self, wire: Wire, body: Body) -> Body | None:
        """Return an unmanaged request with the view of its session in place of its history.

        A client that asks for a summary sends all it has, which may be more than the model's window holds.

        Returns:
            The body, without own tools; None if it continues no known session, or one without evictions.

        Raises:
            WaneError: as `turn` does.
        """
        continued = await self._ahead(wire, body)
        if continued is None or not continued[1].evicted:
            return None
        return continued[0].placed(Equipped(body), continued[1], ahead=True)

    async def _ahead(self, wire: Wire, body: Body) -> tuple[CachedSession, RequestView] | None:
        """The known session that a request continues, and the view it would get; None if there is none."""
        arrivals = _arrivals(wire, wire.messages(body))
        for cached, alignment in self._alike(root_of(wire, arrivals, self.owner), arrivals):
            if 0 < len(cached.session.entries) == alignment.common:
                session = copy.deepcopy(cached.session, {id(wire): wire})
                _, history = await _extended(session, self._equipped(wire, body), arrivals, alignment)
                return cached, session.fit(history, body)
        return None

    async def check(self) -> None:
        """Check that sessions can be stored, as far as possible without storing one.

        Raises:
            StoreError: if not.
        """
        await self.store.check()

    def status(self) -> Sequence[SessionStatus]:
        """Return the sessions in memory, those of members too, the most recently used first."""
        statuses = [status for cached in self._sessions if (status := cached.status()) is not None]
        for index in self._others.values():
            statuses += index.status()
        return sorted(statuses, key=lambda status: status.last, reverse=True)

    async def sweep(self) -> None:
        """Drop stored sessions that have been idle from memory, and the oldest ones if there are too many."""
        now = datetime.now(UTC)
        sessions = sorted((cached for cached in self._sessions if not cached.turns), key=lambda cached: cached.last)
        too_many = len(self._sessions) - _MOST_IN_MEMORY
        for number, cached in enumerate(sessions):
            # A sub-agent stays with the session that started it, so that their sums are complete.
            parent = self._sessions.get(cached.parent) or cached
            idle = self.store.persistent and (now - max(cached.last, parent.last)).total_seconds() > self.idle
            if idle or number < too_many:
                await self._forget(cached)
        await self._parentage.tidy()
        for index in [*self._others.values()]:
            await index.sweep()

    async def close(self) -> None:
        """Drop all sessions from memory."""
        for index in (*self._others.values(), self):
            await index._empty()
        await self.store.close()

    async def drop(self, owner: str) -> None:
        """Drop the sessions of a member from memory, unless one of them is in use."""
        if not any(cached.turns for cached in self._others[owner]._sessions):
            await self._others.pop(owner)._empty()

    async def _empty(self) -> None:
        await asyncio.gather(*self._syncing)
        for cached in self._sessions:
            await self._forget(cached)

    def _finished(self, cached: CachedSession) -> None:
        """Sync a session's records in the background after a turn."""
        cached.last = datetime.now(UTC)
        task = asyncio.create_task(cached.sync())
        self._syncing.add(task)
        task.add_done_callback(self._syncing.discard)

    # Which session a request belongs to

    async def _find(
        self, wire: Wire, arrivals: Sequence[Arrival], root: str, sender: Sender, holds: AsyncExitStack
    ) -> tuple[CachedSession, Alignment | None]:
        """The session that a request continues: a known one with its alignment, a fork of one, or a new one.

        Sessions that it compares stay held by `holds`, so that the one that it returns is up to date. A new one is not
        held yet.
        """
        aligned, unread = list[tuple[CachedSession, Alignment]](), ""
        for candidate, _ in self._alike(root, arrivals)[:_CANDIDATES]:
            aligned += await self._current([candidate], arrivals, holds)
            if aligned and _knows(*aligned[-1], arrivals):
                break
        else:
            tried = {cached.id for cached, _ in aligned}
            further, unread = await self._further(wire, root, arrivals, tried, holds)
            aligned += further
        # Two agents may begin alike. One that goes on from what another has done, is a fork of it.
        aligned = [pair for pair in aligned if pair[1].answered or not pair[0].sender.is_other(sender)]
        # If the store has lost a session, another process may have stored it again.
        aligned.sort(key=lambda pair: pair[0].lost)
        best, alignment = max(aligned, key=lambda pair: _fit(*pair), default=(None, Alignment(0)))
        if (
            best is None
            or not alignment.common
            or not (alignment.answered or alignment.common == len(best.session.entries))
        ):
            return await self._unknown(wire, arrivals, root, sender, unread), None
        if best.lost:
            return await self._stored_anew(best, root, sender), None
        drift = best.session.drift(best.session.edits(arrivals, alignment))
        if drift > best.session.budget * _EDITED_SHARE:
            return await self._retaken(best, root, sender), None
        if alignment.common < len(best.session.entries) or best.log is None or best.sender.is_other(sender):
            return await self._forked(best, alignment, root, sender), None
        return best, alignment

    def _alike(self, root: str, arrivals: Sequence[Arrival]) -> list[tuple[CachedSession, Alignment]]:
        """The sessions in memory with this root that may be the request's, the most likely first."""
        shared = (cached for cached in self._sessions.sharing(arrivals) if cached.id.startswith(root))
        alike = sorted((*shared, *self._sessions.opening(root)), key=lambda cached: cached.last, reverse=True)
        aligned = [(cached, cached.session.align(arrivals)) for cached in alike]
        return sorted(aligned, key=lambda pair: _fit(*pair), reverse=True)

    async def _current(
        self, sessions: Sequence[CachedSession], arrivals: Sequence[Arrival], holds: AsyncExitStack
    ) -> list[tuple[CachedSession, Alignment]]:
        """Hold sessions, and compare them as other processes have left them; leave out those whose records do not fit.

        One that another process has open is compared as it was read.
        """
        sound = []
        for cached in sessions:
            try:
                if cached.log is not None:
                    await holds.enter_async_context(cached.held())
                sound.append((cached, cached.session.align(arrivals)))
            except (JournalError, HistoryError) as error:
                _LOGGER.warning("%s", error)
                await self._forget(cached)
        return sound

    async def _further(
        self, wire: Wire, root: str, arrivals: Sequence[Arrival], tried: Collection[str], holds: AsyncExitStack
    ) -> tuple[list[tuple[CachedSession, Alignment]], str]:
        """Further sessions with this root that may be the request's; and why one could not be read, if any.

        Args:
            wire: the request's protocol.
            root: the root.
            arrivals: the request's messages.
            tried: ids of sessions that have been compared already.
            holds: keeps those that are compared held.
        """
        trail = Trail(root, arrivals)
        answered = [cached for cached in self._sessions.answered(trail.sought) if cached.id not in tried]
        aligned = await self._current(answered[:_CANDIDATES], arrivals, holds)
        try:
            matches = await self.store.find(root, trail.sought)
            # The marks of those in memory are on their way.
            unmarked = [session_id for session_id in matches.unmarked if self._sessions.get(session_id) is None]
            unread = [await self._mark(session_id) for session_id in unmarked]
            if unread:
                matches = await self.store.find(root, trail.sought)
        except StoreError as error:
            if self._strict:
                raise
            _LOGGER.warning("%s", error)
            return aligned, ""
        likely = sorted(matches.sessions, key=lambda match: trail.distance(match.head))
        compared, problem = {*tried, *(cached.id for cached in answered)}, next(filter(None, unread), "")
        for match in [match for match in likely if match.id not in compared][:_CANDIDATES]:
            try:
                cached = self._sessions.get(match.id) or await self._open(wire, match.id)
                aligned += await self._current([cached], arrivals, holds)
            except (StoreError, JournalError, HistoryError) as error:
                problem = _skipped(match.id, error)
            if aligned and _knows(*aligned[-1], arrivals):
                break
        return aligned, problem

    async def _mark(self, session_id: str) -> str:
        """Note the marks of a stored session that has none; return why it cannot be read, if so."""
        try:
            records = await self.store.read(session_id)
            await self.store.mark(session_id, marks_of(stored_root(session_id), records))
        except (StoreError, JournalError) as error:
            return _skipped(session_id, error)
        return ""

    async def _open(self, wire: Wire, session_id: str) -> CachedSession:
        try:
            log = await self.store.open(session_id)
        except SessionBusyError:
            parent = (await self.store.header(session_id)).parent
            return self._brought_back(wire, session_id, await self.store.read(session_id), parent)
        try:
            async with log.hold() as records:
                cached = self._brought_back(wire, session_id, records, log.header.parent)
        except BaseException:
            await log.close()
            raise
        if cached.session.cut_short:
            # Its whole requests are continued in a new session.
            await log.close()
            return cached
        cached.log = log
        self._sessions.enter(cached)
        cached.mark(stored=True)
        return cached

    def _brought_back(self, wire: Wire, session_id: str, records: Sequence[Record], parent: str) -> CachedSession:
        session = self._repeated(wire, session_id, records, parent)
        times = [record.at for record in records if record.at is not None]
        now = datetime.now(UTC)
        created, last = (times[0], times[-1]) if times else (now, now)
        cached = CachedSession(
            session, None, session_id, created, last, self._sessions, strict=self._strict, parent=parent
        )
        self._equip_receipts(cached, records)
        return cached

    def _repeated(self, wire: Wire, session_id: str, records: Sequence[Record], parent: str) -> Session:
        """A session as it stands after the records of a stored one."""
        session = Session(wire, self._settings(parent), stored_root(session_id), infer=infers(records))
        session.follow(records)
        return session

    def _equip_receipts(self, cached: CachedSession, records: Sequence[Record]) -> None:
        """Let a session record its requests, if it is stored.

        Args:
            cached: the session.
            records: those that its log has.
        """
        if self.store.persistent:
            cached.keeps_requests = self._keeps_requests
            cached.receipts = Receipts()
            cached.receipts.follow(records)

    async def _unknown(
        self, wire: Wire, arrivals: Sequence[Arrival], root: str, sender: Sender, unread: str
    ) -> CachedSession:
        """A new session, with the rounds of a known one if they share enough messages (`Entries.overlap`).

        Raises:
            StoreError: in strict mode, if it may be the session that could not be read.
        """
        has_answers = _has_answers(arrivals)
        shared = self._sessions.sharing(arrivals) if has_answers else Counter[CachedSession]()
        alike = [cached for cached, _ in shared.most_common(_CANDIDATES) if cached.session.wire is wire]
        rows = [(cached, row) for cached in alike if (row := cached.session.overlap(arrivals)) is not None]
        if rows:
            best, row = max(rows, key=lambda pair: pair[1].count)
            return await self._retaken(best, root, sender, row)
        if has_answers and unread and self._strict:
            raise StoreError(unread)
        cached = await self._fresh(wire, arrivals, root, sender)
        cached.remark = unread if has_answers else ""
        return cached

    async def _fresh(self, wire: Wire, arrivals: Sequence[Arrival], root: str, sender: Sender) -> CachedSession:
        """A new session that knows nothing of any other. A history that began without marks has none to read."""
        parent = await self._parent(sender, arrivals)
        session = Session(wire, self._settings(parent), root, infer=_has_answers(arrivals))
        return await self._begun(session, root, [], parent)

    async def _retaken(
        self, cached: CachedSession, root: str, sender: Sender, shared: Overlap | None = None
    ) -> CachedSession:
        """A new session with the rounds of one that its client rewrote or forked: all, or those of `shared`."""
        parent = await self._parent(sender, (), cached)
        session = cached.session.blank(root, self._settings(parent))
        shared = shared or Overlap(0, 0, len(cached.session.entries))
        return (await self._begun(session, root, session.inherit(cached.session, shared), parent)).after(cached)

    async def _stored_anew(self, cached: CachedSession, root: str, sender: Sender) -> CachedSession:
        """A new session in place of one that the store has lost, such as by an emptied database."""
        await self._forget(cached)
        again = await self._retaken(cached, root, sender)
        again.remark = f"the store has lost session {cached.id}; it continues as {again.id}"
        _LOGGER.warning("%s", again.remark)
        return again

    async def _forked(self, cached: CachedSession, alignment: Alignment, root: str, sender: Sender) -> CachedSession:
        """A fork of a session, with everything that happened to the messages that they share."""
        if not self.store.persistent:
            return await self._retaken(cached, root, sender, Overlap(0, 0, alignment.common))
        try:
            records = prefix(await self.store.read(cached.id), alignment.common)
        except StoreError as error:
            _LOGGER.warning("%s", error)
            return await self._retaken(cached, root, sender, Overlap(0, 0, alignment.common))
        parent = await self._parent(sender, (), cached)
        session = self._repeated(cached.session.wire, cached.id, records, parent)
        return (await self._begun(session, root, records, parent)).after(cached)

    async def _parent(self, sender: Sender, arrivals: Sequence[Arrival], source: CachedSession | None = None) -> str:
        """The id of the session that started a new one; see `Parentage.parent`.

        Args:
            sender: who sent its first request.
            arrivals: that request's messages.
            source: the session that it continues or forks, if any; it has the same parent unless the client tells.
        """
        if source is not None and not sender.agent:
            return source.parent
        opening = [] if _has_answers(arrivals) else arrivals
        texts = [part.text for arrival in opening for part in arrival.parts if part.kind is Kind.USER]
        prompts = [prompt for text in texts[-_MOST_TEXTS:] for prompt in handed_over(text)]
        return await self._parentage.parent(sender, prompts)

    def _settings(self, parent: str) -> ContextSettings:
        """How a session with this parent, if any, is managed."""
        return self.agent_settings if parent else self.settings

    async def _delegated(self, cached: CachedSession, prompts: Sequence[str]) -> None:
        await self._parentage.handed_over(cached.sender, cached.id, prompts)

    async def _begun(self, session: Session, root: str, records: Sequence[Record], parent: str) -> CachedSession:
        now, named = datetime.now(UTC), (root, session.wire.name, self.owner, parent)
        try:
            log, warning = await self.store.create(*named), ""
        except StoreError as error:
            if self._strict:
                raise
            log, warning = await MemoryStore().create(*named), f"not stored: {error}"
            _LOGGER.warning("session %s lives in memory only: %s", log.id, error)
        cached = CachedSession(
            session, log, log.id, now, now, self._sessions, strict=self._strict, warning=warning, parent=parent
        )
        self._equip_receipts(cached, ())
        self._sessions.enter(cached)
        async with log.hold():
            await cached.append(records)
        if self.began is not None:
            await self.began(self.owner, cached.id)
        return cached

    async def _forget(self, cached: CachedSession) -> None:
        self._sessions.remove(cached)
        await cached.close()

    # What goes upstream

    async def _take(
        self, cached: CachedSession, body: Body, arrivals: Sequence[Arrival], alignment: Alignment, sender: Sender
    ) -> SessionTurn:
        session, now = cached.session, datetime.now(UTC)
        if sender not in (NOBODY, cached.sender):
            cached.sender = sender
            await self._parentage.met(sender, cached.id)
        equipped = self._equipped(session.wire, body)
        cold = (now - cached.last).total_seconds() > self.settings.cache_lifetime
        try:
            records, history = await _extended(session, equipped, arrivals, alignment)
            view = session.fit(history, equipped.body, cold=cold)
        except BaseException:
            # The session in memory has only part of the request; the stored one is consistent.
            await self._forget(cached)
            raise
        await cached.append([*records, *view.records])
        wire, engine, report = session.wire, session.engine, view.report
        cached.last, cached.requests = now, cached.requests + 1
        cached.title = cached.title or next(filter(None, (title_of(arrival.message) for arrival in arrivals)), "")
        shortfall = session.shortfall(report)
        before = cached.facts
        cached.facts = Facts(
            session=cached.id,
            api=wire.name,
            model=str(body.get("model", "")),
            view=engine.tokens,
            budget=session.budget,
            owner=self.owner,
            parent=cached.parent,
            history=engine.tokens + view.evicted,
            evicted=view.evicted,
            evicted_now=0 if report is None else report.tokens_before - report.tokens_after,
            used=session.used,
            satisfied=not shortfall,
            room=session.room(str(body.get("model", ""))),
            thrashing=engine.thrashing,
            note=cached.warning or cached.take_remark() or shortfall,
        )
        began = cached.facts.thrashing is not None and (before is None or before.thrashing is None)
        if began or (cached.facts.tight and (before is None or not before.tight)):
            _LOGGER.warning("session %s: %s", cached.id, cached.facts.advice)
        cached.views.append(ViewStatus(now, engine.tokens, cached.facts.evicted_now))
        return SessionTurn(
            self._delegated, self._finished, cached, body, equipped, history, view, self._own(wire, body)
        )

    def _own(self, wire: Wire, body: Body) -> frozenset[str]:
        """Names of the proxy's own tools; none if the client has a `delimiter` of its own."""
        client_tools = wire.tools(body)
        return frozenset() if DELIMITER in client_tools else frozenset(tool.name for tool in self._tools) - client_tools

    def _equipped(self, wire: Wire, body: Body) -> Equipped:
        own = self._own(wire, body)
        text = self._guidance.get(own, "")
        return wire.equip(body, [tool for tool in self._tools if tool.name in own], text)


def _arrivals(wire: Wire, messages: Sequence[Message]) -> list[Arrival]:
    if not messages:
        raise FormatError("the request has no messages")
    return [Arrival(wire, message) for message in messages]


async def _extended(
    session: Session, equipped: Equipped, arrivals: Sequence[Arrival], alignment: Alignment
) -> tuple[list[Record], FullHistory]:
    """Take in a request; return the records of it, and the whole history."""
    records = [*session.setup(equipped), *session.amend(session.edits(arrivals, alignment))]
    entries, message_records = list[Entry](), list[Record]()
    for arrival in arrivals[len(session.entries) :]:
        entry, new_records = session.take(arrival)
        entries.append(entry)
        message_records += new_records
        if len(entries) % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return [*records, *([client_note(entries)] if entries else []), *message_records], session.full_history(arrivals)


def _skipped(session_id: str, error: Exception) -> str:
    problem = f"session {session_id} is skipped: {error}"
    _LOGGER.warning("%s", problem)
    return problem


def _knows(cached: CachedSession, alignment: Alignment, arrivals: Sequence[Arrival]) -> bool:
    """Whether a request continues a session at its end, and has no answer that the session does not know."""
    if cached.lost or not 0 < len(cached.session.entries) == alignment.common:
        return False
    return not _has_answers(arrivals[max(alignment.common, alignment.answered) :])


def _has_answers(arrivals: Sequence[Arrival]) -> bool:
    return any(arrival.shape[:1] == ASSISTANT for arrival in arrivals)


def _fit(cached: CachedSession, alignment: Alignment) -> tuple[int, bool, int]:
    """Rank sessions by how well a request continues them.

    Among those with the same answers, one that ends there ranks before one that continued, whose further messages may
    be the same by chance. Among those that end there, the last used one ranks first.
    """
    ends = alignment.common == len(cached.session.entries)
    return alignment.answered, ends, 0 if ends else alignment.common

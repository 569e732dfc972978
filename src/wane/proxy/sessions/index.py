"""The index of all sessions: finds the session of a request, adds its new messages, and prepares the view to send."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, get_args
from weakref import WeakValueDictionary

from wane.conversation.context import ContextSettings
from wane.conversation.request import DELIMITER_TOOL, RECALL_ALONE, RECALL_TOOL, TASKS_TOOL, Tool
from wane.core import DELIMITER, RECALL
from wane.core.errors import ConfigError, FormatError, WaneError
from wane.core.guidance import guidance
from wane.journal import Record
from wane.journal.titles import title_of
from wane.proxy.sessions.caching import lifetime_of
from wane.proxy.sessions.figures import Facts, SessionStatus, ViewStatus
from wane.proxy.sessions.finder import IncomingRequest, SessionFinder, SessionOptions
from wane.proxy.sessions.history import FullHistory
from wane.proxy.sessions.memory import CachedSession
from wane.proxy.sessions.messages import Alignment, Arrival, Entry, client_note, root_of_request
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.sessions.session import RequestView, Session
from wane.proxy.sessions.turn import TRIES, SessionTurn
from wane.proxy.settings import StrategyName
from wane.proxy.store.base import SessionChangedError, Store, StoreError, in_thread_if
from wane.proxy.wire.base import Body, Equipped, Wire
from wane.strategies.registry import traits

IDLE: Final = 900.0
"""Seconds without a request after which a stored session leaves memory by default."""

_LOGGER: Final = logging.getLogger("wane.proxy")


class _UnreadableError(WaneError):
    """A session cannot be continued: its records are inconsistent, or do not fit the request."""


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
        if traits(settings.strategy).summarises:
            raise ConfigError(
                f"a proxy calls no model by itself, so it cannot run the strategy {settings.strategy!r}; it runs "
                f"{', '.join(get_args(StrategyName))}"
            )
        self.store = store
        self.idle = idle
        self.began: Callable[[str, str], Awaitable[None]] | None = None
        agent_settings = settings if agent_budget is None else replace(settings, budget=agent_budget)
        self._options = SessionOptions(settings, agent_settings, strict, keep_requests)
        policy = settings.eviction
        tasks = settings.tasks
        self._tools: list[Tool] = []
        if settings.marked:
            self._tools.append(TASKS_TOOL if tasks else DELIMITER_TOOL)
        if settings.recall:
            self._tools.append(RECALL_TOOL)
        self._guidance = {
            frozenset({DELIMITER}): guidance(policy, tasks=tasks),
            frozenset({DELIMITER, RECALL}): guidance(policy, recall=True, tasks=tasks),
            frozenset({RECALL}): RECALL_ALONE,
        }
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._syncing: set[asyncio.Task[None]] = set()
        self._finders: dict[str, SessionFinder] = {}  # by owner

    @property
    def owners(self) -> Sequence[str]:
        """The members with sessions in memory."""
        return [owner for owner in self._finders if owner]

    def _finder_of(self, owner: str) -> SessionFinder:
        """Return the finder of an owner's sessions. It finds no sessions of others, because roots cover the owner."""
        finder = self._finders.get(owner)
        if finder is None:
            finder = self._finders[owner] = SessionFinder(self.store, owner, self._options, self._note_begun)
        return finder

    async def turn(
        self, wire: Wire, body: Body, *, size: int = 0, sender: Sender = NOBODY, owner: str = ""
    ) -> SessionTurn:
        """Find the session of a request, take in its new messages, and prepare the view.

        Args:
            wire: the request's protocol.
            body: the client's body; its protocol must say that it can be managed.
            size: its size in bytes; a large body is processed outside the event loop.
            sender: who sent it, as far as the client says.
            owner: the member of a team who sent it; empty for none.

        Raises:
            FormatError: if the body's messages violate the protocol.
            WaneError: if Wane cannot manage the request for any other reason.
        """
        arrivals = await in_thread_if(size > 2_000_000, lambda: _arrivals(wire, body))
        request = IncomingRequest(wire, body, arrivals, root_of_request(wire, arrivals, owner), sender)
        finder = self._finder_of(owner)
        gate = self._gates.setdefault(request.root, asyncio.Lock())
        async with gate:
            problem = "other processes keep changing the session"
            unreadable = 0
            for _ in range(TRIES):
                try:
                    turn = await self._try_turn(finder, request)
                except _UnreadableError as error:
                    problem = str(error)
                    unreadable += 1
                    if unreadable == 3:
                        break
                    continue
                if turn is not None:
                    return turn
            if self._options.strict:
                raise StoreError(problem)
            # A new session takes in the whole history.
            cached = await finder.fresh(request)
            cached.remark = f"{problem}; it starts over as {cached.id}"
            _LOGGER.warning("%s", cached.remark)
            async with cached.held():
                return await self._take(finder, cached, request, Alignment(0))

    async def _try_turn(self, finder: SessionFinder, request: IncomingRequest) -> SessionTurn | None:
        """Add the request to its session; return None if another process has added to the session in the meantime.

        Raises:
            _UnreadableError: if the session's records are inconsistent, or do not fit the request.
            WaneError: if the request cannot be managed in any session.
        """
        cached: CachedSession | None = None
        is_empty = False
        try:
            async with AsyncExitStack() as holds:
                cached, alignment = await finder.find(request, holds)
                if alignment is None:
                    await holds.enter_async_context(cached.held())
                    alignment = cached.session.align(request.arrivals)
                entry_count = len(cached.session.entries)
                is_empty = entry_count == 0
                if alignment.common == entry_count:
                    return await self._take(finder, cached, request, alignment)
        except SessionChangedError:
            return None
        except (FormatError, StoreError):
            raise
        except Exception as error:
            if cached is not None:
                await finder.forget(cached)
            if is_empty:
                raise  # the fault is the request's own
            expected = isinstance(error, WaneError)
            name = "the session" if cached is None else f"session {cached.id}"
            reason = str(error) if expected else type(error).__name__
            problem = f"{name} could not be continued: {reason}"
            _LOGGER.warning("%s", problem, exc_info=not expected)
            raise _UnreadableError(problem) from error
        return None

    async def peek(self, wire: Wire, body: Body, owner: str = "") -> Body:
        """Return what `turn` would send upstream, to count its tokens; no session changes.

        A body that continues no known session is returned unchanged: the client wants to count a fragment by itself.

        Raises:
            WaneError: as `turn` does.
        """
        preview = await self._preview(wire, body, owner)
        if preview is None:
            return body
        cached, equipped, view = preview
        return cached.placed(equipped, view, preview=True)

    async def shortened(self, wire: Wire, body: Body, owner: str = "") -> Body | None:
        """Return an unmanaged request with the view of its session in place of its history.

        A client that asks for a summary sends all it has, which may be more than the model's window holds.

        Returns:
            The body, without own tools; None if it continues no known session, or one without evictions.

        Raises:
            WaneError: as `turn` does.
        """
        preview = await self._preview(wire, body, owner)
        if preview is None:
            return None
        cached, _, view = preview
        return cached.placed(Equipped(body), view, preview=True) if view.evicted else None

    async def _preview(self, wire: Wire, body: Body, owner: str) -> tuple[CachedSession, Equipped, RequestView] | None:
        """Return the session in memory that a request continues, and the tools and the view it would get."""
        arrivals = _arrivals(wire, body)
        root = root_of_request(wire, arrivals, owner)
        for cached, alignment in self._finder_of(owner).alike(root, arrivals):
            if 0 < len(cached.session.entries) == alignment.common:
                equipped = self._equipped(wire, body, self._own(wire, body))
                session = copy.deepcopy(cached.session, {id(wire): wire})
                _, history = await _extended(session, equipped, arrivals, alignment, str(body.get("model", "")))
                return cached, equipped, session.fit(history, body)
        return None

    def status(self) -> Sequence[SessionStatus]:
        """Return all sessions in memory, members' included, the most recently used first."""
        statuses = []
        for finder in self._finders.values():
            for cached in finder.memory:
                status = cached.status()
                if status is not None:
                    statuses.append(status)
        return sorted(statuses, key=lambda status: status.last, reverse=True)

    async def sweep(self) -> None:
        """Drop idle stored sessions from memory, and the oldest ones of an owner who has more than a thousand."""
        now = datetime.now(UTC)
        for finder in list(self._finders.values()):
            memory = finder.memory
            sessions = [cached for cached in memory if not cached.turns]
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
        if not any(cached.turns for cached in self._finders[owner].memory):
            await self._empty(self._finders.pop(owner))

    async def _empty(self, finder: SessionFinder) -> None:
        await asyncio.gather(*self._syncing)
        for cached in finder.memory:
            await finder.forget(cached)

    def _finished(self, cached: CachedSession) -> None:
        """Sync a session's records in the background after a turn."""
        cached.last = datetime.now(UTC)
        task = asyncio.create_task(cached.sync())
        self._syncing.add(task)
        task.add_done_callback(self._syncing.discard)

    async def _note_begun(self, owner: str, session_id: str) -> None:
        if self.began is not None:
            await self.began(owner, session_id)

    # What goes upstream

    async def _take(
        self, finder: SessionFinder, cached: CachedSession, request: IncomingRequest, alignment: Alignment
    ) -> SessionTurn:
        body = request.body
        sender = request.sender
        arrivals = request.arrivals
        session = cached.session
        now = datetime.now(UTC)
        if sender not in (NOBODY, cached.sender):
            cached.sender = sender
            await finder.parentage.met(sender, cached.id)
        own = self._own(session.wire, body)
        equipped = self._equipped(session.wire, body, own)
        cold = False
        if alignment.common:  # a new session has no cache yet that could have expired
            cold = (now - cached.last).total_seconds() > (cached.caching.lifetime or lifetime_of(body))
        try:
            model = str(body.get("model", ""))
            records, history = await _extended(session, equipped, arrivals, alignment, model)
            view = session.fit(history, equipped.body, cold=cold, reminds=not sender.compacts)
        except BaseException:
            # The session in memory has only part of the request; the stored one is consistent.
            await finder.forget(cached)
            raise
        await cached.append([*records, *view.records])
        cached.last = now
        cached.requests += 1
        if not cached.title:
            cached.title = _title(arrivals)
        _note_facts(cached, view, model, finder.owner)
        return SessionTurn(finder.parentage, self._finished, cached, body, equipped, history, view, own)

    def _own(self, wire: Wire, body: Body) -> frozenset[str]:
        """Return the names of the own tools for a request; none if the client has a `delimiter` of its own."""
        client_tools = wire.tools(body)
        if DELIMITER in client_tools:
            return frozenset()
        return frozenset(tool.name for tool in self._tools) - client_tools

    def _equipped(self, wire: Wire, body: Body, own: frozenset[str]) -> Equipped:
        tools = [tool for tool in self._tools if tool.name in own]
        return wire.equip(body, tools, self._guidance.get(own, ""))


def _note_facts(cached: CachedSession, view: RequestView, model: str, owner: str) -> None:
    """Note the figures of a view, and log a warning when the budget begins to be too small for the work."""
    session = cached.session
    engine = session.engine
    report = view.report
    shortfall = session.shortfall(report)
    before = cached.facts
    cached.facts = facts = Facts(
        session=cached.id,
        api=session.wire.name,
        model=model,
        view=engine.tokens,
        budget=session.budget,
        owner=owner,
        parent=cached.parent,
        history=engine.tokens + view.evicted,
        evicted=view.evicted,
        evicted_now=0 if report is None else report.tokens_before - report.tokens_after,
        used=session.used,
        satisfied=not shortfall,
        room=session.room(model),
        thrashing=engine.thrashing,
        note=cached.warning or cached.remark or shortfall,
    )
    cached.remark = ""
    cached.views.append(ViewStatus(cached.last, facts.view, facts.evicted_now, facts.history))
    if before is None and session.chosen is not None:
        _LOGGER.info("session %s: %s", cached.id, session.chosen)
    thrashes = facts.thrashing is not None and (before is None or before.thrashing is None)
    tightens = facts.tight and (before is None or not before.tight)
    widens = facts.widened and (before is None or not before.widened)
    if thrashes or tightens:
        _LOGGER.warning("session %s: %s", cached.id, facts.advice)
    elif shortfall and (before is None or before.satisfied):
        _LOGGER.warning("session %s: the view is over its budget: %s", cached.id, shortfall)
    elif widens:
        _LOGGER.info("session %s: %s", cached.id, facts.advice)


def _title(arrivals: Sequence[Arrival]) -> str:
    """Return the first title that a message gives; empty if none does."""
    for arrival in arrivals:
        if title := title_of(arrival.message):
            return title
    return ""


def _arrivals(wire: Wire, body: Body) -> list[Arrival]:
    messages = wire.messages(body)
    if not messages:
        raise FormatError("the request has no messages")
    return [Arrival(wire, message) for message in messages]


async def _extended(
    session: Session, equipped: Equipped, arrivals: Sequence[Arrival], alignment: Alignment, model: str
) -> tuple[list[Record], FullHistory]:
    """Take in a request; return the records of it, and the whole history."""
    first = not session.entries
    records = [*session.setup(equipped, model), *session.amend(session.edits(arrivals, alignment))]
    entries: list[Entry] = []
    message_records: list[Record] = []
    for arrival in arrivals[len(session.entries) :]:
        entry, new_records = session.take(arrival)
        entries.append(entry)
        message_records += new_records
        if len(entries) % 200 == 0:
            await asyncio.sleep(0)  # let other requests run
    if entries:
        records.append(client_note(entries))
    if first and session.auto:
        message_records += session.choose_budget(model)
    return [*records, *message_records], session.full_history(arrivals)

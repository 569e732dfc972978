"""The index of all sessions: finds the session of a request, adds its new messages, and prepares the view to send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

from wane.conversation.context import ContextSettings
from wane.conversation.request import DELIMITER_TOOL, RECALL_ALONE, RECALL_TOOL, TASKS_TOOL, Tool
from wane.core import DELIMITER, RECALL
from wane.core.episodes import Choice
from wane.core.errors import SessionNotFoundError
from wane.core.guidance import guidance
from wane.journal import RecentRequests
from wane.proxy.sessions.finder import SessionFinder, SessionOptions
from wane.proxy.sessions.memory import CachedSession
from wane.proxy.sessions.session_figures import SessionStatus
from wane.proxy.store.stores import Store
from wane.proxy.wire.wire import Body, Equipped, Wire
from wane.strategies.registry import check_unaided, traits

IDLE: Final = 900.0
"""Seconds without a request after which a stored session leaves memory by default."""

_UNSYNCED: Final = 0.2  # seconds for which records may wait to be synced

_LOGGER: Final = logging.getLogger("wane.proxy")


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

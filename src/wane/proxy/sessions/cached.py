"""A session in memory: what is known of it, its log, and what is to be said of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from weakref import WeakSet

from wane.core.errors import JournalError
from wane.journal import Record
from wane.journal.titles import title_of
from wane.proxy.sessions.base import EpisodeStatus, Facts, SessionStatus
from wane.proxy.sessions.identity import Arrival
from wane.proxy.sessions.session import Session
from wane.proxy.store.base import Log, SessionLostError, StoreError
from wane.proxy.wire.base import Body, Mending, Message

_LOGGER: Final = logging.getLogger("wane.proxy")
_UNSTORED: Final = "the session could not be stored"
_MOST_WAITING: Final = 10_000  # records that wait for a store to come back


@dataclass(slots=True, eq=False)
class CachedSession:
    """A session in memory.

    Attributes:
        root: how it began, by which it is found.
        session: what is known of it.
        log: its records; None if another process has them for itself, so that it can only be read.
        id: its id.
        created: when it began.
        last: when its last request came, or its last reply went.
        title: beginning of the user's first words.
        facts: as of its last request.
        requests: how many came.
        turns: those of them that somebody still works on.
        strict: whether what cannot be stored is an error.
        warning: why it is not stored any more; empty as a rule.
        remark: what is to be said of it once.
        lost: whether the store has it no longer.
        mendings: what makes requests valid of which the provider has refused the like.
    """

    root: str
    session: Session
    log: Log | None
    id: str
    created: datetime
    last: datetime
    title: str = ""
    facts: Facts | None = None
    requests: int = 0
    turns: WeakSet[object] = field(default_factory=WeakSet)
    strict: bool = False
    warning: str = ""
    remark: str = ""
    lost: bool = False
    mendings: list[Mending] = field(default_factory=list)
    _waiting: list[Record] = field(default_factory=list)
    _given_up: bool = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Be the only one to go on with the session, up to date with what others did to it.

        A store that cannot be reached is no reason not to go on, unless it is to be strict: the session then lives
        in memory until the store is back.

        Raises:
            StoreError: if it is strict and the store fails.
            JournalError: if what others did does not fit.
            HistoryError: likewise.
        """
        assert self.log is not None
        try:
            hold = self.log.hold()
            news = await hold.__aenter__()
        except SessionLostError:
            self.lost = True
            yield
            return
        except StoreError as error:
            self._warn(error)
            yield
            return
        try:
            if news and self._waiting:
                raise JournalError(f"session {self.id}: another process went on with it while it could not be stored")
            self.session.follow(news)
            yield
        finally:
            await hold.__aexit__(None, None, None)

    async def append(self, records: Sequence[Record]) -> None:
        """Add records to the log; while it is held.

        Raises:
            StoreError: if it is strict and they cannot be stored.
        """
        if self._given_up:
            return
        self._waiting += records
        if not self._waiting or self.log is None:
            return
        try:
            await self.log.append(self._waiting)
        except StoreError as error:
            self._warn(error)
            if len(self._waiting) > _MOST_WAITING:
                self._given_up, self._waiting = True, []
            return
        self._waiting = []
        if self.warning.startswith(_UNSTORED):
            self.warning = ""

    def placed(self, body: Body, messages: Sequence[Message], *, ahead: bool = False) -> Body:
        """Return a client's body with these messages in place of its own, as far as is known one that is taken.

        Args:
            body: the client's body.
            messages: what it is to show.
            ahead: whether it is not to be sent, so that nothing follows from it for later requests.
        """
        wire = self.session.wire
        placed = wire.place(body, messages)
        for mending in self.mendings:
            placed = mending(placed, body)
        if (foreseen := wire.foreseen(placed, body)) is not None:
            self.mendings += [] if ahead else [foreseen]
            placed = foreseen(placed, body)
        return placed

    def told_once(self) -> str:
        """Return what is to be said of the session once; nothing the next time."""
        remark, self.remark = self.remark, ""
        return remark

    async def settle(self) -> None:
        """Have what was appended made safe from a crash of the machine."""
        if self.log is not None and not self._waiting:
            try:
                await self.log.settle()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    async def close(self) -> None:
        """Let go of the log."""
        if self.log is not None:
            try:
                await self.log.close()
            except StoreError as error:
                _LOGGER.warning("%s", error)

    def status(self) -> SessionStatus | None:
        """Return what the live page shows; None before its first request."""
        if self.facts is None:
            return None
        engine = self.session.engine
        window = engine.window if engine.evicts else None
        episodes = [] if window is None else window.episodes
        notices = {} if window is None else window.notices
        shown = tuple(
            EpisodeStatus(
                episode.name,
                episode.type.value,
                "active" if not episode.closed else episode.level.value if episode.rank else "closed",
                episode.tokens,
                notices.get(episode.number, 0),
            )
            for episode in episodes
            if episode.tokens
        )
        pinned = None if window is None else window.pinned
        started = 0 if window is None else window.started
        return SessionStatus(
            self.facts,
            self.title,
            self.created,
            self.last,
            self.requests,
            0 if pinned is None else pinned.system,
            0 if pinned is None else pinned.user,
            sum(notices.values()),
            shown,
            max(0, started - len(episodes)),
            self.session.used,
        )

    def _warn(self, error: StoreError) -> None:
        if self.strict:
            raise error
        if not self.warning:
            _LOGGER.warning("session %s goes on in memory: %s", self.id, error)
        self.warning = f"{_UNSTORED}: {error}"


def title(arrivals: Sequence[Arrival]) -> str:
    """Return the beginning of the user's first words, leaving out what agents put around them in tags."""
    return next((found for arrival in arrivals if (found := title_of(arrival.message))), "")

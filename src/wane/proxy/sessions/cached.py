"""A session in memory, with its log and its figures."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from weakref import WeakSet

from wane.core.errors import JournalError
from wane.journal import Record
from wane.journal.titles import title_of
from wane.proxy.sessions.base import EpisodeStatus, Facts, SessionStatus, ViewStatus
from wane.proxy.sessions.identity import Arrival
from wane.proxy.sessions.session import Session
from wane.proxy.store.base import Log, SessionChangedError, SessionLostError, StoreError
from wane.proxy.wire.base import Body, Correction, Message

_LOGGER: Final = logging.getLogger("wane.proxy")
_UNSTORED: Final = "the session could not be stored"
_MOST_VIEWS: Final = 240
_MOST_WAITING: Final = 10_000  # records kept until the store can be reached


@dataclass(slots=True, eq=False)
class CachedSession:
    """A session in memory.

    Attributes:
        root: the digest of its beginning, by which it is found.
        session: its state.
        log: its records; None if another process has them open, so that they can only be read.
        id: its id.
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
        views: views of its latest requests in this process.
        corrections: corrections without which the provider has refused requests.
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
    views: deque[ViewStatus] = field(default_factory=lambda: deque(maxlen=_MOST_VIEWS))
    corrections: list[Correction] = field(default_factory=list)
    _waiting: list[Record] = field(default_factory=list)
    _given_up: bool = False
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
                raise JournalError(f"session {self.id}: another process continued it while it could not be stored")
            if self._outdated:
                self.session, self._outdated = self.session.blank(), False
            self.session.follow(news)
            yield
        finally:
            await hold.__aexit__(None, None, None)

    async def append(self, records: Sequence[Record]) -> None:
        """Add records to the log. The session must be held.

        Raises:
            SessionChangedError: if another process has added to it since it was held. The session in memory is then
                outdated, and is read again at the next hold.
            StoreError: in strict mode, if they cannot be stored.
        """
        if self._given_up:
            return
        waiting = [*self._waiting, *records]
        if not waiting or self.log is None:
            return
        try:
            await self.log.append(waiting)
        except SessionChangedError:
            self.log.rewind()
            self._outdated = True
            raise
        except StoreError as error:
            self._waiting = waiting
            self._warn(error)
            if len(self._waiting) > _MOST_WAITING:
                self._given_up, self._waiting = True, []
            return
        self._waiting = []
        if self.warning.startswith(_UNSTORED):
            self.warning = ""

    def placed(self, body: Body, messages: Sequence[Message], *, ahead: bool = False) -> Body:
        """Return a client's body with these messages in place of its own, with all known corrections.

        Args:
            body: the client's body.
            messages: the messages of the view.
            ahead: whether this is only a preview, so that no correction is kept for later requests.
        """
        wire = self.session.wire
        placed = wire.place(body, messages)
        for correction in self.corrections:
            placed = correction(placed, body)
        if (expected := wire.correction_ahead(placed, body)) is not None:
            self.corrections += [] if ahead else [expected]
            placed = expected(placed, body)
        return placed

    def take_remark(self) -> str:
        """Return the remark, and clear it."""
        remark, self.remark = self.remark, ""
        return remark

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
            sum(notices.values()) + (0 if pinned is None else pinned.notices),
            shown,
            max(0, started - len(episodes)),
            self.session.used,
            self.session.ledger.money,
            tuple(self.views),
        )

    def _warn(self, error: StoreError) -> None:
        if self.strict:
            raise error
        if not self.warning:
            _LOGGER.warning("session %s continues in memory: %s", self.id, error)
        self.warning = f"{_UNSTORED}: {error}"


def title(arrivals: Sequence[Arrival]) -> str:
    """Return the beginning of the user's first message, without text that agents add in tags."""
    return next((found for arrival in arrivals if (found := title_of(arrival.message))), "")

"""One request of a client, with rounds until the model has something for the client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from wane.conversation.calls import Call, Verdicts
from wane.core.errors import HistoryError, JournalError
from wane.journal import Record
from wane.proxy.sessions.base import Facts
from wane.proxy.sessions.cached import CachedSession
from wane.proxy.sessions.history import WovenHistory
from wane.proxy.store.base import SessionChangedError
from wane.proxy.wire.base import MAX_ROUNDS, Body, Correction, Message, OwnCall, Round, Wire, WovenRound
from wane.recall import RECALL

MOST_RECALLS: Final = 4
"""Calls of `recall` answered in one reply, because a page may take a tenth of the budget."""

TOO_MANY: Final = (
    f"Error: `recall` was called {MOST_RECALLS} times in a row, as often as it can be. Work with what these brought: "
    "it answers again after your next call of a tool other than `delimiter`."
)
"""The result of any further call."""

_TRIES: Final = 10  # to add a reply to a session while other processes do so too
_LOGGER: Final = logging.getLogger("wane.proxy")


class SessionTurn:
    """One request of a session in memory; see `wane.proxy.sessions.base.Turn`.

    Args:
        finished: called once the client's reply is complete.
        cached: the session, which has taken in the request.
        wire: its protocol.
        equipped: the client's body with the proxy's own tools.
        plain: the client's body.
        history: the whole history, for recall.
        view: the messages that the request shows.
        own: names of the own tools.
        note: a reminder at the end of the first request upstream; usually None.

    Attributes:
        body: the first body to send upstream.
        own: see above.
        facts: figures of the view.
    """

    def __init__(
        self,
        finished: Callable[[CachedSession], Awaitable[None]],
        cached: CachedSession,
        wire: Wire,
        equipped: Body,
        plain: Body,
        history: WovenHistory,
        view: Sequence[Message],
        own: frozenset[str],
        note: str | None = None,
    ) -> None:
        assert cached.facts is not None
        self.own = own
        self.facts: Facts = cached.facts
        self._finished, self._cached, self._wire = finished, cached, wire
        self._equipped, self._plain, self._history, self._view = equipped, plain, history, view
        placed = cached.placed(equipped, view)
        self.body = placed if note is None else wire.noted(placed, note)
        self._rounds: list[Round] = []
        self._woven: list[WovenRound] = []
        self._verdicts = Verdicts()
        self._recalls = 0
        cached.turns.add(self)

    def refused(self, correction: Correction) -> None:
        """Apply a correction to all later requests."""
        self._cached.corrections.append(correction)

    async def answered(self, round_: Round) -> Body | None:
        """Take in a reply of the provider; return the next body, or None if the client's reply is complete."""
        self._rounds.append(round_)
        answers = self._answers(round_.own)
        self._woven.append(WovenRound(round_.message, self._wire.results(answers) if answers else ()))
        over = not round_.alone or len(self._rounds) >= MAX_ROUNDS
        await self._record(over=over)
        if over:
            return None
        extra = [message for woven in self._woven for message in (woven.message, *woven.results)]
        await self._make_room(extra)
        last = len(self._rounds) == MAX_ROUNDS - 1
        return self._cached.placed(self._plain if last else self._equipped, [*self._view, *extra])

    async def _make_room(self, extra: Sequence[Message]) -> None:
        """Run a pass if the rounds so far take the request over its budget."""
        cached = self._cached
        try:
            async with cached.held():
                session = cached.session
                if session.engine.item_count == self._history.items:
                    view = session.fit(self._history, self._equipped, more=extra)
                    await cached.append(view.records)
                    self._view = view.messages
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session: the view stays as it is.
            _LOGGER.warning("session %s: %s", self.facts.session, error)

    def _answers(self, calls: Sequence[OwnCall]) -> list[tuple[OwnCall, str]]:
        """The own calls of the latest round with their results, in order."""
        # Providers may use the same id in each round, so verdicts are found by arguments, in order.
        made: list[Call[Message]] = [Call(call.tool, call.arguments) for call in calls]
        engine, verdicts = self._cached.session.engine, self._verdicts
        verdicts.foresee(made, lambda marks: engine.judge(marks, recall=RECALL in self.own))
        return [
            (call, self._recalled(call) if call.tool == RECALL else verdicts.find(one))
            for call, one in zip(calls, made, strict=True)
        ]

    def _recalled(self, call: OwnCall) -> str:
        self._recalls += 1
        return TOO_MANY if self._recalls > MOST_RECALLS else self._cached.session.recall(call, self._history)

    async def _record(self, *, over: bool) -> None:
        try:
            for _ in range(_TRIES - 1):
                with suppress(SessionChangedError):
                    return await self._append(over=over)
            await self._append(over=over)
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session. The client still gets its reply.
            _LOGGER.warning("session %s: a reply was not recorded: %s", self.facts.session, error)
        finally:
            if over:
                await self._finished(self._cached)

    async def _append(self, *, over: bool) -> None:
        cached, usage = self._cached, self._rounds[-1].usage
        async with cached.held():
            session = cached.session
            records: list[Record] = []
            # The usage of this request does not apply once another request has added to the session.
            if usage is not None and session.engine.item_count == self._history.items:
                records += session.observe(usage, self.facts.model)
            if over:
                records += session.keep(self._rounds, self._woven)
            await cached.append(records)

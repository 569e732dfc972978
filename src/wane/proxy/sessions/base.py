"""The interface of the sessions to the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from wane.proxy.wire.base import Body, Correction, Wire
from wane.proxy.wire.rounds import NO_USAGE, Money, Round, TokenUsage


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures of a request's view, for headers, the log and metrics.

    Attributes:
        session: the session's id.
        api: name of the wire.
        model: the requested model.
        view: tokens of the view.
        budget: tokens that it may hold.
        history: tokens of the whole history, evicted or not.
        evicted: tokens that are not in the view.
        evicted_now: those of them that were evicted for this request.
        used: usage of all rounds of the session before this request, as the provider reported it.
        satisfied: whether the view is within the budget.
        note: a note for people, such as why the budget cannot be met, or that the session could not be stored. Usually
            empty.
    """

    session: str
    api: str
    model: str
    view: int
    budget: int
    history: int
    evicted: int
    evicted_now: int = 0
    used: TokenUsage = NO_USAGE
    satisfied: bool = True
    note: str = ""


class Turn(Protocol):
    """One request of a client, from the body sent upstream to the end of the reply.

    Attributes:
        body: the first body to send upstream.
        own: names of the proxy's own tools in it; empty if the strategy needs none.
        facts: figures of its view.
    """

    body: Body
    own: frozenset[str]
    facts: Facts

    def refused(self, correction: Correction) -> None:
        """Apply a correction to all later requests, since the provider has refused reasoning without it.

        Args:
            correction: the correction; the request was already sent again with it.
        """
        ...

    async def answered(self, round_: Round) -> Body | None:
        """Take in a reply of the provider.

        Returns:
            The next body to send upstream, if the model called only own tools; None if the client's reply is
            complete. It has been recorded then, so the server may close the client's reply.
        """
        ...


@dataclass(frozen=True, slots=True)
class EpisodeStatus:
    """An episode as the live page shows it.

    Attributes:
        name: its name; None for an implicit one.
        type: `expl` or `act`.
        state: `active`, `closed`, or the level to which it has been stripped.
        tokens: its tokens in the view.
        notices: how many of them are notices of the harness.
    """

    name: str | None
    type: str
    state: str
    tokens: int
    notices: int = 0


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """The view of a request, as the live page shows it over time.

    Attributes:
        at: when the request arrived, in UTC.
        view: tokens of the view.
        evicted: tokens that were evicted for it.
    """

    at: datetime
    view: int
    evicted: int


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as `/wane/status` shows it.

    Attributes:
        facts: figures of its last request.
        title: beginning of the user's first message.
        created: when its first request arrived, in UTC.
        last: when its last request arrived, in UTC.
        requests: number of requests.
        system: tokens of system messages, which are never evicted.
        user: tokens of the user's turns, which are never evicted.
        notices: tokens of notices in the view: those ahead of the first answer, and those of its episodes.
        episodes: the episodes with tokens in the view, in order of start.
        removed: number of episodes that were removed whole.
        used: usage of all its rounds, as the provider reported it.
        money: their cost; None if the price of one of them is unknown.
        views: its latest requests, oldest first.
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
    money: Money | None = None
    views: tuple[ViewStatus, ...] = ()


class Sessions(Protocol):
    """All sessions of a proxy."""

    async def turn(self, wire: Wire, body: Body, *, size: int = 0) -> Turn:
        """Find the session of a request, take in its new messages, and prepare the view.

        Args:
            wire: the request's protocol.
            body: the client's body, which can be managed.
            size: its size in bytes; a large body is processed outside the event loop.

        Raises:
            FormatError: if the body's messages violate the protocol.
            WaneError: if Wane cannot manage the request for any other reason.
        """
        ...

    async def peek(self, wire: Wire, body: Body) -> Body:
        """Return what `turn` would send upstream, to count its tokens; no session changes.

        A body that continues no known session is a fragment that the client wants counted by itself. It is returned
        unchanged.

        Raises:
            WaneError: as `turn` does.
        """
        ...

    async def shortened(self, wire: Wire, body: Body) -> Body | None:
        """Return an unmanaged request with the view of its session in place of its history.

        A client that asks for a summary sends all it has, which may be more than the model's window holds.

        Returns:
            The body, without own tools; None if it continues no known session, or one without evictions.

        Raises:
            WaneError: as `turn` does.
        """
        ...

    def status(self) -> Sequence[SessionStatus]:
        """Return the sessions in memory, the most recently used first."""
        ...

    async def sweep(self) -> None:
        """Drop idle sessions from memory. A later request finds them in the store again."""
        ...

    async def close(self) -> None:
        """Drop all sessions from memory."""
        ...

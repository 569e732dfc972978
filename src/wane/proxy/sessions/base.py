"""What the server asks of the sessions: the face of everything that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from wane.proxy.wire.base import NO_USAGE, Body, Mending, Round, TokenUsage, Wire


@dataclass(frozen=True, slots=True)
class Facts:
    """What a request's view is like; for headers, the log and metrics.

    Attributes:
        session: the session's id.
        api: name of the wire.
        model: the model that was asked for.
        view: tokens of the view.
        budget: tokens that it may hold.
        history: tokens of all that was said in the session so far, evicted or not.
        evicted: tokens that are not in the view.
        evicted_now: how many of them were evicted for this request.
        used: what all rounds of the session took before this request, as the provider reported it.
        satisfied: whether the view is within the budget.
        note: what a person should know, such as why the budget cannot be met or that a session could not be
            stored; empty as a rule.
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
    """One request of a client, from what goes upstream to the end of the reply.

    Attributes:
        body: what goes upstream first.
        own: names of the proxy's own tools in it; none if the strategy needs none.
        facts: what its view is like.
    """

    body: Body
    own: frozenset[str]
    facts: Facts

    def refused(self, mending: Mending) -> None:
        """The provider refused reasoning, and was asked again for what this makes of the request: later ones are, too.

        Args:
            mending: what makes requests of the session valid.
        """
        ...

    async def answered(self, round_: Round) -> Body | None:
        """Take in what the provider said.

        Returns:
            What to send upstream next, if only own calls were made; None if the client's reply is complete. It has
            been recorded by then, so the server may close the client's reply.
        """
        ...


@dataclass(frozen=True, slots=True)
class EpisodeStatus:
    """An episode as the live page shows it.

    Attributes:
        name: its name; None for an implicit one.
        type: `expl` or `act`.
        state: `active`, `closed`, or the level to which it has been stripped.
        tokens: what of it is in the view.
        notices: those of them that the harness put in.
    """

    name: str | None
    type: str
    state: str
    tokens: int
    notices: int = 0


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as `/wane/status` shows it.

    Attributes:
        facts: as of its last request.
        title: beginning of the user's first words.
        created: when its first request came, in UTC.
        last: when its last one came, in UTC.
        requests: how many came.
        system: tokens of the system's messages, which never go.
        user: tokens of the user's turns, which never go.
        notices: tokens of notices in the view, which belong to its episodes.
        episodes: the episodes of which something is in the view, in order of start.
        removed: how many episodes have gone as a whole.
        used: what all its rounds took, as the provider reported it.
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


class Sessions(Protocol):
    """All sessions of a proxy."""

    async def turn(self, wire: Wire, body: Body, *, size: int = 0) -> Turn:
        """Recognise the session of a request, take in what is new of it, and fit its view.

        Args:
            wire: the request's protocol.
            body: the client's body, one that can be managed.
            size: its bytes; a large one is worked on beside the event loop.

        Raises:
            FormatError: if the body's messages are not of the protocol.
            WaneError: for whatever else Wane cannot do; the server then fails open, or closed.
        """
        ...

    async def peek(self, wire: Wire, body: Body) -> Body:
        """Return what `turn` would send upstream, without taking anything in: for counting tokens.

        What goes on with no known session is a fragment that a client wants counted by itself, and returned as it is.

        Raises:
            WaneError: as `turn` does.
        """
        ...

    async def shortened(self, wire: Wire, body: Body) -> Body | None:
        """Return a request that is not managed, with the view of the session that it goes on with.

        Such as that of a client which asks for a summary of all it has: more than the model's window holds, perhaps.

        Returns:
            The body without own tools; None if it goes on with no known session, or one that nothing was evicted of.

        Raises:
            WaneError: as `turn` does.
        """
        ...

    def status(self) -> Sequence[SessionStatus]:
        """Return the sessions in memory, the last used first."""
        ...

    async def sweep(self) -> None:
        """Let sessions go that have been idle; what is stored of them is found again when a request comes."""
        ...

    async def close(self) -> None:
        """Let all sessions go."""
        ...

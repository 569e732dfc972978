"""What the replies of both OpenAI protocols share: taking in bytes, holding back, and breaking off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wane.proxy import jsons
from wane.proxy.wire import sse
from wane.proxy.wire.base import BrokenReplyError, Round, may_name


class StreamedReply(ABC):
    """A streamed reply; see `wane.proxy.wire.base.Reply`.

    Attributes:
        started: whether anything was given out.
    """

    def __init__(self) -> None:
        self.started = False
        self._splitter = sse.Splitter()
        self._held: list[bytes] = []  # what the client may have once there is something for it to see
        self._late = b""  # what came with the end of a round
        self._failure = ""  # why the reply is broken
        self._told = False  # whether the provider said so itself
        self._over = False
        self._unsplit = False
        self._lost = ""  # what is wrong with an event that was not understood
        self._obscured = False  # whether an event that was not understood may be of what the client does not see

    @property
    def hides(self) -> bool:
        """Whether there may be something of an own call in this round."""
        return self._obscured or self._may_hide(self._splitter.rest) or self._hides()

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the provider's stream, and return what the client gets now."""
        self._begin_round()
        out, self._late = self._late, b""
        if self._unsplit:
            return out + data
        try:
            events = self._splitter.feed(data)
        except BrokenReplyError as error:
            # From here on bytes are passed on as they are.
            self._failure, self._unsplit = str(error), True
            rest, self._splitter = self._splitter.rest, sse.Splitter()
            return out + self._show(rest)
        return out + b"".join(map(self._take, events))

    def end(self) -> Round:
        """The provider's stream of this round is over: return what it said.

        Raises:
            BrokenReplyError: if it stopped before its end, or with an error.
        """
        self._begin_round()
        event = self._splitter.end()
        if event is not None:
            # Something may follow it, which the last event of a stream need not reckon with.
            self._late += self._take(event._replace(raw=event.raw.rstrip(b"\r\n") + b"\n\n"))
        self._over = True
        if self._failure:
            raise BrokenReplyError(self._failure, told=self._told)
        return self._round()

    def rest(self) -> bytes:
        """Return what was held back, for a client whose reply breaks here."""
        begun = self._splitter.rest
        shown = b"" if self._may_hide(begun) else begun
        return self._late + b"".join(self._held) + self._closing_held() + shown

    def _begin_round(self) -> None:
        """Make ready for the next round, once the one before is over."""
        if self._over:
            self._over = False
            self._splitter = sse.Splitter()
            self._next_round()

    def _show(self, data: bytes) -> bytes:
        """Give out what the client sees, and ahead of it all that waited for that."""
        self.started = True
        if not self._held:
            return data
        data = b"".join(self._held) + data
        self._held.clear()
        return data

    def _pass(self, data: bytes) -> bytes:
        """Give out what the client sees nothing of, or hold it until there is something to see."""
        if self.started:
            return data
        self._held.append(data)
        return b""

    def _strange(self, event: sse.Event) -> bytes:
        """Take in an event that is no JSON object."""
        self._lost = self._lost or f"an event of the provider's stream is no JSON object: {event.data!r:.200}"
        return self._obscure() if self._may_hide(event.raw) else self._pass(event.raw)

    def _obscure(self) -> bytes:
        """Give out nothing of an event that may be of an own call, of which something was lost."""
        self._obscured = True
        self._failure = self._failure or self._lost
        return b""

    @abstractmethod
    def _hides(self) -> bool:
        """Whether something of an own call has come in this round, as far as that can be told."""

    @abstractmethod
    def _take(self, event: sse.Event) -> bytes:
        """Take in an event, and return what the client gets now."""

    @abstractmethod
    def _round(self) -> Round:
        """Return what the round said that is over; raise `BrokenReplyError` if it is not."""

    @abstractmethod
    def _next_round(self) -> None:
        """Make ready for the next round."""

    @abstractmethod
    def _may_hide(self, begun: bytes) -> bool:
        """Whether an event of which this has come may be of what the client does not see."""

    @abstractmethod
    def _closing_held(self) -> bytes:
        """Return what waits for `finish`, as far as a client should have it without."""


class WholeReply(ABC):
    """A reply in one piece; see `wane.proxy.wire.base.Reply`.

    Args:
        own: names of the proxy's own tools.

    Attributes:
        started: False, as nothing is given out before the end.
    """

    started = False

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._pieces: list[bytes] = []
        self._over = False

    @property
    def hides(self) -> bool:
        """Whether there may be something of an own call in this round."""
        return may_name(self.rest(), self._own)

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the provider's body; the client gets nothing yet."""
        self._begin_round()
        self._pieces.append(data)
        return b""

    def _begin_round(self) -> None:
        """Make ready for the next round, once the one before is over."""
        if self._over:
            self._over = False
            self._pieces.clear()

    def end(self) -> Round:
        """The provider's body of this round is over: return what it said.

        Raises:
            BrokenReplyError: if it is not of the protocol.
        """
        self._begin_round()
        self._over = True
        body = parsed(self.rest())
        if body is None:
            raise BrokenReplyError(f"the provider's reply is no JSON object: {self.rest()[:200]!r}")
        if body.get("error"):
            raise BrokenReplyError(f"the provider's reply is an error: {body['error']!r:.500}")
        return self._round(body)

    def rest(self) -> bytes:
        """Return the provider's body as it came."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def fail(self, status: int, body: bytes) -> bytes:  # noqa: ARG002 - nothing was given out, so the status can be told
        """Return the provider's error body."""
        return body

    @abstractmethod
    def _round(self, body: dict[str, Any]) -> Round:
        """Return what the round said; raise `BrokenReplyError` if it is not of the protocol."""


def parsed(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object in some bytes; None if there is none."""
    try:
        value = jsons.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

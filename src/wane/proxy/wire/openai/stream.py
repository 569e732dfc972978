"""The common parts of the replies of both OpenAI protocols: reading, holding back and breaking off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wane.proxy import jsons
from wane.proxy.wire import sse
from wane.proxy.wire.base import BrokenReplyError, Round, may_name


class StreamedReply(ABC):
    """A streamed reply; see `wane.proxy.wire.base.Reply`.

    Attributes:
        started: whether anything was sent to the client.
    """

    def __init__(self) -> None:
        self.started = False
        self._splitter = sse.Splitter()
        self._held: list[bytes] = []  # waits until there is something for the client to see
        self._late = b""  # output of the end of a round
        self._failure = ""  # why the reply is broken
        self._reported = False  # whether the provider reported an error itself
        self._over = False
        self._unsplit = False
        self._lost = ""  # what is wrong with an event that was not understood
        self._obscured = False  # whether an event that was not understood may be part of an own call

    @property
    def hides(self) -> bool:
        """Whether this round may have part of an own call."""
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
            # From here on, bytes are passed on unchanged.
            self._failure, self._unsplit = str(error), True
            rest, self._splitter = self._splitter.rest, sse.Splitter()
            return out + self._show(rest)
        return out + b"".join(map(self._take, events))

    def end(self) -> Round:
        """Return the round, at the end of the provider's stream.

        Raises:
            BrokenReplyError: if the stream stopped before its end, or with an error.
        """
        self._begin_round()
        event = self._splitter.end()
        if event is not None:
            # More rounds may follow, so the event needs the blank line that a stream's last event may lack.
            self._late += self._take(event._replace(raw=event.raw.rstrip(b"\r\n") + b"\n\n"))
        self._over = True
        if self._failure:
            raise BrokenReplyError(self._failure, reported=self._reported)
        return self._round()

    def rest(self) -> bytes:
        """Return the data that was held back, for a client whose reply breaks here."""
        begun = self._splitter.rest
        shown = b"" if self._may_hide(begun) else begun
        return self._late + b"".join(self._held) + self._closing_held() + shown

    def _begin_round(self) -> None:
        """Reset for the next round if the previous one is over."""
        if self._over:
            self._over = False
            self._splitter = sse.Splitter()
            self._next_round()

    def _show(self, data: bytes) -> bytes:
        """Return data that the client sees, after everything held back for it."""
        self.started = True
        if not self._held:
            return data
        data = b"".join(self._held) + data
        self._held.clear()
        return data

    def _pass(self, data: bytes) -> bytes:
        """Return data without visible content, or hold it until something visible follows."""
        if self.started:
            return data
        self._held.append(data)
        return b""

    def _strange(self, event: sse.Event) -> bytes:
        """Take in an event that is not a JSON object."""
        self._lost = self._lost or f"an event of the provider's stream is not a JSON object: {event.data!r:.200}"
        return self._obscure() if self._may_hide(event.raw) else self._pass(event.raw)

    def _obscure(self) -> bytes:
        """Hide an event that may be part of an own call, of which an earlier event was not understood."""
        self._obscured = True
        self._failure = self._failure or self._lost
        return b""

    @abstractmethod
    def _hides(self) -> bool:
        """Whether part of an own call was recognised in this round."""

    @abstractmethod
    def _take(self, event: sse.Event) -> bytes:
        """Take in an event, and return what the client gets now."""

    @abstractmethod
    def _round(self) -> Round:
        """Return the completed round; raise `BrokenReplyError` if it is incomplete."""

    @abstractmethod
    def _next_round(self) -> None:
        """Reset for the next round."""

    @abstractmethod
    def _may_hide(self, begun: bytes) -> bool:
        """Whether an event with this beginning may be part of an own call."""

    @abstractmethod
    def _closing_held(self) -> bytes:
        """Return the closing events that wait for `finish`, for a client whose reply breaks."""


class WholeReply(ABC):
    """A reply in one piece; see `wane.proxy.wire.base.Reply`.

    Args:
        own: names of the proxy's own tools.

    Attributes:
        started: False, because nothing is sent before the end.
    """

    started = False

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._pieces: list[bytes] = []
        self._over = False

    @property
    def hides(self) -> bool:
        """Whether this round may have part of an own call."""
        return may_name(self.rest(), self._own)

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the provider's body; the client gets nothing yet."""
        self._begin_round()
        self._pieces.append(data)
        return b""

    def _begin_round(self) -> None:
        """Reset for the next round if the previous one is over."""
        if self._over:
            self._over = False
            self._pieces.clear()

    def end(self) -> Round:
        """Return the round, at the end of the provider's body.

        Raises:
            BrokenReplyError: if the body violates the protocol.
        """
        self._begin_round()
        self._over = True
        body = parsed(self.rest())
        if body is None:
            raise BrokenReplyError(f"the provider's reply is not a JSON object: {self.rest()[:200]!r}")
        if body.get("error"):
            raise BrokenReplyError(f"the provider's reply is an error: {body['error']!r:.500}")
        return self._round(body)

    def rest(self) -> bytes:
        """Return the provider's body unchanged."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def fail(self, status: int, body: bytes) -> bytes:  # noqa: ARG002 - nothing was sent, so the status can still change
        """Return the provider's error body."""
        return body

    @abstractmethod
    def _round(self, body: dict[str, Any]) -> Round:
        """Return the round; raise `BrokenReplyError` if it violates the protocol."""


def parsed(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object in some bytes; None if there is none."""
    try:
        value = jsons.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

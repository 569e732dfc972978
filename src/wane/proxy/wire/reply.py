"""What the replies of all protocols share: streamed ones, split into server-sent events, and whole ones."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from wane.formats.answers import request_iteration
from wane.formats.fields import objects_in
from wane.prices import TokenUsage
from wane.proxy import jsons
from wane.proxy.wire.wire import BrokenReplyError, ClientReply, Round, Rounds

MAX_EVENT: Final = 64 * 1024 * 1024
"""Bytes that one event may have; the largest hold a picture."""

_LONGEST_ERROR: Final = 2_000  # characters of an error body that is not JSON
_DONE: Final = b"[DONE]"
_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# A blank line: the end of the line before it, and its own. The groups are atomic, because half of a `\r\n` is no line
# end. A final `\r` may be half of a `\r\n`, so the next byte is needed...
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?=[^\n]))")
# ...unless lines end with `\r` alone, because the next byte may take long; a `\n` is then part of the next event.
_EVENT_END_CR: Final = re.compile(rb"(?>\r\n|\n|\r)[\n\r]")
# Bytes of an incomplete event's end that may be in the buffer already.
_LOOK_BACK: Final = 3


class ServerSentEvent(NamedTuple):
    """One server-sent event. A tuple for speed, because streams have very many.

    Attributes:
        raw: its exact bytes, including the final blank line and comments before it.
        name: the value of its field `event`; empty for none.
        data: the values of its fields `data`, joined by line feeds; empty for a comment.
    """

    raw: bytes
    name: str
    data: bytes

    def with_data(self, value: dict[str, Any]) -> ServerSentEvent:
        """Return this event with other data."""
        data = jsons.dumps(value)
        return ServerSentEvent(encode(data, self.name), self.name, data)


def encode(data: bytes, name: str = "") -> bytes:
    """Return the bytes of an event.

    Args:
        data: its data, without line ends.
        name: its name; empty for none.
    """
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data) if name else b"data: %b\n\n" % data


class Splitter:
    r"""Splits a stream into events. Pieces may be cut anywhere, and lines may end with `\n`, `\r\n` or `\r`.

    The exact bytes of each event are kept, to pass on those that need no change: the `raw` bytes of all events plus the
    rest make up the stream.

    Args:
        limit: bytes that one event may have.
    """

    __slots__ = ("_buffer", "_end", "_first", "_limit", "_searched", "_settled")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._searched = 0  # where the search for the event's end continues
        self._end: re.Pattern[bytes] | None = None  # None while lines end with `\n` alone, or none has ended yet
        self._settled = False
        self._first = True
        self._limit = limit

    @property
    def unfinished(self) -> bytes:
        """The beginning of an incomplete event."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take in a piece of the stream and return the events that are complete now.

        Raises:
            BrokenReplyError: if an event is longer than the limit; `rest` still has all of it, including this piece.
        """
        buffer = self._buffer
        too_long = len(buffer) > self._limit
        buffer += data
        if too_long:
            raise BrokenReplyError(
                f"an event of the provider's stream has more than {self._limit:,} bytes; a reply with such an event"
                " cannot be managed"
            )
        if self._end is None and b"\r" in data:
            self._end = _EVENT_END
        if not self._settled and not self._settle():
            return []
        events = []
        start = 0
        while stop := self._find(max(self._searched, start)):
            events.append(self._event(bytes(buffer[start:stop])))
            start = self._searched = stop
        if start:
            del buffer[:start]
        self._searched = max(0, len(buffer) - _LOOK_BACK)
        return events

    def end(self) -> ServerSentEvent | None:
        """Return the rest of the stream as an event, because some servers omit the last blank line."""
        if not self._buffer:
            return None
        raw = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return self._event(raw)

    def _settle(self) -> bool:
        """Find out from the first line how lines end; return False if it is not complete yet."""
        end = _LINE_END.search(self._buffer, self._searched)
        if end is None or (end[0] == b"\r" and end.end() == len(self._buffer)):
            self._searched = max(0, len(self._buffer) - 1)
            return False
        self._settled = True
        self._searched = 0
        if end[0] == b"\r":
            self._end = _EVENT_END_CR
        return True

    def _find(self, start: int) -> int:
        """Return the end of the current event, searching from `start`; 0 if it is incomplete."""
        if self._end is None:
            index = self._buffer.find(b"\n\n", start)
            return index + 2 if index >= 0 else 0
        match = self._end.search(self._buffer, start)
        return match.end() if match else 0

    def _event(self, raw: bytes) -> ServerSentEvent:
        text = raw
        if self._first:
            self._first = False
            text = raw.removeprefix(_BOM)
        name, data = b"", None
        for line in text.split(b"\n") if b"\r" not in text else _LINE_END.split(text):
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                data = value if data is None else b"%b\n%b" % (data, value)
            elif line.startswith(b"event:"):
                name = line[7:] if line[6:7] == b" " else line[6:]
            elif line == b"data":
                data = b"" if data is None else data + b"\n"
            elif line == b"event":
                name = b""
        return ServerSentEvent(raw, name.decode("utf-8", "replace"), data or b"")


class StreamedReply(ClientReply):
    """A streamed reply.

    A protocol says what each event means (`_event`), what may not be shown, and what a whole round is. Closing events
    go into `_tail`, and wait there for `finish`.
    """

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._splitter = Splitter()
        self._tail: list[ServerSentEvent] = []  # the closing events
        self._done = False  # whether `[DONE]` was received
        self._waiting: list[bytes] = []  # waits until there is something for the client to see
        self._late = b""  # output of the end of a round
        self._failure = ""  # why the reply is broken
        self._reported = False  # whether the provider reported an error itself
        self._unsplit = False
        self._lost = ""  # what is wrong with an event that was not understood
        self._obscured = False  # whether an event that was not understood may be part of an own call

    @property
    def hides(self) -> bool:
        return self._obscured or self._may_hide(self._splitter.unfinished) or self._hides()

    def feed(self, data: bytes) -> bytes:
        self._begin_round()
        out, self._late = self._late, b""
        if self._unsplit:
            return out + data
        try:
            events = self._splitter.feed(data)
        except BrokenReplyError as error:
            # From here on, bytes are passed on unchanged.
            self._failure, self._unsplit = str(error), True
            unread, self._splitter = self._splitter.unfinished, Splitter()
            return out + self._show(unread)
        return out + b"".join(map(self._take, events))

    def end(self) -> Round:
        self._begin_round()
        sound = not (self._failure or self._lost)
        self._take_last()
        if self._failure:
            # What only the last event of a stream lacks is its end.
            raise BrokenReplyError(self._failure, reported=self._reported, cut=sound and not self._reported)
        round_ = self._round()
        self._over = True
        return round_

    def held_back(self) -> bytes:
        self._begin_round()  # the end of a round that was answered is not for the client
        begun = self._splitter.unfinished
        closing = b"".join(event.raw for event in self._tail)
        return self._late + b"".join(self._waiting) + closing + (b"" if self._may_hide(begun) else begun)

    def finish(self) -> bytes:
        return self._late + self._show(b"".join(self._closing()))

    def _next_round(self) -> None:
        self._splitter = Splitter()
        self._tail = []
        self._done = False

    def _take_last(self) -> None:
        """Take in a last event without the blank line after it, which some servers omit."""
        event = self._splitter.end()
        if event is not None:
            # More rounds may follow, so the event gets its blank line.
            self._late += self._take(event._replace(raw=event.raw.rstrip(b"\r\n") + b"\n\n"))

    def _take(self, event: ServerSentEvent) -> bytes:
        """Take in an event, and return what the client gets now."""
        if not event.data:
            return self._pass(event.raw)
        data = parse_object(event.data)
        if data is not None:
            return self._event(event, data)
        if event.data.strip() == _DONE:
            # The end of OpenAI's chat streams. Some gateways end others like them.
            self._done = True
            return self._close(event)
        self._lost = self._lost or f"an event of the provider's stream is not a JSON object: {event.data!r:.200}"
        return self._strange(event)

    def _show(self, data: bytes) -> bytes:
        """Return data that the client sees, after everything held back for it."""
        self.started = True
        if not self._waiting:
            return data
        data = b"".join(self._waiting) + data
        self._waiting.clear()
        return data

    def _pass(self, data: bytes) -> bytes:
        """Return data without visible content, or hold it until something visible follows."""
        if self.started:
            return data
        self._waiting.append(data)
        return b""

    def _close(self, event: ServerSentEvent) -> bytes:
        """Hold back a closing event."""
        self._tail.append(event)
        return b""

    def _broken(self, why: str) -> None:
        """Take in that the provider reports an error in its stream."""
        self._failure, self._reported = self._failure or why, True

    def _strange(self, event: ServerSentEvent) -> bytes:
        """Take in an event that is not a JSON object."""
        return self._obscure() if self._may_hide(event.raw) else self._pass(event.raw)

    def _obscure(self) -> bytes:
        """Hide an event that may belong to an own call with an earlier event that was not understood."""
        self._obscured = True
        self._failure = self._failure or self._lost
        return b""

    def _closing(self) -> Iterable[bytes]:
        """Return the closing events as the client gets them, after the last round."""
        return (event.raw for event in self._tail)

    @abstractmethod
    def _event(self, event: ServerSentEvent, data: dict[str, Any]) -> bytes:
        """Take in an event with its data, and return what the client gets now."""

    @abstractmethod
    def _hides(self) -> bool:
        """Whether part of an own call was recognised in this round."""

    @abstractmethod
    def _may_hide(self, begun: bytes) -> bool:
        """Whether an event with this beginning may be part of an own call."""

    @abstractmethod
    def _round(self) -> Round:
        """Return the completed round; raise `BrokenReplyError` if it is incomplete."""


class WholeReply(ClientReply):
    """A reply in one piece; nothing of it is sent before its end."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._pieces: list[bytes] = []

    @property
    def hides(self) -> bool:
        data = self.held_back()
        return data.lstrip().startswith(b"{") and any(b'"%b"' % name.encode() in data for name in self._own)

    def feed(self, data: bytes) -> bytes:
        self._begin_round()
        self._pieces.append(data)
        return b""

    def end(self) -> Round:
        self._begin_round()
        self._over = True
        body = self._read(self.held_back())
        if body is None:
            raise BrokenReplyError(f"the provider's reply is not a JSON object: {self.held_back()[:200]!r}")
        if body.get("error"):
            raise BrokenReplyError(f"the provider's reply is an error: {body['error']!r:.500}")
        return self._round(body)

    def held_back(self) -> bytes:
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def fail(self, status: int, body: bytes) -> bytes:  # noqa: ARG002 - nothing was sent, so the status can still change
        return body

    def _next_round(self) -> None:
        self._pieces.clear()

    def _read(self, data: bytes) -> dict[str, Any] | None:
        """Return the provider's body as an object; None if it is none."""
        return parse_object(data)

    @abstractmethod
    def _round(self, body: dict[str, Any]) -> Round:
        """Return the round; raise `BrokenReplyError` if it violates the protocol."""


def parse_object(data: bytes | str) -> dict[str, Any] | None:
    """Return a JSON object from its text; None if the text is anything else."""
    try:
        value = jsons.loads(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def error_in(status: int, body: bytes) -> dict[str, Any] | str:
    """Return the error object in a provider's error body, or its text if it has none."""
    error = (parse_object(body) or {}).get("error")
    if isinstance(error, dict):
        return error
    text = error if isinstance(error, str) else body.decode("utf-8", "replace")[:_LONGEST_ERROR]
    return text.strip() or f"the provider answered with HTTP {status}"


def count(usage: object, *path: str) -> int:
    """Return one count of a usage, in tokens; 0 if it is missing or not a count.

    Args:
        usage: the usage, as JSON data.
        path: the keys that lead to the count.
    """
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return max(0, usage) if isinstance(usage, int) and not isinstance(usage, bool) else 0


def joint(before: str, after: str) -> str:
    """Return the separator between the texts of two rounds: empty if there is white space already, or one is empty."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return ""
    return "\n\n"


def usage_of_iterations(usage: Mapping[str, Any], tier: str) -> TokenUsage | None:
    """Return the usage of all samplings, each with its model; None if the request took one, or it is not told.

    A compaction, an advisor and each pass of a loop over Anthropic's own tools have an entry in `iterations`. LiteLLM
    hands these on in OpenAI's usage, beside counts that add them all up.

    Args:
        usage: the usage, as JSON data.
        tier: how the request was served.
    """
    iterations = objects_in(usage.get("iterations"))
    if [iteration.get("type") for iteration in iterations] in ([], ["message"]):
        return None
    models = [str(iteration.get("model") or "") for iteration in iterations]
    counted = [replace(anthropic_counts(iteration), tier=tier) for iteration in iterations]
    first = replace(anthropic_counts(request_iteration(iterations)), tier=tier)
    return TokenUsage.total(list(zip(models, counted, strict=True)), first)


def anthropic_counts(usage: object) -> TokenUsage:
    """Return the tokens of a usage of Anthropic's, or of an iteration, whose `input_tokens` exclude cached ones."""
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    total, output = count(usage, "input_tokens") + read + write, count(usage, "output_tokens")
    hour = count(usage, "cache_creation", "ephemeral_1h_input_tokens")
    return TokenUsage(total, output, read, write, min(hour, write))

"""Splits a stream into server-sent events.

Providers stream their replies as `text/event-stream`. The proxy needs the data of each event, and also its exact bytes
to pass on events that need no change. The `raw` bytes of all events plus the rest make up the stream.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from wane.proxy.wire.base import BrokenReplyError

MAX_EVENT: Final = 64 * 1024 * 1024
"""Bytes that one event may have; the largest hold a picture."""

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# A blank line: the end of the line before it, and its own. The groups are atomic, because half of a `\r\n` is no line
# end. A final `\r` may be half of a `\r\n`, so the next byte is needed...
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?=[^\n]))")
# ...unless lines end with `\r` alone, because the next byte may take long; a `\n` is then part of the next event.
_EVENT_END_CR: Final = re.compile(rb"(?>\r\n|\n|\r)[\n\r]")
# Bytes of an incomplete event's end that may be in the buffer already.
_LOOK_BACK: Final = 3


class Event(NamedTuple):
    """One server-sent event. A tuple for speed, because streams have very many.

    Attributes:
        raw: its exact bytes, including the final blank line and comments before it.
        name: the value of its field `event`; empty for none.
        data: the values of its fields `data`, joined by line feeds; empty for a comment.
    """

    raw: bytes
    name: str
    data: bytes

    def with_data(self, data: bytes) -> bytes:
        """Return the bytes of this event with other data, which must have no line ends."""
        return encode(data, self.name)


def encode(data: bytes, name: str = "") -> bytes:
    """Return the bytes of an event.

    Args:
        data: its data, without line ends.
        name: its name; empty for none.
    """
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data) if name else b"data: %b\n\n" % data


class Splitter:
    r"""Splits a stream into events. Pieces may be cut anywhere, and lines may end with `\n`, `\r\n` or `\r`.

    Args:
        limit: bytes that one event may have.
    """

    __slots__ = ("_buffer", "_end", "_first", "_limit", "_seen", "_settled")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._seen = 0  # where the search for the event's end continues
        self._end: re.Pattern[bytes] | None = None  # None while lines end with `\n` alone, or none has ended yet
        self._settled = False
        self._first = True
        self._limit = limit

    @property
    def rest(self) -> bytes:
        """The beginning of an incomplete event."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[Event]:
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
        while stop := self._find(max(self._seen, start)):
            events.append(self._event(bytes(buffer[start:stop])))
            start = self._seen = stop
        if start:
            del buffer[:start]
        self._seen = max(0, len(buffer) - _LOOK_BACK)
        return events

    def end(self) -> Event | None:
        """Return the rest of the stream as an event, because some servers omit the last blank line."""
        if not self._buffer:
            return None
        raw = bytes(self._buffer)
        self._buffer.clear()
        self._seen = 0
        return self._event(raw)

    def _settle(self) -> bool:
        """Find out from the first line how lines end; return False if it is not complete yet."""
        end = _LINE_END.search(self._buffer, self._seen)
        if end is None or (end[0] == b"\r" and end.end() == len(self._buffer)):
            self._seen = max(0, len(self._buffer) - 1)
            return False
        self._settled = True
        self._seen = 0
        if end[0] == b"\r":
            self._end = _EVENT_END_CR
        return True

    def _find(self, start: int) -> int:
        """Return the end of the current event, searching from `start`; 0 if it is incomplete."""
        if self._end is None:
            place = self._buffer.find(b"\n\n", start)
            return place + 2 if place >= 0 else 0
        found = self._end.search(self._buffer, start)
        return found.end() if found else 0

    def _event(self, raw: bytes) -> Event:
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
        return Event(raw, name.decode("utf-8", "replace"), data or b"")

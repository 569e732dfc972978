"""Server-sent events, taken apart as they come, byte for byte.

Providers stream their replies as `text/event-stream`. A proxy wants both sides of an event: what it says, and the very
bytes it came in, to pass on what needs no change. The joined `raw` of all events, and what is left, is the stream.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from wane.proxy.wire.base import BrokenReplyError

MAX_EVENT: Final = 64 * 1024 * 1024
"""Bytes that one event may have: an item of a reply can hold a picture, nothing holds more."""

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# A blank line, by the end of the line before it and its own. The groups are atomic, as half of a `\r\n` is no line end.
# A `\r` that comes last may have its `\n` behind it, so it is waited for...
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?=[^\n]))")
# ...unless lines end with `\r` alone, when the next byte may be long in coming; a `\n` then leads the next event.
_EVENT_END_CR: Final = re.compile(rb"(?>\r\n|\n|\r)[\n\r]")
# How many bytes of an event's end may have been there without it being seen.
_LOOK_BACK: Final = 3


class Event(NamedTuple):
    """One server-sent event. A tuple, as streams bring very many.

    Attributes:
        raw: the bytes that it came in, the blank line that ends it and comments ahead of it included.
        name: the value of its `event` field; empty without one.
        data: the values of its `data` fields, joined by line feeds; empty for a mere comment.
    """

    raw: bytes
    name: str
    data: bytes

    def with_data(self, data: bytes) -> bytes:
        """Return the bytes of this event with other data, which holds no line ends."""
        return encode(data, self.name)


def encode(data: bytes, name: str = "") -> bytes:
    """Return the bytes of an event.

    Args:
        data: what it says, without line ends.
        name: its name; none if empty.
    """
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data) if name else b"data: %b\n\n" % data


class Splitter:
    r"""Splits a stream into its events. It may be cut anywhere, and its lines may end with `\n`, `\r\n` or `\r`.

    Args:
        limit: bytes that one event may have; it is noticed once more than that wait for its end.
    """

    __slots__ = ("_buffer", "_end", "_first", "_limit", "_seen", "_settled")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._seen = 0  # where the search for the event's end goes on
        self._end: re.Pattern[bytes] | None = None  # None while lines end with `\n` alone, or none has ended yet
        self._settled = False
        self._first = True
        self._limit = limit

    @property
    def rest(self) -> bytes:
        """What has come of an event that is not whole."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[Event]:
        """Take in a piece of the stream and return the events that are whole now.

        Raises:
            BrokenReplyError: if an event is longer than the limit; `rest` still has it all, this piece included.
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
        """Return what is left when the stream is over as an event, as some servers leave out the last blank line."""
        if not self._buffer:
            return None
        raw = bytes(self._buffer)
        self._buffer.clear()
        self._seen = 0
        return self._event(raw)

    def _settle(self) -> bool:
        """Tell by the first line how lines end; False if it has not come yet."""
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
        """Return where the event ends whose end is looked for from here; 0 if it has not come."""
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

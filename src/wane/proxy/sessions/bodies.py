"""Reads the bodies of clients, and takes over what a body shares with an earlier one instead of reading it again.

A client sends its whole history with every request, so nearly all of a body stands in the session's last one, byte for
byte. Only what is new is parsed then. Such a body is made of

    head     all up to the first message: `{"model":"m","messages":[`
    known    messages with the same bytes as in the earlier body
    rest     new messages, the end of the list, and the fields behind it

What is read must be what a parser makes of the whole body, whatever that is. It is, for these reasons:

- The parser found the messages of the earlier body. Each is an object, and no object of JSON is the beginning of
  another value. So equal bytes are the same message, and it ends where it ended there.
- In place of the known messages, the parser gets a word: `head "word", rest`. It reads the elements of a list one by
  one, so the body is valid if this is, and has the same value but for these elements.
- No client can know the word. Only if the value has it as the first element of the history, the known messages belong
  there: not in a nested field of that name, nor in one that a second field of that name replaces.

If anything else is found, the whole body is parsed. A body shares nothing with its earlier one from the first message
on that was changed, and it goes without if it begins in another way.

The known messages are the objects of the earlier body, so what was computed of them (`Arrival`) is known, too. The
latest bodies are kept, up to a number of bytes; a session whose body was dropped has its next one read whole.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, TypeAlias

from wane.core.errors import FormatError
from wane.journal.receipts import count_same
from wane.proxy import jsons
from wane.proxy.sessions.client_messages import Arrival
from wane.proxy.wire.wire import Body, Wire

LARGE: Final = 1024 * 1024
"""Bytes above which a body is processed in a thread, not in the event loop."""

_LIMIT: Final = 6 * 1024 * 1024  # bytes of bodies to keep, whose messages take three times that besides
_LEAST: Final = 4 * 1024  # bytes of a body that is worth it
_BEGINNING: Final = 1024  # bytes of a history by which bodies are found
_COMPARED: Final = 64  # bodies that begin alike, of which the latest are compared
_FARTHEST: Final = 1024 * 1024  # bytes ahead of the history
_LIST: Final = re.compile(rb"\s*:\s*\[\s*")
_BETWEEN: Final = re.compile(rb"\s*,\s*")
_DECODER: Final = json.JSONDecoder()

_Key: TypeAlias = tuple[str, str, bytes]
"""The field of a history, the owner, and the beginning of the history."""


@dataclass(slots=True, eq=False)
class ReadBody:
    """A body as it was read.

    Attributes:
        content: its JSON value, which need not be an object. Its history may share messages with those of others.
        raw: its bytes; empty if it is not kept.
        start: the number of bytes ahead of its history.
        entries: the entries of its history.
        stops: where each of them ends, in bytes from the start, as far as that is known.
        arrivals: the messages that were taken over, from the beginning; all once `take_messages` was called.
    """

    content: Any
    raw: bytes = b""
    start: int = 0
    entries: Sequence[Any] = ()
    stops: list[int] = field(default_factory=list)
    arrivals: Sequence[Arrival] = ()

    def take_messages(self, wire: Wire, body: Body) -> Sequence[Arrival]:
        """Return the messages of the body, as its protocol has completed it. The next body may take them over.

        Raises:
            FormatError: if there are none, or they violate the protocol.
        """
        messages = wire.messages(body)
        if not messages:
            raise FormatError("the request has no messages")
        arrivals = [*self.arrivals]
        if wire.groups and arrivals:
            number = len(arrivals) - 1
            if len(wire.entries(messages[number])) != len(wire.entries(arrivals[number].message)):
                del arrivals[number]  # new entries continue the last known message
        arrivals += [Arrival(wire, message) for message in messages[len(arrivals) :]]
        self.arrivals = arrivals
        return arrivals

    def count_shared(self, raw: bytes, start: int) -> int:
        """Return with how many entries of this body another one begins, whose history starts at some byte."""
        same = count_same(self.raw, self.start, raw, start)
        return bisect_right(self.stops, same)

    def read_next(self, raw: bytes, start: int, count: int, wire: Wire, word: str) -> ReadBody | None:
        """Read a body that begins with `count` entries of this one; None if all of it must be parsed.

        Args:
            raw: its bytes.
            start: where its history starts.
            count: the shared entries.
            wire: its protocol.
            word: a word that no client can know.
        """
        stop = start + self.stops[count - 1]
        if raw[stop : stop + 1] not in (b",", b"]"):
            return None
        try:
            content = jsons.loads(b'%b"%b"%b' % (raw[:start], word.encode(), raw[stop:]))
        except ValueError:
            return None
        history = _history_in(content, wire)
        if not history or history[0] != word:
            return None
        entries = [*self.entries[:count], *history[1:]]
        content[wire.history] = entries
        last = count
        if wire.groups:
            ends = accumulate(len(wire.entries(arrival.message)) for arrival in self.arrivals)
            last = sum(end <= count for end in ends)
        arrivals = self.arrivals[:last]
        body = ReadBody(content, raw, start, entries, self.stops[:count], arrivals)
        body.stops += _stops(raw, start, body.stops[-1], history[1:])
        return body


class BodyReader:
    """Reads bodies, and keeps the latest ones. It belongs to one event loop.

    Args:
        limit: bytes of bodies to keep.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._word = secrets.token_hex(16)
        self._bodies: OrderedDict[_Key, list[ReadBody]] = OrderedDict()  # the latest last

    async def read(self, raw: bytes, wire: Wire, owner: str = "") -> ReadBody:
        """Read a body; one that is large and shares nothing with others is parsed in a thread.

        Args:
            raw: its bytes.
            wire: its protocol.
            owner: the member of a team who sent it. Bodies of others are not compared with it.

        Raises:
            ValueError: if it is not a JSON object; its message says why.
        """
        name = b'"%b"' % wire.history.encode()
        at = raw.find(name, 0, _FARTHEST)
        opening = _LIST.match(raw, at + len(name)) if at >= 0 else None
        start = -1
        if opening is not None and _LEAST <= len(raw) <= self._limit // 2:
            start = opening.end()
        key = (wire.history, owner, raw[start : start + _BEGINNING])
        source: ReadBody | None = None
        body: ReadBody | None = None
        count = 0
        if start >= 0:
            for earlier in self._bodies.get(key, ())[-_COMPARED:]:
                if (shared := earlier.count_shared(raw, start)) > count:
                    source, count = earlier, shared
        if source is not None:
            body = source.read_next(raw, start, count, wire, self._word)
        if body is None:
            source = None
            try:
                large = len(raw) > LARGE
                body = await asyncio.to_thread(_parse, raw, wire, start) if large else _parse(raw, wire, start)
            except ValueError:
                raise ValueError("the body is not JSON") from None
            if not isinstance(body.content, dict):
                raise ValueError("the body is not a JSON object")
        elif source is not None and 2 * count < len(source.stops):
            source = None  # another session that begins alike
        if not body.stops:
            return body
        bodies = self._bodies.setdefault(key, [])
        self._bodies.move_to_end(key)
        if source is not None and source in bodies:
            bodies.remove(source)  # it will hardly be continued again
            self._size -= len(source.raw)
        bodies.append(body)
        self._size += len(raw)
        while self._size > self._limit:
            oldest, earlier_bodies = next(iter(self._bodies.items()))
            self._size -= len(earlier_bodies.pop(0).raw)
            if not earlier_bodies:
                del self._bodies[oldest]
        return body


def _parse(raw: bytes, wire: Wire, start: int) -> ReadBody:
    """Parse a whole body; without a start of its history, which is -1 then, nothing of it will be taken over."""
    content = jsons.loads(raw)
    if start < 0:
        return ReadBody(content)
    entries = _history_in(content, wire)
    return ReadBody(content, raw, start, entries, [*_stops(raw, start, 0, entries)])


def _history_in(content: Any, wire: Wire) -> list[Any]:
    entries = content.get(wire.history) if isinstance(content, dict) else None
    return entries if isinstance(entries, list) else []


def _stops(raw: bytes, start: int, stop: int, entries: Sequence[Any]) -> Iterator[int]:
    """Yield where entries of a history end, in bytes from its start, up to the first that cannot be told.

    Args:
        raw: the body.
        start: where its history begins.
        stop: where the entry ahead of the first one ends, from the start; 0 for none.
        entries: the entries.
    """
    at = start + stop
    text = ""
    for entry in entries:
        if not isinstance(entry, dict):
            return
        data = jsons.dumps(entry)
        begin = at + 1 if at > start else at  # behind a comma
        if raw.startswith(data, begin):
            at = begin + len(data)
        else:
            # The client writes JSON in another way: with spaces, or more escapes.
            text = text or raw.decode("latin-1")  # a character for each byte
            match = _BETWEEN.match(raw, at) if at > start else None
            begin = match.end() if match is not None else at
            try:
                _, at = _DECODER.raw_decode(text, begin)
                if jsons.dumps(jsons.loads(raw[begin:at])) != data:
                    return
            except (ValueError, RecursionError):
                return
        yield at - start

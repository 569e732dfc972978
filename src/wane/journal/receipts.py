"""Receipts: the requests that a session sent, byte for byte, each with a digest, and the digests in a chain.

A request is kept as pieces: its long strings, and the text between them. Most are also in the request before it, or are
strings of messages that the journal holds anyway, so a record names those, and holds only what is new.
"""

from __future__ import annotations

import json
import re
import secrets
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import accumulate
from json.encoder import encode_basestring
from types import NoneType
from typing import Any, Final, Literal

from wane.core.errors import JournalError
from wane.journal.codec import field_names
from wane.journal.records import (
    Layer,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PersonsRecord,
    Record,
    ReminderRecord,
    RequestRecord,
    StateRecord,
    StrategyRecord,
)

_LEAST: Final = 64  # characters of a string that is a piece of its own
# All up to the beginning of a string, past short ones without escapes, which most are.
_OPENING: Final = re.compile(rb'(?:[^"]*+"[^"\\]{0,63}+")*+[^"]*+"')
_WITHOUT_STRINGS: Final = frozenset({int, float, bool, NoneType})
_WITH_STRINGS: Final = (
    MessageRecord,
    NoteRecord,
    PassRecord,
    PersonsRecord,
    ReminderRecord,
    StateRecord,
    StrategyRecord,
)

_BACKSLASH: Final = ord("\\")
_STEP: Final = 4 * 1024  # bytes to compare at first
_RECENT: Final = 8 * 1024 * 1024  # bytes of recent requests to keep

State = Literal["identical", "not kept", "deleted", "wrong"]
"""What becomes of a request when it is rebuilt: it has the digest of what was sent; its content was not kept, or was
deleted; or it is not what was sent."""


class RecentRequests:
    """The latest requests of several journals, each by its link, up to a number of bytes.

    A request is compared with the one before: by bytes if that is here, which is faster than by the digests of pieces.
    """

    def __init__(self, limit: int = _RECENT) -> None:
        self._limit = limit
        self._size = 0
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def take(self, link: str) -> bytes:
        """Return a request, which is not kept any longer; empty if it is not here."""
        body = self._bodies.pop(link, b"")
        self._size -= len(body)
        return body

    def keep(self, link: str, body: bytes) -> None:
        """Keep a request, and drop the oldest ones beyond the limit."""
        self._bodies[link] = body
        self._size += len(body)
        while self._size > self._limit:
            _, oldest = self._bodies.popitem(last=False)
            self._size -= len(oldest)


class Receipts:
    """Makes the records of a journal's requests, and rebuilds them. It must see all records, in order (`follow`).

    It takes some 200 bytes for each piece, and the pieces themselves if it is to rebuild.

    Args:
        rebuilds: whether it is to rebuild requests.
        recent: keeps the latest request of this journal and of others; None to keep none.
    """

    def __init__(self, *, rebuilds: bool = False, recent: RecentRequests | None = None) -> None:
        self.recent = recent
        # Pieces are numbered in the order in which the journal first has them.
        self._numbers: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._sizes = array("L")
        self._contents: list[bytes] | None = [] if rebuilds else None
        self._base = array("L")  # pieces of the latest request whose content was kept
        self._link = ""  # of that request
        self._chain = ""

    def follow(self, records: Iterable[Record]) -> None:
        """Take in records that the journal has, or will have next.

        Raises:
            JournalError: if a request names pieces that are not there.
        """
        for record in records:
            if isinstance(record, RequestRecord):
                self._chain = record.chain
                if record.pieces is not None:
                    self._base = self._read(record.pieces)
                    self._link = record.chain
            elif isinstance(record, _WITH_STRINGS):
                for string in _strings(record, []):
                    self._number(string)

    def of(self, body: bytes, url: str, *, layer: Layer = "http", keep: bool = True) -> RequestRecord:
        """Return the record of a request that is about to be sent, with the exact bytes of its body.

        `follow` has to see it too. Content that is not UTF-8 is not kept, only its digest; nor is any unless `keep`.
        """
        salt = secrets.token_hex(16)
        digest = digest_of(body, salt)
        pieces = None
        if keep:
            with suppress(UnicodeDecodeError):
                pieces = self._pieces(body)
        link = chain_digests(self._chain, digest)
        if self.recent is not None and pieces is not None:
            self.recent.keep(link, body)
        return RequestRecord(url, layer, len(body), digest, salt, link, pieces)

    def rebuilt(self) -> bytes:
        """Return the latest request whose content was kept."""
        assert self._contents is not None
        return b"".join(map(self._contents.__getitem__, self._base))

    def _number(self, content: bytes) -> int:
        key = _key(content)
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
            self._sizes.append(len(content))
            if self._contents is not None:
                self._contents.append(content)
        return number

    def _read(self, pieces: Sequence[Any]) -> array[int]:
        base = array("L")
        for piece in pieces:
            match piece:
                case int() if 0 <= piece < len(self._keys):
                    base.append(piece)
                case [int(first), int(stop)] if 0 <= first < stop <= len(self._base):
                    base.extend(self._base[first:stop])
                case str() | [str()]:
                    base.append(self._number(_content(piece)))
                case _:
                    raise JournalError(f"a request names a piece that the journal does not have: {piece!r:.80}")
        return base

    def _pieces(self, body: bytes) -> tuple[Any, ...]:
        base, sizes = self._base, self._sizes
        before = b"" if self.recent is None else self.recent.take(self._link)
        # How many pieces of the request before this one begins with, and how many bytes; which it ends with, and where.
        first, start = 0, 0
        last, stop = len(base), len(body)
        if before:
            ends = [0, *accumulate(map(sizes.__getitem__, base))]
            length = len(before)
            first = bisect_right(ends, count_same(before, 0, body, 0)) - 1
            start = ends[first]
            last = bisect_left(ends, length - count_same_at_end(before, body, min(length, stop) - start))
            stop -= length - ends[last]
        else:
            while first < len(base) and self._is(base[first], body[start : start + sizes[base[first]]]):
                start += sizes[base[first]]
                first += 1
            while last > first and (size := sizes[base[last - 1]]) <= stop - start:
                if not self._is(base[last - 1], body[stop - size : stop]):
                    break
                stop -= size
                last -= 1
        ahead = [[0, first]] if first else []
        behind = [[last, len(base)]] if last < len(base) else []
        return (*ahead, *self._between(body[start:stop], first, last), *behind)

    def _is(self, number: int, content: bytes) -> bool:
        return self._keys[number] == _key(content)

    def _between(self, data: bytes, first: int, last: int) -> Iterator[Any]:
        """The pieces of the part of a request that neither begins nor ends like the request before.

        Args:
            data: the part.
            first: the first piece of that request that this one does not begin with.
            last: the first of those that this one ends with.
        """
        base, fresh = self._base, dict[bytes, int]()
        positions: dict[int, int] = {}
        for position, number in enumerate(base[first:last], first):
            positions[number] = -1 if number in positions else position
        run = [0, 0]
        for content in _split(data):
            key = _key(content)
            known = self._numbers.get(key, fresh.get(key))
            if known is not None and run[0] < run[1] < len(base) and base[run[1]] == known:
                run[1] += 1
                continue
            if run[0] < run[1]:
                yield run
            position = positions.get(-1 if known is None else known, -1)
            run = [position, position + 1] if position >= 0 else [0, 0]
            if known is None:
                fresh[key] = len(self._keys) + len(fresh)
                yield _write_piece(content)
            elif position < 0:
                yield known
        if run[0] < run[1]:
            yield run


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it is rebuilt from a journal.

    Attributes:
        number: its number in the session, from 1.
        line: the line of its record in the journal, whose header is line 1.
        body: its bytes, without what was deleted. None if they are not in the journal.
        problem: what is wrong; empty unless the state is `wrong`.
    """

    number: int
    line: int
    record: RequestRecord
    state: State
    body: bytes | None = None
    problem: str = ""


def sent_requests(records: Iterable[Record]) -> Iterator[SentRequest]:
    """Rebuild the requests of a session from all its records, and compare each with its digest."""
    receipts, chain, number = Receipts(rebuilds=True), "", 0
    for line, record in enumerate(records, start=2):
        problem = ""
        try:
            receipts.follow([record])
        except JournalError as error:
            problem = str(error)
        if not isinstance(record, RequestRecord):
            continue
        number += 1
        body = None if problem or record.pieces is None else receipts.rebuilt()
        state: State = "not kept" if body is None else "identical"
        if record.deleted is not None:
            state = "deleted"
        elif body is not None and digest_of(body, record.salt) != record.digest:
            problem = "what is rebuilt does not have the digest of what was sent"
        if record.chain != chain_digests(chain, record.digest):
            problem = "the chain of digests is broken here: a request before it, or its digest, was changed or removed"
        chain = record.chain
        yield SentRequest(number, line, record, "wrong" if problem else state, body, problem)


def digest_of(body: bytes, salt: str) -> str:
    """Return the digest of a request: the SHA-256, in hex, of the salt's text followed by the body."""
    digest = sha256(salt.encode("utf-8", "surrogatepass"))
    digest.update(body)
    return digest.hexdigest()


def chain_digests(before: str, digest: str) -> str:
    """Return the link of a request: the SHA-256, in hex, of the text of the link before it and of its digest."""
    return sha256(f"{before}{digest}".encode("utf-8", "surrogatepass")).hexdigest()


def count_same(first: bytes, start: int, second: bytes, second_start: int) -> int:
    """Return how many bytes two texts share, each from a position of its own."""
    view = memoryview(first)[start:]  # compared without a copy
    return _count_same(
        lambda same, stop: second.startswith(view[same:stop], second_start + same),
        min(len(view), len(second) - second_start),
    )


def count_same_at_end(first: bytes, second: bytes, most: int) -> int:
    """Return how many bytes two texts share at their ends, up to a number."""
    view, length = memoryview(first), len(first)
    return _count_same(
        lambda same, stop: second.endswith(view[length - stop : length - same], 0, len(second) - same), most
    )


def _count_same(is_same: Callable[[int, int], bool], most: int) -> int:
    """Return how many bytes are the same, up to a number, by what says it of those from one on, up to another."""
    same, step = 0, _STEP
    while same < most:
        stop = min(same + step, most)
        if not is_same(same, stop):
            while stop - same > 1:
                middle = (same + stop) // 2
                if is_same(same, middle):
                    same = middle
                else:
                    stop = middle
            return same
        same, step = stop, 4 * step
    return same


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the long strings of JSON, as they are written, and what stands between them."""
    at = stop = 0
    while opening := _OPENING.match(data, stop):
        start = opening.end() - 1
        stop = _end_of_string(data, start)
        if not stop:
            break
        if stop - start >= _LEAST + 2:
            if at < start:
                yield data[at:start]
            yield data[start:stop]
            at = stop
    if at < len(data):
        yield data[at:]


def _end_of_string(data: bytes, start: int) -> int:
    """Return where the string ends that begins at a byte; 0 if it does not."""
    quote = start
    while (quote := data.find(b'"', quote + 1)) >= 0:
        last = quote
        while data[last - 1] == _BACKSLASH and last - 1 > start:
            last -= 1
        if (quote - last) % 2 == 0:
            return quote + 1
    return 0


def _strings(value: Any, found: list[bytes]) -> list[bytes]:
    """Append the long strings in a record or JSON data to a list, as most writers of JSON write them; return the list.

    They come in the order in which the record's line has them.
    """
    entries: Iterable[Any] = ()
    kind: Any = type(value)
    if isinstance(value, Mapping):
        entries = value.values()
    elif isinstance(value, list | tuple):
        entries = value
    elif (names := field_names(kind)) is not None:
        entries = [getattr(value, name) for name in names]
    for entry in entries:
        kind = type(entry)
        if kind is str:
            if len(entry) >= _LEAST:  # few are
                found.append(_content([entry]))
        elif kind not in _WITHOUT_STRINGS:
            _strings(entry, found)
    return found


def _write_piece(content: bytes) -> Any:
    """A new piece as a record has it: a string by its value if that gives the same bytes, else the text."""
    if content[:1] == b'"':
        with suppress(ValueError):
            plain = b"\\" not in content  # what is invalid nevertheless does not give the same bytes
            string = content[1:-1].decode("utf-8", "surrogatepass") if plain else json.loads(content)
            if isinstance(string, str) and _content([string]) == content:
                return [string]
    return content.decode()


def _content(piece: Any) -> bytes:
    text: str = encode_basestring(piece[0]) if isinstance(piece, list) else piece
    return text.encode("utf-8", "surrogatepass")


def _key(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()

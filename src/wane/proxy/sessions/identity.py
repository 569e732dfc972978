"""Identifies messages: by a digest of the exact content, and by a shape that survives a client's edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from typing import Final

from wane.core import Kind
from wane.formats.base import Part, is_answer
from wane.proxy import jsons
from wane.proxy.wire.base import Message, Wire

ASSISTANT: Final = b"a"
RESULTS: Final = b"r"
OTHER: Final = b"o"

_TURNS: Final = (Kind.USER, Kind.NOTICE)
_ROOT_LENGTH: Final = 24


class Arrival:
    """A message of a request, which may be new or known.

    Args:
        wire: the request's protocol.
        message: the message as the client sent it.

    Attributes:
        message: see above.
        digest: digest of its exact content, without `cache_control`.
    """

    __slots__ = ("__dict__", "_wire", "digest", "message")

    def __init__(self, wire: Wire, message: Message) -> None:
        self._wire = wire
        self.message = message
        self.digest = blake2b(jsons.canonical(wire.canonical(message)), digest_size=16).digest()

    @cached_property
    def parts(self) -> list[Part]:
        """The message's parts."""
        return self._wire.format.parts(self.message)

    @cached_property
    def shape(self) -> bytes:
        """See `shape_of`."""
        return shape_of(self.parts)


def shape_of(parts: Sequence[Part]) -> bytes:
    """Return a digest that stays the same if a client drops or edits some of a message's content.

    For an assistant's message it covers the ids of its calls or, without calls, its text except spaces; for a message
    with results, the ids of the calls that they answer; for all others, only the kind of the first part.
    """
    if is_answer(parts):
        ids = [part.call_id or "" for part in parts if part.kind is Kind.CALL]
        text = " ".join(word for part in parts if part.kind is Kind.TEXT for word in part.text.split())
        return ASSISTANT + (_hash(map(_bytes, ["calls", *ids]), 8) if ids else _hash([b"text", _bytes(text)], 8))
    if ids := sorted(part.call_id or "" for part in parts if part.kind is Kind.RESULT):
        return RESULTS + _hash(map(_bytes, ids), 8)
    return OTHER + _hash((_bytes(part.kind) for part in parts[:1]), 8)


def root_of(wire: Wire, arrivals: Sequence[Arrival]) -> str:
    """Return the root by which a session is found: 24 hexadecimal digits for the user's first turn."""
    # After a compaction a session may begin with notices only. It stays the same session once the user speaks.
    opening = list(takewhile(lambda arrival: arrival.shape[:1] != ASSISTANT, arrivals))
    holding = (arrival for kind in _TURNS for arrival in opening if any(part.kind is kind for part in arrival.parts))
    first = next(holding, arrivals[0])
    return _hash([_bytes(wire.name), first.digest], _ROOT_LENGTH // 2).hex()


def _hash(chunks: Iterable[bytes], size: int) -> bytes:
    digest = blake2b(digest_size=size)
    for chunk in chunks:
        digest.update(b"%d:" % len(chunk))
        digest.update(chunk)
    return digest.digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

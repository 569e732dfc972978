"""What tells one message from another: its content to the letter, and what stays of it when a client edits it."""

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
    """A message of a request, before it is known whether it is new.

    Args:
        wire: the request's protocol.
        message: the message as the client sent it.

    Attributes:
        message: see above.
        digest: stands for its content, to the letter but for `cache_control`.
    """

    __slots__ = ("__dict__", "_wire", "digest", "message")

    def __init__(self, wire: Wire, message: Message) -> None:
        self._wire = wire
        self.message = message
        self.digest = blake2b(jsons.canonical(wire.canonical(message)), digest_size=16).digest()

    @cached_property
    def parts(self) -> list[Part]:
        """The message taken apart."""
        return self._wire.format.parts(self.message)

    @cached_property
    def shape(self) -> bytes:
        """See `shape_of`."""
        return shape_of(self.parts)


def shape_of(parts: Sequence[Part]) -> bytes:
    """Return what stays of a message when its client drops or edits some of its content.

    An assistant's message is known by the ids of its calls or, without any, by its text, spaces aside; a message
    with results by the ids of the calls that they answer. Of users' and system messages nothing is fixed.
    """
    if is_answer(parts):
        ids = [part.call_id or "" for part in parts if part.kind is Kind.CALL]
        text = " ".join(word for part in parts if part.kind is Kind.TEXT for word in part.text.split())
        return ASSISTANT + (_hash(map(_bytes, ["calls", *ids]), 8) if ids else _hash([b"text", _bytes(text)], 8))
    if ids := sorted(part.call_id or "" for part in parts if part.kind is Kind.RESULT):
        return RESULTS + _hash(map(_bytes, ids), 8)
    return OTHER + _hash((_bytes(part.kind) for part in parts[:1]), 8)


def root_of(wire: Wire, arrivals: Sequence[Arrival]) -> str:
    """Return how a session began, by which it is found: 24 hexadecimal digits for its first turn of the user."""
    # After a compaction a session may begin with notices alone, and must not be another one once a person speaks.
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

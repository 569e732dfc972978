"""How a session is recognised among many: by keys of its messages in the store, and by pairs of messages in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Final, Generic, Protocol, TypeVar

from wane.proxy.store.marks import Sought

ASSISTANT: Final = b"a"
"""First byte of the shape of an assistant's message."""

_SIZE: Final = 8


class Recognisable(Protocol):
    """A message by which a session is recognised."""

    @property
    def digest(self) -> bytes:
        """Digest of its exact content."""
        ...

    @property
    def shape(self) -> bytes:
        """Digest that survives edits."""
        ...


class Chain:
    """The keys of a growing history, in order: the key of a message covers the shapes of all up to it.

    Args:
        root: hexadecimal digits of the root, which all keys cover.

    Attributes:
        fresh: keys of answers that nobody has taken yet.
    """

    def __init__(self, root: str) -> None:
        self.fresh: list[str] = []
        self._start = self._tail = bytes.fromhex(root)[:_SIZE]
        self._after: list[bytes] = []  # digests that the tail does not cover yet
        self._keys = bytearray()

    def append(self, digest: bytes, shape: bytes) -> None:
        """Take in the next message."""
        key = _link(self.key(len(self._keys) // _SIZE), shape)
        self._keys += key
        if shape[:1] == ASSISTANT:
            self.fresh.append(key.hex())
            self._tail, self._after = key, []
        else:
            self._after.append(digest)

    def replied(self, number: int, shape: bytes) -> None:
        """Take in a reply that the client has not sent back yet.

        Args:
            number: number of messages before it.
            shape: its shape.
        """
        if shape[:1] == ASSISTANT and number * _SIZE <= len(self._keys):
            self.fresh.append(_link(self.key(number), shape).hex())

    def key(self, number: int) -> bytes:
        """Return the key of the first messages."""
        return bytes(self._keys[(number - 1) * _SIZE : number * _SIZE]) if number else self._start

    @property
    def head(self) -> str:
        """Digits for the history as it stands: its shapes, and the exact content after its last answer."""
        for digest in self._after:
            self._tail = _link(self._tail, digest)
        self._after.clear()
        return (self.key(len(self._keys) // _SIZE) + self._tail).hex()


class Trail:
    """The keys of a request's history, by which a store finds its session.

    Args:
        root: the root.
        messages: the request's messages.

    Attributes:
        sought: what to ask a store for.
    """

    def __init__(self, root: str, messages: Sequence[Recognisable]) -> None:
        self._root, self._messages = root, messages
        chain = Chain(root)
        openings = []
        for message in messages:
            chain.append(message.digest, message.shape)
            if not chain.fresh:
                openings.append(chain.head)
        self.sought = Sought(chain.fresh[::-1], openings[::-1])

    @cached_property
    def _heads(self) -> frozenset[str]:
        chain = Chain(self._root)
        heads = set()
        for message in self._messages:
            chain.append(message.digest, message.shape)
            heads.add(chain.head)
        return frozenset(heads)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(head[: 2 * _SIZE] for head in self._heads)

    def distance(self, head: str) -> int:
        """Return 0 if a session with this head ends within the request, 1 if it does apart from edits, or else 2."""
        if head in self._heads:
            return 0
        return 1 if head[: 2 * _SIZE] in self._keys else 2


def _link(before: bytes, addition: bytes) -> bytes:
    return blake2b(before + addition, digest_size=_SIZE).digest()


def pair(first: bytes, second: bytes) -> int:
    """Return the key of an answer and the message after it, by their exact digests; it holds in this process."""
    return hash((first, second))


class Named(Protocol):
    """Something with a session's id."""

    id: str


S = TypeVar("S", bound=Named)


class SessionsInMemory(Generic[S]):
    """The sessions in memory, by id and by what they hold.

    A request is compared only with sessions that hold an answer of it and the message after that, and with those of
    its root that hold no such pair yet; if it continues none of them, also with those that have its latest known
    answer. So other sessions cost nothing. Pairs need no shapes, which take longer to make than all else.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, S] = {}
        self._by_key: dict[int, tuple[S, ...]] = {}
        self._keys: dict[str, list[int]] = {}
        self._opening: dict[str, dict[str, S]] = {}  # by root, those without a pair

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._sessions.values()))

    def get(self, session_id: str) -> S | None:
        """Return the session with an id; None if it is not in memory."""
        return self._sessions.get(session_id)

    def enter(self, session: S) -> None:
        """Take in a session."""
        self._sessions[session.id] = session
        self._keys[session.id] = []
        self._opening.setdefault(_root(session), {})[session.id] = session

    def add(self, session: S, pairs: Sequence[int], answers: Sequence[str]) -> None:
        """Note what a session holds, unless it has left memory.

        Args:
            session: the session.
            pairs: keys of its pairs (`pair`).
            answers: keys of its answers (`Chain`).
        """
        keys = self._keys.get(session.id)
        if keys is None:
            return
        if pairs:
            self._close_opening(session)
        for key in (*pairs, *(int(answer, 16) for answer in answers)):
            sessions = self._by_key.get(key, ())
            if session not in sessions:
                self._by_key[key] = (*sessions, session)
                keys.append(key)

    def remove(self, session: S) -> None:
        """Drop a session."""
        if self._sessions.pop(session.id, None) is None:
            return
        for key in self._keys.pop(session.id):
            if remaining := tuple(holder for holder in self._by_key[key] if holder is not session):
                self._by_key[key] = remaining
            else:
                del self._by_key[key]
        self._close_opening(session)

    def sharing(self, messages: Sequence[Recognisable]) -> Counter[S]:
        """Return the sessions that share pairs of messages with a request, and the number of pairs."""
        counts: Counter[S] = Counter()
        get = self._by_key.get
        for first, second in pairwise(messages):
            if sessions := get(pair(first.digest, second.digest)):
                counts.update(sessions)
        return counts

    def opening(self, root: str) -> Sequence[S]:
        """Return the sessions of a root that hold no pair yet."""
        return tuple(self._opening.get(root, {}).values())

    def answered(self, sought: Sought) -> Sequence[S]:
        """Return the sessions with the latest answer of a request that any has."""
        holders = (self._by_key.get(int(answer, 16)) for answer in sought.answers)
        return next(filter(None, holders), ())

    def _close_opening(self, session: S) -> None:
        opening = self._opening.get(_root(session), {})
        opening.pop(session.id, None)
        if not opening:
            self._opening.pop(_root(session), None)


def _root(session: Named) -> str:
    return session.id.partition("-")[0]

"""By what a store finds a session: keys of the answers in its history, and of its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_FIRST: Final = 64


@dataclass(frozen=True, slots=True)
class SessionDigests:
    """What a store notes of a session besides its records.

    Attributes:
        head: 32 hexadecimal digits for the history as it stands; they replace those of before.
        keys: 16 hexadecimal digits for each further answer, with all that stands before it.
    """

    head: str
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sought:
    """The history of a request whose session is unknown.

    Attributes:
        answers: keys of its answers, the latest first.
        openings: heads of its beginnings without an answer, the longest first.
    """

    answers: Sequence[str] = ()
    openings: Sequence[str] = ()

    def batches(self) -> Iterator[Sequence[str]]:
        """Yield the keys of its answers in a few growing batches: usually one of the first is known."""
        start, size = 0, _FIRST
        while start < len(self.answers):
            yield self.answers[start : start + size]
            start, size = start + size, 4 * size


@dataclass(frozen=True, slots=True)
class Match:
    """A stored session that shares the latest answer of a request that any session has."""

    id: str
    head: str


@dataclass(frozen=True, slots=True)
class Matches:
    """What a store knows of a request.

    Attributes:
        sessions: sessions with the latest answer that any has, or those that end within its opening; the last written
            first.
        unmarked: ids of the root's sessions whose marks are not known, such as those of a file from elsewhere.
    """

    sessions: Sequence[Match] = ()
    unmarked: Sequence[str] = ()

"""Streams cut into pieces, as networks do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st


def pieces(stream: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    """Yield the stream in pieces, cut at these places."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in pairwise(places):
        yield stream[start:stop]


def single(stream: bytes) -> Iterator[bytes]:
    """Yield the stream byte by byte."""
    return (stream[place : place + 1] for place in range(len(stream)))


def cuts() -> st.SearchStrategy[list[int]]:
    """Places to cut a stream of any length at."""
    return st.lists(st.integers(0, 10_000), max_size=12)

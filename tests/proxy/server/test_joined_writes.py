"""Writes to a client that follow each other at once are one."""

from __future__ import annotations

import asyncio
from typing import Any

from wane.proxy.http.client import JoinedWrites


class Transport:
    """A transport that remembers what was written, and when it was closed."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return name


def open_writes() -> tuple[Transport, JoinedWrites]:
    transport: Any = Transport()
    return transport, JoinedWrites(transport)


async def test_what_comes_alone_is_written_at_once() -> None:
    transport, writes = open_writes()
    writes.write(b"a")
    assert transport.writes == [b"a"]


async def test_what_follows_at_once_is_one_write_before_the_event_loop_waits() -> None:
    transport, writes = open_writes()
    for data in (b"a", b"b", b"", b"c"):
        writes.write(data)
    assert transport.writes == [b"a"]
    await asyncio.sleep(0)
    assert transport.writes == [b"a", b"bc"]
    await asyncio.sleep(0)
    assert transport.writes == [b"a", b"bc"]


async def test_what_waits_is_written_before_the_connection_is_closed() -> None:
    transport, writes = open_writes()
    writes.write(b"a")
    writes.write(b"b")
    writes.close()
    assert (transport.writes, transport.closed) == ([b"a", b"b"], True)
    await asyncio.sleep(0)
    assert transport.writes == [b"a", b"b"]


async def test_no_more_waits_than_a_reader_may_need() -> None:
    transport, writes = open_writes()
    pieces = [b"%05d" % number * 200 for number in range(200)]
    for piece in pieces:
        writes.write(piece)
    assert 1 < len(transport.writes) < 10
    await asyncio.sleep(0)
    assert b"".join(transport.writes) == b"".join(pieces)


async def test_all_else_is_the_transports_own() -> None:
    _, writes = open_writes()
    assert writes.get_extra_info("peername") == "peername"

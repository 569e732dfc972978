"""A client for measurements: HTTP over a bare socket, so that the client itself costs little.

As a program, it runs many streaming sessions at once, in a process of its own:

    python benchmarks/proxy/client.py URL WIRE SESSIONS TURNS TOKENS SECONDS

prints a `Load` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from sessions import Session

_STAMP = re.compile(rb"t(\d{18}) ")
_CALL = re.compile(rb"call_\d+")
_HEAD = (
    "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nx-api-key: none\r\n"
    "content-length: {length}\r\n{more}\r\n"
)
PIECES = 40  # of text in a reply
PACE = f"x-bench-pace: {PIECES}/0.05\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and its times, in seconds."""

    status: int  # the HTTP status
    head: bytes  # the head of the reply, in lower case
    data: bytes  # its body
    first: float  # from sending to the first piece of text, or to the whole of a reply that is not streamed
    whole: float  # from sending to the end
    ways: tuple[float, ...]  # time of each piece of text from the provider to the client

    @property
    def text(self) -> str:
        return b"".join(dict.fromkeys(found[0] for found in _STAMP.finditer(self.data))).decode()

    @property
    def call(self) -> str:
        found = _CALL.search(self.data)
        assert found is not None, self.data
        return found[0].decode()

    def number(self, name: bytes) -> int:
        """A number in the head; 0 if it is not there."""
        found = re.search(rb"\r\n" + name + rb": *(\d+)", self.head)
        return int(found[1]) if found else 0


class Connection:
    """One connection to a server, on which one request follows the other.

    `url`: the server's URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes, more: str = "") -> Answer:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        head = _HEAD.format(path=path, host=f"{self._host}:{self._port}", length=len(body), more=more)
        start = time.monotonic_ns()
        self._writer.writelines([head.encode(), body])
        got = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        pieces: list[bytes] = []
        ways: list[float] = []
        first = 0
        async for piece in self._pieces(got):
            at = time.monotonic_ns()
            pieces.append(piece)
            # What ends a text may repeat all of it.
            if (found := _STAMP.findall(piece)) and (not ways or len(found) == 1):
                first = first or at
                ways.append((at - int(found[0])) / 1e9)
        end = time.monotonic_ns()
        status = int(got.split(b" ", 2)[1])
        return Answer(status, got, b"".join(pieces), ((first or end) - start) / 1e9, (end - start) / 1e9, tuple(ways))

    async def _pieces(self, head: bytes) -> AsyncIterator[bytes]:
        if b"chunked" not in head:
            found = re.search(rb"content-length: *(\d+)", head)
            assert found is not None, head
            yield await self._reader.readexactly(int(found[1]))
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of many concurrent sessions; times in seconds."""

    requests: int  # complete replies
    errors: list[str]  # errors of the others
    seconds: float  # from the first request to the last reply
    first: tuple[float, float]  # to the first piece of text: median and 95th percentile
    way: tuple[float, float]  # of a piece of text from the provider to the client: the same
    most: int  # most replies that streamed at once


def middle(values: list[float]) -> tuple[float, float]:
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    return statistics.median(values), statistics.quantiles(values, n=20)[18]


async def load(url: str, wire: str, sessions: int, turns: int, tokens: int, spread: int) -> Load:
    """Run sessions at once, each on a connection of its own, with a few turns each.

    `url`: the server's URL.
    `wire`: name of the protocol.
    `turns`: requests of each.
    `tokens`: approximate size of the first request of each.
    `spread`: seconds over which they begin.
    """
    prepared = [Session(wire, tokens, seed, stream=True) for seed in range(sessions)]
    answers: list[Answer] = []
    errors: list[str] = []
    streaming, most = 0, 0

    async def live(number: int, session: Session) -> None:
        nonlocal streaming, most
        await asyncio.sleep(spread * number / sessions)
        connection = Connection(url)
        try:
            for _ in range(turns):
                streaming += 1
                most = max(most, streaming)
                answer = await connection.post(session.path, session.body(), PACE)
                streaming -= 1
                if answer.status != 200 or b"x-wane-warning" in answer.head:
                    raise RuntimeError(f"HTTP {answer.status}: {answer.head + answer.data[:500]!r}")
                answers.append(answer)
                session.go_on(answer.text, answer.call)
        except Exception as error:
            errors.append(f"session {number}: {error!r}")
        finally:
            await connection.close()

    start = time.monotonic()
    await asyncio.gather(*(live(number, session) for number, session in enumerate(prepared)))
    seconds = time.monotonic() - start
    first = middle([answer.first for answer in answers])
    ways = middle([way for answer in answers for way in answer.ways])
    return Load(len(answers), errors, seconds, first, ways, most)


if __name__ == "__main__":
    url_, wire_, *counts = sys.argv[1:]
    print(json.dumps(asdict(asyncio.run(load(url_, wire_, *map(int, counts))))))

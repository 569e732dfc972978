"""What finding a session costs. Run with `python benchmarks/proxy/lookup.py [URL...]`.

In memory: the processor time of the first request of an unknown history with 10 and with 400 other sessions in memory,
where a server numbers the calls of all sessions alike.
In a store: the time of the first request of a known session after a restart, among 12 and among 480 sessions that began
with the same words. Each figure is a median; the larger number and the smaller take turns, so that the ratio holds on a
busy machine too. The first store is a directory of temporary files.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from sessions import Session
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire

FEW, MANY = 10, 400
ALIKE_FEW, ALIKE_MANY = 12, 480
TOKENS: Final = 40_000
TIMES: Final = 15
WIRE: Final = AnthropicWire()


def body(seed: int) -> Any:
    """Return the body of a session's next request, whose calls have the ids and arguments of all other sessions."""
    raw = Session("anthropic", TOKENS, seed).body()
    return json.loads(raw.replace(b"call_%d_" % seed, b"call_"))


async def locate_session(index: SessionIndex, asked: Any) -> Exchange:
    exchange = Exchange(index, WIRE, asked)
    await exchange.locate()
    return exchange


async def fill_index(sessions: int) -> SessionIndex:
    index = SessionIndex(open_store(None))
    for seed in range(sessions):
        await locate_session(index, body(seed))
    return index


async def in_memory() -> list[str]:
    indexes = [await fill_index(sessions) for sessions in (FEW, MANY)]
    gc.collect()
    gc.freeze()  # as the proxy does, so that no figure depends on when the sessions are visited
    took: list[list[float]] = [[], []]
    for number in range(TIMES):
        for index, times in zip(indexes, took, strict=True):
            asked = body(10_000 + number)
            begun = time.process_time()
            await locate_session(index, asked)
            times.append(time.process_time() - begun)
    return row("an unknown history, in memory", FEW, MANY, took)


def alike(seed: int, sessions: int) -> Any:
    """Return a request of one of these sessions, which all began with the same words."""
    asked = json.loads(Session("anthropic", 4_000, seed).body())
    asked["messages"][0] = {"role": "user", "content": f"The same for all {sessions}."}
    return asked


async def in_store(where: str) -> list[str]:
    begun = {sessions: await begin(where, sessions) for sessions in (ALIKE_FEW, ALIKE_MANY)}
    took: list[list[float]] = [[], []]
    resumed = 0
    for number in range(TIMES):
        for (sessions, ids), times in zip(begun.items(), took, strict=True):
            index = SessionIndex(open_store(where, keep=3_600))
            seed = number * sessions // TIMES
            asked = alike(seed, sessions)
            await index.store.check()  # connects
            started = time.perf_counter()
            exchange = await locate_session(index, asked)
            times.append(time.perf_counter() - started)
            resumed += exchange.facts.session == ids[seed]
            await index.close()
    name = where.partition(":")[0] if "://" in where else "disk"
    return [*row(f"a session to resume, {name}", ALIKE_FEW, ALIKE_MANY, took), f"{resumed} of {2 * TIMES}"]


async def begin(where: str, sessions: int) -> list[str]:
    """Begin sessions with the same words, and return their ids."""
    index = SessionIndex(open_store(where, keep=3_600))
    ids = [(await locate_session(index, alike(seed, sessions))).facts.session for seed in range(sessions)]
    await index.close()
    return ids


def row(what: str, few: int, many: int, took: list[list[float]]) -> list[str]:
    first, second = (median(times) * 1_000 for times in took)
    return [what, f"{few}: {first:.1f} ms", f"{many}: {second:.1f} ms", f"{second / first:.2f}"]


async def main() -> None:
    table = Table("", "few", "many", "ratio", "resumed")
    table.add_row(*await in_memory())
    with tempfile.TemporaryDirectory() as folder:
        for where in (f"{folder}/sessions", *sys.argv[1:]):
            table.add_row(*await in_store(where))
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())

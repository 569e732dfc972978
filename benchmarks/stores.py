"""What the proxy's stores cost. Run with `python benchmarks/stores.py [URL...]`.

For each store: finding a session among 100 and among 10,000 others, and taking a session and adding three records of
2 kB. The directory is on the disk of the machine's temporary files; databases are given by URL, and keep what it wrote
for an hour.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from statistics import median

from rich.console import Console
from rich.table import Table

from wane.journal import MessageRecord
from wane.proxy.store import open_store
from wane.proxy.store.base import SessionDigests, Sought, Store

FEW, MANY = 100, 10_000
TIMES = 200


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median milliseconds of a step."""
    took = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        await work()
        took.append(time.perf_counter() - begun)
    return median(took) * 1_000


async def fill(store: Store, sessions: int) -> None:
    for _ in range(sessions):
        log = await store.create(secrets.token_hex(12), "openai")
        await log.close()


async def measure(where: str) -> list[str]:
    store = open_store(where, keep=3_600)
    root, key = secrets.token_hex(12), secrets.token_hex(8)
    log = await store.create(root, "openai")
    records = [MessageRecord({"role": "user", "content": "x" * 2_000})] * 3

    async def add() -> None:
        async with log.hold():
            await log.append(records, SessionDigests(f"{root}{'0' * 8}", [key]))

    added = await timed(add)
    found = []
    for sessions in (FEW, MANY - FEW):
        await fill(store, sessions)
        found.append(await timed(lambda: store.find(root, Sought([key]))))
    await log.close()
    await store.close()
    return [where.partition(":")[0] if "://" in where else "disk", f"{added:.2f}", *(f"{took:.2f}" for took in found)]


def main() -> None:
    table = Table("store", "take and add, ms", f"find among {FEW:,}, ms", f"find among {MANY:,}, ms")
    with tempfile.TemporaryDirectory() as folder:
        for where in (folder, *sys.argv[1:]):
            table.add_row(*asyncio.run(measure(where)))
    Console().print(table)


if __name__ == "__main__":
    main()

"""A process of its own that uses a session, as another proxy would.

python -m tests.proxy.store.worker add|hold WHERE SESSION NAME COUNT
"""

from __future__ import annotations

import asyncio
import sys

from tests.proxy.store.support import add_anew
from wane.journal import NoteRecord
from wane.proxy.store import open_store
from wane.proxy.store.stores import SessionChangedError, SessionLog, StoreError

TASKS = 4


async def count_up(log: SessionLog, name: str, count: int) -> None:
    """Add a record at a time, from several tasks, which says how many stood before it as this process saw it."""
    known = 0

    async def append_note(number: int) -> bool:
        nonlocal known
        async with log.hold() as new:
            known += len(new)
            try:
                await log.append((NoteRecord(topic=name, data={"number": number, "before": known}),))
            except SessionChangedError:
                return False
            known += 1
            return True

    async def worker(first: int) -> None:
        for number in range(first, count, TASKS):
            while not await append_note(number):
                pass

    await asyncio.gather(*(worker(first) for first in range(TASKS)))


async def count_up_on_disk(where: str, session_id: str, name: str, count: int) -> None:
    """The same for a store that lets one process at a time open a session."""
    store = open_store(where)
    for number in range(count):
        await add_anew(store, session_id, NoteRecord(topic=name, data={"number": number}))


async def keep(log: SessionLog, name: str) -> None:
    """Hold a session until the input ends, then try to add to it."""
    async with log.hold():
        print("held", flush=True)
        sys.stdin.read()
        try:
            await log.append((NoteRecord(topic=name),))
        except StoreError as error:
            print(type(error).__name__, flush=True)
        else:
            print("added", flush=True)


async def start() -> None:
    """Wait for all others, however long each took to be ready."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def main(act: str, where: str, session_id: str, name: str, count: str) -> None:
    if act == "add" and "://" not in where:
        await start()
        await count_up_on_disk(where, session_id, name, int(count))
        return
    store = open_store(where)
    log = await store.open(session_id)
    if act == "add":
        await start()
        await count_up(log, name, int(count))
    else:
        await keep(log, name)
    await log.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

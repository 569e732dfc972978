"""A database that hangs is waited for once, and asked again after a while."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.proxy.store.servers import QUOTED
from tests.proxy.store.support import Place, add, database_at, found, new_root, note, topics
from wane.proxy.store.database import DatabaseTimeouts, Outage, within
from wane.proxy.store.stores import SessionLog, StoreError

AT_ONCE = "does not work: no answer within 1 seconds; it is not asked again"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_step_asks_again_after_a_pause() -> None:
    clock = Clock()
    outage = Outage(4, clock)
    asked = outage.begin_step()
    clock.now += 3
    outage.note_failure(StoreError("it hangs"), asked)
    clock.now += 3.9
    with pytest.raises(StoreError, match=r"^it hangs; it is not asked again within 4 seconds$"):
        outage.begin_step()
    clock.now += 0.2
    asked = outage.begin_step()
    # The others do not wait with it.
    with pytest.raises(StoreError, match=r"^it hangs; it is"):
        outage.begin_step()
    clock.now += 3
    outage.note_failure(StoreError("it hangs still"), asked)
    with pytest.raises(StoreError, match=r"^it hangs still; it is"):
        outage.begin_step()
    clock.now += 4
    outage.begin_step()
    outage.note_answer()
    outage.begin_step()
    outage.begin_step()


def test_a_step_that_was_cancelled_is_followed_by_another() -> None:
    clock = Clock()
    outage = Outage(4, clock)
    outage.note_failure(StoreError("it hangs"), outage.begin_step() - 3)
    for _ in range(3):
        clock.now += 4
        outage.begin_step()


def test_what_fails_at_once_may_be_tried_again_at_once() -> None:
    clock = Clock()
    outage = Outage(4, clock)
    outage.note_failure(StoreError("it is refused"), outage.begin_step())
    outage.note_failure(StoreError("it hangs"), outage.begin_step() - 3)
    clock.now += 4
    outage.note_failure(StoreError("it is refused"), outage.begin_step())
    outage.begin_step()


async def test_work_that_goes_on_when_it_is_cancelled_is_not_waited_for() -> None:
    cancelled = 0

    async def stubborn() -> None:
        nonlocal cancelled
        while cancelled < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled += 1
        raise StoreError("nobody waits for this")

    with pytest.raises(TimeoutError):
        await within(0.01, stubborn())
    while cancelled < 2:
        await asyncio.sleep(0.01)


async def goes_on(log: SessionLog) -> bool:
    try:
        await add(log, note(3))
    except StoreError:
        return False
    return True


async def test_a_hanging_server_is_waited_for_once(shared: Place) -> None:
    store = database_at(shared.where, DatabaseTimeouts(limit=1, pause=600))
    again = database_at(shared.where, DatabaseTimeouts(limit=1, pause=1.5))
    log, other = await store.create(new_root(), "openai"), await again.create(new_root(), "openai")
    await add(log, note(1))
    await add(other, note(1))
    with shared.server.hanging():
        for one in (log, other):
            with pytest.raises(StoreError, match=r"does not work: no answer within 1 seconds$"):
                await add(one, note(2))
            # Not that it is not held: the reason is why it is not.
            with pytest.raises(StoreError, match=r"does not work: no answer within 1 seconds$"):
                await one.append((note(2),))
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: add(log, note(2)),
            lambda: log.append((note(2),)),
            lambda: found(store, new_root()),
            lambda: store.create(new_root(), "openai"),
            lambda: store.open(log.id),
            lambda: store.read(log.id),
        ]
        for call in calls:
            with pytest.raises(StoreError, match=AT_ONCE):
                await call()
    while not await goes_on(other):
        await asyncio.sleep(0.05)
    assert topics(await again.read(other.id)) == ["1", "3"]
    await asyncio.gather(store.close(), again.close())


async def test_a_server_that_hangs_in_the_midst_of_a_hold(shared: Place) -> None:
    store = database_at(shared.where, DatabaseTimeouts(limit=1, pause=600))
    log = await store.create(new_root(), "openai")
    async with log.hold():
        with shared.server.hanging():
            with pytest.raises(StoreError, match=r"no answer within 1 seconds$"):
                await log.append((note(1),))
            with pytest.raises(StoreError, match=AT_ONCE):
                await log.append((note(1),))
    await store.close()


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
async def test_many_who_wait_for_a_server_that_says_nothing(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        where = f"{scheme}://wane:{QUOTED}@127.0.0.1:{silent.getsockname()[1]}/0"
        store = database_at(where, DatabaseTimeouts(limit=1, pause=600))
        # More than there are connections.
        errors = await asyncio.gather(*(found(store, new_root()) for _ in range(50)), return_exceptions=True)
        assert {type(error) for error in errors} == {StoreError}
        assert all("no answer within 1 seconds" in str(error) for error in errors)
        with pytest.raises(StoreError, match=AT_ONCE):
            await found(store, new_root())
        await store.close()

"""Several proxies with the same sessions: any of them takes any request, and shows the view that one would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.marks import first_quick
from tests.proxy.sessions.test_index import SMALL, result, work, worker
from tests.proxy.store.servers import Postgres, Redis
from tests.proxy.store.support import Place, database_at, new_root
from tests.proxy.world import CLIENTS, Client, begin, exchange, run_turn
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.proxy.store.database import End, parse_location
from wane.proxy.store.stores import MemoryStore, SessionDigests, StoreError


@pytest.mark.parametrize(("make", "strategy"), first_quick(*product(CLIENTS, ("cwl", "truncate"))))
async def test_requests_may_go_to_any_process(make: type[Client], strategy: Any, shared: Place) -> None:
    settings = replace(SMALL, strategy=strategy)

    one, other = make(), make()
    upstream, twin = worker(one, 2), worker(other, 2)
    alone = SessionIndex(MemoryStore(), settings)
    several = [SessionIndex(open_store(shared.where), settings) for _ in range(3)]
    number = 0
    for turn in range(6):
        one.say(f"User turn {turn}.")
        other.say(f"User turn {turn}.")
        while True:
            number += 1
            first = await exchange(alone, one, upstream)
            second = await exchange(several[number % 3], other, twin)
            assert second.bodies == first.bodies
            calls = one.take(first.answer, result)
            assert other.take(second.answer, result) == calls
            if not calls:
                break
    assert first.facts.evicted > 0
    assert {len(index.status()) for index in several} == {1}
    assert len({index.status()[0].facts.session for index in several}) == 1
    for index in several:
        await index.close()


async def test_requests_of_one_session_in_two_processes_at_once(shared: Place) -> None:
    client = CLIENTS[0]()
    upstream = worker(client, 1)
    indexes = [SessionIndex(open_store(shared.where), SMALL) for _ in range(2)]
    await work(indexes[0], client, upstream, 3)
    other = client.copy()
    client.say("One way.")
    other.say("Another way.")
    await asyncio.gather(run_turn(indexes[0], client, upstream, result), run_turn(indexes[1], other, upstream, result))
    await asyncio.gather(work(indexes[1], client, upstream, 2), work(indexes[0], other, upstream, 2))
    for index in indexes:
        await index.close()


def racing_store(where: str, at: int) -> Any:
    """A store in which another process adds to a session right before this one does, once."""
    kind: Any = type(database_at(where))

    class Raced(kind):  # type: ignore[misc]
        left = at
        race: Callable[[], Awaitable[object]] | None = None
        refused = 0

        async def append(
            self, session_id: str, after: End, lines: Sequence[bytes], digests: SessionDigests | None = None
        ) -> bool:
            if self.race is not None and (left := self.left) >= 0:
                self.left -= 1
                if not left:
                    await self.race()
            added: bool = await super().append(session_id, after, lines, digests)
            self.refused += not added
            return added

    return Raced(parse_location(where))


@pytest.mark.parametrize(
    ("at", "theirs"),
    [(0, "One way."), (0, "Another way."), (1, "One way.")],
    ids=["the request", "another request", "the reply"],
)
async def test_another_process_adds_between_reading_and_adding(
    shared: Place, at: int, theirs: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = CLIENTS[0]()
    upstream, store = worker(client, 1), racing_store(shared.where, at)
    indexes = [SessionIndex(each, SMALL) for each in (store, open_store(shared.where), open_store(shared.where))]
    await work(indexes[0], client, upstream, 4)
    other = client.copy()
    client.say("One way.")
    other.say(theirs)
    store.race = lambda: run_turn(indexes[1], other, upstream, result)
    await run_turn(indexes[0], client, upstream, result)
    assert store.refused == 1
    for each in (client, other):
        done = await work(indexes[2], each, upstream, 2)
        assert done[-1].facts.evicted > 0
        assert done[-1].facts.view <= SMALL.budget
    for index in indexes:
        await index.close()
    assert not [record.message for record in caplog.records if record.name == "wane.proxy"]


async def test_a_session_that_the_store_has_lost_is_stored_anew(redis_server: Redis) -> None:
    client = CLIENTS[0]()
    upstream = worker(client, 5)
    index = SessionIndex(open_store(redis_server.url), SMALL)
    before = await work(index, client, upstream, 5)
    # It keeps nothing on disk.
    redis_server.stop()
    redis_server.start()
    after = await work(index, client, upstream, 2)
    assert "has lost" in after[0].facts.note
    assert after[0].facts.session != before[-1].facts.session
    assert after[-1].facts.note == ""
    await index.close()
    index = SessionIndex(open_store(redis_server.url), SMALL)
    client.say("Still there?")
    assert (await exchange(index, client, upstream)).facts.session == after[-1].facts.session
    await index.close()


def interrupted_store(where: str) -> Any:
    """A store that can be out of reach, and come back between two steps of one request."""
    kind: Any = type(database_at(where))

    class Interrupted(kind):  # type: ignore[misc]
        down = False
        back: Callable[[], Awaitable[object]] | None = None
        changing = ""

        async def new_lines(self, session_id: str, known: int) -> Any:
            if self.down:
                if self.back is not None:
                    self.down = False
                    await self.back()
                raise StoreError("out of reach")
            return await super().new_lines(session_id, known)

        async def append(
            self, session_id: str, after: End, lines: Sequence[bytes], digests: SessionDigests | None = None
        ) -> bool:
            if self.down:
                raise StoreError("out of reach")
            return session_id != self.changing and await super().append(session_id, after, lines, digests)

    return Interrupted(parse_location(where))


@pytest.mark.parametrize("make", first_quick(*CLIENTS))
async def test_a_store_that_comes_back_within_a_request_with_records_of_another_process(
    make: type[Client], shared: Place
) -> None:
    client = make()
    upstream = worker(client, 1)
    store = interrupted_store(shared.where)
    indexes = [SessionIndex(store, SMALL), SessionIndex(open_store(shared.where), SMALL)]
    client.say(f"Work for {new_root()}.")
    await run_turn(indexes[0], client, upstream, result)
    await work(indexes[0], client, upstream, 6)
    other = client.copy()
    store.down = True
    await work(indexes[0], client, upstream, 2)
    store.back = lambda: work(indexes[1], other, upstream, 1)
    for _ in range(2):
        # Never the whole history, although what waited here does not fit what is stored.
        done = await work(indexes[0], client, upstream, 1)
        assert all(each.facts.view <= SMALL.budget < each.facts.history for each in done)
    for index in indexes:
        await index.close()


async def test_a_session_that_never_stops_changing_begins_anew_within_the_budget(shared: Place) -> None:
    client = CLIENTS[0]()
    upstream = worker(client, 1)
    store = interrupted_store(shared.where)
    index = SessionIndex(store, SMALL)
    client.say(f"Work for {new_root()}.")
    await run_turn(index, client, upstream, result)
    before = (await work(index, client, upstream, 6))[-1].facts
    store.changing = before.session
    client.say("Go on.")
    with pytest.raises(StoreError, match="keep changing"):
        await begin(SessionIndex(store, SMALL, strict=True), client.wire, client.body())
    done = await exchange(index, client, upstream)
    assert done.facts.view <= SMALL.budget < done.facts.history
    assert f"it starts over as {done.facts.session}" in done.facts.note
    await index.close()


@pytest.mark.parametrize("seed", first_quick(*range(3)))
async def test_outages_of_a_real_server_never_send_more_than_the_budget(seed: int, postgres_server: Postgres) -> None:
    rng = random.Random(seed)

    client = CLIENTS[0]()
    upstream = worker(client, seed)
    indexes = [SessionIndex(open_store(postgres_server.url), SMALL) for _ in range(2)]
    client.say(f"Work for {new_root()}.")
    for _ in range(6):
        postgres_server.stop()
        for index in indexes:
            await work(index, client, upstream, rng.randrange(2))
        postgres_server.start()
        done = await work(rng.choice(indexes), client, upstream, 1 + rng.randrange(2))
        assert all(each.facts.view <= SMALL.budget for each in done)
    assert done[-1].facts.evicted > 0
    for index in indexes:
        await index.close()

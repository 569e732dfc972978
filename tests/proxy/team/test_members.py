"""Names, their tokens, limits and requests a minute, and the log: the same in every store and for all processes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.proxy.store.support import Place, add, new_root, note
from wane.core.errors import ConfigError
from wane.proxy.store.ledger import LEDGER
from wane.proxy.store.stores import WORKERS, MemoryStore, StoreError
from wane.proxy.team.audit import AuditLog
from wane.proxy.team.deletion import delete_name, delete_sessions
from wane.proxy.team.members import MEMBERS, Member, MemberLimits, Team, digest_of
from wane.proxy.team.roster import FRESH, Roster, wait_before


async def test_a_token_is_stored_as_its_digest_alone(place: Place) -> None:
    store, other = place.store(), place.store()
    token = await Team(store).add("bo.b@x-y", MemberLimits(5.0, "month", 60))
    assert token.startswith("wane_")
    assert len(token) > 40
    stored = await other.document(MEMBERS, "bo.b@x-y")
    assert stored is not None
    assert token not in stored
    assert (await Team(other).members())["bo.b@x-y"] == Member.read("bo.b@x-y", stored)
    holder = await Roster(other).holder(token.encode())
    assert holder is not None
    assert (holder.name, holder.digest, holder.limits) == (
        "bo.b@x-y",
        digest_of(token.encode()),
        MemberLimits(5.0, "month", 60),
    )
    for wrong in (b"", b"wane_", token.encode()[:-1], token.encode() + b"x", holder.digest.encode()):
        assert await Roster(other).holder(wrong) is None
    await Team(store).revoke("bo.b@x-y")
    await delete_name(store, "bo.b@x-y")
    await store.close()
    await other.close()


async def test_a_revoked_name_is_admitted_by_its_new_token_only_and_keeps_its_limits(place: Place) -> None:
    store = place.store()
    team, now = Team(store), 0.0
    roster = Roster(store, lambda: now)
    first = await team.add("alice", MemberLimits(requests=7))
    assert await roster.holder(first.encode()) is not None
    with pytest.raises(ConfigError, match="alice has a token; revoke it first"):
        await team.add("alice")
    await team.revoke("alice")
    now = FRESH
    assert await roster.holder(first.encode()) is None
    assert await roster.holder(b"") is None
    with pytest.raises(ConfigError, match="alice has no token"):
        await team.revoke("alice")
    second = await team.add("alice")
    assert first != second
    now = 2 * FRESH
    assert await roster.holder(first.encode()) is None
    holder = await roster.holder(second.encode())
    assert holder is not None
    assert holder.limits == MemberLimits(requests=7)
    await team.limit("alice", MemberLimits(max_cost=2.0))
    assert (await team.members())["alice"].limits == MemberLimits(max_cost=2.0)
    await team.revoke("alice")
    await delete_name(store, "alice")
    await store.close()


async def test_of_two_who_make_a_token_at_once_one_is_refused(place: Place) -> None:
    stores = [place.store() for _ in range(5)]
    tried = await asyncio.gather(*(Team(store).add("carol") for store in stores), return_exceptions=True)
    tokens = [token for token in tried if isinstance(token, str)]
    assert len(tokens) == 1
    assert all(isinstance(error, str | ConfigError) for error in tried)
    assert (await Team(stores[0]).members())["carol"].digest == digest_of(tokens[0].encode())
    await Team(stores[0]).revoke("carol")
    await delete_name(stores[0], "carol")
    for store in stores:
        await store.close()


@pytest.mark.parametrize("name", ["", "a b", ".x", "a/b", "a\n", "ä", "a" * 65, "~", "operator", "Operator", "a:b"])
async def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        await Team(MemoryStore()).add(name)


@pytest.mark.parametrize(
    "limits",
    [{"max_cost": 0.0}, {"max_cost": float("inf")}, {"requests": 0}, {"requests": 10**6}, {"cost_period": "run"}],
)
def test_a_limit_that_cannot_work_is_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MemberLimits(**limits)  # type: ignore[arg-type]


async def test_an_unreachable_store_admits_those_who_were_admitted_before() -> None:
    class Away(MemoryStore):
        away = False

        async def documents(self, kind: str) -> dict[str, str]:
            if self.away:
                raise StoreError("away")
            return dict(await super().documents(kind))

    store, now = Away(), 0.0
    token = await Team(store).add("alice")
    roster = Roster(store, lambda: now)
    assert await roster.holder(token.encode())
    store.away, now = True, 100.0
    assert await roster.holder(token.encode())
    with pytest.raises(StoreError):
        await Roster(store).members()


async def test_a_damaged_record_admits_nobody_and_is_named() -> None:
    store = MemoryStore()
    for document in ("{}", "no json", '{"digest": "xyz"}', '{"digest": "", "since": "x", "limits": {}}', "[]"):
        await store.replace_document(MEMBERS, "a", await store.document(MEMBERS, "a"), document)
        with pytest.raises(StoreError, match="the record of the name 'a' cannot be read"):
            await Team(store).members()


async def test_processes_take_requests_from_one_bucket(place: Place) -> None:
    stores, now = [place.store() for _ in range(3)], 1_000_000.0

    async def take() -> int:
        return sum([not await wait_before(store, "dave", 6, lambda: now) for store in stores])

    tries = [await take() for _ in range(3)]
    assert sum(tries) == 6
    assert await wait_before(stores[0], "dave", 6, lambda: now) == 10
    now += 9.5
    assert await wait_before(stores[1], "dave", 6, lambda: now) == 1
    now += 0.5
    assert await take() == 1
    now += 600
    assert sum([await take() for _ in range(4)]) == 6
    # A clock that was an hour ahead closes it for a minute at most.
    assert not await wait_before(stores[0], "erin", 1, lambda: now + 3_600)
    assert 0 < await wait_before(stores[0], "erin", 1, lambda: now) <= 60
    for name in ("dave", "erin"):
        await delete_name(stores[0], name)
    for store in stores:
        await store.close()


async def test_requests_at_once_are_each_counted(shared: Place) -> None:
    stores = [shared.store() for _ in range(4)]
    waits = await asyncio.gather(*(wait_before(stores[n % 4], "frank", 10, lambda: 5_000.0) for n in range(40)))
    assert sum(wait == 0 for wait in waits) == 10
    await delete_name(stores[0], "frank")
    for store in stores:
        await store.close()


async def test_the_log_is_in_order_over_months_and_a_part_of_it_can_be_read(place: Place) -> None:
    store, now = place.store(), datetime(2031, 11, 29, 23, 50, tzinfo=UTC)
    log = AuditLog(store, lambda: now)
    times = []
    for number in range(8):
        now += timedelta(days=9, hours=7 * number)
        times.append(now)
        await log.write("alice", "session begun", str(number))
    assert [event.of for event in await log.since(times[0])] == [str(number) for number in range(8)]
    assert [event.at for event in await log.since(times[3])] == times[3:]
    assert await log.since(now + timedelta(seconds=1)) == []
    await store.close()


@pytest.mark.full
async def test_all_that_belongs_to_a_name_is_deleted_and_nothing_else(place: Place) -> None:
    store, team = place.store(), Team(place.store())
    await team.add("grace")
    mine = [await store.create(new_root(), "openai", "grace") for _ in range(3)]
    others = [await store.create(new_root(), "openai", owner) for owner in ("", "grace2")]
    for log in (*mine, *others):
        await add(log, note(1))
        await log.close()
    for kind in (LEDGER, "rate"):
        for name in ("", "grace", "grace2"):
            await store.replace_document(kind, name, await store.document(kind, name), "1")
    with pytest.raises(ConfigError, match="grace has a token; revoke it first"):
        await delete_sessions(store, "grace")
    with pytest.raises(ConfigError, match="there is no name 'grace2'"):
        await delete_sessions(store, "grace2")
    await team.revoke("grace")
    deleted, busy = await delete_sessions(store, "grace")
    assert {session.id for session in deleted} == {log.id for log in mine}
    assert not busy
    for process, owner in (("p1", "grace"), ("p2", "grace2")):
        await store.replace_document(WORKERS, process, None, json.dumps({"sessions": [{"owner": owner}]}))
    await delete_name(store, "grace")
    assert set(await store.documents(WORKERS)) == {"p2"}
    await store.replace_document(WORKERS, "p2", await store.document(WORKERS, "p2"), None)
    for log in others:
        assert (await store.header(log.id)).id == log.id
    for kind in (LEDGER, "rate"):
        assert set(await store.documents(kind)) >= {"", "grace2"}
        assert await store.document(kind, "grace") is None
        for name in ("", "grace2"):
            await store.replace_document(kind, name, "1", None)
    assert "grace" not in await team.members()
    await store.close()


@pytest.mark.full
async def test_a_session_that_a_process_has_open_is_said(tmp_path: object) -> None:
    place = Place("disk", str(tmp_path))
    store, other = place.store(), place.store()
    await Team(store).add("alice")
    log = await store.create(new_root(), "openai", "alice")
    await Team(store).revoke("alice")
    assert await delete_sessions(other, "alice") == ([], 1)
    await log.close()
    deleted, busy = await delete_sessions(other, "alice")
    assert ([session.id for session in deleted], busy) == ([log.id], 0)

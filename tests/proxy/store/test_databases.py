"""Redis and PostgreSQL as they are in life: down, back again, full, restored from a backup, shared with others."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.proxy.store.servers import PASSWORD, QUOTED, Postgres, Redis, free_port, run_server
from tests.proxy.store.support import Place, add, database_at, found, new_root, note, topics
from wane.journal import read
from wane.proxy.store import open_store
from wane.proxy.store.database import End
from wane.proxy.store.stores import SessionLostError, Store, StoreError


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A server that a test may stop."""
    yield from run_server(Redis())


def raw(server: Redis) -> Any:
    return redis.Redis(port=server.port, password=PASSWORD)


def run_sql(server: Postgres, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement)


def error_text(error: BaseException) -> str:
    """Everything that anybody would see of an error."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
async def test_a_server_that_is_down_is_named_without_its_password(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    port, session_id = free_port(), f"{new_root()}-{'0' * 16}"
    store = open_store(f"{scheme}://wane:{QUOTED}@127.0.0.1:{port}/0")
    for call in (
        found(store, new_root()),
        store.create(new_root(), "openai"),
        store.open(session_id),
        store.read(session_id),
    ):
        with pytest.raises(StoreError, match=rf"{scheme}://127\.0\.0\.1:{port}/0 does not work") as caught:
            await call
        for text in (error_text(caught.value), caplog.text):
            assert PASSWORD not in text
            assert QUOTED not in text
    await store.close()


async def test_a_wrong_password_is_not_shown(shared: Place, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(shared.where.replace(QUOTED, "another-Pass"))
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreError) as caught:
        await found(store, new_root())
    assert "password" in str(caught.value)
    assert "another-Pass" not in error_text(caught.value) + caplog.text


async def test_a_unix_socket_serves_too(redis_server: Redis) -> None:
    store = open_store(redis_server.unix_url)
    log = await store.create(new_root(), "openai")
    await add(log, note(1))
    assert topics(await store.read(log.id)) == ["1"]
    await store.close()


async def test_postgresql_goes_on_after_a_restart(postgres_server: Postgres) -> None:
    store = open_store(postgres_server.url)
    logs = [await store.create(new_root(), "openai") for _ in range(4)]
    # Several connections, which all break.
    await asyncio.gather(*(add(log, note(1)) for log in logs))
    await asyncio.gather(*(log.sync() for log in logs))
    postgres_server.stop()
    with pytest.raises(StoreError, match="refused"):
        await add(logs[0], note(2))
    postgres_server.start()
    await asyncio.gather(*(add(log, note(3)) for log in logs))
    postgres_server.stop()
    postgres_server.start()
    # Not noticed at all, where nothing was asked meanwhile.
    await asyncio.gather(*(add(log, note(4)) for log in logs))
    for log in logs:
        assert topics(await store.read(log.id)) == ["1", "3", "4"]
    await store.close()


async def test_redis_that_forgot_everything_is_noticed(own_redis: Redis) -> None:
    store, root = open_store(own_redis.url), new_root()
    logs = [await store.create(root, "openai") for _ in range(4)]
    await asyncio.gather(*(add(log, note(1)) for log in logs))
    own_redis.stop()
    with pytest.raises(StoreError, match="does not work"):
        await add(logs[0], note(2))
    own_redis.start()
    for log in logs:
        with pytest.raises(SessionLostError, match=rf"the session {log.id} is no longer in redis://127\.0\.0\.1"):
            await add(log, note(3))
    assert (await found(store, root)) == []
    await add(await store.create(root, "openai"), note(4))
    await store.close()


async def test_redis_without_memory_is_said_and_goes_on_when_there_is_some(own_redis: Redis) -> None:
    store, server = open_store(own_redis.url), raw(own_redis)
    log = await store.create(new_root(), "openai")
    async with log.hold():
        server.config_set("maxmemory", "1")
        with pytest.raises(StoreError, match=r"does not work: .*maxmemory"):
            await log.append([note(number) for number in range(10)])
        server.config_set("maxmemory", "0")
        await log.append((note(1),))
    assert topics(await store.read(log.id)) == ["1"]
    await store.close()


async def test_a_database_that_went_back_is_noticed(shared: Place) -> None:
    store = open_store(shared.where)
    log = await store.create(new_root(), "openai")
    await add(log, note(1), note(2))
    if shared.kind == "redis":
        raw(shared.server).rpop(f"wane:{{{log.id[:24]}}}:{log.id}:lines")
    else:
        run_sql(shared.server, f"DELETE FROM wane_line WHERE session = '{log.id}' AND number = 3")
        run_sql(
            shared.server,
            f"UPDATE wane_session SET lines = 2, tail = (SELECT left(right(line, 10), 8) FROM wane_line"
            f" WHERE session = '{log.id}' AND number = 2) WHERE id = '{log.id}'",
        )
    with pytest.raises(SessionLostError, match=r"ends with line 2, but does not continue line 3"):
        await add(log, note(3))
    # What is there is whole, and can be gone on with.
    again = await store.open(log.id)
    assert topics(await add(again, note(4))) == ["1"]
    with pytest.raises(SessionLostError, match=r"does not continue line"):
        await add(log, note(5))
    # Longer than this process knew it, and another one all the same.
    await add(again, note(6))
    with pytest.raises(SessionLostError, match=r"line 4 is damaged.*do not continue line 3"):
        await add(log, note(7))
    assert topics(await store.read(log.id)) == ["1", "4", "6"]
    await store.close()


async def test_a_session_that_was_deleted_is_lost(shared: Place) -> None:
    store = open_store(shared.where)
    log = await store.create(new_root(), "openai")
    await add(log, note(1))
    async with log.hold():
        if shared.kind == "redis":
            raw(shared.server).flushall()
        else:
            run_sql(shared.server, f"DELETE FROM wane_session WHERE id = '{log.id}'")
        with pytest.raises(SessionLostError, match="is no longer in"):
            await log.append((note(2),))
    for _ in range(2):
        with pytest.raises(SessionLostError, match="is no longer in"):
            await add(log, note(3))
    with pytest.raises(SessionLostError, match="is no longer in"):
        await log.append((note(4),))
    await store.close()


async def test_many_expired_sessions_are_deleted_in_several_goes(postgres_server: Postgres) -> None:
    plain, root = open_store(postgres_server.url), new_root()
    await plain.check()
    # Each go deletes 50 of all that have expired, those of other tests too.
    run_sql(postgres_server, "DELETE FROM wane_session")
    for _ in range(60):
        await plain.create(root, "openai")
    await asyncio.sleep(0.3)
    store = open_store(postgres_server.url, keep=0.25)
    for _ in range(8):
        await store.create(new_root(), "openai")
    assert (await found(plain, root)) == []
    await asyncio.gather(plain.close(), store.close())


async def test_a_line_that_was_changed_is_named(shared: Place) -> None:
    store = open_store(shared.where)
    log = await store.create(new_root(), "openai")
    await add(log, note(1), note(2))
    (_, line, _) = await database_at(shared.where).fetch(log.id)
    changed = line.decode().replace('"1"', '"7"')
    if shared.kind == "redis":
        raw(shared.server).lset(f"wane:{{{log.id[:24]}}}:{log.id}:lines", 1, changed)
    else:
        run_sql(shared.server, f"UPDATE wane_line SET line = '{changed}' WHERE session = '{log.id}' AND number = 2")
    again = await store.open(log.id)
    message = rf"session {log.id} in .*, line 2 is damaged"
    with pytest.raises(StoreError, match=message):
        await store.read(log.id)
    with pytest.raises(StoreError, match=message):
        await add(again)
    await store.close()


async def test_a_session_of_another_version_is_refused_by_name(shared: Place) -> None:
    store, database = open_store(shared.where), database_at(shared.where)
    session_id = f"{new_root()}-{'1' * 16}"
    await database.begin(session_id, b'{"kind":"session","version":99,"crc":"00000000"}')
    for reading in (store.open(session_id), store.read(session_id)):
        with pytest.raises(StoreError, match=rf"session {session_id} in .*, line 1: version 99 .*; update with: "):
            await reading
    await database.close()
    await store.close()


async def test_what_the_database_prints_is_a_sessions_file(shared: Place, tmp_path: Path) -> None:
    store = open_store(shared.where)
    log = await store.create(new_root(), "openai")
    await add(log, note(1), note(2, text="Grüße\n"))
    await store.close()
    if shared.kind == "redis":
        lines = raw(shared.server).lrange(f"wane:{{{log.id[:24]}}}:{log.id}:lines", 0, -1)
    else:
        statement = "SELECT line FROM wane_line WHERE session = %s ORDER BY number"
        with psycopg.connect(shared.where, client_encoding="utf8") as connection:
            lines = [line.encode() for (line,) in connection.execute(statement, (log.id,))]
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    file = read(path)
    assert file.header.id == log.id
    assert topics(file.records) == ["1", "2"]
    assert not file.torn


def test_a_user_with_few_rights_is_enough(redis_server: Redis, postgres_server: Postgres) -> None:
    commands = "exists pexpire persist time rpush llen lindex lrange lset del zadd zrem zcard zscore zrange"
    commands += " zrangebylex zrangebyscore eval evalsha script|load"
    rules = ["~wane:*", "-@all", *(f"+{command}" for command in commands.split())]
    raw(redis_server).acl_setuser("few", enabled=True, passwords=[f"+{PASSWORD}"], reset=True)
    raw(redis_server).execute_command("ACL", "SETUSER", "few", *rules)
    # Who may make tables makes them first.
    asyncio.run(_use(open_store(postgres_server.url)))
    run_sql(postgres_server, f"CREATE ROLE few LOGIN PASSWORD '{PASSWORD}'")
    run_sql(postgres_server, "GRANT SELECT, INSERT, UPDATE, DELETE ON wane_session, wane_line, wane_key TO few")
    run_sql(postgres_server, "GRANT SELECT ON wane_schema TO few")
    for url in (redis_server.url.replace("redis://:", "redis://few:"), postgres_server.url.replace("wane:", "few:")):
        asyncio.run(_use(open_store(url)))


async def _use(store: Store) -> None:
    log = await store.create(new_root(), "openai")
    await add(log, note(1))
    await log.sync()
    assert (await found(store, log.id[:24])) == [log.id]
    assert topics(await store.read(log.id)) == ["1"]
    await store.close()


async def test_every_step_may_be_done_twice(shared: Place) -> None:
    store, database = open_store(shared.where), database_at(shared.where)
    log = await store.create(new_root(), "openai")
    await add(log, note(1), note(2))
    header, first, second = await database.fetch(log.id)
    await database.begin(log.id, header)
    with pytest.raises(StoreError, match="already a session"):
        await database.begin(log.id, first)
    session_id = f"{new_root()}-{'1' * 16}"
    after = End(1, int(header[-10:-2], 16))
    for _ in range(2):
        await database.begin(session_id, header)
    assert await database.new_lines(session_id, 1) == (after, [])
    for _ in range(2):
        assert await database.append(session_id, after, (first, second))
    assert not await database.append(session_id, after, (first,))
    assert not await database.append(session_id, End(3, after.checksum), (first,))
    assert await database.new_lines(session_id, 2) == (End(3, int(second[-10:-2], 16)), [second])
    assert list(await database.fetch(session_id)) == [header, first, second]
    await database.close()
    await store.close()


async def test_a_check_tells_of_a_database_that_only_reads(shared: Place) -> None:
    store = open_store(shared.where)
    await store.check()
    await store.close()
    if shared.kind == "redis":
        with redis.Redis.from_url(shared.where) as client:
            client.config_set("maxmemory", "1")
            try:
                await checked_in_vain(shared)
            finally:
                client.config_set("maxmemory", "0")
    else:
        run_sql(shared.server, "ALTER ROLE wane SET default_transaction_read_only = on")
        try:
            await checked_in_vain(shared)
        finally:
            with psycopg.connect(shared.server.url, autocommit=True) as connection:
                connection.execute("SET default_transaction_read_only = off")
                connection.execute("ALTER ROLE wane RESET ALL")
    store = open_store(shared.where)
    await store.check()
    await store.close()


async def checked_in_vain(place: Place) -> None:
    store = open_store(place.where)
    with pytest.raises(StoreError, match=r"does not work|cannot"):
        await store.check()
    await store.close()


async def test_sessions_expire(shared: Place) -> None:
    if shared.kind == "postgresql":
        await open_store(shared.where).check()
        run_sql(shared.server, "DELETE FROM wane_session")
    keep, root = 0.5, new_root()
    store = open_store(shared.where, keep)
    log = await store.create(root, "openai")
    kept = await open_store(shared.where, keep=0).create(new_root(), "openai")
    await asyncio.sleep(keep + 0.2)
    # PostgreSQL deletes them when a process begins its first session, and every hour from then on.
    await open_store(shared.where, keep).create(new_root(), "openai")
    assert (await found(store, root)) == []
    for attempt in (store.read(log.id), store.open(log.id), add(log, note(2))):
        with pytest.raises(StoreError, match="expired"):
            await attempt
    if shared.kind == "redis":
        assert topics(await store.read(kept.id)) == []


async def test_keys_have_their_prefix_and_expire(own_redis: Redis) -> None:
    store, root = open_store(f"{own_redis.url}?prefix=team-a"), new_root()
    log = await store.create(root, "openai")
    await add(log, note(1), keys=["a" * 16])
    keys = {key.decode(): raw(own_redis).pttl(key) for key in raw(own_redis).scan_iter()}
    of_root, of_session = f"team-a:{{{root}}}", f"team-a:{{{root}}}:{log.id}"
    # Marks stay longer than what they belong to, so that the next session of the root takes them out.
    months = {f"{of_root}:ids": 2, f"{of_root}:heads": 2, f"{of_root}:keys": 2}
    months |= {f"{of_session}:lines": 1, f"{of_session}:marks": 3}
    month = 30 * 86_400_000
    assert set(keys) == set(months)
    assert all(month * count - 60_000 < keys[key] <= month * count for key, count in months.items())
    await store.close()


async def test_processes_make_the_tables_once(postgres_server: Postgres) -> None:
    run_sql(postgres_server, "DROP TABLE IF EXISTS wane_key, wane_line, wane_session, wane_schema")

    stores = [open_store(postgres_server.url) for _ in range(8)]
    logs = await asyncio.gather(*(store.create(new_root(), "openai") for store in stores))
    await asyncio.gather(*(add(log, note(1)) for log in logs))
    await asyncio.gather(*(store.close() for store in stores))


def test_tables_of_a_newer_version_are_refused(postgres_server: Postgres) -> None:
    run_sql(postgres_server, "CREATE SCHEMA newer")
    run_sql(postgres_server, "CREATE TABLE newer.wane_schema (version integer)")
    run_sql(postgres_server, "INSERT INTO newer.wane_schema VALUES (7)")
    store = open_store(f"{postgres_server.url}?options=-csearch_path%3Dnewer")
    with pytest.raises(StoreError, match=r"are of version 7, but this Wane needs version 1"):
        asyncio.run(found(store, new_root()))


def test_statements_hold_no_values() -> None:
    from wane.proxy.store import postgres

    statements = [text for name, text in vars(postgres).items() if name.isupper() and isinstance(text, str)]
    assert len(statements) > 10
    for statement in (*statements, *postgres.TABLES):
        assert not re.search(r"[{}]|%[^(]", statement)


async def test_an_expired_session_leaves_no_marks(redis_server: Redis) -> None:
    keep = 0.3

    store, root = open_store(redis_server.url, keep), new_root()
    await add(await store.create(root, "openai"), note(1), keys=["a" * 16, "b" * 16])
    await asyncio.sleep(keep + 0.1)
    later = await store.create(root, "openai")
    await add(later, note(1), keys=["c" * 16])
    server = raw(redis_server)
    assert server.zrange(f"wane:{{{root}}}:keys", 0, -1) == [f"{'c' * 16} {later.id}".encode()]
    assert server.zcard(f"wane:{{{root}}}:heads") == 1
    await store.close()

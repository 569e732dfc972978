"""What every store keeps to, with real servers: one contract, whatever the sessions are kept in."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wane
from tests.journal.support import records as any_record
from tests.proxy.store.support import Place, add, add_anew, found, new_root, note, topics
from tests.strategies import times
from wane.journal import NoteRecord, Record
from wane.proxy.store.stores import (
    SessionBusyError,
    SessionChangedError,
    SessionDigests,
    SessionLog,
    Sought,
    Store,
    StoredMatch,
    StoreError,
)

PROJECT = Path(wane.__file__).parents[2]


@asynccontextmanager
async def opened_store(place: Place) -> AsyncIterator[Store]:
    store = place.store()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def begin_session(place: Place) -> AsyncIterator[tuple[Store, SessionLog]]:
    """A store and a new session in it."""
    async with opened_store(place) as store:
        log = await store.create(new_root(), "openai")
        yield store, log
        await log.close()


async def test_a_session_is_begun_found_and_gone_on_with(place: Place) -> None:
    root = new_root()
    async with opened_store(place) as store:
        assert store.persistent
        assert (await found(store, root)) == []
        log = await store.create(root, "openai")
        assert log.header.id == log.id
        assert log.header.format == "openai"
        assert list(await add(log, note(1), note(2))) == []
        await log.sync()
        await log.close()
    async with opened_store(place) as store:
        assert (await found(store, root)) == [log.id]
        again = await store.open(log.id)
        assert again.header == log.header
        assert topics(await add(again, note(3))) == ["1", "2"]
        assert list(await add(again)) == []
        assert topics(await store.read(log.id)) == ["1", "2", "3"]
        await again.close()


@settings(times(0.5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(any_record, max_size=4), max_size=4))
def test_records_of_every_kind_come_back_as_they_were(place: Place, batches: Sequence[Sequence[Record]]) -> None:
    async def act() -> Sequence[Record]:
        async with opened_store(place) as store:
            log = await store.create(new_root(), "openai")
            for batch in batches:
                await add(log, *batch)
            await log.close()
            read = await store.read(log.id)
            again = await store.open(log.id)
            async with again.hold() as held:
                assert list(held) == list(read)
            await again.close()
            await store.delete(log.id)  # its requests are made up, and would not verify
            return read

    written = [record for batch in batches for record in batch]
    back = asyncio.run(act())
    assert len(back) == len(written)
    for before, after in zip(written, back, strict=True):
        assert after.at is not None
        assert after == replace(before, at=before.at or after.at)


async def test_the_session_written_last_is_found_first(place: Place) -> None:
    root, other = new_root(), new_root()
    async with opened_store(place) as store:
        await add(await store.create(other, "openai"), note(1))
        logs = [await store.create(root, "openai") for _ in range(3)]
        for log in (logs[1], logs[2], logs[0]):
            # Longer than the steps of a clock.
            await asyncio.sleep(0.02)
            await add(log, note(1))
        assert await found(store, root) == [logs[0].id, logs[2].id, logs[1].id]
        assert await found(store, other) != []
        for log in logs:
            await log.close()


async def test_a_session_is_found_by_its_latest_answer_however_many_share_the_others(place: Place) -> None:
    shared = [f"{number:016x}" for number in range(1, 400)]

    root = new_root()
    own = [new_root()[:16] for _ in range(40)]
    async with opened_store(place) as store:
        logs = [await store.create(root, "openai") for _ in own]
        for log, key in zip(logs, own, strict=True):
            await add(log, note(1), keys=shared)
            await add(log, note(2), keys=[key])
        for log, key in zip(logs, own, strict=True):
            assert await found(store, root, "f" * 16, key, *shared[::-1]) == [log.id]
        # More keys than one batch has, before the first that is known.
        unknown = [new_root()[:16] for _ in range(300)]
        assert await found(store, root, *unknown, own[3], shared[0]) == [logs[3].id]
        assert set(await found(store, root, *unknown, shared[7])) == {log.id for log in logs}
        assert await found(store, root, *unknown) == []
        await logs[0].close()
        await store.delete(logs[0].id)
        assert await found(store, root, own[0]) == []
        assert len(await found(store, root, shared[0])) == len(own) - 1
        for log in logs[1:]:
            await log.close()


async def test_a_head_is_that_of_the_latest_record(place: Place) -> None:
    first, second = (f"{number}" * 32 for number in (1, 2))

    root = new_root()
    async with opened_store(place) as store:
        log = await store.create(root, "openai")
        for head in (first, second):
            async with log.hold():
                await log.append((note(1),), SessionDigests(head, ["a" * 16]))
            await log.sync()
        assert not (await store.find(root, Sought((), [first]))).sessions
        for sought in (Sought((), [second]), Sought(["a" * 16])):
            assert (await store.find(root, sought)).sessions == [StoredMatch(log.id, second)]
        await log.close()


@pytest.mark.parametrize("root", ["", "*", "../../etc", "ab" * 13, "AB" * 12, "ab" * 11 + "*?", "}" * 24])
async def test_what_is_no_root_and_no_id_is_refused(place: Place, root: str) -> None:
    async with opened_store(place) as store:
        for attempt in (
            found(store, root),
            store.create(root, "openai"),
            store.open(root),
            store.read(root),
            store.open(f"{root}-{'0' * 16}"),
        ):
            with pytest.raises(StoreError):
                await attempt


async def test_sessions_are_listed_by_age_and_deleted(place: Place) -> None:
    async with opened_store(place) as store:
        root = new_root()
        logs = [await store.create(root, "openai") for _ in range(3)]
        for log in logs:
            await add(log, note(1, text="x" * 1_000))
            await log.close()
            await asyncio.sleep(0.02)
        ids = {log.id for log in logs}
        listed = [session for session in await store.unwritten(0) if session.id in ids]
        assert [session.id for session in listed] == [log.id for log in logs]
        assert all(session.size > 1_000 and session.written.tzinfo is not None for session in listed)
        assert not [session for session in await store.unwritten(3_600) if session.id in ids]
        await store.delete(logs[1].id)
        assert set(await found(store, root)) == {logs[0].id, logs[2].id}
        gone = logs[1].id
        for attempt in (store.delete(gone), store.open(gone), store.read(gone), store.header(gone), store.delete("no")):
            with pytest.raises(StoreError, match="there is no session"):
                await attempt
        assert topics(await store.read(logs[2].id)) == ["1"]


async def test_only_who_holds_a_session_adds_to_it(place: Place) -> None:
    async with begin_session(place) as (store, log):
        with pytest.raises(StoreError, match="is not held"):
            await log.append((note(1),))
        await add(log, note(2))
        with pytest.raises(StoreError, match="is not held"):
            await log.append((note(3),))
        async with log.hold():
            with pytest.raises(StoreError, match="is not held"):
                await asyncio.create_task(log.append((note(4),)))
        assert topics(await store.read(log.id)) == ["2"]


async def test_records_are_added_all_or_none(place: Place) -> None:
    impossible = NoteRecord("impossible", {"value": object()})
    async with begin_session(place) as (store, log):
        async with log.hold():
            await log.append((note(1),))
            with pytest.raises(StoreError, match=r"kind 'note' cannot be written as JSON"):
                await log.append((note(2), impossible, note(3)))
            await log.append(())
            await log.append((note(4), note(5)))
        assert topics(await store.read(log.id)) == ["1", "4", "5"]


async def test_tasks_of_one_process_take_turns(place: Place) -> None:
    async with begin_session(place) as (store, log):
        inside = 0

        async def work(number: int) -> None:
            nonlocal inside
            async with log.hold() as new:
                assert list(new) == []
                inside += 1
                assert inside == 1
                await log.append((note(number),))
                await asyncio.sleep(0)
                assert inside == 1
                inside -= 1

        await asyncio.gather(*(work(number) for number in range(100)))
        assert topics(await store.read(log.id)) == [str(number) for number in range(100)]


async def test_who_is_cancelled_leaves_whole_batches_and_no_holder(place: Place) -> None:
    rng = random.Random(3)
    async with begin_session(place) as (store, log):
        for number in range(40):
            # Some heavy enough for a thread.
            text = "x" * rng.choice((10, 100_000))
            task = asyncio.create_task(add(log, note(number, text=text), note(number)))
            for _ in range(rng.randrange(8)):
                await asyncio.sleep(0)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random() * 0.002)
            task.cancel()
            with suppress(asyncio.CancelledError):
                # What this process wrote itself, it knows of, also where it was not told.
                assert list(await task) == []
        assert list(await add(log, note(-1))) == []
        counts = Counter(topics(await store.read(log.id)))
        assert counts.pop("-1") == 1
        assert set(counts.values()) <= {2}


async def test_a_cancelled_opening_lets_go(place: Place) -> None:
    async with opened_store(place) as store:
        log = await store.create(new_root(), "openai")
        await add(log, *(note(number) for number in range(2000)))
        await log.close()
        for turns in range(6):
            task = asyncio.create_task(store.open(log.id))
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).close()
        again = await store.open(log.id)
        assert len(await add(again)) == 2000
        await again.close()


async def process(act: str, place: Place, session_id: str, name: str, count: int = 0) -> asyncio.subprocess.Process:
    """Start another process that uses a session."""
    arguments = ["-m", "tests.proxy.store.worker", act, place.where, session_id, name, str(count)]
    environ = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'src'}"}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, cwd=Path(__file__).parents[3], env=environ
    )


async def read_line(worker: asyncio.subprocess.Process) -> str:
    assert worker.stdout is not None
    return (await worker.stdout.readline()).decode().strip()


@pytest.mark.full
async def test_processes_at_once_lose_nothing_and_keep_the_order(place: Place) -> None:
    count = 100
    async with opened_store(place) as store:
        log = await store.create(new_root(), "openai")
        await log.close()
        workers = [await process("add", place, log.id, name, count) for name in ("a", "b")]
        for worker in workers:
            assert await read_line(worker) == "ready"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
        assert [await worker.wait() for worker in workers] == [0, 0]
        records = [record for record in await store.read(log.id) if isinstance(record, NoteRecord)]
    assert len(records) == 2 * count
    for name in ("a", "b"):
        numbers = [record.data["number"] for record in records if record.topic == name]
        assert sorted(numbers) == list(range(count))
        if not place.shared:
            assert numbers == sorted(numbers)
    if place.shared:
        # Each knew of all that stood before it, of the other process too.
        assert [record.data["before"] for record in records] == list(range(2 * count))


async def test_who_holds_a_session_gets_what_others_added_since(shared: Place) -> None:
    async with opened_store(shared) as here, opened_store(shared) as there:
        one = await here.create(new_root(), "openai")
        other = await there.open(one.id)
        assert topics(await add(one, note(1))) == []
        assert topics(await add(other, note(2), note(3))) == ["1"]
        assert topics(await add(other)) == []
        assert topics(await add(one, note(4))) == ["2", "3"]
        assert topics(await add(other)) == ["4"]


async def test_nothing_is_added_on_old_knowledge(shared: Place) -> None:
    async with opened_store(shared) as here, opened_store(shared) as there:
        one = await here.create(new_root(), "openai")
        other = await there.open(one.id)
        async with one.hold():
            await add(other, note(1))
            for _ in range(2):
                with pytest.raises(SessionChangedError, match="another process has added to it"):
                    await one.append((note(2),))
        assert topics(await add(one, note(3))) == ["1"]
        assert topics(await add(other)) == ["3"]
        assert topics(await here.read(one.id)) == ["1", "3"]


async def test_who_begins_again_gets_all_records(shared: Place) -> None:
    async with opened_store(shared) as store:
        log = await store.create(new_root(), "openai")
        await add(log, note(1), note(2))
        log.rewind()
        assert topics(await add(log, note(3))) == ["1", "2"]
        assert topics(await add(log)) == []


@pytest.mark.full
async def test_a_session_open_elsewhere_is_busy_on_disk(tmp_path: Path) -> None:
    place = Place("disk", str(tmp_path))
    async with opened_store(place) as here, opened_store(place) as there:
        log = await here.create(new_root(), "openai")
        await add(log, note(1))
        with pytest.raises(SessionBusyError, match=r"is open in another process"):
            await there.open(log.id)
        assert topics(await there.read(log.id)) == ["1"]
        await log.close()
        await (await there.open(log.id)).close()


@pytest.mark.full
async def test_a_killed_holder_frees_the_session(tmp_path: Path) -> None:
    place = Place("disk", str(tmp_path))
    async with opened_store(place) as store:
        log = await store.create(new_root(), "openai")
        await add(log, note(1))
        await log.close()
        holder = await process("hold", place, log.id, "holder")
        assert await read_line(holder) == "held"
        with pytest.raises(SessionBusyError):
            await store.open(log.id)
        holder.kill()
        await holder.wait()
        assert await add_anew(store, log.id, note(2)) == 1
        assert topics(await store.read(log.id)) == ["1", "2"]


async def test_a_process_that_stood_still_holds_up_nobody_and_cannot_add(shared: Place) -> None:
    async with opened_store(shared) as store:
        log = await store.create(new_root(), "openai")
        stalled, killed = [await process("hold", shared, log.id, name) for name in ("stalled", "killed")]
        assert [await read_line(worker) for worker in (stalled, killed)] == ["held", "held"]
        killed.kill()
        await killed.wait()
        assert topics(await add(log, note(1))) == []
        assert stalled.stdin is not None
        stalled.stdin.close()
        assert await read_line(stalled) == "SessionChangedError"
        assert await stalled.wait() == 0
        assert topics(await store.read(log.id)) == ["1"]


async def test_a_document_is_replaced_only_if_it_is_the_known_one(place: Place) -> None:
    async with opened_store(place) as store, opened_store(place) as other:
        known = await store.document("kind", "a")
        for document in ("one", "two"):
            assert not await store.replace_document("kind", "a", "another", document)
            assert await store.replace_document("kind", "a", known, document)
            assert await other.document("kind", "a") == document
            known = document
        assert not await other.replace_document("kind", "a", None, "three")
        assert await other.replace_document("kind", "a", known, None)
        assert await store.document("kind", "a") is None
        assert await store.replace_document("kind", "a", None, "four")
        assert await store.replace_document("kind", "a", "four", None)


async def test_kinds_and_names_of_documents_are_apart(place: Place) -> None:
    texts = {(kind, name): f"{kind} {name} Grüße" for kind, name in (("x", ""), ("x", "a.b@c-d_e"), ("y", ""))}
    async with opened_store(place) as store:
        for (kind, name), text in texts.items():
            assert await store.replace_document(kind, name, None, text)
        assert await store.documents("x") == {"": "x  Grüße", "a.b@c-d_e": "x a.b@c-d_e Grüße"}
        assert await store.document("y", "") == "y  Grüße"
        assert await store.documents("z") == {}
        for (kind, name), text in texts.items():
            assert await store.replace_document(kind, name, text, None)


async def test_of_changes_of_a_document_at_once_none_is_lost(place: Place) -> None:
    stores = [place.store() for _ in range(4)]

    async def count(store: Store) -> None:
        for _ in range(25):
            await store.change_document("count", "a", lambda known: str(int(known or 0) + 1), "the count")

    await asyncio.gather(*map(count, stores))
    assert await stores[0].document("count", "a") == "100"
    await stores[0].replace_document("count", "a", "100", None)
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_header_tells_whose_a_session_is_while_another_process_has_it_open(place: Place) -> None:
    async with opened_store(place) as store, opened_store(place) as other:
        for owner in ("", "alice"):
            log = await store.create(new_root(), "openai", owner)
            assert (await other.header(log.id)).owner == owner
            await log.close()

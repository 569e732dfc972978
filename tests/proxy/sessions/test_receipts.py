"""Receipts of the proxy's requests: hidden rounds, restarts and forks, in every protocol."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.marks import cross_quick
from tests.proxy.sessions.test_index import SMALL, disk, worker
from tests.proxy.world import CLIENTS, AnthropicClient, Client, begin, exchange, result, run_turn, work
from wane.cli.sessions.removing import delete_sessions
from wane.cli.top_commands import DeleteOptions
from wane.journal import NoteRecord, Record, SentRequest, SessionStore, read, sent_requests
from wane.journal.records import FORK_NOTE
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore, SessionChangedError, SessionDigests
from wane.proxy.wire.wire import Round


def own_requests(root: Path) -> dict[str, list[SentRequest]]:
    """The requests of each session below a directory, without those that it has copied from another one."""
    sessions = {}
    for path in root.rglob("*Z-*.jsonl"):
        records = list(read(path).records)
        requests = copied = 0
        for record in records:
            if record.kind == "request":
                requests += 1
            elif isinstance(record, NoteRecord) and record.topic == FORK_NOTE:
                copied = requests
        sessions[read(path).header.id] = list(sent_requests(records))[copied:]
    return sessions


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("make", "restarts"), cross_quick(CLIENTS, (True, False)), ids=lambda value: getattr(value, "__name__", str(value))
)
async def test_the_journal_gives_back_each_request_of_a_session_and_of_its_fork(
    make: type[Client], restarts: bool, tmp_path: Path
) -> None:
    client, sent, rounds = make(), list[bytes](), 0
    upstream = worker(client, 2, reasons=True)
    index = SessionIndex(disk(tmp_path), SMALL)

    async def go_on(agent: Client, turns: int) -> None:
        nonlocal index, rounds
        for number in range(turns):
            agent.say(f'{number}: "Ünïcode" \\ and so on. ' * 5)
            for _ in range(20):
                if restarts:
                    await index.close()
                    index = SessionIndex(disk(tmp_path), SMALL)
                done = await exchange(index, agent, upstream)
                sent.extend(map(orjson.dumps, done.bodies))
                rounds += len(done.bodies) - 1
                if not agent.take(done.answer, result):
                    break

    await go_on(client, 2)
    fork = client.copy()
    await go_on(client, 1)
    fork.say("Something else instead.")
    await go_on(fork, 1)
    await index.close()
    sessions = own_requests(tmp_path)
    requests = [request for session in sessions.values() for request in session]
    assert {request.state for request in requests} == {"identical"}
    assert Counter(request.body for request in requests) == Counter(sent)
    assert len(sessions) >= 2
    assert rounds


async def test_with_digests_only_no_request_is_stored_but_each_can_be_proven(tmp_path: Path) -> None:
    client = CLIENTS[0]()
    index = SessionIndex(disk(tmp_path), SMALL, keep_requests=False)
    done = await work(index, client, worker(client, 1), 2)
    await index.close()
    (requests,) = own_requests(tmp_path).values()
    assert {request.state for request in requests} == {"not kept"}
    assert len(requests) == sum(len(one.bodies) for one in done)
    (path,) = tmp_path.rglob("*Z-*.jsonl")
    assert b"You code." not in path.read_bytes()


async def test_in_memory_nothing_is_made(tmp_path: Path) -> None:
    client = CLIENTS[0]()
    index = SessionIndex(MemoryStore(), SMALL)
    client.say("Go.")
    await run_turn(index, client, worker(client, 1), result)
    assert all(cached.receipts is None for cached in index._finders[""].memory)


class Changing(DiskStore):
    """A store in which, once `changes` is set, another process always adds to a session right before this one does."""

    changes = False

    async def create(self, root: str, message_format: str, owner: str = "", parent: str = "") -> Any:
        log = await super().create(root, message_format, owner, parent)
        append = log.append

        async def refuse_append(records: Sequence[Record], digests: SessionDigests | None = None) -> None:
            if self.changes:
                raise SessionChangedError("another process has added to it")
            await append(records, digests)

        log.append = refuse_append  # type: ignore[method-assign]
        return log


async def test_a_request_or_a_reply_that_cannot_be_recorded_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = AnthropicClient()
    client.say("Go.")
    store = Changing(SessionStore(tmp_path), fsync=False)
    index = SessionIndex(store, SMALL)
    begun = await begin(index, client.wire, client.body())
    store.changes = True
    await begun.send_body(b"{}", "https://provider.example")
    assert await begun.record(Round({"role": "assistant", "content": "Done."})) is None
    name = f"session {begun.facts.session}"
    assert [record.getMessage().partition(" was not recorded: ")[0] for record in caplog.records] == [
        f"{name}: a request",
        f"{name}: a reply",
    ]
    await index.close()


def answer_keys(root: Path) -> list[bytes]:
    """The keys by which the proxy finds its sessions."""
    with closing(sqlite3.connect(root / "index.sqlite3")) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM key")]


@pytest.mark.quick(2)
@pytest.mark.parametrize("make", CLIENTS, ids=lambda client: client.__name__)
async def test_a_turn_can_be_deleted_and_its_client_goes_on(make: type[Client], tmp_path: Path) -> None:
    client = make()
    upstream = worker(client, 2)
    index = SessionIndex(disk(tmp_path), SMALL)
    for text in ("Write to Jane Doe of 7 Elm Street.", "Now do something else, which may stay."):
        client.say(text)
        await run_turn(index, client, upstream, result)
    await index.close()
    (path,) = tmp_path.rglob("*Z-*.jsonl")
    before = list(sent_requests(read(path).records))
    assert answer_keys(tmp_path)
    # As a command, which has no event loop yet.
    options = DeleteOptions(names=[path.stem[-16:]], turn=1, store=str(tmp_path))
    assert await asyncio.to_thread(delete_sessions, options) == 0
    assert not answer_keys(tmp_path)
    assert b"Elm Street" not in path.read_bytes()
    assert b"which may stay" in path.read_bytes()
    after = list(sent_requests(read(path).records))
    assert [request.record.chain for request in after] == [request.record.chain for request in before]
    assert {request.state for request in after} == {"deleted"}
    client.say("Go on.")
    await run_turn(SessionIndex(disk(tmp_path), SMALL), client, upstream, result)

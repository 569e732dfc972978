"""Sessions in files: who may read them, and what happens to a file that is damaged, torn, or on a full disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.journal.support import in_a_child
from tests.proxy.server.support import ask, body, message, provider, proxy, response
from tests.proxy.server.test_managed import replies
from tests.proxy.sessions.test_index import SMALL
from tests.proxy.store.support import add, files, found, head_of, new_root, note, topics
from tests.proxy.store.test_alike import begin_session
from tests.proxy.world import AnthropicClient, exchange
from wane.journal import MessageRecord, SessionStore, read
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import SessionDigests, Sought, StoreError

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions and limits")


async def write_session(directory: Path, count: int = 3) -> str:
    """Write a session and return its id."""
    log = await open_store(str(directory)).create(new_root(), "openai")
    for number in range(count):
        await add(log, note(number))
    await log.close()
    return log.id


def path_of(directory: Path, session_id: str) -> Path:
    (path,) = directory.rglob(f"*Z-{session_id}.jsonl")
    return path


@posix_only
def test_sessions_are_their_owners_alone(tmp_path: Path) -> None:
    def act() -> None:
        os.umask(0)
        asyncio.run(write_session(tmp_path / "made" / "sessions"))

    assert in_a_child(act) == ""
    root = tmp_path / "made" / "sessions"
    found = files(root)
    assert {path.suffix for path in found} >= {".jsonl", ".lock", ".sqlite3"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, *root.glob("*/"), *root.glob("*/*/"))} == {0o700}


async def test_a_session_is_a_file_of_the_journal_in_the_working_directorys_place(tmp_path: Path) -> None:
    log = await DiskStore(SessionStore(tmp_path / "sessions"), cwd=tmp_path).create("ab" * 12, "anthropic")
    await add(log, note(1))
    await log.close()
    (info,) = SessionStore(tmp_path / "sessions").sessions(tmp_path)
    assert (info.id, info.problem) == (log.id, None)
    file = read(info.path)
    assert file.header.format == "anthropic"
    assert topics(file.records) == ["1"]


async def test_messages_of_any_characters_and_numbers_come_back(tmp_path: Path) -> None:
    texts = ["Größe ∑ 😀", "lines\u2028and\u2029and\x85\r\n", "\ud800 alone", "\x00"]
    numbers = [2**63, 2**64 + 1, 0.1, -0.0, 1e300, inf]
    messages = [{"role": "user", "content": text, "n": number} for text in texts for number in numbers]
    log = await open_store(str(tmp_path)).create("ab" * 12, "openai")
    await add(log, *map(MessageRecord, messages))
    await log.close()
    file = read(path_of(tmp_path, log.id))
    assert [record.message for record in file.records if isinstance(record, MessageRecord)] == messages
    assert not file.torn


async def test_a_session_that_was_not_synced_is_found_after_a_crash(tmp_path: Path) -> None:
    keys = ["a" * 16, "b" * 16]

    crashed, root = open_store(str(tmp_path)), "ab" * 12
    log = await crashed.create(root, "openai")
    async with log.hold():
        await log.append((note(1),), SessionDigests(head_of(root), keys[:1]))
    assert (await open_store(str(tmp_path)).find(root, Sought(keys[:1]))).without_digests == [log.id]
    await log.sync()
    async with log.hold():
        await log.append((note(2),), SessionDigests("c" * 32, keys[1:]))
    assert await found(open_store(str(tmp_path)), root, *keys[::-1]) == [log.id]
    await log.close()
    assert await found(open_store(str(tmp_path)), root, keys[1]) == [log.id]


async def test_finding_opens_no_file(tmp_path: Path) -> None:
    session_id = await write_session(tmp_path)
    path_of(tmp_path, session_id).write_bytes(b"no session at all")
    assert await found(open_store(str(tmp_path)), session_id[:24]) == [session_id]


async def test_a_record_that_was_cut_short_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session_id, store = await write_session(tmp_path), open_store(str(tmp_path))
    path = path_of(tmp_path, session_id)
    path.write_bytes(path.read_bytes()[:-20])
    assert topics(await store.read(session_id)) == ["0", "1"]
    log = await store.open(session_id)
    assert topics(await add(log, note(9))) == ["0", "1"]
    await log.close()
    assert topics(await store.read(session_id)) == ["0", "1", "9"]
    assert "was cut short" in caplog.text
    assert path.with_name(f"{path.name}.torn").exists()


async def test_a_damaged_session_is_named_and_left_alone(tmp_path: Path) -> None:
    session_id, store = await write_session(tmp_path), open_store(str(tmp_path))
    path = path_of(tmp_path, session_id)
    damaged = path.read_bytes().replace(b'"topic":"1"', b'"topic":"7"')
    path.write_bytes(damaged)
    for attempt in (store.open(session_id), store.read(session_id)):
        with pytest.raises(StoreError, match=rf"{path.name}, line 3 is damaged"):
            await attempt
    assert path.read_bytes() == damaged


@posix_only
def test_a_full_disk_is_said_and_the_session_goes_on_when_there_is_room(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def may_grow_to(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    async def act() -> None:
        store = open_store(str(tmp_path))
        log = await store.create(new_root(), "openai")
        big = MessageRecord({"role": "user", "content": "x" * 60_000})
        may_grow_to(100_000)
        await add(log, big, note(1))
        for heavy in (big, MessageRecord({"role": "user", "content": "x" * 200_000})):
            with pytest.raises(StoreError, match=r"cannot write to the session .*: File too large"):
                await add(log, note(2), heavy, note(3))
        await add(log, note(4))
        may_grow_to(resource.RLIM_INFINITY)
        await add(log, big, note(5))
        await log.sync()
        assert topics(await store.read(log.id)) == ["1", "4", "5"]
        await log.close()

    def child() -> None:
        # A file that may not grow takes a part of a write, as a full disk does.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        asyncio.run(act())

    assert in_a_child(child) == ""


class HeldThreads(ThreadPoolExecutor):
    """Threads that begin their work once `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(lambda: self.free.wait() and work(*args, **kwargs))


async def test_others_go_on_while_a_session_is_opened(tmp_path: Path) -> None:
    session_id = await write_session(tmp_path)
    path, aside = path_of(tmp_path, session_id), tmp_path / "aside"
    # Nothing but a thread can read the session: its file is away until the threads may begin.
    path.rename(aside)

    threads = HeldThreads()
    asyncio.get_running_loop().set_default_executor(threads)
    opening = asyncio.create_task(open_store(str(tmp_path)).open(session_id))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not opening.done()
    aside.rename(path)
    threads.free.set()
    log = await opening
    assert topics(await add(log)) == ["0", "1", "2"]
    await log.close()


async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    store = open_store(str(tmp_path / "file" / "sessions"))
    for attempt in (store.create(new_root(), "openai"), found(store, new_root())):
        with pytest.raises(StoreError, match=r"Not a directory|cannot"):
            await attempt


async def test_a_session_that_was_closed_takes_nothing(tmp_path: Path) -> None:
    log = await open_store(str(tmp_path)).create(new_root(), "openai")
    await log.close()
    with pytest.raises(StoreError, match="is closed"):
        await add(log, note(1))


@posix_only
@pytest.mark.parametrize("moved", [False, True], ids=["deleted", "moved"])
async def test_a_session_whose_file_is_gone_is_stored_anew(moved: bool, tmp_path: Path) -> None:
    root = tmp_path / "sessions"

    said = response(message("hi"))
    sent = body(stream=False)
    async with provider(replies(said)) as up, proxy(up.url, index=SessionIndex(open_store(str(root)))) as running:

        async def go_on() -> tuple[str | None, str | None]:
            answer = await ask(running, sent)
            assert answer.status == 200
            sent["messages"] += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
            return answer.header("x-wane-session"), answer.header("x-wane-warning")

        first, _ = await go_on()
        if moved:
            root.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(root)
        second, warning = await go_on()
        assert second != first
        assert warning == f"the store has lost session {first}; it continues as {second}"
        assert await go_on() == (second, None)
    # Its file has the whole history.
    assert second is not None
    assert sum(isinstance(record, MessageRecord) for record in read(path_of(root, second)).records) == 5


async def test_sessions_that_nobody_wrote_to_are_deleted_but_for_the_agents_and_open_ones(tmp_path: Path) -> None:
    sessions, old = SessionStore(tmp_path), time.time() - 7_200

    store = DiskStore(sessions, cwd=tmp_path, keep=3_600)
    idle, busy, new = [await store.create(new_root(), "openai") for _ in range(3)]
    for log in (idle, busy, new):
        await add(log, note(1))
    await idle.close()
    sessions.create(tmp_path, message_format="pydantic_ai", session_id="mine").close()
    for path in tmp_path.rglob("*.jsonl"):
        if new.id not in path.name:
            os.utime(path, (old, old))
    # It looks for them with its first session, and every hour from then on.
    again = DiskStore(sessions, cwd=tmp_path, keep=3_600)
    begun = await again.create(new_root(), "openai")
    left = {info.id for info in sessions.sessions()}
    assert left == {busy.id, new.id, "mine", begun.id}
    assert not list(tmp_path.rglob(f"*{idle.id}*"))
    assert not list(tmp_path.rglob(idle.id[:24]))
    for log in (busy, new, begun):
        await log.close()


async def test_sessions_without_an_index_are_resumed_and_get_one(tmp_path: Path) -> None:
    index = SessionIndex(open_store(str(tmp_path)), SMALL)
    sessions = [await begin_session(index, AnthropicClient, number, 3) for number in range(12)]
    await index.close()
    for path in tmp_path.glob("index.sqlite3*"):
        path.unlink()
    for damage in (b"", b"no index at all" * 1_000):
        index = SessionIndex(open_store(str(tmp_path)), SMALL)
        for client, upstream, session in sessions:
            done = await exchange(index, client, upstream)
            assert done.facts.session == session
            client.take(done.answer, lambda *_: "")
            client.say("And on.")
        await index.close()
        (tmp_path / "index.sqlite3").write_bytes(damage)


async def test_a_session_that_was_copied_here_is_found(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    index = SessionIndex(open_store(str(there)), SMALL)
    sessions = [await begin_session(index, AnthropicClient, number, 3) for number in range(3)]
    await index.close()
    index = SessionIndex(open_store(str(here)), SMALL)
    await begin_session(index, AnthropicClient, 7, 3)
    await index.close()
    client, upstream, session = sessions[1]
    copied, beside = path_of(there, session), next(here.rglob("*.jsonl"))
    (beside.parent / copied.name).write_bytes(copied.read_bytes())
    index = SessionIndex(open_store(str(here)), SMALL)
    assert (await exchange(index, client, upstream)).facts.session == session
    await index.close()


@posix_only
async def test_readiness_is_told_by_a_write(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async with provider(replies()) as up, proxy(up.url, index=SessionIndex(open_store(str(tmp_path)))) as running:
        assert (await ask(running, path="/wane/ready", method="GET")).status == 200
        # A file that may not grow takes a part of a write, as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
        try:
            answers = [await ask(running, path="/wane/ready", method="GET") for _ in range(2)]
            with pytest.raises(StoreError, match=f"cannot write to {tmp_path}: File too large"):
                await open_store(str(tmp_path)).check()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [(answer.status, answer.body) for answer in answers] == [(503, b"sessions cannot be stored\n")] * 2
        assert (await ask(running, path="/wane/ready", method="GET")).status == 200
        assert not list(tmp_path.iterdir())


@pytest.mark.full
async def test_readiness_is_503_on_a_full_disk_until_there_is_room(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        index = SessionIndex(open_store(str(mounted)))
        async with provider(replies()) as up, proxy(up.url, index=index) as running:
            (mounted / "full").write_bytes(bytes(240 * 1024))
            assert (await ask(running, path="/wane/ready", method="GET")).status == 503
            (mounted / "full").unlink()
            assert (await ask(running, path="/wane/ready", method="GET")).status == 200
        await index.store.close()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)

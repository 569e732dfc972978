"""Several processes that serve one address, and what tells a supervisor how they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.server.support import Answer, ask, body, message, provider, proxy, response, until
from tests.proxy.server.test_command import Process, wane_proxy
from tests.proxy.server.test_managed import replies
from tests.proxy.store.servers import Redis, run_server
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore, StoreError

forks = pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the processes' children from /proc")
SAID = response(message("hi", usage={"input_tokens": 100, "output_tokens": 1}))


@pytest.fixture
def redis() -> Iterator[Redis]:
    yield from run_server(Redis())


async def test_health_asks_for_no_token_and_tells_nothing() -> None:
    async with provider(replies(SAID)) as up, proxy(up.url, token="a-token-of-some-length") as running:
        for path in ("/wane/health", "/wane/ready"):
            answer = await ask(running, path=path, method="GET")
            assert (answer.status, answer.body) == (200, b"ok\n")
        assert (await ask(running, path="/wane/status", method="GET")).status == 401
        assert not up.asked


async def test_it_is_not_ready_while_sessions_cannot_be_stored() -> None:
    class Down(MemoryStore):
        async def check(self) -> None:
            raise StoreError("the store redis://somewhere does not serve")

    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(Down())) as running:
        answer = await ask(running, path="/wane/ready", method="GET")
        assert (answer.status, answer.body) == (503, b"sessions cannot be stored\n")
        assert (await ask(running, path="/wane/health", method="GET")).status == 200


def children(process: Process) -> list[int]:
    number = process.process.pid
    return [int(word) for word in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


@pytest.mark.full
@forks
async def test_workers_share_sessions_and_a_killed_one_is_replaced(redis: Redis) -> None:
    said = [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]

    async def turn(it: Any, number: int) -> Answer:
        sent = body(stream=False)
        return await ask(it, {**sent, "messages": [*sent["messages"], *said * number]})

    async with (
        provider(replies(SAID)) as up,
        wane_proxy(up.url, "--workers", "3", "--store", redis.url) as it,
    ):
        await until(lambda: len(children(it)) == 3)
        answers = [await turn(it, number) for number in range(12)]
        killed, *others = children(it)
        os.kill(killed, signal.SIGKILL)
        assert f"worker {killed} was ended by signal 9; another one takes its place" in await it.warns("place")
        await until(lambda: len(children(it)) == 3)
        assert set(others) < set(children(it))
        answers += [await turn(it, number) for number in range(12, 24)]
        assert [answer.status for answer in answers] == [200] * 24
        assert len({answer.header("x-wane-session") for answer in answers}) == 1
        workers = children(it)
        it.process.send_signal(signal.SIGTERM)
        code, _, _ = await it.end()
        assert code == 0
        await until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@pytest.mark.full
@forks
async def test_workers_end_with_their_parent(redis: Redis) -> None:
    async with (
        provider(replies(SAID)) as up,
        wane_proxy(up.url, "--workers", "2", "--store", redis.url) as it,
    ):
        await until(lambda: len(children(it)) == 2)
        assert (await ask(it, body(stream=False))).status == 200
        workers = children(it)
        it.process.kill()
        await until(lambda: not any(alive(worker) for worker in workers))


def alive(process: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

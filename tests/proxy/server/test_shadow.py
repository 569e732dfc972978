"""A proxy that only watches: nothing is changed, and what it predicts is what a replay says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from tests.proxy.agents import RESULT, Worker
from tests.proxy.server.support import (
    START,
    STOP,
    Asked,
    ask,
    body,
    chunk,
    connection,
    provider,
    proxy,
    request,
    response,
    stream_head,
    text_block,
)
from tests.proxy.server.test_cost_limit import EACH, SAID, cost_of, ledger
from tests.proxy.server.test_cost_limit import priced_body as priced
from tests.proxy.server.test_managed import replies
from tests.proxy.world import Client, Upstream, every_client
from wane.cli.failure import UsageError
from wane.cli.lab.lab_commands import PRICE
from wane.cli.proxy.proxy_options import Shadow
from wane.conversation.context import ContextSettings
from wane.journal import SessionStore
from wane.lab.readers import read_session
from wane.lab.shadow import predict, sentences
from wane.proxy.server.running import Running
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore, Store
from wane.strategies.strategy import StrategySettings

__all__ = ["plain_surroundings", "run"]

PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:generateContent",
}
BUDGET = 2_000


def odd(body: object) -> bytes:
    """Write JSON as no library of Wane's would, so that a body that was written again shows."""
    return json.dumps(body, indent=3, ensure_ascii=True, separators=(" ,", " :  ")).encode() + b"\n\n"


async def wait_for_records(running: Running) -> None:
    """Wait for what is recorded once the client has its reply."""
    while running.traffic.open_requests():
        await asyncio.sleep(0.005)


async def watch_session(make: type[Client], store: Store, turns: int = 9) -> tuple[list[bytes], list[Asked], str]:
    """Have an agent work through a watching proxy; return what it sent, what arrived, and the session's id."""
    client = make()
    scripted = Upstream(client.provider, Worker(1))
    answers: list[bytes] = []
    sent: list[bytes] = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        told = {"model": client.body()["model"], "stream": False}  # in Gemini's path
        answers.append(odd(json.loads(scripted.ask({**told, **asked.json}))))
        writer.write(response(answers[-1], headers={"content-type": "application/json", "x-request-id": "r1"}))

    async def request(running: Running) -> int:
        body = client.body()
        sent.append(odd(client.wire.outgoing(body, "", counts=False)))
        got = await ask(running, sent[-1], PATHS[client.wire.name].format(model=body["model"]))
        assert got.body == answers[-1]
        assert not [name for name, _ in got.headers if name.startswith("x-wane")]
        return client.take(json.loads(got.body), lambda tool, arguments: f"{tool} {json.dumps(arguments)}\n{RESULT}")

    context = Shadow("disk", ContextSettings(budget=BUDGET)).watching
    index = SessionIndex(store, context)
    async with provider(answer) as up, proxy(up.url, index=index, shadow=True) as running:
        for number in range(turns):
            client.say(f"User turn {number}: please do thing {number}.")
            while await request(running):
                pass
        await wait_for_records(running)
        (status,) = running.sessions.status()
        return sent, up.asked, status.facts.session


@pytest.mark.quick(1)
@every_client
async def test_every_request_and_reply_passes_byte_for_byte(make: type[Client], tmp_path: Path) -> None:
    sent, asked, _ = await watch_session(make, DiskStore(SessionStore(tmp_path), fsync=False))
    assert len(sent) > 10
    assert [entry.body for entry in asked] == sent


@pytest.mark.quick(1)
@every_client
async def test_it_predicts_what_a_replay_of_the_session_says(make: type[Client], tmp_path: Path, run: Run) -> None:
    _, _, session = await watch_session(make, DiskStore(SessionStore(tmp_path), fsync=False))
    (path,) = SessionStore(tmp_path).matching(session)
    prediction = predict(read_session(path), "cwl", StrategySettings(budget=BUDGET), PRICE)
    assert prediction is not None
    done = run("replay", path, "--budget", str(BUDGET), "--strategy", "cwl", "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["strategies"]
    own = prediction.totals("cwl").to_dict(prediction.totals("none"))
    timeless = {name: value for name, value in own.items() if name != "own_time_ms"}
    assert timeless == {name: row[name] for name in timeless}
    assert prediction.totals("cwl").passes > 0
    shadow = Shadow(str(tmp_path), ContextSettings(budget=BUDGET))
    lines = await asyncio.to_thread(shadow.tell, [session, f"{session[:-1]}x"])
    assert lines[-1].startswith("Left out: there is no session")
    assert lines[:-1] == sentences(prediction)
    assert f"With Wane at {BUDGET:,} tokens there would have been" in lines[0]


async def test_a_request_that_wane_cannot_follow_passes_all_the_same(tmp_path: Path) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"what": "nobody knows"}', status=200))

    index = SessionIndex(DiskStore(SessionStore(tmp_path), fsync=False), ContextSettings(strategy="none"))
    wrong = b'{"model": 7, "messages": [{"role": "user", "content": {"a": 1}}], "tools": [1]}'
    async with provider(answer) as up, proxy(up.url, index=index, shadow=True) as running:
        for body in (wrong, b"{}", b"not JSON", b""):
            got = await ask(running, body, "/v1/messages")
            assert (got.status, got.body) == (200, b'{"what": "nobody knows"}')
        assert [entry.body for entry in up.asked] == [wrong, b"{}", b"not JSON", b""]


@pytest.mark.parametrize(
    ("context", "store", "words"),
    [
        (ContextSettings(strategy="none"), "disk", "--strategy none does nothing"),
        (ContextSettings(), None, "leave out --no-store"),
    ],
)
def test_what_cannot_be_predicted_is_refused(context: ContextSettings, store: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Shadow.of(context, store)


async def test_a_streamed_reply_passes_as_it_comes_and_its_usage_is_kept(tmp_path: Path) -> None:
    pieces = [START, text_block("hello"), STOP]
    arrived = asyncio.Event()

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(pieces[0]))
        await arrived.wait()
        writer.write(chunk(pieces[1]) + chunk(pieces[2]) + b"0\r\n\r\n")

    index = SessionIndex(DiskStore(SessionStore(tmp_path), fsync=False), ContextSettings(strategy="none"))
    async with provider(answer) as up, proxy(up.url, index=index, shadow=True) as running:
        async with connection(running) as client:
            client.send(request(body()))
            assert (await client.head()).status == 200
            assert await client.piece() == pieces[0]
            arrived.set()
            rest = b""
            while piece := await client.piece():
                rest += piece
            assert rest == pieces[1] + pieces[2]
        await wait_for_records(running)
        (status,) = running.sessions.status()
        assert (status.used.input, status.used.output) == (10, 5)


async def test_a_limit_of_cost_holds_for_what_is_only_watched_too() -> None:
    store = MemoryStore()
    index = SessionIndex(store, ContextSettings(strategy="none"))
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, shadow=True, max_cost=2.5 * EACH) as running:
        statuses = []
        for _ in range(2):
            statuses.append((await ask(running, priced())).status)
            await wait_for_records(running)
        assert statuses == [200, 402]
        assert ((await ledger(store)).total, len(up.asked)) == (cost_of(1), 1)

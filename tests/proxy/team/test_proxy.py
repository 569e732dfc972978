"""A proxy that serves a team: nobody reaches what belongs to another name, whatever they send."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.server.support import (
    START,
    STOP,
    TOKEN,
    Answer,
    ask,
    body,
    message,
    provider,
    proxy,
    response,
    text_block,
)
from tests.proxy.server.test_cost_limit import EACH, SAID, cost_of, priced_body
from tests.proxy.server.test_managed import ALONE, replies, stream_response
from tests.proxy.store.support import Place
from wane.proxy.server.running import Running
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.ledger import LEDGER, Ledger
from wane.proxy.store.stores import MemoryStore, Store
from wane.proxy.team.audit import AuditLog, Event
from wane.proxy.team.members import MemberLimits, Team

HI = response(message("hi"))


def by(token: str) -> dict[str, str]:
    return {"x-wane-token": token}


def turns(count: int, opening: str = "hello") -> dict[str, Any]:
    said = [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
    first = body(opening, stream=False)
    return {**first, "messages": [*first["messages"], *said * count]}


def session_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return answer.header("x-wane-session") or ""


async def events(store: Store) -> Sequence[Event]:
    return await AuditLog(store).since(datetime.now(UTC) - timedelta(minutes=5))


async def test_who_has_no_valid_token_is_refused() -> None:
    store = MemoryStore()
    alice = await Team(store).add("alice")
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(store), team=True) as running:
        for path, headers in (
            ("/v1/messages", {}),
            ("/v1/messages", by(alice[:-1])),
            ("/v1/messages", {"x-api-key": alice}),
            (f"/~{alice}x/v1/messages", {}),
            ("/v1/models", {}),
            ("/wane/", {}),
            ("/wane/status", {}),
            ("/wane/metrics", {}),
        ):
            answer = await ask(running, body(), path, headers=headers)
            assert answer.status == 401
            assert "needs a token that is not revoked (wane proxy tokens add NAME)" in answer.body.decode()
        assert not up.asked
        for path, headers in (
            ("/v1/messages", by(alice)),
            (f"/~{alice}/v1/messages", {}),
            (f"//%7e{alice}/~{alice}/v1/messages", by("wrong")),
        ):
            answer = await ask(running, body(stream=False), path, headers=headers)
            assert answer.status == 200
            assert up.asked[-1].target == "/v1/messages"
            assert not any(alice in value for _, value in up.asked[-1].headers)


async def test_two_tokens_in_one_request_are_refused() -> None:
    store = MemoryStore()
    alice, bob = [await Team(store).add(name) for name in ("alice", "bob")]
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(store), team=True, token=TOKEN) as running:
        for header, path in ((alice, bob), (TOKEN, alice), (bob, TOKEN)):
            answer = await ask(running, body(), f"/~{path}/v1/messages", headers=by(header))
            assert answer.status == 400
            assert "have different tokens" in answer.body.decode()
        assert not up.asked


@pytest.mark.parametrize("restarted", [False, True])
async def test_the_same_words_of_another_name_begin_another_session(restarted: bool, place: Place) -> None:
    """Bob sends exactly Alice's conversation: he gets a session of his own, without what hers hides."""
    store = place.store()
    names = ("alice-x", "bob-x")
    alice, bob = [await Team(store).add(name) for name in names]
    hidden = replies(ALONE, stream_response(START, text_block("hi"), STOP), HI)
    opening = f"hello {restarted}"
    async with provider(hidden) as up:
        async with proxy(up.url, index=SessionIndex(place.store()), team=True, token=TOKEN) as running:
            first = body(opening)
            hers = session_of(await ask(running, first, headers=by(alice)))
            assert len(up.asked) == 2
            if not restarted:
                await _compare(running, up.asked, opening, hers, alice, bob)
        if restarted:
            async with proxy(up.url, index=SessionIndex(place.store()), team=True, token=TOKEN) as running:
                await _compare(running, up.asked, opening, hers, alice, bob)
    noted = [event for event in await events(store) if event.action == "session begun" and event.of.startswith(hers)]
    assert [(event.by, event.of) for event in noted] == [("alice-x", hers)]
    assert (await store.header(hers)).owner == "alice-x"
    for name in names:
        await Team(store).revoke(name)
    await store.close()


async def _compare(running: Running, asked: list[Any], opening: str, hers: str, alice: str, bob: str) -> None:
    sent_again = turns(1, opening)
    his = session_of(await ask(running, sent_again, headers=by(bob)))
    operators = session_of(await ask(running, sent_again, headers=by(TOKEN)))
    assert len({his, operators, hers}) == 3
    for answered in asked[-2:]:
        assert "toolu_delimiter" not in answered.body.decode()
    assert session_of(await ask(running, sent_again, headers=by(alice))) == hers
    # Her session shows her hidden round again.
    assert "toolu_delimiter" in asked[-1].body.decode()
    # Counting and summaries go by the name too.
    counted = await ask(running, turns(2, opening), "/v1/messages/count_tokens", headers=by(bob))
    assert counted.status == 200
    assert "toolu_delimiter" not in asked[-1].body.decode()


async def test_a_compacted_history_takes_no_rounds_of_another_name() -> None:
    """A client that rewrites its beginning continues its session by what overlaps: its own, never another's."""
    store = MemoryStore()
    alice, bob = [await Team(store).add(name) for name in ("alice", "bob")]
    long = [
        {"role": role, "content": f"{role} {number} " + "words " * 60}
        for number in range(4)
        for role in ("user", "assistant")
    ]
    hidden = replies(ALONE, stream_response(START, text_block("hi"), STOP), HI)
    async with provider(hidden) as up, proxy(up.url, index=SessionIndex(store), team=True) as running:
        opening = {**body(), "messages": [*long, {"role": "user", "content": "go on"}]}
        await ask(running, opening, headers=by(alice))
        tail = [*long[1:], {"role": "user", "content": "go on"}, {"role": "assistant", "content": "hi"}]
        rewritten = [{"role": "user", "content": "Summary."}, *tail, {"role": "user", "content": "More."}]
        for token, hides in ((bob, False), (alice, True)):
            await ask(running, {**body(stream=False), "messages": rewritten}, headers=by(token))
            assert ("toolu_delimiter" in up.asked[-1].body.decode()) is hides


async def test_the_page_and_status_show_a_name_its_own_sessions_alone() -> None:
    store = MemoryStore()
    alice, bob = [await Team(store).add(name) for name in ("alice", "bob")]
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(store), team=True, token=TOKEN) as running:
        sessions = {token: session_of(await ask(running, turns(0), headers=by(token))) for token in (alice, bob, TOKEN)}

        async def fetch_status(token: str) -> Any:
            answer = await ask(running, path=f"/~{token}/wane/status", method="GET")
            assert answer.status == 200
            return answer.json

        for token, name in ((alice, "alice"), (bob, "bob")):
            data = await fetch_status(token)
            assert [(session["id"], session["owner"]) for session in data["sessions"]] == [(sessions[token], name)]
            assert (data["requests"], data["open"]) == ({}, 0)
            assert sessions[bob if token == alice else alice] not in json.dumps(data)
            metrics = await ask(running, path=f"/~{token}/wane/metrics", method="GET")
            assert metrics.status == 403
            assert b"WANE_PROXY_TOKEN" in metrics.body
        assert {session["id"] for session in (await fetch_status(TOKEN))["sessions"]} == set(sessions.values())
        assert (await ask(running, path=f"/~{TOKEN}/wane/metrics", method="GET")).status == 200
        seen = [(event.by, set(event.of.split())) for event in await events(store) if event.action == "sessions shown"]
        assert seen == [
            ("alice", {sessions[alice]}),
            ("bob", {sessions[bob]}),
            ("operator", set(sessions.values())),
        ]


async def test_each_name_has_its_own_cost_limit_and_spend() -> None:
    store = MemoryStore()
    alice = await Team(store).add("alice", MemberLimits(2.5 * EACH))
    bob = await Team(store).add("bob")
    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(store), team=True) as running:
        statuses = [(await ask(running, priced_body(), headers=by(alice))).status for _ in range(2)]
        assert statuses == [200, 402]
        refused = await ask(running, priced_body(), headers=by(alice))
        assert "the cost limit of alice allows" in refused.json["error"]["message"]
        assert refused.json["type"] == "error"
        for _ in range(3):
            assert (await ask(running, priced_body(), headers=by(bob))).status == 200
        assert (await ask(running, {**priced_body(), "model": "no-such-model"}, headers=by(bob))).status == 200
        answer = await ask(running, {**priced_body(), "model": "no-such-model"}, headers=by(alice))
        assert answer.status == 402
        assert "is unknown, so the cost limit of alice cannot be kept" in answer.body.decode()
    for name, count in (("alice", 1), ("bob", 3)):
        ledger = Ledger.read(await store.document(LEDGER, name))
        assert (ledger.total, ledger.day, dict(ledger.open)) == (cost_of(count), cost_of(count), {})
    refusals = [event for event in await events(store) if event.action == "refused"]
    assert [event.by for event in refusals] == ["alice"]


@pytest.mark.full
async def test_a_spent_limit_says_what_to_do() -> None:
    store = MemoryStore()
    alice = await Team(store).add("alice", MemberLimits(3.0 * EACH))
    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(store), team=True) as running:
        assert (await ask(running, priced_body(), headers=by(alice))).status == 200
        await Team(store).limit("alice", MemberLimits(0.5 * EACH))
        await asyncio.sleep(1.1)
        text = (await ask(running, priced_body(), headers=by(alice))).json["error"]["message"]
        assert text.endswith(
            "a day (UTC). Wait until 00:00 UTC, or ask whoever runs this proxy for a higher one: wane proxy tokens"
            " limit alice --max-cost DOLLARS"
        )


async def test_the_proxys_limit_holds_for_all_names_together() -> None:
    store = MemoryStore()
    alice, bob = [await Team(store).add(name) for name in ("alice", "bob")]
    index = SessionIndex(store)
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, team=True, max_cost=3.5 * EACH) as running:
        statuses = [(await ask(running, priced_body(), headers=by(token))).status for token in (alice, bob, alice)]
        assert statuses == [200, 200, 402]
        assert Ledger.read(await store.document(LEDGER, "")).total == cost_of(2)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
async def test_too_many_requests_a_minute_are_refused_in_the_protocols_form(path: str) -> None:
    store = MemoryStore()
    alice = await Team(store).add("alice", MemberLimits(requests=2))
    bob = await Team(store).add("bob")
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(store), team=True) as running:
        for _ in range(2):
            assert (await ask(running, priced_body(input="x"), path, headers=by(alice))).status in (200, 502)
        asked = len(up.asked)
        answer = await ask(running, priced_body(input="x"), path, headers=by(alice))
        assert answer.status == 429
        assert answer.header("retry-after") in ("30", "29")
        assert "alice may send 2 requests a minute; try again in" in answer.json["error"]["message"]
        assert (answer.json.get("type") == "error") == (path == "/v1/messages")
        assert len(up.asked) == asked
        assert (await ask(running, priced_body(), "/v1/messages/count_tokens", headers=by(alice))).status == 200
        assert (await ask(running, path="/v1/models", method="GET", headers=by(alice))).status == 200
        assert (await ask(running, priced_body(), headers=by(bob))).status == 200


async def test_tokens_stand_in_no_log_and_no_store(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG, "wane")
    monkeypatch.setattr(logging.getLogger("wane.proxy"), "propagate", True)
    place = Place("disk", str(tmp_path))
    store = place.store()
    alice = await Team(store).add("alice", MemberLimits(requests=1))
    wrong = "wane_" + "w" * 43
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(place.store()), team=True) as running:
        for token in (alice, wrong):
            for path in ("/v1/messages", f"/~{token}/v1/messages", f"/x/~{token}/v1/messages", f"/v1/{token}"):
                await ask(running, body(stream=False), path, headers=by(token) if path == "/v1/messages" else {})
    assert "alice POST /~***/v1/messages 429" in caplog.text
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for token in (alice, wrong):
        assert token not in caplog.text
        assert token.encode() not in stored
    refused = [event for event in await events(store) if event.action == "refused"]
    assert {event.by for event in refused} == {"?", "alice"}
    await store.close()


async def test_without_a_team_nothing_is_logged_and_no_name_is_admitted() -> None:
    store = MemoryStore()
    alice = await Team(store).add("alice")
    async with provider(replies(HI)) as up, proxy(up.url, index=SessionIndex(store), token=TOKEN) as running:
        assert (await ask(running, turns(0), headers=by(alice))).status == 401
        assert (await ask(running, turns(0), headers=by(TOKEN))).status == 200
    assert await events(store) == []

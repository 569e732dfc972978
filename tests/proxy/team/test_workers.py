"""What several processes of one store show together: sessions, requests and metrics, whichever of them is asked."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import COMMAND
from tests.proxy.server.support import TOKEN, ask, body, message, provider, proxy, response
from tests.proxy.server.test_managed import replies
from tests.proxy.store.support import Place
from tests.proxy.team.test_proxy import by, session_of, turns
from wane.cli.proxy.statusline import choose_session
from wane.proxy.server.running import Running
from wane.proxy.server.workers import GONE, Workers, merged_metrics, merged_sessions, read_published
from wane.proxy.sessions.sender import NOBODY, Sender, sender_of
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import WORKERS, MemoryStore, StoreError
from wane.proxy.team.members import Team

SAID = response(message("hi", usage={"input_tokens": 1_000, "output_tokens": 10}))
AGENT = "claude-cli/2.1.200 (external, cli)"


async def status(running: Running, token: str = TOKEN) -> Any:
    answer = await ask(running, path="/wane/status", method="GET", headers=by(token))
    assert answer.status == 200
    return answer.json


async def metrics(running: Running) -> dict[tuple[str, str, str], float]:
    """The number of requests by worker, API and outcome."""
    answer = await ask(running, path="/wane/metrics", method="GET", headers=by(TOKEN))
    counts = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            if sample.name == "wane_requests_total":
                labels = sample.labels
                counts[labels["worker"], labels["api"], labels["outcome"]] = sample.value
    return counts


async def test_each_process_shows_all_of_them(place: Place) -> None:
    store = place.store()
    alice = await Team(store).add("alice-w")
    async with (
        provider(replies(SAID)) as up,
        proxy(up.url, index=SessionIndex(place.store()), team=True, token=TOKEN) as one,
        proxy(up.url, index=SessionIndex(place.store()), team=True, token=TOKEN) as other,
    ):
        hers = session_of(await ask(one, turns(0, "of alice"), headers=by(alice)))
        his = session_of(await ask(other, turns(0, "of the operator"), headers=by(TOKEN)))
        first, second = [await status(running) for running in (one, other)]
        # The first had asked before the second published anything; both are up to date from now on.
        first = await status(one)
        for data in (first, second):
            assert {session["id"]: session["owner"] for session in data["sessions"]} == {hers: "alice-w", his: ""}
            assert (data["workers"], data["requests"], data["sessions_in_memory"]) == (2, {"managed": 2}, 2)
            assert data["money"]["calls"] == 2
        for running in (one, other):
            data = await status(running, alice)
            assert [session["id"] for session in data["sessions"]] == [hers]
            assert data["sessions_in_memory"] == 1
            counts = await metrics(running)
            assert sorted(counts.values()) == [1.0, 1.0]
            assert len({worker for worker, _, _ in counts}) == 2
    assert await store.documents(WORKERS) == {}, "who ends takes its figures away"
    await Team(store).revoke("alice-w")
    await store.close()


async def test_a_session_that_moves_from_process_to_process_is_shown_once(shared: Place) -> None:
    async with (
        provider(replies(SAID)) as up,
        proxy(up.url, index=SessionIndex(shared.store()), token=TOKEN) as one,
        proxy(up.url, index=SessionIndex(shared.store()), token=TOKEN) as other,
    ):
        ids = set()
        for turn in range(6):
            running = (one, other)[turn % 2]
            ids.add(session_of(await ask(running, turns(turn, "moving"), headers=by(TOKEN))))
        await status(one)
        data = await status(other)
        assert [session["id"] for session in data["sessions"]] == [*ids]
        (session,) = data["sessions"]
        assert (session["requests"], len(session["views"])) == (6, 6)
        assert session["money"]["calls"] == 6
        assert session["views"] == sorted(session["views"])


async def test_one_process_on_disk_without_a_team_publishes_nothing(tmp_path: Path) -> None:
    place = Place("disk", str(tmp_path))
    store = place.store()
    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(place.store())) as running:
        await ask(running, body(stream=False))
        data = (await ask(running, path="/wane/status", method="GET")).json
        assert (data["workers"], len(data["sessions"])) == (1, 1)
        text = (await ask(running, path="/wane/metrics", method="GET")).body
        assert b'wane_requests_total{api="anthropic",outcome="managed"} 1.0' in text
        assert await store.documents(WORKERS) == {}


def figures(**more: Any) -> dict[str, Any]:
    return {"started": "2026-01-01T00:00:00+00:00", "requests": {}, "open": 0, "sessions": [], **more}


async def test_a_process_that_died_is_left_out_and_later_deleted() -> None:
    store, now = MemoryStore(), datetime(2026, 1, 1, tzinfo=UTC)
    await Workers(store, "a", figures, lambda: 0, lambda: now).publish()
    later = now + timedelta(seconds=GONE - 1)
    await Workers(store, "b", figures, lambda: 0, lambda: later).publish()
    assert [process["worker"] for process in await read_published(store, later)] == ["a", "b"]
    assert [process["worker"] for process in await read_published(store, now + timedelta(seconds=GONE))] == ["b"]
    await store.replace_document(WORKERS, "c", None, "of another version")
    assert await read_published(store, now + timedelta(hours=1, seconds=1)) == []
    assert set(await store.documents(WORKERS)) == {"b", "c"}


async def test_figures_are_written_only_when_they_changed_and_as_a_heartbeat() -> None:
    class Counting(MemoryStore):
        writes = 0

        async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
            self.writes += 1
            return await super().replace_document(kind, name, before, after)

    store, now, stamp = Counting(), datetime(2026, 1, 1, tzinfo=UTC), 0
    worker = Workers(store, "a", figures, lambda: stamp, lambda: now)
    for _ in range(5):
        await worker.publish()
    assert store.writes == 1
    stamp = 1
    await worker.publish()
    now += timedelta(seconds=GONE / 2)
    await worker.publish()
    assert store.writes == 3
    # Someone emptied the store.
    await store.replace_document(WORKERS, "a", await store.document(WORKERS, "a"), None)
    stamp = 2
    await worker.publish()
    assert await store.document(WORKERS, "a") is not None


async def test_without_the_store_a_process_shows_itself() -> None:
    class Away(MemoryStore):
        async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
            raise StoreError("away")

    assert [process["worker"] for process in await Workers(Away(), "a", figures, lambda: 0).all()] == ["a"]


def again(requests: int) -> dict[str, Any]:
    tokens = 7 * requests
    certainty = {"recorded": tokens}
    return {
        "tools": {
            "requests": requests,
            "tokens": tokens,
            "dollars": 0.5 * requests,
            "priced": requests,
            "certainty": certainty,
        }
    }


def test_what_a_session_shows_is_that_of_the_process_that_used_it_last() -> None:
    def session(last: str, **more: Any) -> dict[str, Any]:
        shown = {"id": "s", "created": last, "last": last, "requests": 1, "views": [[float(last[12]), 1, 0]]}
        return {**shown, "view": 1, "money": None, "rewritten": again(1), **more}

    early = session("2026-01-01T01:00:00.000+00:00", view=5)
    late = session("2026-01-01T02:00:00.000+00:00", view=7)
    for order in ((early, late), (late, early)):
        (merged,) = merged_sessions([figures(sessions=[row]) for row in order])
        assert (merged["view"], merged["requests"], merged["created"]) == (7, 2, early["created"])
        assert merged["views"] == [[1.0, 1, 0], [2.0, 1, 0]]
        assert merged["rewritten"] == again(2)


def test_metrics_of_processes_are_apart_and_each_name_is_declared_once() -> None:
    text = (
        '# HELP wane_requests_total Requests.\n# TYPE wane_requests_total counter\nwane_requests_total{api="a\\"b"} 3\n'
    )
    merged = merged_metrics([figures(worker=name, metrics=text) for name in ("x", "y")]).decode()
    assert merged.count("# TYPE wane_requests_total counter") == 1
    for name in ("x", "y"):
        assert f'wane_requests_total{{api="a\\"b",worker="{name}"}} 3.0' in merged


# The status line of this session

ID = "0f5a0a1c-1b2c-4d3e-8f90-112233445566"


@pytest.mark.parametrize(
    ("headers", "user_id", "expected"),
    [
        ({"x-claude-code-session-id": ID}, "", Sender(ID)),
        ({"x-claude-code-session-id": ID, "x-claude-code-agent-id": "a"}, "", Sender(ID, "a")),
        (
            {"x-claude-code-session-id": ID, "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"},
            "",
            Sender(ID, "b", "a"),
        ),
        ({}, f"user_{'0' * 64}_account_{ID[::-1]}_session_{ID}", Sender(ID)),
        ({}, f'{{"device_id":"d","account_uuid":"","session_id":"{ID}"}}', Sender(ID)),
        ({}, "someone", NOBODY),
        ({"user-agent": "python", "x-claude-code-session-id": ID}, "", NOBODY),
        ({"user-agent": "codex_exec/0.169.0", "session-id": ID, "thread-id": ID}, "", Sender(ID)),
        (
            {"user-agent": "codex_exec/0.169.0", "session-id": ID, "thread-id": "a", "x-codex-parent-thread-id": ID},
            "",
            Sender(ID, "a"),
        ),
        (
            {"user-agent": "codex_exec/0.169.0", "session-id": ID, "thread-id": "b", "x-codex-parent-thread-id": "a"},
            "",
            Sender(ID, "b", "a"),
        ),
    ],
)
def test_who_sent_a_request_by_the_clients_own_ids(headers: dict[str, str], user_id: str, expected: Sender) -> None:
    headers = {"user-agent": AGENT, **headers}
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert sender_of(sent, {"metadata": {"user_id": user_id}}) == expected
    if not user_id:
        assert sender_of(sent, {"metadata": None}) == sender_of(sent, {}) == expected


def test_which_session_a_line_is_about() -> None:
    rows = [{"id": number, "client": client, "parent": None} for number, client in enumerate(("", "x", "y", "x"))]
    assert [choose_session(rows, client) for client in ("", "x", "y", "z")] == [rows[0], rows[1], rows[2], None]
    assert choose_session(rows[:1], "z") == rows[0], "an agent that tells no id"
    assert choose_session([], "x") is None


@pytest.mark.full
async def test_a_line_is_about_the_session_of_its_agent() -> None:
    others = ID.replace("0", "7")

    async def line(running: Running, client: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COMMAND, "statusline", "--url", running.url,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate(f'{{"hook_event_name": "Status", "session_id": "{client}"}}'.encode())
        return out.decode()

    async with provider(replies(SAID)) as up, proxy(up.url) as running:
        for client, words in ((ID, "short"), (others, "long " * 4_000)):
            sent = {"user-agent": AGENT, "x-claude-code-session-id": client}
            assert (await ask(running, turns(0, words), headers=sent)).status == 200
        small, large = [
            float((await line(running, client)).split()[1].partition("/")[0].rstrip("k")) for client in (ID, others)
        ]
        assert await line(running, ID.replace("0", "5")) == "wane: no session yet\n"
    assert small != large

"""What the proxy tells of itself as data: sessions as JSON, counters for Prometheus, and to whom."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx2
import orjson
import pytest
from starlette.types import Receive, Scope, Send

from tests.proxy.status.support import ToldIndex, app_of, session
from wane.account import Account
from wane.core import Room
from wane.pages import KIT, LOOK
from wane.prices import TokenUsage
from wane.proxy.server.status import MOST_SESSIONS, PAGE, POLICY
from wane.proxy.sessions.memory import SessionStatus
from wane.proxy.traffic import OTHER, Traffic
from wane.proxy.wire.wire import Round
from wane.savings import Money


def get(
    path: str,
    *sessions: SessionStatus,
    traffic: Traffic | None = None,
    upstream: str = "https://api.anthropic.com",
    method: str = "GET",
) -> httpx2.Response:
    """Ask the app that shows some sessions."""
    app = app_of(ToldIndex(sessions), traffic, upstream)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://proxy") as client:
            return await client.request(method, path)

    return asyncio.run(ask())


def test_a_session_is_told_with_its_sizes_and_episodes() -> None:
    told = session(5, episodes=2, note="too small", satisfied=False)
    answer = get("/status", told)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    data = answer.json()
    assert data["sessions_in_memory"] == 1
    assert (data["strategy"], data["annotate"], data["budget"]) == ("cwl", "model", 80_000)
    assert (data["now"], data["started"]) == ("2026-03-01T12:00:00.000+00:00", "2026-03-01T10:27:00.000+00:00")
    assert data["sessions"] == [
        {
            "id": "00000005",
            "parent": "",
            "agents": None,
            "owner": "",
            "client": "",
            "title": "Fix the tests",
            "api": "openai_responses",
            "model": "gpt-5.2-codex",
            "created": "2026-03-01T11:54:56.000+00:00",
            "last": "2026-03-01T11:59:56.000+00:00",
            "requests": 35,
            "used": {
                "input": 6_000_000,
                "output": 90_000,
                "cache_read": 5_000_000,
                "cache_write": 60_000,
                "cache_write_hour": 0,
            },
            "calls": 35,
            "money": {"spent": 3.75, "unevicted": 12.5, "unmanaged": 12.5, "calls": 35, "priced_calls": 35},
            "assumed": "",
            "views": [[it.at.timestamp(), it.view, it.evicted, it.history] for it in told.views],
            "budget": 80_000,
            "view": told.facts.view,
            "history": told.facts.history,
            "evicted": 31_000,
            "satisfied": False,
            "room": None,
            "thrashing": None,
            "note": "too small",
            "system": 900,
            "user": 2_000,
            "notices": 200,
            "removed": 0,
            "rewritten": {},
            "episodes": [
                {
                    "name": it.name,
                    "type": it.type,
                    "state": it.state,
                    "tokens": it.tokens,
                    "notices": it.notices,
                    "task": None,
                    "abandoned": False,
                    "number": 0,
                    "choice": "",
                }
                for it in told.episodes
            ],
        }
    ]


def test_money_is_summed_over_the_sessions_that_have_prices() -> None:
    unpriced = replace(session(2), money=Money(Account(calls=4)))
    known = {"spent": 3.0, "unevicted": 10.0, "unmanaged": 10.0, "calls": 74, "priced_calls": 70}
    assert get("/status", session(1), unpriced, session(3)).json()["money"] == known
    data = get("/status", unpriced).json()
    assert data["money"] is None
    assert data["sessions"][0]["money"] is None


def test_dollars_at_the_prices_of_another_model_say_so() -> None:
    listed, agent = session(1), session(3, parent="00000001")
    assert get("/status", listed, agent).json()["assumed"] == "", "nothing is assumed unless that is asked for"
    # Not by the model that answered last: one of the calls before had prices of another one.
    account = replace(agent.money.account, assumed=Counter({"openai:gpt-5.2": 1}))
    agent = replace(agent, money=replace(agent.money, account=account))
    data = get("/status", listed, agent).json()
    label = "at the prices of openai:gpt-5.2"
    assert data["assumed"] == label
    assert [told["assumed"] for told in data["sessions"]] == ["", label]
    assert data["sessions"][0]["agents"]["assumed"] == label


def test_what_may_be_secret_in_the_upstreams_address_is_left_out() -> None:
    data = get("/status", upstream="https://[2001:db8::1]:8443/hunter2/v1").json()
    assert data["upstream"] == "https://[2001:db8::1]:8443/***/v1"


def test_words_that_utf_8_has_no_bytes_for_are_told_all_the_same() -> None:
    assert (
        get("/status", session(title="half \ud83d of a face")).json()["sessions"][0]["title"] == "half \ud83d of a face"
    )


def test_of_very_many_sessions_those_used_last_are_told() -> None:
    data = get("/status", *(session(number, episodes=1) for number in range(MOST_SESSIONS + 7))).json()
    assert data["sessions_in_memory"] == MOST_SESSIONS + 7
    assert [it["id"] for it in data["sessions"]] == [f"{number:08x}" for number in range(MOST_SESSIONS)]


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def samples(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(wane_\S+) (\S+)$", text, re.MULTILINE)}


def test_a_managed_request_is_counted() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    facts = replace(session().facts, view=40_000, history=90_000, evicted_now=5_000)
    with traffic.request("anthropic") as exchange:
        clock.now += 1  # the body arrives
        exchange.count_received(320_000)
        clock.now += 0.004
        exchange.count_prepared(facts)
        clock.now += 2
        exchange.count_sent(0)
        exchange.count_sent(500)
        exchange.count_sent(700)
        exchange.round(
            Round({}, usage=TokenUsage(40_100, 200, cache_read=30_000, cache_write=9_000)), "claude-sonnet-4-5"
        )
        exchange.round(Round({}), "")
        assert traffic.open_requests() == 1
        exchange.outcome = "managed"
    little = Room(80_000, system=60_000)
    answer = get("/metrics", session(3, room=little), session(6, room=Room(80_000, system=9_000)), traffic=traffic)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    counted = samples(answer.text)
    expected = {
        'wane_requests_total{api="anthropic",outcome="managed"}': 1,
        'wane_rounds_total{api="anthropic"}': 2,
        'wane_open_requests{api="anthropic"}': 0,
        'wane_tokens_total{api="anthropic",kind="input"}': 40_100,
        'wane_tokens_total{api="anthropic",kind="output"}': 200,
        'wane_tokens_total{api="anthropic",kind="cache_read"}': 30_000,
        'wane_tokens_total{api="anthropic",kind="cache_write"}': 9_000,
        'wane_evicted_tokens_total{api="anthropic"}': 5_000,
        'wane_view_tokens_sum{api="anthropic"}': 40_000,
        'wane_history_tokens_sum{api="anthropic"}': 90_000,
        'wane_bytes_total{api="anthropic",direction="in"}': 320_000,
        'wane_bytes_total{api="anthropic",direction="out"}': 1_200,
        'wane_added_seconds_bucket{api="anthropic",le="0.002"}': 0,
        'wane_added_seconds_bucket{api="anthropic",le="0.005"}': 1,
        'wane_first_byte_seconds_bucket{api="anthropic",le="2.0"}': 0,
        'wane_first_byte_seconds_bucket{api="anthropic",le="5.0"}': 1,
        'wane_request_seconds_count{api="anthropic"}': 1,
        'wane_sessions{api="anthropic"}': 2,
        'wane_tight_sessions{api="anthropic"}': 1,
    }
    assert {name: counted[name] for name in expected} == expected
    assert traffic.outcomes() == {"managed": 1}
    assert get("/status", traffic=traffic).json()["requests"] == {"managed": 1}


@pytest.mark.parametrize(
    ("reported", "peak"),
    [((), 40_000), ((0,), 40_000), ((9_000,), 40_000), ((30_000,), 30_000), ((41_000, 52_000), 52_000)],
)
def test_the_largest_view_is_as_large_as_the_provider_says_if_it_says_so(reported: tuple[int, ...], peak: int) -> None:
    traffic = Traffic()
    for view in (20_000, 40_000, 10_000):
        with traffic.request("anthropic") as exchange:
            exchange.count_prepared(replace(session().facts, view=view))
            for tokens in reported if view == 40_000 else ():
                exchange.round(Round({}, usage=TokenUsage(tokens, 1)), "")
    assert traffic.peak == peak


def test_labels_stay_few_whatever_comes() -> None:
    traffic = Traffic()
    for number in range(500):
        with traffic.request(f"/v{number}/x") as exchange:
            exchange.upstream_error(number)
            exchange.upstream_error("reset")
            exchange.failed_open()
    text = traffic.metrics().decode()
    assert set(re.findall(r'api="([^"]*)"', text)) == {OTHER}
    assert set(re.findall(r'status="([^"]*)"', text)) == {"other", "reset", *(str(it) for it in range(400, 500))}
    assert 'wane_fail_opens_total{api="other"} 500.0' in text
    assert traffic.outcomes() == {"failed_open": 500}
    assert "_created" not in text


def test_figures_of_the_process_are_among_the_metrics() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("figures of a process are read from /proc, which this system has not")
    assert re.search(r"^process_resident_memory_bytes \d", get("/metrics").text, re.MULTILINE)


def test_the_place_where_it_is_mounted_leads_to_the_page() -> None:
    app = app_of(ToldIndex())

    async def mounted_app(scope: Scope, receive: Receive, send: Send) -> None:
        # As behind a server that took a token off the path.
        await app({**scope, "path": scope["path"].removeprefix("/~token"), "root_path": "/wane"}, receive, send)

    async def ask(path: str) -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=mounted_app), base_url="http://proxy"
        ) as client:
            return await client.get(path, follow_redirects=True)

    for path in ("/wane", "/~token/wane"):
        answer = asyncio.run(ask(path))
        assert answer.content == PAGE
        assert answer.url == f"http://proxy{path}/"


def test_everything_is_read_only_and_nothing_else_is_there() -> None:
    for path in ("/", "/status", "/metrics"):
        assert get(path, method="POST").status_code == 405
        assert get(path, method="HEAD").status_code == 200
    assert get("/page.js").status_code == 404


def test_the_page_comes_with_a_policy_that_knows_its_script_and_style() -> None:
    answer = get("/")
    assert answer.content == PAGE
    assert answer.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'none'; ")
    assert "unsafe" not in POLICY
    assert "://" not in re.sub(r"http://www\.w3\.org/\S+", "", answer.text), "the page names no address"


def test_the_page_has_the_look_and_the_scripts_of_all_pages() -> None:
    for file in (LOOK, *KIT):
        assert file.read_text(encoding="utf-8").strip() in PAGE.decode()


def test_the_data_are_json_of_the_strict_kind() -> None:
    assert orjson.loads(get("/status", session(title="'\"\\ \u2028 <b>")).content)["sessions"]

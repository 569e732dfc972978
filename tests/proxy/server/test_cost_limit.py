"""What may be spent is a limit for all requests, processes and restarts, whatever happens to them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.server.support import (
    STOP,
    Asked,
    ask,
    body,
    chunk,
    connection,
    event,
    message,
    provider,
    proxy,
    request,
    response,
    stream_head,
    text_block,
    until,
)
from tests.proxy.server.test_command import wane_proxy
from tests.proxy.server.test_managed import replies
from tests.proxy.server.test_workers import children, forks
from tests.proxy.store.servers import Postgres, Redis, run_server
from wane.cli.failure import UsageError
from wane.cli.proxy.proxy_commands import ProxyCommandOptions, TreatmentOptions
from wane.cli.proxy.proxy_options import proxy_options
from wane.core.errors import ConfigError
from wane.prices import Prices, prices_of
from wane.proxy.head import RefusedError
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl
from wane.proxy.spending.reservations import ASSUMED_OUTPUT, IMAGE_TOKENS, most
from wane.proxy.store import open_store
from wane.proxy.store.ledger import LEDGER, Ledger
from wane.proxy.store.stores import MemoryStore, StoreError

MODEL = "claude-sonnet-4-5"
RATES = Prices.of(MODEL).tiers[0]
EACH = 10_000 * RATES.input
"""What a reply costs, of a request that says it may cost twice as much."""
SAID = response(message("hi", usage={"input_tokens": 10_000, "output_tokens": 0}))


def priced_body(**more: Any) -> dict[str, Any]:
    return body(stream=False, model=MODEL, max_tokens=round(2 * EACH / RATES.output), **more)


async def ledger(store: Any) -> Ledger:
    return Ledger.read(await store.document(LEDGER, ""))


def cost_of(count: float) -> Any:
    return pytest.approx(count * EACH * 1e6, abs=2)


@pytest.mark.parametrize("tools", [True, False])
async def test_no_request_is_sent_that_could_take_the_cost_above_the_limit(tools: bool) -> None:
    index = SessionIndex(MemoryStore())
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, max_cost=4.5 * EACH) as running:
        answers = [await ask(running, priced_body(tools=tools)) for _ in range(5)]
        # After three, one and a half of them are left, and the next may cost two.
        assert [answer.status for answer in answers] == [200, 200, 200, 402, 402]
        assert (await ask(running, priced_body(tools=tools), "/v1/messages/")).status == 402, "providers take it too"
        error = answers[3].json["error"]
        assert error["message"].startswith("$0.09 has been spent, and this request may cost $0.0")
        assert "--max-cost allows $0.135 in all" in error["message"]
        assert len(up.asked) == 3
        assert (await ledger(index.store)).total == cost_of(3)
        # What costs nothing is still served.
        assert (await ask(running, path="/wane/status", method="GET")).status == 200
        assert (await ask(running, priced_body(), "/v1/messages/count_tokens")).status == 200


async def test_requests_at_once_reserve_what_they_may_cost() -> None:
    free = asyncio.Event()

    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await free.wait()
        writer.write(SAID)

    index = SessionIndex(MemoryStore())
    async with provider(says) as up, proxy(up.url, index=index, max_cost=6.5 * EACH) as running:
        tasks = [asyncio.create_task(ask(running, priced_body(tools=number % 2 == 0))) for number in range(20)]
        await until(lambda: sum(task.done() for task in tasks) == 17)
        await until(lambda: len(up.asked) == 3)
        free.set()
        answers = await asyncio.gather(*tasks)
        refused = [answer for answer in answers if answer.status == 429]
        assert sorted(answer.status for answer in answers) == [200] * 3 + [429] * 17
        assert refused[0].json["error"]["type"] == "rate_limit_error"
        assert "Try again when one of them has ended" in refused[0].json["error"]["message"]
        assert (await ledger(index.store)).total == cost_of(3)
        assert (await ask(running, priced_body())).status == 200


@pytest.mark.parametrize("kind", ["reply", "stream", "error", "no usage", "broken", "other"])
@pytest.mark.parametrize("tools", [True, False])
async def test_what_was_reserved_is_settled_by_what_the_provider_reports(kind: str, tools: bool) -> None:
    start = event("message_start", message={**json.loads(message()), "content": [], "usage": {"input_tokens": 10_000}})

    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        answers = {
            "reply": SAID,
            "stream": stream_head() + chunk(start + text_block("hi") + STOP) + chunk(b""),
            "error": response(b'{"error": {"message": "Overloaded"}}', 529),
            "no usage": response(message("hi", usage={})),
            "broken": stream_head() + chunk(start + text_block("hi")),
            "other": response(b"<html>"),
        }
        writer.write(answers[kind])
        if kind == "broken":
            writer.close()

    expected = {"reply": 1.0, "stream": 1.0, "error": 0.0}.get(kind)

    store = MemoryStore()
    asking = {**priced_body(tools=tools), "stream": kind in ("stream", "broken")}
    async with provider(says) as up, proxy(up.url, index=SessionIndex(store), max_cost=100.0) as running:
        await ask(running, asking)
        settled = await ledger(store)
    assert not settled.open
    if expected is None:
        # As much as it could cost.
        assert settled.total == most(MODEL, asking, len(up.asked[-1].body))
    else:
        assert settled.total == pytest.approx(expected * EACH * 1e6, abs=100)


async def test_a_request_that_reached_nobody_costs_nothing() -> None:
    store = MemoryStore()
    async with proxy("http://127.0.0.1:9", index=SessionIndex(store), max_cost=100.0) as running:
        assert (await ask(running, priced_body())).status == 502
    assert (await ledger(store)).total == 0


async def test_a_client_that_goes_away_leaves_the_most_that_its_request_can_cost() -> None:
    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    store = MemoryStore()
    async with provider(says) as up, proxy(up.url, index=SessionIndex(store), max_cost=100.0) as running:
        async with connection(running) as client:
            client.send(request(priced_body()))
            await until(lambda: up.asked)
        async with asyncio.timeout(60):
            while (await ledger(store)).open:
                await asyncio.sleep(0.01)
    assert (await ledger(store)).total == most(MODEL, priced_body(), len(up.asked[-1].body))


@pytest.mark.parametrize("where", ["disk", pytest.param("redis", marks=pytest.mark.full)])
async def test_the_limit_holds_over_restarts(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = str(tmp_path) if where == "disk" else request.getfixturevalue("redis").url

    statuses = []
    async with provider(replies(SAID)) as up:
        for _ in range(4):
            async with proxy(up.url, index=SessionIndex(open_store(place)), max_cost=3.5 * EACH) as running:
                statuses.append((await ask(running, priced_body())).status)
        assert statuses == [200, 200, 402, 402]
        # This run alone has spent nothing yet.
        index = SessionIndex(open_store(place))
        async with proxy(up.url, index=index, max_cost=3.5 * EACH, cost_period="run") as running:
            assert (await ask(running, priced_body())).status == 200


@pytest.fixture
def redis() -> Iterator[Redis]:
    yield from run_server(Redis())


@pytest.fixture(params=[Redis, Postgres])
def database(request: pytest.FixtureRequest) -> Iterator[Redis | Postgres]:
    yield from run_server(request.param())


@pytest.mark.full
@forks
@pytest.mark.parametrize("workers", [2, 3])
async def test_workers_keep_one_limit_together_even_if_they_are_killed(
    database: Redis | Postgres, workers: int
) -> None:
    """Two requests are open when the workers are killed: nobody knows what they cost, so they count as the most."""
    limit = 12.5 * EACH

    held = asyncio.Event()

    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if b"hold" in asked.body:
            await held.wait()
        writer.write(SAID)

    options = ("--workers", f"{workers}", "--store", database.url, "--max-cost", f"{limit}", "--max-cost-per", "day")
    async with provider(says) as up, wane_proxy(up.url, *options) as it:
        await until(lambda: len(children(it)) == workers)
        asking = priced_body()
        hold = {**asking, "messages": [{"role": "user", "content": "hold"}]}
        tasks = [asyncio.create_task(ask(it, hold)) for _ in range(2)]
        await until(lambda: sum(b"hold" in asked.body for asked in up.asked) == 2)
        sizes = [len(asked.body) for asked in up.asked if b"hold" in asked.body]
        answers = await asyncio.gather(*(ask(it, asking) for _ in range(40)))
        assert {answer.status for answer in answers} <= {200, 402, 429}
        served = sum(answer.status == 200 for answer in answers)
        before = children(it)
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: len(children(it)) == workers and not set(before) & set(children(it)))
        while (await ask(it, asking)).status == 200:
            served += 1
        kept = await ledger(open_store(database.url))
        assert kept.day == kept.month == kept.total == cost_of(served)
        assert kept.reserved == sum(most(MODEL, hold, size) for size in sizes)
        assert kept.total + kept.reserved <= limit * 1e6
        # What would have fitted was not refused.
        assert kept.total + kept.reserved + most(MODEL, asking, len(up.asked[-1].body)) > limit * 1e6


async def test_no_model_is_asked_while_the_spend_is_not_known() -> None:
    class Away(MemoryStore):
        away = True

        async def document(self, kind: str, name: str) -> str | None:
            if self.away:
                raise StoreError("the store is away")
            return await super().document(kind, name)

    store = Away()
    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(store), max_cost=1.0) as running:
        answer = await ask(running, priced_body())
        assert answer.status == 503
        assert "the spend is not known, so --max-cost cannot be kept: the store is away" in answer.body.decode()
        assert not up.asked
        store.away = False
        assert (await ask(running, priced_body())).status == 200
        assert (await ledger(store)).total == cost_of(1)


async def test_a_cost_that_could_not_be_recorded_is_recorded_with_the_next_request() -> None:
    class Away(MemoryStore):
        changes = 0

        async def replace_document(self, kind: str, name: str, before: str | None, after: str | None) -> bool:
            self.changes += 1
            if self.changes == 2:
                raise StoreError("the store is away")
            return await super().replace_document(kind, name, before, after)

    store = Away()
    async with provider(replies(SAID)) as up, proxy(up.url, index=SessionIndex(store), max_cost=1.0) as running:
        for _ in range(2):
            assert (await ask(running, priced_body())).status == 200
    assert (await ledger(store)).total == cost_of(2)


async def test_what_a_limit_does_not_cover_is_said() -> None:
    async with provider(replies(SAID)) as up, proxy(up.url, max_cost=1.0) as running:
        answer = await ask(running, {"input": "text"}, "/v1/embeddings")
        warning = "the cost of this request is not known, and does not count for --max-cost"
        assert answer.header("x-wane-warning") == warning
        for unread, reason in ((b"no json", "is not JSON"), (b"[]", "is not a JSON object")):
            answer = await ask(running, unread)
            assert answer.status == 402
            assert f"{reason}, so --max-cost cannot be kept" in answer.json["error"]["message"]
        assert len(up.asked) == 1


async def test_a_model_without_a_price_is_refused_where_there_is_a_limit() -> None:
    async with provider(replies(SAID)) as up, proxy(up.url, max_cost=1.0) as limited, proxy(up.url) as free:
        for tools in (True, False):
            answer = await ask(limited, body(stream=False, model="no-such-model", tools=tools))
            assert answer.status == 402
            assert "the price of the model 'no-such-model' is unknown" in answer.json["error"]["message"]
        assert (await ask(free, body(stream=False, model="no-such-model"))).status == 200


def test_the_most_that_a_request_may_cost() -> None:
    """Half as many tokens as bytes, written to the cache for an hour; and the replies that the client allows."""

    def of(output: int, replies_: int = 1) -> Any:
        return pytest.approx((500 * RATES.write_hour + replies_ * output * RATES.output) * 1e6, abs=1)

    assert most(MODEL, {"max_tokens": 100}, 1_000) == of(100)
    assert most(MODEL, {"max_output_tokens": 7}, 1_000) == of(7)
    assert most("claude-opus-5", {"max_tokens": 9, "speed": "fast"}, 1_000) == pytest.approx(
        2 * most("claude-opus-5", {"max_tokens": 9}, 1_000), abs=1
    )
    assert most(MODEL, {"max_tokens": 9, "service_tier": "flex"}, 1_000) == of(9)
    with pytest.raises(RefusedError, match=r"\(priority\)' is unknown"):
        most(MODEL, {"max_tokens": 9, "service_tier": "priority"}, 1_000)
    assert most(MODEL, {"max_tokens": 5, "max_completion_tokens": 9, "n": 3}, 1_000) == of(9, 3)
    for unlimited in ({}, {"max_tokens": None}, {"max_tokens": -1}):
        assert most(MODEL, unlimited, 1_000) == of(ASSUMED_OUTPUT)


@pytest.mark.parametrize(
    ("asked", "output"),
    [
        ({"max_tokens": 9, "n": 8.0}, 72),
        ({"max_tokens": 9, "n": "8"}, 72),
        ({"max_tokens": 64_000.0}, 64_000),
        ({"max_completion_tokens": "64000"}, 64_000),
        ({"max_tokens": 9, "best_of": 4, "n": 2}, 36),
        ({"generationConfig": {"maxOutputTokens": 9, "candidateCount": 8}}, 72),
        ({"generation_config": {"max_output_tokens": 9, "candidate_count": 8}}, 72),
        ({"generation_config": {"maxOutputTokens": "9", "candidateCount": "8"}}, 72),
        ({"max_tokens": 9, "n": None}, 9),
        ({"max_tokens": 9, "n": 0}, 9),
    ],
    ids=str,
)
def test_limits_of_a_reply_are_read_as_lenient_servers_read_them(asked: Any, output: int) -> None:
    expected = (500 * RATES.write_hour + output * RATES.output) * 1e6
    assert most(MODEL, asked, 1_000) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("name", ["n", "max_tokens", "candidateCount"])
@pytest.mark.parametrize("value", ["many", True, [8], "inf", float("nan")], ids=str)
def test_a_limit_of_a_reply_that_is_no_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(RefusedError, match=f"{name} is .*, which is no number, so --max-cost cannot be kept"):
        most(MODEL, {name: value}, 1_000)


def user(*blocks: Any) -> dict[str, Any]:
    return {"max_tokens": 1, "messages": [{"role": "user", "content": list(blocks)}]}


def responses(*items: Any) -> dict[str, Any]:
    return {"max_output_tokens": 1, "input": [{"role": "user", "content": list(items)}]}


def gemini(*parts: Any) -> dict[str, Any]:
    return {"generationConfig": {"maxOutputTokens": 1}, "contents": [{"role": "user", "parts": list(parts)}]}


URL = "https://example.com/a"
ELSEWHERE: dict[str, dict[str, Any]] = {
    "messages, URL": user({"type": "document", "source": {"type": "url", "url": URL}}),
    "messages, file": user({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
    "messages, upload": user({"type": "container_upload", "file_id": "file_1"}),
    "messages, in a result": user(
        {"type": "tool_result", "content": [{"type": "document", "source": {"type": "url", "url": URL}}]}
    ),
    "chat, file": user({"type": "file", "file": {"file_id": "file-1"}}),
    "chat, video": user({"type": "video_url", "video_url": {"url": URL}}),
    "responses, URL": responses({"type": "input_file", "file_url": URL}),
    "responses, file": responses({"type": "input_file", "file_id": "file-1"}),
    "responses, item": {"max_output_tokens": 1, "input": [{"type": "item_reference", "id": "rs_1"}]},
    "responses, earlier": {"max_output_tokens": 1, "input": "more", "previous_response_id": "resp_1"},
    "responses, conversation": {"max_output_tokens": 1, "input": "more", "conversation": {"id": "conv_1"}},
    "responses, prompt": {"max_output_tokens": 1, "prompt": {"id": "pmpt_1"}},
    "gemini, URI": gemini({"fileData": {"fileUri": URL, "mimeType": "application/pdf"}}),
    "gemini, snake case": gemini({"file_data": {"file_uri": URL}}),
    "gemini, cached": gemini() | {"cachedContent": "cachedContents/1"},
    "gemini, cached, snake case": gemini() | {"cached_content": "cachedContents/1"},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_a_request_names_and_does_not_hold_counts_as_the_models_window(name: str) -> None:
    window = Prices.of(MODEL).window
    assert window is not None
    assert most(MODEL, ELSEWHERE[name], 1_000) >= window * RATES.write_hour * 1e6
    assert prices_of("gemini-2.5-pro") is not None
    with pytest.raises(RefusedError, match=r"the request names .*, and the window of the model 'gemini-2.5-pro' is"):
        most("gemini-2.5-pro", ELSEWHERE[name], 1_000)


@pytest.mark.parametrize(
    "asked",
    [
        user({"type": "image", "source": {"type": "url", "url": URL}}),
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}),
        user({"type": "image_url", "image_url": {"url": URL}}),
        responses({"type": "input_image", "image_url": URL}),
        responses({"type": "input_image", "file_id": "file-1"}),
        gemini({"inlineData": {"mimeType": "image/png", "data": ""}}),
        gemini({"inline_data": {"mime_type": "image/png", "data": ""}}),
        gemini({"fileData": {"mimeType": "image/png", "fileUri": URL}}),
    ],
    ids=str,
)
def test_an_image_counts_as_the_most_that_one_takes_however_small_it_is(asked: Any) -> None:
    for model, tokens in (
        (MODEL, 8_464),
        ("claude-opus-4-1", 8_464),
        ("gpt-4o-mini", 48_169),
        ("gpt-4.1-nano", 24_600),
        ("gpt-4o", 24_600),
        ("o3", 24_600),
        ("gemini-2.5-pro", IMAGE_TOKENS),
        ("gemini-3-pro-preview", 2_240),
    ):
        rates = Prices.of(model).tiers[0]
        expected = (500 + tokens) * max(rates.write_hour, rates.input) + rates.output
        assert most(model, asked, 1_000) == pytest.approx(expected * 1e6, rel=0.005)


def test_a_large_image_counts_by_its_bytes() -> None:
    data = "A" * 100_000
    asked = user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
    expected = (50_100 * RATES.write_hour + RATES.output) * 1e6
    assert most(MODEL, asked, 100_200) == pytest.approx(expected, abs=1)


def test_what_tools_are_called_with_is_no_content() -> None:
    call = {"type": "tool_use", "id": "1", "name": "x", "input": {"type": "image", "file_id": "file_1"}}
    function = {"name": "x", "arguments": {"type": "input_file", "file_id": "file-1"}}
    asked = {
        **user(call, {"functionCall": {"args": {"fileData": {"fileUri": URL}}}}, {"type": "f", "function": function}),
        "tools": [{"input_schema": {"properties": {"type": "image", "fileData": {"fileUri": "string"}}}}],
    }
    assert most(MODEL, asked, 1_000) == pytest.approx((500 * RATES.write_hour + RATES.output) * 1e6, abs=1)


def test_the_dearest_model_counts_that_may_be_asked() -> None:
    dear = most("claude-opus-4-1", {"max_tokens": 9}, 1_000)
    for more in ({"models": ["claude-opus-4-1", "gpt-4o-mini"]}, {"fallbacks": [{"model": "claude-opus-4-1"}]}):
        assert most(MODEL, {"max_tokens": 9, **more}, 1_000) == dear
    with pytest.raises(RefusedError, match="'no-such-model' is unknown"):
        most(MODEL, {"models": ["no-such-model"]}, 1_000)


def test_a_limit_that_cannot_work_is_refused() -> None:
    for dollars in (0.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="must be a number above 0"):
            ServerSettings(UpstreamUrl.parse("http://127.0.0.1:1"), Address("127.0.0.1", 0), max_cost=dollars)
    for treatment, workers, words in (
        (TreatmentOptions(max_cost_per="day"), 1, "give both"),
        (TreatmentOptions(max_cost=1.0, max_cost_per="run"), 2, "counts in one process"),
    ):
        command = ProxyCommandOptions(upstream="http://127.0.0.1:1", treatment=treatment, workers=workers)
        with pytest.raises(UsageError, match=words):
            proxy_options(command, {"WANE_PROXY_STORE": "redis://127.0.0.1"})

"""A second upstream answers while the first one is down, and never within a reply that a client has begun to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.proxy.server.support import (
    CALLED,
    KEY,
    MARK,
    START,
    STOP,
    Asked,
    Provider,
    ask,
    body,
    call_block,
    chunk,
    connection,
    message,
    provider,
    proxy,
    request,
    response,
    stream_head,
    text_block,
    until,
)
from tests.proxy.server.test_dropped_reasoning import HISTORY, thinks
from tests.proxy.server.test_managed import ALONE, replies, stream_response, texts
from wane.core.errors import ConfigError
from wane.proxy.http.failover import REST, Failover
from wane.proxy.http.upstream import Upstream
from wane.proxy.server.running import Running
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import Address, ServerSettings, ServerTimeouts, UpstreamUrl
from wane.proxy.store.stores import MemoryStore
from wane.proxy.traffic import Traffic
from wane.testing.anthropic import Anthropic

HI = response(message("first"))
ELSE = response(message("second"))
GONE = "http://127.0.0.1:9"


def at(url: str) -> UpstreamUrl:
    return UpstreamUrl.parse(url)


def text_of(answer: Any) -> str:
    return str(answer.json["content"][0]["text"])


def error(status: int) -> bytes:
    return response(json.dumps(Anthropic().error(status, "Overloaded")).encode(), status)


@asynccontextmanager
async def both(answer: Any, **settings: Any) -> AsyncIterator[tuple[Provider, Provider, Running]]:
    """A provider that answers by a function, a second one, and a proxy before them."""
    async with (
        provider(answer) as first,
        provider(replies(ELSE)) as second,
        proxy(first.url, fallback=at(second.url), **settings) as running,
    ):
        yield first, second, running


async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("tools", [True, False])
async def test_an_unreachable_upstream_is_replaced_at_once(tools: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with provider(replies(ELSE)) as second, proxy(GONE, fallback=at(second.url)) as running:
        for number in range(3):
            answer = await ask(running, body(f"hello {number}", stream=False, tools=tools))
            assert (answer.status, text_of(answer)) == (200, "second")
            assert answer.header("x-wane-upstream") == second.url
            assert ("x-wane-session" in dict(answer.headers)) is tools
        metrics = (await ask(running, path="/wane/metrics", method="GET")).body.decode()
        assert 'wane_fallbacks_total{api="anthropic",reason="connect"} 1.0' in metrics
        assert 'wane_fallbacks_total{api="anthropic",reason="down"} 2.0' in metrics
        outcome = "managed" if tools else "passed"
        assert f'wane_requests_total{{api="anthropic",outcome="{outcome}"}} 3.0' in metrics
        asked = second.asked[0]
        assert asked.header("host") == f"127.0.0.1:{second.port}"
        assert asked.header("x-api-key") == KEY
    assert f"{GONE} is down, so {second.url} is asked: {GONE} could not be reached" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.quick(1)
@pytest.mark.parametrize("status", [500, 502, 529])
async def test_an_error_is_tried_once_more_before_the_second_is_asked(status: int) -> None:
    async with both(replies(error(status))) as (first, _, running):
        for _ in range(2):
            answer = await ask(running, body(stream=False))
            assert (answer.status, text_of(answer)) == (200, "second")
        # A 500 may be about this request alone, so the next one is tried at the first again.
        assert len(first.asked) == (4 if status == 500 else 2)


@pytest.mark.full
async def test_an_error_that_passes_is_not_seen() -> None:
    async with both(replies(error(529), HI)) as (_, second, running):
        answer = await ask(running, body(stream=False))
        assert (answer.status, text_of(answer)) == (200, "first")
        assert not second.asked
        assert answer.header("x-wane-upstream") is None


@pytest.mark.parametrize("status", [400, 401, 404, 413, 429])
async def test_what_the_first_refuses_is_the_clients_answer(status: int) -> None:
    async with both(replies(error(status))) as (first, second, running):
        assert (await ask(running, body(stream=False))).status == status
        assert (len(first.asked), len(second.asked)) == (1, 0)


async def test_one_that_does_not_answer_in_time_is_replaced() -> None:
    async with both(never, timeouts={"read": 0.2}) as (first, _, running):
        assert text_of(await ask(running, body(stream=False))) == "second"
        assert len(first.asked) == 1


async def test_both_down_is_said() -> None:
    async with (
        provider(replies(error(503))) as second,
        proxy(GONE, fallback=at(second.url)) as running,
        proxy(GONE, fallback=at("http://127.0.0.1:10")) as nowhere,
    ):
        assert (await ask(running, body(stream=False))).status == 503
        answer = await ask(nowhere, body(stream=False))
        assert answer.status == 502
        words = f"http://127.0.0.1:10 could not be reached; it was asked because {GONE} had failed"
        assert words in answer.body.decode()


async def test_a_reply_that_has_begun_is_never_continued_by_another_provider() -> None:
    async def breaks(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(START + text_block("So")))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async with both(breaks) as (_, second, running):
        answer = await ask(running, body())
        assert (answer.status, answer.whole) == (200, False)
        assert "second" not in texts(answer.body)
        assert not second.asked


async def test_a_later_round_of_a_reply_that_has_begun_is_not_continued_elsewhere() -> None:
    spoken = stream_response(START, text_block("So"), call_block("delimiter", MARK, 1), CALLED)
    async with both(replies(spoken, error(529))) as (first, second, running):
        answer = await ask(running, body())
        assert texts(answer.body) == "So"
        assert b"event: error" in answer.body
        assert (len(first.asked), len(second.asked)) == (2, 0)


@pytest.mark.full
async def test_later_rounds_go_where_the_first_one_went() -> None:
    async def then_down(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if len(first.asked) > 1:
            writer.write(error(529))
        else:
            writer.write(ALONE)

    hi = stream_response(START, text_block("hi"), STOP)
    async with (
        provider(then_down) as first,
        provider(replies(ALONE, hi, ALONE, hi)) as second,
        proxy(first.url, fallback=at(second.url)) as running,
        proxy(GONE, fallback=at(second.url)) as down,
    ):
        # Nothing has reached the client after a round of own calls only, so the second may go on.
        answer = await ask(running, body())
        assert (answer.status, answer.whole) == (200, True)
        assert [asked.body.count(b'"toolu_delimiter') for asked in second.asked] == [2, 4]
        # A reply that began at the second stays there.
        answer = await ask(down, body("other words"))
        assert texts(answer.body) == "hi"
        assert len(second.asked) == 4


async def test_a_key_of_its_own_stands_in_for_the_clients() -> None:
    async with (
        provider(replies(ELSE)) as second,
        proxy(GONE, fallback=at(second.url), fallback_key="sk-of-the-second") as running,
    ):
        await ask(running, body(stream=False))
        bearer = request(body("again", stream=False), headers={"authorization": "Bearer mine", "api-key": "mine"})
        async with connection(running) as client:
            client.send(bearer.replace(f"x-api-key: {KEY}\r\n".encode(), b""))
            assert (await client.answer()).status == 200
        first, later = second.asked
        assert first.header("x-api-key") == "sk-of-the-second"
        assert later.header("authorization") == "Bearer sk-of-the-second"
        assert later.header("api-key") == "sk-of-the-second"
        assert "mine" not in json.dumps([asked.headers for asked in second.asked])
        assert KEY not in json.dumps([asked.headers for asked in second.asked])


@pytest.mark.parametrize(
    ("content", "path", "method"),
    [
        ({"model": "gpt-5", "input": "hi", "previous_response_id": "resp_1"}, "/v1/responses", "POST"),
        ({"model": "gpt-5", "input": "hi", "conversation": "resp_1"}, "/v1/responses", "POST"),
        (b"", "/v1/models", "GET"),
        ({"input": "x"}, "/v1/embeddings", "POST"),
    ],
    ids=["a reply that the first keeps", "a conversation that it keeps", "no model request", "embeddings"],
)
async def test_what_the_first_alone_can_answer_is_not_sent_elsewhere(content: Any, path: str, method: str) -> None:
    async with provider(replies(ELSE)) as second, proxy(GONE, fallback=at(second.url)) as running:
        assert (await ask(running, content, path, method)).status == 502
        assert not second.asked


FOREIGN = "messages.1.content.0: Invalid `signature` in `thinking` block"


def signing(name: str) -> Any:
    """A provider that takes only thinking that it has signed, and signs its own."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if any(not signature.startswith(name) for signature in thinks(asked.json)):
            writer.write(response(json.dumps(Anthropic().error(400, FOREIGN)).encode(), 400))
            return
        said = [{"type": "thinking", "thinking": "t", "signature": f"{name} {len(asked.json['messages'])}"}]
        writer.write(response(message(content=[*said, {"type": "text", "text": name}])))

    return answer


@pytest.mark.full
async def test_reasoning_that_another_provider_signed_is_left_out_there_and_comes_back_with_the_first() -> None:
    down = False

    async def first_answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if down:
            writer.write(error(529))
        else:
            await signing("s")(asked, writer)

    thinking = {"type": "enabled", "budget_tokens": 1_024}

    async def turn(messages: list[Any]) -> list[Any]:
        answer = await ask(running, body(stream=False, messages=messages, thinking=thinking))
        assert answer.status == 200, answer.body
        return [*messages, {"role": "assistant", "content": answer.json["content"]}, {"role": "user", "content": "Go."}]

    index = SessionIndex(MemoryStore())
    async with (
        provider(first_answers) as first,
        provider(signing("other")) as second,
        proxy(first.url, index=index, fallback=at(second.url)) as running,
    ):
        messages = await turn(HISTORY)
        assert thinks(first.asked[-1].json) == ["s"]
        down = True
        messages = await turn(messages)
        # Refused once, then sent without; from then on at once.
        assert [thinks(asked.json) for asked in second.asked] == [["s", "s 3"], []]
        messages = await turn(messages)
        assert [thinks(asked.json) for asked in second.asked[2:]] == [["other 5"]]
        down = False
        running._app.failover._down_until = 0.0  # type: ignore[union-attr]
        asked = len(first.asked)
        await turn(messages)
        # The first refuses the other's; its own was left out only at the second.
        assert thinks(first.asked[asked].json) == ["s", "s 3", "other 5", "other 7"]
        assert "s 3" not in thinks(first.asked[-1].json)
        assert len(first.asked) == asked + 2


@pytest.mark.full
async def test_the_cause_of_a_cold_cache_is_told() -> None:
    def cache_response(read: int, written: int) -> bytes:
        usage = {"input_tokens": 10, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        return response(message("hi", usage={**usage, "output_tokens": 5}))

    down = False

    async def answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(error(529) if down else cache_response(0, 50_000))

    async with (
        provider(answers) as first,
        provider(replies(cache_response(0, 50_000))) as second,
        proxy(first.url, fallback=at(second.url)) as running,
    ):
        sent = body(stream=False)
        await ask(running, sent)
        down = True
        more = [*sent["messages"], {"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
        await ask(running, {**sent, "messages": more})
        metrics = (await ask(running, path="/wane/metrics", method="GET")).body.decode()
        assert 'wane_rewritten_tokens_total{api="anthropic",cause="upstream"} 50000.0' in metrics


async def test_after_a_rest_one_request_tries_the_first_again() -> None:
    now, up = 0.0, False

    async def answers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(HI if up else error(503))

    async def send(failover: Failover) -> bool:
        with Traffic().request("anthropic") as exchange:
            answer = await failover.send(exchange, b"/v1/messages", [(b"host", b"h")], b"")
            if answer is not None:
                await answer.close()
            return answer is not None

    async with provider(answers) as first:
        upstreams = [Upstream(at(url), ServerTimeouts()) for url in (first.url, GONE)]
        failover = Failover(upstreams[0], upstreams[1], clock=lambda: now, pause=0.0)
        assert [await send(failover) for _ in range(5)] == [False] * 5
        assert (len(first.asked), failover.down) == (2, True)
        now = REST
        assert [await send(failover) for _ in range(5)] == [False] * 5
        assert len(first.asked) == 4
        up, now = True, 2 * REST
        assert [await send(failover) for _ in range(3)] == [True] * 3
        assert not failover.down
        for upstream in upstreams:
            await upstream.close()


async def test_a_stopped_proxy_asks_no_second_provider() -> None:
    async with provider(never) as first, provider(replies(ELSE)) as second:
        async with proxy(first.url, fallback=at(second.url)) as running:
            task = asyncio.create_task(ask(running, body(stream=False)))
            await until(lambda: first.asked)
        assert (await task).status == 503
        assert not second.asked


async def test_money_counts_for_the_one_that_answered() -> None:
    from tests.proxy.server.test_cost_limit import SAID, cost_of, ledger, priced_body

    store = MemoryStore()
    async with (
        provider(replies(SAID)) as second,
        proxy(GONE, index=SessionIndex(store), fallback=at(second.url), max_cost=1.0) as running,
    ):
        for tools in (True, False):
            assert (await ask(running, priced_body(tools=tools))).status == 200
        settled = await ledger(store)
        assert (settled.total, dict(settled.open)) == (cost_of(2), {})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fallback": at("http://127.0.0.1:1")}, "is the upstream itself"),
        ({"fallback": at("http://127.0.0.1:8484")}, "is the proxy itself"),
        ({"fallback_key": "k"}, "but no fallback"),
        ({"fallback": at("http://127.0.0.1:2"), "fallback_key": "a b"}, "letters, digits and punctuation"),
        ({"fallback": at("http://127.0.0.1:2"), "fallback_key": "a\r\nb"}, "letters, digits and punctuation"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ServerSettings(at("http://127.0.0.1:1"), Address(), **settings)

"""Gemini's protocol through the whole server: streams of both forms, counting, other routes, errors, and the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.proxy.server.support import KEY, Asked, ask, provider, proxy, response
from wane.conversation.context import ContextSettings
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import UpstreamUrl
from wane.proxy.store import open_store
from wane.testing import Call, HttpError, Reply, ScriptedServer, Usage

MODEL = "gemini-3.1-pro-preview"
GO = {"role": "user", "parts": [{"text": "Go."}]}
TOOLS = [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": {"type": "object"}}]}]
BODY = {"contents": [GO], "tools": TOOLS}
MARK = Call("delimiter", {"action": "start", "name": "look", "type": "expl"})
SCRIPT = [Reply(calls=(MARK,), usage=Usage(1_000, 10, cache_read=600)), Reply("Hi.", usage=Usage(1_100, 20))]


def path(verb: str, version: str = "v1beta", query: str = "") -> str:
    return f"/{version}/models/{MODEL}:{verb}{query}"


@pytest.mark.parametrize(
    ("target", "texts"),
    [
        (path("generateContent"), lambda body: [json.loads(body)]),
        (path("generateContent", "v1", f"?key={KEY}"), lambda body: [json.loads(body)]),
        (path("streamGenerateContent"), json.loads),
        (
            path("streamGenerateContent", query="?alt=sse"),
            lambda body: [json.loads(line[6:]) for line in body.splitlines() if line],
        ),
    ],
)
async def test_each_form_of_a_reply_hides_the_own_round(target: str, texts: Callable[[bytes], list[Any]]) -> None:
    with ScriptedServer(SCRIPT) as server:
        async with proxy(server.url) as running:
            answer = await ask(running, BODY, target, headers={"x-goog-api-key": KEY})
            responses = texts(answer.body)
            metrics = (await ask(running, path="/wane/metrics", method="GET")).body.decode()
        assert (answer.status, server.remaining, server.refusals) == (200, 0, ())
        assert [request.tools for request in server.requests] == [("read", "delimiter")] * 2
    form = "text/event-stream; charset=utf-8" if "sse" in target else "application/json"
    assert answer.header("content-type") == form
    parts = [part for each in responses for part in each["candidates"][0]["content"].get("parts", ())]
    assert "".join(part.get("text", "") for part in parts) == "Hi."
    assert b"delimiter" not in answer.body
    assert responses[-1]["usageMetadata"]["promptTokenCount"] == 2_100
    assert answer.header("x-wane-session")
    assert 'wane_requests_total{api="gemini",outcome="managed"} 1' in metrics


async def test_counting_adds_what_the_request_would_have() -> None:
    with ScriptedServer(SCRIPT) as server:
        async with proxy(server.url) as running:
            await ask(running, BODY, path("generateContent"))
            inner = {"model": f"models/{MODEL}", **BODY}
            counted = await ask(running, {"generateContentRequest": inner}, path("countTokens"))
            assert counted.json["totalTokens"] == pytest.approx(server.requests[0].tokens, rel=0.05)
            # A text by itself is counted as it is.
            alone = await ask(running, {"contents": [{"parts": [{"text": "x" * 400}]}]}, path("countTokens"))
            assert alone.json == {"totalTokens": 100}
        assert server.refusals == ()


async def test_errors_are_geminis() -> None:
    with ScriptedServer([Reply(error=HttpError(429, "Slow down."))]) as server:
        async with proxy(server.url) as running:
            answer = await ask(running, BODY, path("generateContent"))
            assert (answer.status, answer.json["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    async with proxy("http://127.0.0.1:9") as running:
        answer = await ask(running, BODY, path("streamGenerateContent"))
        assert (answer.status, answer.json["error"]["code"]) == (502, 502)
        assert answer.json["error"]["status"] == "INTERNAL"


async def test_an_error_in_a_later_round_ends_the_stream_in_its_form() -> None:
    script = [Reply("Wait.", calls=(MARK,)), Reply(error=HttpError(503, "busy"))] * 2
    with ScriptedServer(script) as server:
        async with proxy(server.url) as running:
            array = await ask(running, BODY, path("streamGenerateContent"))
            assert array.json[-1]["error"]["status"] == "UNAVAILABLE"
            again = {**BODY, "contents": [{"parts": [{"text": "Else."}]}]}
            events = await ask(running, again, path("streamGenerateContent", query="?alt=sse"))
            assert json.loads(events.body.strip().split(b"\n\n")[-1][6:])["error"]["message"] == "busy"


async def test_refused_signatures_are_corrected_once_for_all() -> None:
    call = {"functionCall": {"name": "read", "args": {}}}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "r"}}}]}
    history = [GO, {"role": "model", "parts": [call]}, answer]
    with ScriptedServer([Reply("Fine."), Reply("Fine.")]) as server:
        async with proxy(server.url) as running:
            for _ in range(2):
                done = await ask(running, {"contents": history, "tools": TOOLS}, path("generateContent"))
                assert done.status == 200
                history += [done.json["candidates"][0]["content"], GO]
        assert len(server.refusals) == 1


async def test_keys_and_models_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wane"), ScriptedServer(SCRIPT) as server:
        async with proxy(server.url) as running:
            await ask(running, BODY, path("generateContent", query=f"?key={KEY}"), headers={"x-goog-api-key": KEY})
            await asyncio.sleep(0)
    assert f"POST {path('generateContent')}" in caplog.text
    assert KEY not in caplog.text


async def test_a_cost_limit_knows_geminis_prices() -> None:
    with ScriptedServer(SCRIPT) as server:
        async with proxy(server.url, max_cost=0.000001) as running:
            refused = await ask(running, BODY, path("generateContent"))
            assert (refused.status, refused.json["error"]["status"]) == (402, "FAILED_PRECONDITION")
        async with proxy(server.url, max_cost=5.0) as running:
            assert (await ask(running, BODY, path("generateContent"))).status == 200


async def test_a_watched_array_is_read_too() -> None:
    index = SessionIndex(open_store(None), ContextSettings(strategy="none"))
    with ScriptedServer([Reply("Hi.", usage=Usage(1_100, 20, cache_read=600))]) as server:
        async with proxy(server.url, index=index, shadow=True) as running:
            answer = await ask(running, BODY, path("streamGenerateContent"), headers={"x-goog-api-key": KEY})
            (status,) = running.sessions.status()
    assert len(json.loads(answer.body)) > 1, "a stream of several responses"
    assert (status.used.input, status.used.output, status.used.cache_read) == (1_100, 20, 600)


@pytest.mark.parametrize("query", ["", "?key={}", "?alt=sse&key={}&x=1"])
async def test_the_second_upstream_gets_its_own_key_and_not_the_clients(query: str) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: Asked, writer: asyncio.StreamWriter) -> None:
        asked.append((request.target, request.header("x-goog-api-key") or ""))
        writer.write(response(json.dumps({"candidates": [{"content": {"parts": [{"text": "Hi."}]}}]}).encode()))

    headers = {} if query else {"x-goog-api-key": KEY}
    async with (
        provider(answer) as second,
        proxy("http://127.0.0.1:9", fallback=UpstreamUrl.parse(second.url), fallback_key="its&own") as running,
    ):
        got = await ask(running, BODY, path("generateContent", query=query.format(KEY)), headers=headers)
    assert got.status == 200, got.body
    assert asked == [(path("generateContent", query=query.format("its%26own")), "" if query else "its&own")]

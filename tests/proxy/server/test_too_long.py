"""A view that the provider calls too long is made to fit: its count and its limit calibrate the session's budget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import orjson
import pytest

from tests.proxy.server.support import Answer, Asked, ask, event, provider, proxy, response
from tests.proxy.server.test_shadow import PATHS
from tests.proxy.world import Client, ResponsesClient, every_client
from wane.conversation.context import ContextSettings
from wane.proxy.server.running import Running
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.testing import Call, Reply, Request, ScriptedServer, Usage
from wane.testing.openai import OpenAIResponses
from wane.testing.rules import Rule

EVENTS = {"content-type": "text/event-stream"}
WINDOW = 6_000
RESULT = "one line of a file\n" * 60


def work(request: Request) -> Reply:
    """Read six files in a row, then answer; over and over."""
    number = request.number % 7
    return Reply("Done.") if number == 6 else Reply(calls=(Call("read", {"path": f"{request.number}.py"}),))


async def send(running: Running, client: Client) -> Answer:
    """Send a client's history, as its protocol does."""
    body = client.body()
    path = PATHS[client.wire.name].format(model=body.get("model"))
    return await ask(running, orjson.dumps(client.wire.outgoing(body, path, counts=False)), path)


async def turn(running: Running, client: Client, text: str) -> list[Answer]:
    """Say something, and answer calls until there is none."""
    client.say(text)
    answers = []
    while True:
        answers.append(await send(running, client))
        assert answers[-1].status == 200, answers[-1].body
        if not client.take(answers[-1].json, lambda *_: RESULT):
            return answers


@every_client
async def test_a_session_goes_on_behind_a_window_smaller_than_its_budget(make: type[Client], tmp_path: Path) -> None:
    client = make()
    settings = ContextSettings(budget=40_000, annotate="infer")
    with ScriptedServer(work, context_limit=WINDOW) as server:
        index = SessionIndex(open_store(str(tmp_path)), settings)
        async with proxy(server.url, index=index) as running:
            answers = await turn(running, client, "Read on.")
            while not server.refusals:
                answers = await turn(running, client, "Read on.")
            mended = [answer for answer in answers if answer.header("x-wane-warning")]
            assert "the provider takes no view of" in str(mended[0].header("x-wane-warning"))
            budget = int(mended[0].header("x-wane-budget") or 0)
            assert int(mended[0].header("x-wane-view") or 0) <= budget < WINDOW
            # It is known from then on.
            known = len(server.refusals)
            for _ in range(3):
                answers = await turn(running, client, "Read on.")
            assert len(server.refusals) == known
            assert int(answers[-1].header("x-wane-budget") or 0) == budget
        # Another process knows it, too.
        index = SessionIndex(open_store(str(tmp_path)), settings)
        async with proxy(server.url, index=index) as running:
            answers = await turn(running, client, "Read on.")
            assert len(server.refusals) == known
            assert int(answers[-1].header("x-wane-budget") or 0) == budget


def _say(text: str) -> Rule:
    """Return a server's rule of a window, in words of its own."""

    def rule(request: Request) -> str | None:
        return text.format(request.tokens) if request.tokens > WINDOW else None

    return rule


@pytest.mark.parametrize(
    "words",
    [
        "request ({} tokens) exceeds the available context size (6000 tokens), try increasing it",
        (
            "This model's maximum context length is 6000 tokens. However, you requested 0 output tokens and your prompt"
            " contains at least 6001 input tokens, for a total of at least 6001 tokens."
        ),
        "The input ({} tokens) is longer than the model's context length (6000 tokens).",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ],
    ids=["llama.cpp", "vLLM", "SGLang", "LM Studio"],
)
async def test_a_history_far_over_the_window_fits_in_a_few_steps(words: str) -> None:
    """A client that comes with a long history, such as one that was restarted behind a smaller model."""
    messages: list[dict[str, object]] = []
    for number in range(30):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"Question {number}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": RESULT},
            {"role": "assistant", "content": f"Answer {number}"},
        ]
    messages.append({"role": "user", "content": "And now?"})
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
    settings = ContextSettings(budget=40_000, annotate="infer")
    with ScriptedServer([Reply("Well.")], rules=[_say(words)]) as server:
        async with proxy(server.url, index=SessionIndex(open_store(None), settings)) as running:
            answer = await ask(running, body, PATHS["openai"])
        assert answer.status == 200, answer.body
        assert 1 <= len(server.refusals) <= 4


async def test_a_refusal_that_no_view_can_mend_goes_to_the_client() -> None:
    long = {"role": "user", "content": "word " * 9_000}
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    body = json.dumps({"model": "m", "messages": [long], "tools": tools}).encode()
    with ScriptedServer([Reply("Well.")], context_limit=WINDOW) as server:
        async with proxy(server.url) as running:
            answer = await ask(running, body, PATHS["openai"])
        assert answer.status == 400
        assert "maximum context length is 6000 tokens" in answer.json["error"]["message"]
        assert len(server.refusals) == 1


def _failed_stream(message: str) -> bytes:
    """A stream of Responses that fails, as OpenAI's do where the input is too long."""
    error = {"code": "context_length_exceeded", "message": message}
    opening = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    return event("response.created", response=opening, sequence_number=0) + event(
        "response.failed", response={**opening, "status": "failed", "error": error}, sequence_number=1
    )


async def test_a_stream_that_fails_as_too_long_is_asked_for_again() -> None:
    client = ResponsesClient()
    for number in range(30):
        client.say(f"Question {number}")
        text = [{"type": "output_text", "text": "word " * 200, "annotations": []}]
        said = {"type": "message", "role": "assistant", "id": f"msg_{number}", "status": "completed", "content": text}
        client.history.append(said)
    client.say("And now?")
    sizes = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        sizes.append(len(asked.body))
        if len(asked.body) > 20_000:
            writer.write(
                response(_failed_stream("Your input exceeds the context window of this model."), headers=EVENTS)
            )
            return
        parsed = OpenAIResponses().parse(asked.body, asked.json, {}, 0, None)
        events = OpenAIResponses().stream(parsed, Reply("Well."), Usage(10, 2))
        writer.write(response(b"".join(each.encode() for each in events), headers=EVENTS))

    settings = ContextSettings(budget=40_000, annotate="infer")
    async with provider(answer) as up, proxy(up.url, index=SessionIndex(open_store(None), settings)) as running:
        body = orjson.dumps({**client.body(), "stream": True})
        got = await ask(running, body, PATHS["openai_responses"])
    assert got.status == 200
    assert b"Well." in got.body
    assert b"response.failed" not in got.body
    assert sizes == sorted(sizes, reverse=True)
    assert 1 < len(sizes) <= 5
    assert "the provider takes no view of" in str(got.header("x-wane-warning"))

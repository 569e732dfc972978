"""The rounds of a managed request: what the provider gets, and what the client."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.proxy.server import support
from tests.proxy.server.support import (
    CALLED,
    KEY,
    MARK,
    START,
    STOP,
    Asked,
    ask,
    block_stop,
    body,
    call_block,
    chunk,
    message,
    provider,
    proxy,
    request,
    response,
    stream_head,
    text_block,
    text_delta,
    text_start,
)
from wane.conversation import ContextSettings
from wane.core import Policy
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.proxy.wire.wire import MAX_ROUNDS

Answering = Callable[[Asked, asyncio.StreamWriter], Any]

STRICT = Policy(min_room=0.0)


def replies(*answers: bytes | Answering) -> Answering:
    """A provider that gives these answers one after another, the last one again and again."""
    left = list(answers)

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        next_ = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(next_, bytes):
            writer.write(next_)
        else:
            await next_(asked, writer)

    return answer


def stream_response(*events: bytes) -> bytes:
    return stream_head(request_id="req_1") + b"".join(map(chunk, events)) + b"0\r\n\r\n"


def texts(data: bytes) -> str:
    """The text that a stream gives."""
    events = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]
    return "".join(it["delta"].get("text", "") for it in events if it["type"] == "content_block_delta")


def kinds(data: bytes) -> list[str]:
    return [line[7:] for line in data.decode().split("\n") if line.startswith("event: ")]


ALONE = stream_response(START, call_block("delimiter", MARK), CALLED)


async def test_request_gains_the_tool_and_the_reply_headers() -> None:
    async with provider(replies(stream_response(START, text_block("hi"), STOP))) as up, proxy(up.url) as running:
        sent = {"anthropic-version": "2023-06-01", "accept-encoding": "gzip, br"}
        answer = await ask(running, body(), "/v1/messages?beta=true", headers=sent)
        asked = up.asked[0]
        assert asked.target == "/v1/messages?beta=true"
        assert [tool["name"] for tool in asked.json["tools"]] == ["read", "delimiter"]
        assert asked.json["messages"] == body()["messages"]
        assert asked.header("accept-encoding") == "identity"
        assert asked.header("x-api-key") == KEY
        assert asked.header("anthropic-version") == "2023-06-01"
        assert answer.whole
        assert texts(answer.body) == "hi"
        assert answer.header("request-id") == "req_1"
        assert answer.header("x-wane-budget") == "80000"
        assert answer.header("x-wane-evicted") == "0"
        assert int(answer.header("x-wane-view") or 0) > 0
        assert answer.header("x-wane-session")
        assert answer.header("x-wane-warning") is None


async def test_rounds_of_own_calls_alone_are_one_reply() -> None:
    second = stream_response(START, text_block("hi"), STOP)
    async with provider(replies(ALONE, second)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert len(up.asked) == 2
        assert [it["role"] for it in up.asked[1].json["messages"]] == ["user", "assistant", "user"]
        assert answer.whole
        assert b"delimiter" not in answer.body
        assert texts(answer.body) == "hi"
        assert kinds(answer.body).count("message_start") == kinds(answer.body).count("message_stop") == 1
        # The same connection serves the second round.
        assert up.connections == 1


async def test_model_that_only_marks_is_asked_for_the_last_time_without_the_tool() -> None:
    def marks(asked: Asked, writer: asyncio.StreamWriter) -> Any:
        number = len(asked.json["messages"])
        mark = {**MARK, "name": f"look {number}"}
        writer.write(stream_response(START, call_block("delimiter", mark, number=number), CALLED))
        return asyncio.sleep(0)

    async with provider(replies(marks)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert answer.whole
        equipped = ["delimiter" in json.dumps(asked.json["tools"]) for asked in up.asked]
        assert equipped == [True] * (MAX_ROUNDS - 1) + [False]


async def test_first_token_does_not_wait_for_the_next() -> None:
    more = asyncio.Event()

    async def slowly(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(START + text_start() + text_delta("one ")))
        await more.wait()
        writer.write(chunk(text_delta("two")) + chunk(support.block_stop() + STOP) + b"0\r\n\r\n")

    async with provider(slowly) as up, proxy(up.url) as running, support.connection(running) as it:
        it.send(request(body()))
        assert (await it.head()).status == 200
        got = await it.piece()
        assert texts(got) == "one "
        more.set()
        while piece := await it.piece():
            got += piece
        assert texts(got) == "one two"


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
@pytest.mark.parametrize("stream", [True, False])
async def test_error_of_the_provider_passes_unchanged(status: int, stream: bool) -> None:
    error = b'{"type": "error",  "error": {"type": "overloaded_error", "message": "later"}}'
    sent = {"retry-after": "7", "x-should-retry": "true", "content-type": "application/json", "request-id": "r"}

    async with provider(replies(response(error, status, sent))) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=stream))
        assert (answer.status, answer.body) == (status, error)
        assert dict(answer.headers) == {**sent, "content-length": str(len(error))}
        assert len(up.asked) == 1


async def test_error_of_a_later_round_passes_unchanged_before_anything_was_given() -> None:
    refusal = response(b'{"error": 1}', 429, {"retry-after": "7"})
    async with provider(replies(ALONE, refusal)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert (answer.status, answer.body, answer.header("retry-after")) == (429, b'{"error": 1}', "7")


SAID = stream_response(START, text_block("hi"), call_block("delimiter", MARK, 1), CALLED)


@pytest.mark.parametrize("failure", ["status", "reset"])
async def test_error_of_a_later_round_ends_a_reply_that_has_begun(failure: str) -> None:
    async def fails(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if failure == "status":
            writer.write(response(b'{"type":"error","error":{"type":"overloaded_error","message":"later"}}', 529))
        else:
            writer.transport.abort()

    async with provider(replies(SAID, fails)) as up, proxy(up.url) as running:
        answer = await ask(running, body())
        assert answer.status == 200
        assert answer.whole
        assert texts(answer.body) == "hi"
        assert kinds(answer.body)[-1] == "error"
        assert len(up.asked) == 2


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", lambda text: zlib.compress(text, wbits=-15))],
    ids=["gzip", "deflate", "deflate without a header"],
)
async def test_reply_that_is_compressed_all_the_same_is_understood(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    zipped = response(compress(message("hi")), headers={"content-encoding": encoding})
    async with provider(replies(zipped)) as up, proxy(up.url) as running:
        answer = await ask(running, body(stream=False))
        assert answer.json["content"][0]["text"] == "hi"
        assert answer.header("content-encoding") is None
        assert answer.header("content-length") == str(len(answer.body))


async def test_tokens_are_counted_as_they_would_be_sent() -> None:
    counted = response(b'{"input_tokens": 5}', headers={"content-type": "application/json"})
    async with provider(replies(response(message("hi")), counted)) as up, proxy(up.url) as running:
        await ask(running, body(stream=False))
        content = {key: value for key, value in body().items() if key not in ("stream", "max_tokens")}
        content["messages"] += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]
        answer = await ask(running, content, "/v1/messages/count_tokens")
        assert answer.body == b'{"input_tokens": 5}'
        assert [tool["name"] for tool in up.asked[1].json["tools"]] == ["read", "delimiter"]
        assert [it.requests for it in running.sessions.status()] == [1]


async def test_refusal_of_the_wire_is_told_in_its_shape() -> None:
    class Wire(type(support.known_wires()["anthropic"])):  # type: ignore[misc]
        def refusal(self, body: dict[str, Any]) -> str | None:
            return "no such thing"

    async with provider(replies(b"")) as up, proxy(up.url, wires={"anthropic": Wire()}) as running:
        answer = await ask(running, body())
        assert answer.status == 400
        assert answer.json["error"]["message"] == "no such thing"
        assert not up.asked


async def test_request_without_tools_is_shown_the_view_of_the_session_that_it_goes_on_with() -> None:
    """So is one that is compressed: what goes upstream is another body than came."""
    long = {"type": "tool_result", "tool_use_id": "c1", "content": "output " * 2_000}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
        {"role": "user", "content": [long]},
        {"role": "assistant", "content": "Read."},
        {"role": "user", "content": "On."},
        {"role": "assistant", "content": "Well."},
        {"role": "user", "content": "Further."},
    ]

    small = SessionIndex(open_store(None), ContextSettings(budget=1_500))
    async with provider(replies(response(message("hi")))) as up, proxy(up.url, index=small) as running:
        answer = await ask(running, body(stream=False, messages=history))
        assert int(answer.header("x-wane-evicted") or 0) > 1_000
        more = [*history, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "Summarise."}]
        plain = body(stream=False, tools=False, messages=more)
        sent = gzip.compress(json.dumps(plain).encode())
        answer = await ask(running, sent, headers={"content-encoding": "gzip"})
        assert answer.header("x-wane-unmanaged") == "it has no tools that the client runs"
        assert up.asked[1].header("content-encoding") is None
        shown = up.asked[1].json
        assert "output" not in json.dumps(shown)
        assert shown["messages"][-1] == more[-1]
        assert "tools" not in shown
        assert [it.requests for it in running.sessions.status()] == [1]


@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "none"])
async def test_a_request_over_the_budget_says_so_under_every_strategy_that_evicts(strategy: Any) -> None:
    index = SessionIndex(open_store(None), ContextSettings(budget=1_000, strategy=strategy, policy=STRICT))

    async with (
        provider(replies(stream_response(START, text_block("hi"), STOP))) as up,
        proxy(up.url, index=index) as it,
    ):
        over = await ask(it, body("word " * 4_000))
        warning = over.header("x-wane-warning") or ""
        assert ("over the budget of 1,000" in warning) is (strategy != "none")
        assert int(over.header("x-wane-view") or 0) > 1_000


@pytest.mark.parametrize(("strategy", "warns"), [("cwl", True), ("truncate", True), ("none", False)])
async def test_a_budget_that_leaves_too_little_room_is_logged_once_a_session(
    strategy: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ContextSettings(budget=9_000, strategy=strategy, policy=STRICT)
    index = SessionIndex(open_store(None), settings)
    tools = [{"name": "read", "description": "Reads. " * 4_000, "input_schema": {"type": "object"}}]

    with caplog.at_level("WARNING", "wane.proxy"):
        async with provider(replies(response(message()))) as up, proxy(up.url, index=index) as it:
            for said in ("Hello.", "Hello.", "Others."):
                few = body(said, stream=False)
                await ask(it, few if said == "Others." else few | {"tools": tools})
            others, hello = (status.facts for status in it.sessions.status())
            assert not others.tight
            assert hello.tight is warns
            logged = [record.getMessage() for record in caplog.records if "too little room" in record.getMessage()]
            if warns:
                assert hello.room is not None
                assert logged == [f"session {hello.session}: {hello.room.warning}"]
            else:
                assert logged == []


async def test_a_window_that_thrashes_is_said_in_the_reply_the_log_and_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    index = SessionIndex(open_store(None), ContextSettings(budget=9_000))
    tools = [{"name": "read", "input_schema": {"type": "object"}}]

    with caplog.at_level("WARNING", "wane.proxy"):
        async with provider(replies(response(message()))) as up, proxy(up.url, index=index) as it:
            messages: list[Any] = [{"role": "user", "content": "Go."}]
            warnings = []
            for number in range(20):
                call = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": f"f{number}"}}
                result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "word " * 4_000}
                messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
                done = await ask(it, {**body("", stream=False), "messages": messages, "tools": tools})
                warnings.append(done.header("x-wane-warning") or "")
            first = next(number for number, warning in enumerate(warnings) if warning)
            assert 5 <= first < 10
            (status,) = it.sessions.status()
            assert status.facts.thrashing is not None
            assert warnings[-1] == status.facts.advice == status.facts.thrashing.warning
            assert all("too small for this work: 5 passes ran" in warning for warning in warnings[first:])
            logged = [record.getMessage() for record in caplog.records if "too small for" in record.getMessage()]
            assert logged == [f"session {status.facts.session}: {warnings[first]}"]


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the timers that are set, by what they call."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: Counter[str] = Counter()

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        self.timers[getattr(callback, "__qualname__", "")] += 1
        return super().call_at(when, callback, *args, context=context)


def test_an_event_of_a_stream_takes_no_timer() -> None:
    pieces = 300

    async def says(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head())
        for piece in (START, text_start(), *(text_delta(f"{n} ") for n in range(pieces)), block_stop(), STOP):
            writer.write(chunk(piece))
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        async with provider(says) as up, proxy(up.url) as running:
            await ask(running, body())
            loop = asyncio.get_running_loop()
            assert isinstance(loop, CountingLoop)
            loop.timers.clear()
            async with support.connection(running) as it:
                it.send(request(body()))
                answer = await it.reader.readuntil(b"\r\n0\r\n\r\n")
            assert answer.count(b"event: content_block_delta") == pieces
            # Those of `asyncio.sleep` are the provider's.
            del loop.timers["_set_result_unless_cancelled"]
            assert loop.timers.total() < pieces / 10

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())

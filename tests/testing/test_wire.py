"""Answers against the providers' own types, and what is refused, without a client in between."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

import pytest
from anthropic.types import MessageCreateParams
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.beta import MessageCreateParams as BetaMessageCreateParams
from openai.types.chat import ChatCompletion, ChatCompletionChunk, CompletionCreateParams
from openai.types.responses import Response, ResponseCreateParams, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.testing.support import CHAT, MESSAGES, RESPONSES, message_of, post
from wane.core.errors import ConfigError
from wane.testing import Break, Call, HttpError, Reply, ScriptedServer, Usage
from wane.testing.anthropic.messages import Anthropic
from wane.testing.openai.chat import OpenAIChat
from wane.testing.openai.responses import OpenAIResponses
from wane.testing.wire import Provider

USER = {"role": "user", "content": "Hi"}
FULL = Reply("Text.", reasoning="Thought.", calls=(Call("read", {"path": "a"}), Call("read", {}, id="mine")))
ASK: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [USER]},
    RESPONSES: {"model": "m", "input": [USER]},
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [USER]},
}
WHOLE: dict[str, Any] = {CHAT: ChatCompletion, RESPONSES: Response, MESSAGES: BetaMessage}
EVENTS: dict[str, Any] = {
    CHAT: ChatCompletionChunk,
    RESPONSES: ResponseStreamEvent,
    MESSAGES: BetaRawMessageStreamEvent,
}


def call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(each) for each in ids]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def uses(*ids: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": each, "name": "f", "input": {}} for each in ids]
    return {"role": "assistant", "content": [*before, *blocks]}


def returns(*ids: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": each, "content": "r"} for each in ids]
    return {"role": "user", "content": [*before, *blocks]}


def function_call(call_id: str, item_id: str | None = None) -> dict[str, Any]:
    item = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}
    return item if item_id is None else {**item, "id": item_id}


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "r"}


def reasoning(item_id: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": []}


TEXT = {"type": "text", "text": "t"}
SAID = {"role": "assistant", "content": "said"}
METADATA = {"internal_chat_message_metadata_passthrough": {}}
REFUSED_CHAT: dict[str, tuple[list[Any], str]] = {
    "no messages": ([], "empty array"),
    "result without call": ([USER, result("a")], "must be a response to a preceeding message"),
    "result of an older call": ([USER, calls("a"), result("a"), SAID, result("a")], "preceeding message"),
    "result twice": ([USER, calls("a"), result("a"), result("a")], "preceeding message"),
    "call without result": ([USER, calls("a", "b"), result("a")], "did not have response messages: b"),
    "user before result": ([USER, calls("a"), USER, result("a")], "did not have response messages: a"),
    "empty assistant": ([USER, {"role": "assistant", "content": None}], "got null"),
    "only reasoning": ([USER, {"role": "assistant", "content": "", "reasoning_content": "x"}], "empty one"),
    "no calls": ([USER, {"role": "assistant", "content": "x", "tool_calls": []}], "tool_calls': empty array"),
    "user without content": ([{"role": "user", "content": []}], "empty one"),
    "unknown role": ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    "content without a type": ([{"role": "user", "content": [{"text": "x"}]}], "'messages[0].content[0].type'"),
    "content of another API": (
        [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
        "Invalid value: 'input_text'",
    ),
    "text that is none": ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "content[0].text"),
    "result without content": ([USER, calls("a"), {"role": "tool", "tool_call_id": "a"}], "'messages[2].content'"),
    "call of another kind": (
        [USER, {"role": "assistant", "tool_calls": [{**call("a"), "type": "mcp"}]}, result("a")],
        "Invalid value: 'mcp'",
    ),
    "call without an id": (
        [USER, {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f"}}]}],
        "'messages[1].tool_calls[0].id'",
    ),
    "arguments as an object": (
        [
            USER,
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}],
            },
            result("a"),
        ],
        "'messages[1].tool_calls[0].function.arguments': got dict",
    ),
}
REFUSED_RESPONSES: dict[str, tuple[list[Any], str]] = {
    "no input": ([], "at least one item"),
    "output without call": ([USER, output("a")], "No tool call found for function call output with call_id a"),
    "output before call": ([USER, output("a"), function_call("a")], "No tool call found"),
    "call without output": ([USER, function_call("a"), SAID], "No tool output found for function call a"),
    "reasoning at the end": ([USER, reasoning("rs_1")], "without its required following item"),
    "reasoning before user": ([reasoning("rs_1"), USER], "'rs_1' of type 'reasoning'"),
    "reasoning of another item": (
        [USER, reasoning("rs_ra"), function_call("a", "fc_ra_1"), output("a")],
        "without its required following item",
    ),
    "call without its reasoning": (
        [USER, function_call("a", "fc_ra_0"), output("a")],
        "without its required 'reasoning' item: 'rs_ra'",
    ),
    "empty assistant": ([USER, {"role": "assistant", "content": []}], "no content"),
    "unknown item": ([USER, {"type": "mystery"}], "'mystery'"),
    "content of chat": ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "Invalid value: 'text'"),
    "user without content": ([{"role": "user", "content": None}], "'input[0].content'"),
    "content as an object": ([{"role": "user", "content": {"text": "x"}}], "'input[0].content': got dict"),
    "input of an assistant": (
        [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, USER],
        "Invalid value: 'input_text'. Supported values are: 'output_text', 'refusal'.",
    ),
    "content without a type": ([{"role": "user", "content": [{"text": "x"}]}], "'input[0].content[0].type'"),
    "a field that an SDK has added": (
        [USER, {**function_call("a"), "parsed_arguments": {}}, output("a")],
        "Unknown parameter: 'input[1].parsed_arguments'.",
    ),
}
REFUSED_MESSAGES: dict[str, tuple[list[Any], str]] = {
    "a block without a type": ([{"role": "user", "content": [{"text": "x"}]}], "messages.0.content.0.type: Field"),
    "a block of another API": (
        [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
        "messages.0.content.0: Input tag 'input_text' found using 'type'",
    ),
    "a call of the user": ([{"role": "user", "content": uses("a")["content"]}], "Input tag 'tool_use'"),
    "a call's id with a space": (
        [USER, uses("a b"), returns("a b")],
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "an unknown block in a result": (
        [USER, uses("a"), {"role": "user", "content": [{**returns("a")["content"][0], "content": [{"type": "x"}]}]}],
        "messages.2.content.0.tool_result.content.0: Input tag 'x'",
    ),
    "no messages": ([], "at least one message"),
    "assistant first": ([SAID, USER], 'must use the "user" role'),
    "result without call": ([returns("a")], "unexpected `tool_use_id` found in `tool_result` blocks: a"),
    "result of an older call": (
        [USER, uses("a"), returns("a"), SAID, returns("a")],
        "messages.4.content.0: unexpected",
    ),
    "call without result": ([USER, uses("a", "b"), returns("a")], "without `tool_result` blocks immediately after: b"),
    "call at the end": ([USER, uses("a")], "messages.1: `tool_use` ids were found"),
    "text ahead of results": ([USER, uses("a"), returns("a", before=(TEXT,))], "immediately after: a"),
    "ids used twice": ([USER, uses("a"), returns("a"), uses("a"), returns("a")], "must be unique"),
    "a field of an answer": ([USER, {**SAID, "usage": {}}, USER], "messages.1.usage: Extra inputs are not permitted"),
    "several of them": ([USER, {**SAID, "usage": {}, "id": "x", "model": "y"}, USER], "messages.1.usage: Extra inputs"),
    "a field that an SDK has added": (
        [USER, {"role": "assistant", "content": [{**TEXT, "parsed_output": None}]}, USER],
        "messages.1.content.0.text.parsed_output: Extra inputs are not permitted",
    ),
    "empty message": (
        [USER, {"role": "assistant", "content": []}, USER],
        "messages.1: all messages must have non-empty",
    ),
    "empty text": (
        [{"role": "user", "content": [{"type": "text", "text": ""}]}],
        "text content blocks must be non-empty",
    ),
    "blank text": ([{"role": "user", "content": " \n"}], "non-whitespace"),
    "input no object": (
        [
            USER,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{"}]},
            returns("a"),
        ],
        "Input should be an object",
    ),
    "thinking unsigned": (
        [USER, uses("a", before=({"type": "thinking", "thinking": "t"},)), returns("a")],
        "signature",
    ),
}
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": [USER, calls("a", "b"), result("b"), result("a"), USER]}),
    (CHAT, {"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": ""}]}),
    (RESPONSES, {"input": "Hi", "instructions": "s"}),
    (RESPONSES, {"input": [USER, function_call("a"), function_call("b"), USER, output("b"), output("a")]}),
    (RESPONSES, {"input": [USER, reasoning("rs_ra"), function_call("a", "fc_ra_0"), output("a")]}),
    (RESPONSES, {"input": [USER, reasoning("rs_foreign"), function_call("a", "fc_foreign"), output("a")]}),
    # Codex sends it back with items of each kind.
    (
        RESPONSES,
        {
            "input": [
                {**item, **METADATA} for item in (USER, reasoning("rs_ra"), function_call("a", "fc_ra_0"), output("a"))
            ]
        },
    ),
    (MESSAGES, {"messages": [USER, USER, uses("a"), uses("b"), returns("b"), returns("a"), USER], "system": "s"}),
    (MESSAGES, {"messages": [USER, SAID]}),
]


def refused_cases() -> list[Any]:
    tables = (
        (CHAT, "messages", REFUSED_CHAT),
        (RESPONSES, "input", REFUSED_RESPONSES),
        (MESSAGES, "messages", REFUSED_MESSAGES),
    )
    return [
        pytest.param(path, {"model": "m", field: given}, text, id=f"{path.rsplit('/', 1)[-1]}: {name}")
        for path, field, table in tables
        for name, (given, text) in table.items()
    ]


@pytest.mark.parametrize(("path", "body", "text"), refused_cases())
def test_refused(path: str, body: Mapping[str, Any], text: str) -> None:
    with ScriptedServer([Reply("Hello.")]) as server:
        status, answer = post(server, path, body)
        assert status == 400
        assert text in message_of(answer)
        assert answer["error"]["type"] == "invalid_request_error"
        assert ("type" in answer) is (path == MESSAGES)
        assert server.remaining == 1
        assert [refusal.message for refusal in server.refusals] == [message_of(answer)]


@pytest.mark.parametrize(("path", "body"), ACCEPTED)
def test_accepted(path: str, body: Mapping[str, Any]) -> None:
    with ScriptedServer([Reply("Hello.")]) as server:
        limit = {"max_tokens": 9} if path == MESSAGES else {}
        status, answer = post(server, path, {"model": "m", **limit, **body})
        assert status == 200, answer


def test_anthropic_wants_a_limit_of_an_answer_but_not_of_a_count() -> None:
    body = {"model": "m", "messages": [USER]}
    with ScriptedServer([Reply("Hello.")]) as server:
        assert post(server, f"{MESSAGES}/count_tokens", body)[0] == 200
        status, answer = post(server, MESSAGES, body)
        assert (status, message_of(answer)) == (400, "max_tokens: Field required")


def test_thinking_of_the_latest_calls() -> None:
    ask = {**ASK[MESSAGES], "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with ScriptedServer([FULL, Reply("Done.")]) as server:
        content = post(server, MESSAGES, ask)[1]["content"]
        results = returns(*(block["id"] for block in content if block["type"] == "tool_use"))
        rest = {"role": "assistant", "content": content[1:]}
        status, answer = post(server, MESSAGES, {**ask, "messages": [USER, rest, results]})
        assert (status, "Expected `thinking`" in message_of(answer)) == (400, True)
        altered = {"role": "assistant", "content": [{**content[0], "thinking": "Other."}, *content[1:]]}
        status, answer = post(server, MESSAGES, {**ask, "messages": [USER, altered, results]})
        assert (status, "Invalid `signature`" in message_of(answer)) == (400, True)
        older = [USER, rest, results, SAID, USER]
        assert post(server, MESSAGES, {**ask, "messages": older})[0] == 200


THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
LED = uses("a", before=(THOUGHT,))
REMINDED = {"role": "user", "content": [*returns("b")["content"], TEXT]}


@pytest.mark.parametrize(
    ("kind", "messages", "unled"),
    [
        ("enabled", [USER, LED, returns("a"), uses("b"), returns("b")], None),
        ("enabled", [USER, uses("b"), returns("b")], 1),
        ("enabled", [USER, uses("b"), returns("b"), LED, returns("a")], 1),
        ("enabled", [USER, uses("b"), returns("b"), SAID, USER], None),
        # What stands behind results may begin a turn, or not: both must be right.
        ("enabled", [USER, LED, returns("a"), uses("b"), REMINDED, uses("c"), returns("c")], 5),
        ("enabled", [USER, uses("b"), REMINDED, LED, returns("a")], 1),
        ("adaptive", [USER, uses("b"), returns("b")], None),
        ("disabled", [USER, uses("b"), returns("b")], None),
        ("disabled", [USER, LED, returns("a"), SAID, USER], None),
        ("disabled", [USER, uses("b"), returns("b"), LED, returns("a")], 3),
    ],
)
def test_thinking_of_the_turn_under_way(kind: str, messages: list[Any], unled: int | None) -> None:
    thinking = {"type": kind, **({"budget_tokens": 1024} if kind == "enabled" else {})}
    with ScriptedServer([Reply("Done.")]) as server:
        status, answer = post(
            server, MESSAGES, {"model": "m", "max_tokens": 9, "messages": messages, "thinking": thinking}
        )
        if unled is None:
            assert status == 200
        else:
            what = "Expected `thinking`" if kind == "enabled" else "When thinking is disabled"
            assert message_of(answer).startswith(f"messages.{unled}.content.0")
            assert what in message_of(answer)


def test_with_a_budget_for_it_a_turn_begins_with_thinking() -> None:
    ask = {**ASK[MESSAGES], "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with ScriptedServer(
        [Reply(calls=(Call("f", id="a"),)), Reply("Done."), Reply("Again.", reasoning="So.")]
    ) as server:
        content = post(server, MESSAGES, ask)[1]["content"]
        assert [block["type"] for block in content] == ["thinking", "tool_use"]
        messages = [USER, {"role": "assistant", "content": content}, returns("a")]
        assert [block["type"] for block in post(server, MESSAGES, {**ask, "messages": messages})[1]["content"]] == [
            "text"
        ]
        assert post(server, MESSAGES, ask)[1]["content"][0]["thinking"] == "So."


@pytest.mark.quick(5)
@pytest.mark.parametrize("path", ASK)
@pytest.mark.parametrize("reply", [FULL, Reply("Hello."), Reply(calls=(Call("f"),)), Reply(reasoning="T."), Reply()])
def test_answers_are_of_the_providers_types(path: str, reply: Reply) -> None:
    with ScriptedServer([reply, reply]) as server:
        _, whole = post(server, path, ASK[path])
        WHOLE[path].model_validate(whole)
        options = {"stream_options": {"include_usage": True}} if path == CHAT else {}
        _, stream = post(server, path, {**ASK[path], "stream": True, **options})
    adapter = TypeAdapter(EVENTS[path])
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    if path == CHAT:
        assert lines.pop() == "[DONE]"
    for line in lines:
        if '"type": "ping"' not in line:
            adapter.validate_json(line)


def test_a_chat_stream_reports_usage_only_if_asked() -> None:
    with ScriptedServer([Reply("Hello.")] * 2) as server:
        _, without = post(server, CHAT, {**ASK[CHAT], "stream": True})
        _, with_usage = post(server, CHAT, {**ASK[CHAT], "stream": True, "stream_options": {"include_usage": True}})
    assert b"usage" not in without
    assert b'"choices": [], "usage": {"prompt_tokens": 1' in with_usage


def test_the_same_script_gives_the_same_bytes() -> None:
    def answers() -> list[Any]:
        with ScriptedServer([FULL] * 3) as server:
            return [post(server, path, {**ASK[path], "stream": True}) for path in ASK]

    assert answers() == answers()


@pytest.mark.parametrize(
    ("path", "key"), [("/v1/messages/count_tokens", MESSAGES), ("/v1/responses/input_tokens", RESPONSES)]
)
def test_counting_endpoints(path: str, key: str) -> None:
    with ScriptedServer([]) as server:
        assert post(server, path, ASK[key])[1]["input_tokens"] == 1
        assert (server.requests, server.refusals) == ((), ())


@pytest.mark.parametrize(("body", "text"), [(b"{", "not JSON"), (b"[]", "not a JSON object"), (b"{}", "model")])
@pytest.mark.parametrize("path", ASK)
def test_bad_bodies(path: str, body: bytes, text: str) -> None:
    with ScriptedServer([]) as server:
        status, answer = post(server, path, body)
        assert (status, text in message_of(answer)) == (400, True)
        assert server.refusals[0].request is None


@pytest.mark.parametrize(("path", "field"), [(CHAT, "messages"), (RESPONSES, "input"), (MESSAGES, "messages")])
def test_messages_that_are_no_messages(path: str, field: str) -> None:
    with ScriptedServer([]) as server:
        status, answer = post(server, path, {"model": "m", field: [7]})
    assert (status, "malformed" in message_of(answer)) == (400, True)


def test_a_client_that_dies_in_the_middle_of_its_request_asked_nothing() -> None:
    with ScriptedServer([Reply("hi")]) as server:
        where = urlsplit(server.url)
        with socket.create_connection((where.hostname, where.port)) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nContent-Length: 100\r\n\r\n".encode() + b'{"messages": [')
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert server.refusals == ()
        assert server.requests == ()


def test_stored_responses_are_not_served() -> None:
    with ScriptedServer([]) as server:
        status, answer = post(server, RESPONSES, {**ASK[RESPONSES], "previous_response_id": "resp_1"})
    assert (status, "send the whole input" in message_of(answer)) == (400, True)


def test_unknown_paths() -> None:
    with ScriptedServer([]) as server:
        status, answer = post(server, "/v1/embeddings", {})
    assert (status, CHAT in message_of(answer)) == (404, True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ASK)
def test_a_lone_surrogate_is_sent_as_an_escape(path: str, stream: bool) -> None:
    with ScriptedServer([Reply("half \ud83d", reasoning="\ud83d")]) as server:
        status, body = post(server, path, {**ASK[path], "stream": stream})
    assert status == 200
    assert r"\ud83d" in (body.decode() if stream else json.dumps(body))


def test_an_error_body_is_sent_as_it_stands() -> None:
    body = {"error": {"code": 7, "message": "odd"}}
    with ScriptedServer([Reply(error=HttpError(500, body))]) as server:
        assert post(server, CHAT, ASK[CHAT]) == (500, body)


def test_the_body_as_it_came() -> None:
    raw = json.dumps({**ASK[CHAT], "seed": 7}, indent=3).encode()
    with ScriptedServer([Reply("Hello.")]) as server:
        post(server, CHAT, raw)
        assert server.requests[0].raw == raw
        assert server.requests[0].body["seed"] == 7
        assert "authorization" not in server.requests[0].headers


def test_a_server_serves_one_block() -> None:
    server = ScriptedServer([])
    with pytest.raises(RuntimeError, match="not running"):
        assert server.url
    with server, pytest.raises(RuntimeError, match="one `with` block"):
        server.__enter__()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Usage(-1, 0), "negative"),
        (lambda: Usage(10, 0, cache_read=6, cache_write=5), "parts of input"),
        (lambda: HttpError(200), "not 200"),
        (lambda: Break(how="cut"), "by close, reset, garbage, error, not 'cut'"),  # type: ignore[arg-type]
        (lambda: Break(-1), "negative"),
        (lambda: Break(stall=-1), "negative"),
        (lambda: Reply("x", delay=-1), "-1 seconds"),
        (lambda: ScriptedServer([], context_limit=0), "at least one token, not 0"),
        (lambda: ScriptedServer([], keep=-1), "cannot be -1"),
    ],
)
def test_settings_that_cannot_work(make: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()


FIELDS: list[tuple[type[Provider], str, tuple[Any, ...]]] = [
    (Anthropic, MESSAGES, (MessageCreateParams, BetaMessageCreateParams)),
    (OpenAIChat, CHAT, (CompletionCreateParams,)),
    (OpenAIResponses, RESPONSES, (ResponseCreateParams,)),
]


@pytest.mark.parametrize(("provider", "path", "params"), FIELDS)
def test_fields_of_the_body_are_those_of_the_sdk(provider: type[Provider], path: str, params: tuple[Any, ...]) -> None:
    known = {name for union in params for each in get_args(union) for name in get_type_hints(each)}
    assert known - {"betas"} <= provider.fields  # betas are a header
    with ScriptedServer([Reply("Hello.")]) as server:
        status, answer = post(server, path, {**ASK[path], "hologram": 1})
    assert (status, "hologram" in message_of(answer)) == (400, True)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_answer_that_breaks_off_before_it_begins_closes_the_connection(how: Any) -> None:
    with ScriptedServer([Reply("Hi.", breaks=Break(0, how))]) as server:
        place = urlsplit(server.url)
        with socket.create_connection((str(place.hostname), place.port or 0), timeout=60) as client:
            body = json.dumps(ASK[CHAT])
            client.sendall(f"POST {CHAT} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
            with suppress(ConnectionError):
                assert client.recv(100) == b""


def test_a_reply_of_the_wrong_shape_is_refused_by_name() -> None:
    for fields, problem in (
        ({"calls": Call("read")}, "calls is Call"),
        ({"calls": ["read"]}, "calls is \\['read'\\]"),
        ({"text": 3}, "text is 3"),
    ):
        with pytest.raises(ConfigError, match=problem):
            Reply(**fields)


def test_rules_make_a_stricter_server() -> None:
    with ScriptedServer([Reply("x")], rules=[lambda request: None if request.tools else "no tools"]) as server:
        status, answer = post(server, CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi."}]})
        assert (status, answer["error"]["message"]) == (400, "no tools")
        assert server.requests == ()

"""The wire of the Responses API: streams, whole replies, and what becomes of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, Told, Upstream, events, mark, run
from tests.proxy.wire.views import with_view
from wane.core.errors import FormatError
from wane.proxy.wire.reply import encode
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import BrokenReplyError, Equipped, ViewMessage
from wane.testing import Call, Usage
from wane.testing import Reply as Scripted
from wane.testing.openai import OpenAIResponses
from wane.testing.rules import TEMPLATE
from wane.testing.sent_request import Request

WIRE = OpenAIResponsesWire()
TOOLS = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]
READ = Call("read", {"path": "a.py"})
ALONE = Scripted("Looking.", reasoning="Hm.", calls=(mark(),), usage=Usage(100, 10, 40, 20))
BESIDE = Scripted("Reading.", reasoning="So.", calls=(mark("end"), READ, mark(), READ), usage=Usage(120, 12, 100, 5))
USER = {"role": "user", "content": "Hi"}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items) or [USER], "tools": TOOLS, **more}


def streams(*replies: Scripted) -> list[bytes]:
    upstream = Upstream(OpenAIResponses(), replies)
    return [upstream.ask(body(stream=True)) for _ in replies]


def stream(*data: dict[str, Any], numbered: bool = True) -> bytes:
    numbers = [{"sequence_number": number} if numbered else {} for number in range(len(data))]
    pairs = zip(data, numbers, strict=True)
    return b"".join(encode(json.dumps({**each, **number}).encode(), each["type"]) for each, number in pairs)


def response(status: str, *output: dict[str, Any], **more: Any) -> dict[str, Any]:
    inner = {"id": "resp_1", "created_at": 1, "status": status, "output": list(output), **more}
    kind = {"in_progress": "created"}.get(status, status)
    return {"type": f"response.{kind}", "response": inner}


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def function_call(call_id: str, name: str = "read", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def answer_message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def kinds(told: Told) -> list[str]:
    return [each["type"].removeprefix("response.") for each in events(told.bytes)]


def test_rounds_are_one_stream() -> None:
    rounds = streams(ALONE, BESIDE)
    told = run(WIRE.reply(body(stream=True), OWN), rounds)
    out = list(events(told.bytes))
    assert [each["sequence_number"] for each in out] == list(range(len(out)))
    assert kinds(told)[:2] == ["created", "in_progress"]
    assert kinds(told)[-1] == "completed"
    assert kinds(told).count("created") == 1
    added = [each for each in out if each["type"] == "response.output_item.added"]
    assert [each["output_index"] for each in added] == list(range(6))
    ended = out[-1]["response"]
    assert ended["id"] == out[0]["response"]["id"]
    assert [item["type"] for item in ended["output"]] == ["reasoning", "message"] * 2 + ["function_call"] * 2
    assert [each["item"]["id"] for each in added] == [item["id"] for item in ended["output"]]
    assert ended["usage"] == {
        "input_tokens": 220,
        "input_tokens_details": {"cached_tokens": 140, "cache_write_tokens": 25},
        "output_tokens": 22,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 242,
    }
    assert [(each.alone, each.calls, len(each.own)) for each in told.rounds] == [(True, 0, 1), (False, 2, 2)]
    assert told.rounds[1].usage is not None
    assert (told.rounds[1].usage.input, told.rounds[1].usage.cache_read) == (120, 100)
    assert WIRE.visible(told.rounds) == {"items": ended["output"]}


def test_events_of_own_items_are_left_out_and_later_ones_move_up() -> None:
    told = run(WIRE.reply(body(stream=True), OWN), streams(Scripted(calls=(mark(), READ))))
    out = list(events(told.bytes))
    assert {each["output_index"] for each in out if "output_index" in each} == {0}
    assert [each["sequence_number"] for each in out] == list(range(len(out)))
    assert [item["name"] for item in out[-1]["response"]["output"]] == ["read"]
    assert [item["name"] for item in told.rounds[0].message["items"]] == ["delimiter", "read"]


def test_nothing_is_given_out_until_there_is_something_to_see() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    silent, loud = streams(Scripted(calls=(mark(),)), Scripted("Said."))
    assert reply.feed(silent) == b""
    assert reply.end().alone
    assert not reply.started
    out = reply.feed(loud)
    assert reply.started
    first = next(each["response"]["id"] for each in events(silent) if "response" in each)
    given_out = list(events(out))
    assert [each["type"] for each in given_out[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    assert given_out[0]["response"]["id"] == first
    assert [each["sequence_number"] for each in given_out] == list(range(len(given_out)))


def test_the_response_tells_what_the_client_sent() -> None:
    mine = {"type": "function", "name": "delimiter", "parameters": {}}
    told = {"tools": [*TOOLS, mine], "instructions": f"Be brief.\n\n{GUIDANCE}"}
    raw = stream(
        response("in_progress", **told),
        done(0, answer_message("A")),
        response("completed", answer_message("A"), **told),
    )
    for instructions in ("Be brief.", None):
        request = body(stream=True, instructions=instructions)
        first, _, last = events(run(WIRE.reply(request, OWN), [raw]).bytes)
        for each in (first, last):
            assert (each["response"]["tools"], each["response"]["instructions"]) == (TOOLS, instructions)
        whole = json.dumps({**response("completed", answer_message("A"), **told)["response"]}).encode()
        reply = json.loads(run(WIRE.reply({**request, "stream": False}, OWN), [whole]).bytes)
        assert (reply["tools"], reply["instructions"]) == (TOOLS, instructions)


def test_unknown_events_pass_and_are_numbered() -> None:
    ping, odd = {"type": "keepalive"}, {"type": "response.mystery", "output_index": 1, "x": 1}
    own = function_call("a", "delimiter")
    raw = stream(response("in_progress"), done(0, own), ping, odd, response("completed", own, answer_message("A")))
    out = list(events(run(WIRE.reply(body(stream=True), OWN), [raw]).bytes))
    assert [(each["type"], each["sequence_number"]) for each in out[1:3]] == [("keepalive", 1), ("response.mystery", 2)]
    assert out[2]["output_index"] == 0


def test_events_without_numbers_get_none() -> None:
    own = function_call("a", "delimiter")
    data = [
        response("in_progress"),
        done(0, own),
        done(1, answer_message("A")),
        response("completed", own, answer_message("A")),
    ]
    out = list(events(run(WIRE.reply(body(stream=True), OWN), [stream(*data, numbered=False)]).bytes))
    assert not any("sequence_number" in each for each in out)


def test_output_that_is_told_by_item_only() -> None:
    # Codex's own backend ends a response without its output.
    own, theirs = function_call("a", "delimiter"), function_call("b")
    raw = stream(response("in_progress"), done(0, own), done(1, theirs), response("completed"))
    told = run(WIRE.reply(body(stream=True), OWN), [raw])
    assert told.rounds[0].message == {"items": [own, theirs]}
    assert list(events(told.bytes))[-1]["response"]["output"] == []


def test_an_incomplete_response_is_no_round_of_own_calls_only() -> None:
    cut, whole = function_call("a", "delimiter", '{"acti'), function_call("b", "delimiter")
    ended = response("incomplete", whole, cut, incomplete_details={"reason": "max_output_tokens"})
    told = run(WIRE.reply(body(stream=True), OWN), [stream(response("in_progress"), ended)])
    assert not told.rounds[0].alone
    assert [call.id for call in told.rounds[0].own] == ["b"]
    assert told.rounds[0].message == {"items": [whole]}
    assert kinds(told) == ["created", "incomplete"]
    assert list(events(told.bytes))[-1]["response"]["output"] == []


def test_calls_in_a_namespace_are_the_clients() -> None:
    theirs = function_call("a", "delimiter", namespace="mine")
    raw = stream(response("in_progress"), done(0, theirs), response("completed", theirs))
    told = run(WIRE.reply(body(stream=True), OWN), [raw])
    assert told.bytes == raw
    assert (told.rounds[0].calls, told.rounds[0].own) == (1, ())


def test_whose_calls_are_answered_by_whom() -> None:
    output = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": ""},
        {"type": "local_shell_call", "call_id": "b", "action": {}},
        {"type": "shell_call", "call_id": "c"},
        {"type": "shell_call_output", "call_id": "c"},
        {"type": "mcp_call", "id": "mcp_1"},
        function_call("d", "delimiter"),
    ]
    raw = json.dumps(response("completed", *output)["response"]).encode()
    assert run(WIRE.reply(body(), OWN), [raw]).rounds[0].calls == 2


@pytest.mark.parametrize("store", [None, False, True])
def test_reasoning_that_nobody_keeps_does_not_go_back(store: bool | None) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    call = function_call("a", "delimiter", id="fc_1")
    raw = json.dumps(response("completed", thought, call)["response"]).encode()
    [round_] = run(WIRE.reply(body(store=store), OWN), [raw]).rounds
    assert round_.message["items"] == ([function_call("a", "delimiter")] if store is False else [thought, call])


def test_a_failed_response_ends_the_reply() -> None:
    failed = response("failed", error={"code": "server_error", "message": "boom"})
    raw = stream(response("in_progress"), failed)
    reply = WIRE.reply(body(stream=True), OWN)
    assert reply.feed(raw) == b""
    with pytest.raises(BrokenReplyError, match="boom"):
        reply.end()
    assert not reply.started
    assert reply.held_back() == raw


def test_a_later_round_that_fails_is_told_under_the_first_ones_head() -> None:
    failed = {**response("failed", error={"code": "server_error", "message": "boom"})}
    failed["response"]["id"] = "resp_2"
    [first] = streams(ALONE)
    reply = WIRE.reply(body(stream=True), OWN)
    out = reply.feed(first)
    reply.end()
    out += reply.feed(stream(response("in_progress"), failed))
    with pytest.raises(BrokenReplyError):
        reply.end()
    *before, last = events(out + reply.held_back())
    assert last["response"]["id"] == before[0]["response"]["id"]
    assert last["sequence_number"] == len(before)
    assert [item["type"] for item in last["response"]["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize(
    "ended",
    [b"", b"data: {no json\n\n", b'event: error\ndata: {"type":"error","message":"x","sequence_number":1}\n\n'],
)
def test_a_broken_stream_passes_as_it_is(ended: bytes) -> None:
    for raw in (
        stream(response("in_progress")) + ended,
        stream(response("in_progress"), done(0, answer_message("A"))) + ended,
    ):
        reply = WIRE.reply(body(stream=True), OWN)
        out = reply.feed(raw)
        with pytest.raises(BrokenReplyError):
            reply.end()
        assert out + reply.held_back() == raw


def test_a_refused_later_round_ends_a_stream_with_a_failure() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    out = list(events(reply.feed(streams(ALONE)[0])))
    reply.end()
    [event] = events(reply.fail(429, b'{"error": {"message": "slow down", "code": null}}'))
    assert event["type"] == "response.failed"
    assert event["sequence_number"] == len(out)
    assert event["response"]["id"] == out[0]["response"]["id"]
    assert event["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert event["response"]["status"] == "failed"


# Whole replies


def test_whole_rounds_are_one_reply() -> None:
    upstream = Upstream(OpenAIResponses(), [ALONE, BESIDE])
    raws = [upstream.ask(body()) for _ in range(2)]
    out, first = json.loads(run(WIRE.reply(body(), OWN), raws).bytes), json.loads(raws[0])
    assert (out["id"], out["created_at"]) == (first["id"], first["created_at"])
    assert [item["type"] for item in out["output"]] == ["reasoning", "message"] * 2 + ["function_call"] * 2
    assert out["usage"]["total_tokens"] == 242


# Requests


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tools": []}, "no tools"),
        ({"tools": [{"type": "web_search_preview"}, {"type": "mcp"}]}, "no tools"),
        ({"prompt": {"id": "p"}}, "prompt template"),
        ({"background": True}, "background"),
        ({"input": ""}, "no input"),
        ({"input": []}, "no input"),
        ({"instructions": []}, "instructions"),
    ],
)
def test_what_is_not_managed(more: dict[str, Any], why: str) -> None:
    assert why in (WIRE.why_unmanaged({**body(), **more}) or "")


@pytest.mark.parametrize(
    "more",
    [
        {"previous_response_id": "resp_1", "input": []},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "rs_1"}]},
        {"input": [{"id": "rs_1"}]},
    ],
)
def test_what_is_refused(more: dict[str, Any]) -> None:
    request = {**body(), **more}
    assert WIRE.why_unmanaged(request) is None
    assert '"store": false' in (WIRE.refusal(request) or "")


def test_what_is_managed() -> None:
    request = body(tools=[*TOOLS, {"type": "custom", "name": "patch"}, {"type": "local_shell"}], store=False)
    assert WIRE.why_unmanaged(request) is None
    assert WIRE.refusal(request) is None
    assert WIRE.tools(request) == {"read", "patch"}
    assert WIRE.why_unmanaged(body(tools=[{"type": "local_shell"}])) is None


def test_messages_are_runs_of_what_the_model_made() -> None:
    items = [
        USER,
        answer_message("A"),
        function_call("a"),
        {"type": "function_call_output", "call_id": "a", "output": "r"},
    ]
    assert [len(message["items"]) for message in WIRE.messages(body(*items))] == [1, 2, 1]
    assert WIRE.messages(body(input="Hi")) == [{"items": [USER]}]
    with pytest.raises(FormatError, match="item 1"):
        WIRE.messages(body(USER, 3))
    with pytest.raises(FormatError, match="input"):
        WIRE.messages(body(input=3))


def test_equipping_leaves_the_clients_prefix() -> None:
    request = body(instructions="Be brief.", stream=True)
    before = json.dumps(request)
    equipped = WIRE.equip(request, [DELIMITER], GUIDANCE).body
    assert json.dumps(request) == before
    assert equipped["input"] == request["input"]
    assert equipped["instructions"] == f"Be brief.\n\n{GUIDANCE}"
    assert equipped["tools"][:-1] == TOOLS
    assert (equipped["tools"][-1]["name"], equipped["tools"][-1]["strict"]) == ("delimiter", False)
    assert WIRE.equip(body(), [DELIMITER], GUIDANCE).body["instructions"] == GUIDANCE
    assert WIRE.equip(body(), [], "").body == body()


def test_placing() -> None:
    request = body(USER, answer_message("A"), USER)
    messages = WIRE.messages(request)
    assert with_view(WIRE, request, messages) == request
    assert with_view(WIRE, request, messages[2:])["input"] == [USER]
    text = body(input="Hi")
    assert with_view(WIRE, text, WIRE.messages(text)) == text
    more = [*WIRE.messages(text), {"items": [answer_message("A")]}]
    assert with_view(WIRE, text, more)["input"] == [USER, answer_message("A")]


def test_reasoning_alone_parts_turns_as_in_the_clients_history() -> None:
    """Where the model had nothing to add to a mark's result, the client has an answer of reasoning alone."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    read = [function_call("c1"), {"type": "function_call_output", "call_id": "c1", "output": "x"}]
    request = body(USER, *read, thought, USER)
    messages = WIRE.messages(request)
    own = {"items": [thought, function_call("c2", "delimiter")]}
    hidden = [own, {"items": [{"type": "function_call_output", "call_id": "c2", "output": "Started."}]}]
    history = [*messages[:3], *hidden, messages[-1]]
    sent = WIRE.with_messages(Equipped(request), [*map(ViewMessage, history)], history)["input"]
    assert sent == [USER, *read, *own["items"], *hidden[1]["items"], thought, USER]
    asked = Request(0, "openai-responses", "m", (), (), 0, False, {"input": sent}, b"", {})
    assert [rule(asked) for rule in TEMPLATE] == [None] * len(TEMPLATE)


def test_cache_markers_are_no_content() -> None:
    part = {"type": "input_text", "text": "A"}
    for marker in ("cache_control", "prompt_cache_breakpoint"):
        marked = {"items": [{"role": "user", "content": [{**part, marker: {}}]}]}
        assert WIRE.canonical(marked) == {"items": [{"role": "user", "content": [part]}]}
    output = {"items": [{"type": "function_call_output", "call_id": "a", "output": [{**part, "cache_control": {}}]}]}
    assert WIRE.canonical(output) == {"items": [{"type": "function_call_output", "call_id": "a", "output": [part]}]}
    plain = {"items": [USER]}
    assert WIRE.canonical(plain) == plain


@pytest.mark.parametrize(
    "error",
    [
        {"code": "invalid_encrypted_content", "message": "The encrypted content gAAA could not be verified."},
        {"code": None, "message": "The encrypted content for item rs_1 could not be verified."},
        {"code": None, "message": "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
        {
            "code": None,
            "message": "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs'.",
        },
        {
            "code": None,
            "message": "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        },
    ],
)
def test_reasoning_that_is_refused_is_dropped(error: dict[str, Any]) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    output = {"type": "function_call_output", "id": "fco_1", "call_id": "a", "output": "r"}
    request = body(USER, thought, function_call("a", id="fc_1"), output, {**answer_message("A"), "id": "msg_1"})
    raw = json.dumps({"error": error}).encode()
    correction = WIRE.correction(400, raw, request, request)
    assert correction is not None
    assert correction(request, request)["input"] == [
        USER,
        function_call("a"),
        output,
        {**answer_message("A"), "id": "msg_1"},
    ]
    assert WIRE.correction(400, raw, body(), body()) is None
    assert WIRE.correction(400, b'{"error": {"message": "too long"}}', request, request) is None

"""The wire of Chat Completions: streams, whole replies, and what becomes of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, Upstream, events, mark, run, sse
from tests.proxy.wire.views import with_view
from wane.prices import TokenUsage
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.wire import BrokenReplyError
from wane.testing import Call, Usage
from wane.testing import Reply as Scripted
from wane.testing.openai import OpenAIChat

WIRE = OpenAIChatWire()
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
READ = Call("read", {"path": "a.py"})
ALONE = Scripted("Looking.", reasoning="Hm.", calls=(mark(),), usage=Usage(100, 10, 40, 20))
BESIDE = Scripted("Reading.", reasoning="So.", calls=(mark("end"), READ, mark()), usage=Usage(120, 12, 100, 5))
HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [{"role": "user", "content": "Hi"}], "tools": TOOLS, **more}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def call(index: int | None, name: str | None = None, arguments: str = "", id: str | None = None) -> dict[str, Any]:  # noqa: A002
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    entry: dict[str, Any] = {"function": function}
    if index is not None:
        entry["index"] = index
    if id is not None:
        entry |= {"id": id, "type": "function"}
    return entry


def streams(*replies: Scripted) -> list[bytes]:
    upstream = Upstream(OpenAIChat(), replies)
    return [upstream.ask(WIRE.equip(body(stream=True), [DELIMITER], GUIDANCE).body) for _ in replies]


def stream_chunks(*chunks: Any, wants_usage: bool = False, **more: Any) -> list[Any]:
    request = body(stream=True, **({"stream_options": {"include_usage": True}} if wants_usage else {}))
    return list(events(run(WIRE.reply(request, OWN), [sse(*chunks)], **more).bytes))


def deltas(stream: list[Any]) -> list[dict[str, Any]]:
    return [each["choices"][0]["delta"] for each in stream if each != "[DONE]" and each["choices"]]


def test_rounds_are_one_stream() -> None:
    reply = WIRE.reply(body(stream=True, stream_options={"include_usage": True}), OWN)
    rounds = streams(ALONE, BESIDE)
    done = run(reply, rounds)
    out = list(events(done.bytes))
    first = next(events(rounds[0]))
    assert {(each["id"], each["model"]) for each in out[:-1]} == {(first["id"], "m")}
    assert [delta["role"] for delta in deltas(out) if "role" in delta] == ["assistant"]
    assert "".join(delta.get("content") or "" for delta in deltas(out)) == "Looking.\n\nReading."
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas(out)) == "Hm.\n\nSo."
    calls = [entry for delta in deltas(out) for entry in delta.get("tool_calls", ())]
    assert {entry["index"] for entry in calls} == {0}
    assert [each["choices"][0]["finish_reason"] for each in out if each != "[DONE]" and each["choices"]][
        -1
    ] == "tool_calls"
    assert out[-1] == "[DONE]"
    usage = out[-2]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (220, 22, 242)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 140, "cache_write_tokens": 25}
    assert [(each.alone, each.calls, len(each.own)) for each in done.rounds] == [(True, 0, 1), (False, 1, 2)]
    assert done.rounds[0].usage is not None
    assert (done.rounds[0].usage.input, done.rounds[0].usage.cache_read, done.rounds[0].usage.cache_write) == (
        100,
        40,
        20,
    )
    assert [each["function"]["name"] for each in done.rounds[1].message["tool_calls"]] == [
        "delimiter",
        "read",
        "delimiter",
    ]


def test_nothing_is_given_out_until_there_is_something_to_see() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    [silent, loud] = streams(Scripted(calls=(mark(),)), Scripted("Said."))
    assert reply.feed(silent) == b""
    assert reply.end().alone
    assert not reply.started
    assert reply.feed(b": PROCESSING\n\n") == b""
    out = reply.feed(loud)
    assert reply.started
    assert b": PROCESSING" in out
    assert [delta.get("content") for delta in deltas(list(events(out)))][:2] == [None, "Sa"]
    assert reply.end().calls == 0


def test_text_is_given_out_as_it_comes() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    assert reply.feed(sse(chunk({"role": "assistant", "content": ""}))) == b""
    piece = sse(chunk({"content": "A"}))
    assert reply.feed(piece).endswith(piece)
    assert reply.feed(piece) == piece
    assert reply.feed(sse(chunk(finish="stop"))) == b""


def test_the_tier_that_served_a_request_belongs_to_its_usage() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    reply.feed(sse(chunk({"content": "A"}, service_tier="flex"), chunk(finish="stop"), {**HEAD, "usage": usage}))
    assert reply.end().usage == TokenUsage(3, 1, tier="flex")
    said = [{"message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}]
    kept = {"cache_write_tokens": 3, "cache_write_tokens_details": {"ttl_12h_tokens": 3, "ttl_30m_tokens": 0}}
    reply = WIRE.reply(body(stream=False), OWN)
    reply.feed(json.dumps({"choices": said, "usage": {**usage, "prompt_tokens_details": kept}}).encode())
    assert reply.end().usage == TokenUsage(3, 1, 0, 3, tier="12h")


def test_usage_in_every_chunk_adds_up() -> None:
    def stream(*delta: dict[str, Any]) -> bytes:
        return sse(*(chunk(each, usage={"prompt_tokens": 5, "completion_tokens": n}) for n, each in enumerate(delta)),
                   chunk(finish="tool_calls", usage={"prompt_tokens": 5, "completion_tokens": 9}))  # fmt: skip

    own = {"tool_calls": [call(0, "delimiter", "{}", "a")]}
    theirs = {"tool_calls": [call(0, "read", "{}", "b")]}
    reply = WIRE.reply(body(stream=True), OWN)
    out = list(events(run(reply, [stream({"content": "A"}, own), stream({"content": "B"}, theirs)]).bytes))
    assert [each["usage"]["prompt_tokens"] for each in out] == [5, 10, 10, 10]
    assert out[-1]["usage"]["completion_tokens"] == 18


def test_a_call_in_the_head_is_taken_out_of_it() -> None:
    # As OpenAI does it: the first chunk holds the role and the first call.
    own = chunk({"role": "assistant", "content": None, "tool_calls": [call(0, "delimiter", "", "a")]})
    more = chunk({"tool_calls": [call(0, None, '{"action":"start"}')]})
    theirs = chunk({"tool_calls": [call(1, "read", "", "b")]})
    arguments = chunk({"tool_calls": [call(1, None, "{}")]})
    out = stream_chunks(own, more, theirs, arguments, chunk(finish="tool_calls"), "[DONE]")
    assert deltas(out)[0] == {"role": "assistant", "content": None}
    assert [entry["index"] for delta in deltas(out) for entry in delta.get("tool_calls", ())] == [0, 0]
    assert out[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_whole_call_in_one_delta_beside_text() -> None:
    both = {"content": "A", "tool_calls": [call(0, "delimiter", "{}", "a"), call(1, "read", "{}", "b")]}
    out = stream_chunks(chunk(both, finish="tool_calls"), "[DONE]")
    assert deltas(out) == [{"content": "A", "tool_calls": [call(0, "read", "{}", "b")]}, {}]
    assert [each["choices"][0]["finish_reason"] for each in out[:-1]] == [None, "tool_calls"]


@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_numbers_of_their_own(index: int | None) -> None:
    # Some services leave the index out, others give all calls the same.
    parts = [chunk({"tool_calls": [call(index, name, "{}", id)]}) for name, id in (("read", "a"), ("delimiter", "b"), ("read", "c"))]  # noqa: A001, E501  # fmt: skip
    reply = WIRE.reply(body(stream=True), OWN)
    done = run(reply, [sse(*parts, chunk(finish="stop"), "[DONE]")])
    entries = [entry for delta in deltas(list(events(done.bytes))) for entry in delta.get("tool_calls", ())]
    assert [entry["id"] for entry in entries] == ["a", "c"]
    assert [each["id"] for each in done.rounds[0].message["tool_calls"]] == ["a", "b", "c"]
    assert done.rounds[0].calls == 2


def test_names_that_come_in_pieces() -> None:
    own = [chunk({"tool_calls": [call(0, "deli", "", "a")]}), chunk({"tool_calls": [call(0, "miter", "{}")]})]
    theirs = [chunk({"tool_calls": [call(1, "del", "", "b")]}), chunk({"tool_calls": [call(1, "ete", "{}")]})]
    reply = WIRE.reply(body(stream=True), OWN)
    done = run(reply, [sse(*own, *theirs, chunk(finish="tool_calls"), "[DONE]")])
    assert [each.tool for each in done.rounds[0].own] == ["delimiter"]
    entries = [entry for delta in deltas(list(events(done.bytes))) for entry in delta.get("tool_calls", ())]
    assert "".join(entry["function"].get("name", "") for entry in entries) == "delete"
    assert {entry["index"] for entry in entries} == {0}


def test_an_id_that_never_comes_is_made() -> None:
    done = run(
        WIRE.reply(body(stream=True), OWN), [sse(chunk({"tool_calls": [call(0, "delimiter", "{}", "")]}), "[DONE]")]
    )
    [own] = done.rounds[0].own
    assert own.id.startswith("call_")
    assert done.rounds[0].message["tool_calls"][0]["id"] == own.id


def test_only_own_calls_at_the_end_are_a_stop() -> None:
    out = stream_chunks(
        chunk({"content": "A"}), chunk({"tool_calls": [call(0, "delimiter", "{}", "a")]}), chunk(finish="tool_calls")
    )
    assert out[-1]["choices"][0]["finish_reason"] == "stop"
    assert len(out) == 2


def test_a_call_that_was_cut_off_is_none() -> None:
    parts = [chunk({"tool_calls": [call(0, "delimiter", "{}", "a"), call(1, "delimiter", '{"acti', "b")]})]
    done = run(WIRE.reply(body(stream=True), OWN), [sse(*parts, chunk(finish="length"), "[DONE]")])
    [said] = done.rounds
    assert not said.complete
    assert not said.alone
    assert [each.id for each in said.own] == ["a"]
    assert [each["id"] for each in said.message["tool_calls"]] == ["a"]


def test_what_vendors_add_passes() -> None:
    extra = [
        chunk({"reasoning": "R", "reasoning_details": [{"type": "reasoning.text", "text": "R", "index": 0}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "S", "signature": "x", "index": 0}]}),
        chunk({"content": "A", "obfuscation": "zz"}, system_fingerprint="f", provider="P"),
        {
            **HEAD,
            "choices": [{"index": 0, "delta": {"content": "B"}, "logprobs": {"content": []}, "finish_reason": None}],
        },
        chunk(finish="stop", x_groq={"id": "r"}),
        "[DONE]",
    ]
    stream = b": OPENROUTER PROCESSING\n\n" + sse(*extra)
    reply = WIRE.reply(body(stream=True), OWN)
    done = run(reply, [stream])
    assert done.bytes == stream
    details = [{"type": "reasoning.text", "text": "RS", "signature": "x", "index": 0}]
    assert done.rounds[0].message == {
        "role": "assistant",
        "content": "AB",
        "reasoning": "R",
        "reasoning_details": details,
    }


def test_entries_of_reasoning_are_numbered_on() -> None:
    def stream(*more: Any) -> bytes:
        details = [{"type": "reasoning.text", "text": "R", "signature": "x", "index": 0}]
        return sse(chunk({"reasoning_details": details}), *more)

    own = chunk({"tool_calls": [call(0, "delimiter", "{}", "a")]}, finish="tool_calls")
    done = run(
        WIRE.reply(body(stream=True), OWN), [stream(own), stream(own), stream(chunk({"content": "A"}, finish="stop"))]
    )
    entries = [entry for delta in deltas(list(events(done.bytes))) for entry in delta.get("reasoning_details", ())]
    assert [entry["index"] for entry in entries] == [0, 1, 2]
    assert WIRE.visible(done.rounds)["reasoning_details"] == entries


def test_an_empty_head_ahead_of_the_first_chunk() -> None:
    # As Azure does it.
    filtered = {"id": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []}
    out = stream_chunks(filtered, chunk({"content": "A"}), chunk(finish="stop"), "[DONE]")
    assert out[0] == filtered
    assert len(out) == 4


@pytest.mark.parametrize("ended", [b"", b"data: {not json\n\n", sse({"error": {"message": "overloaded", "code": 502}})])
def test_a_broken_stream_passes_as_it_is(ended: bytes) -> None:
    stream = sse(chunk({"role": "assistant", "content": ""}), chunk({"content": "A"})) + ended
    reply = WIRE.reply(body(stream=True), OWN)
    out = reply.feed(stream)
    with pytest.raises(BrokenReplyError):
        reply.end()
    assert out + reply.held_back() == stream


def test_an_error_ahead_of_everything_is_held() -> None:
    stream = sse(chunk({"role": "assistant"}), {"error": {"message": "overloaded"}})
    reply = WIRE.reply(body(stream=True), OWN)
    assert reply.feed(stream) == b""
    assert not reply.started
    with pytest.raises(BrokenReplyError, match="overloaded"):
        reply.end()
    assert reply.held_back() == stream


def test_the_last_event_without_a_blank_line() -> None:
    stream = sse(chunk({"content": "A"}), chunk(finish="stop"), "[DONE]")
    assert run(WIRE.reply(body(stream=True), OWN), [stream.rstrip()]).bytes == stream


def test_a_refused_later_round_ends_a_stream_with_an_error() -> None:
    reply = WIRE.reply(body(stream=True), OWN)
    reply.feed(streams(ALONE)[0])
    reply.end()
    [event] = events(reply.fail(429, b'{"error": {"message": "slow down", "type": "rate_limit_error"}}'))
    assert event == {"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}}
    [event] = events(reply.fail(502, b"<html>"))
    assert event["error"]["message"] == "<html>"


# Whole replies


def test_whole_rounds_are_one_reply() -> None:
    upstream = Upstream(OpenAIChat(), [ALONE, BESIDE])
    raws = [upstream.ask(body()) for _ in range(2)]
    done = run(WIRE.reply(body(), OWN), raws)
    out, first = json.loads(done.bytes), json.loads(raws[0])
    assert out["id"] == first["id"]
    message = out["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Looking.\n\nReading.", "Hm.\n\nSo.")
    assert [each["function"]["name"] for each in message["tool_calls"]] == ["read"]
    assert out["usage"]["prompt_tokens"] == 220
    assert out["usage"]["prompt_tokens_details"]["cached_tokens"] == 140


def test_a_whole_reply_of_own_calls_only_is_a_stop() -> None:
    raw = Upstream(OpenAIChat(), [Scripted("A", calls=(mark(),))]).ask(body())
    choice = json.loads(run(WIRE.reply(body(), OWN), [raw]).bytes)["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]


# Requests


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tools": []}, "no tools"),
        ({"tools": [], "functions": [{"name": "f"}]}, "legacy"),
        ({"n": 2}, "2 answers"),
        ({"messages": []}, "no messages"),
        ({"messages": "Hi"}, "no messages"),
        ({"modalities": ["text", "audio"]}, "sound"),
        ({"tools": [{"type": "web_search"}]}, "no tools"),
    ],
)
def test_what_is_not_managed(more: dict[str, Any], why: str) -> None:
    assert why in (WIRE.why_unmanaged({**body(), **more}) or "")


def test_what_is_managed() -> None:
    custom = {"type": "custom", "custom": {"name": "patch"}}
    request = body(n=1, store=True, modalities=["text"], tools=[*TOOLS, custom])
    assert WIRE.why_unmanaged(request) is None
    assert WIRE.refusal(request) is None
    assert WIRE.tools(request) == {"read", "patch"}


def test_equipping_leaves_the_clients_prefix() -> None:
    lead = [{"role": "system", "content": "S"}, {"role": "developer", "content": "D"}]
    request = body(*lead, {"role": "user", "content": "Hi"}, stream=True, stream_options={"x": 1})
    before = json.dumps(request)
    equipped = WIRE.equip(request, [DELIMITER], GUIDANCE).body
    assert json.dumps(request) == before
    told = {"role": "developer", "content": f"D\n\n{GUIDANCE}"}
    assert equipped["messages"] == [lead[0], told, request["messages"][2]]
    assert equipped["tools"][:-1] == TOOLS
    assert equipped["tools"][-1]["function"]["name"] == "delimiter"
    assert equipped["stream_options"] == {"x": 1, "include_usage": True}
    assert WIRE.equip(body(), [], "").body == body()


def test_guidance_survives_other_messages_in_either_order() -> None:
    request = body(
        {"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "user", "content": "Ho"}
    )
    fewer = [request["messages"][0], request["messages"][2]]
    guided = [{"role": "system", "content": f"S\n\n{GUIDANCE}"}, fewer[1]]
    placed = with_view(WIRE, WIRE.equip(request, [DELIMITER], GUIDANCE), fewer)
    assert placed["messages"] == guided
    assert placed == WIRE.equip(with_view(WIRE, request, fewer), [DELIMITER], GUIDANCE).body
    assert with_view(WIRE, request, fewer) == {**request, "messages": fewer}


def test_a_message_of_which_reasoning_alone_is_left_goes() -> None:
    thought = {"role": "assistant", "content": None, "reasoning_content": "R"}
    request = body(thought, {"role": "user", "content": "Hi"})
    user = request["messages"][1]
    assert with_view(WIRE, request, [dict(thought), user])["messages"] == [user]
    # What the client itself has sent is its own affair.
    assert with_view(WIRE, request, request["messages"])["messages"] == [thought, user]


@pytest.mark.parametrize("content", ["S", [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]])
def test_guidance_at_the_end_of_the_system_message(content: Any) -> None:
    wire = OpenAIChatWire()
    request = body({"role": "system", "content": content}, {"role": "user", "content": "Hi"})
    [system, user] = wire.equip(request, [DELIMITER], GUIDANCE).body["messages"]
    expected = f"S\n\n{GUIDANCE}" if content == "S" else [*content, {"type": "text", "text": GUIDANCE}]
    assert (system["content"], user) == (expected, request["messages"][1])


def test_cache_markers_are_no_content() -> None:
    part = {"type": "text", "text": "A"}
    marked = {"role": "user", "content": [{**part, "cache_control": {"type": "ephemeral"}}]}
    assert WIRE.canonical(marked) == {"role": "user", "content": [part]}
    plain = {"role": "user", "content": "A"}
    assert WIRE.canonical(plain) is plain


def test_signed_reasoning_of_routers_is_dropped() -> None:
    said = {"role": "assistant", "content": "A", "reasoning": "R", "reasoning_details": [{"signature": "x"}]}
    error = b'{"error":{"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}'
    correction = WIRE.correction(400, error, body(said), body())
    assert correction is not None
    assert correction(body(said), body())["messages"] == [{"role": "assistant", "content": "A", "reasoning": "R"}]
    assert WIRE.correction(400, error, body(), body()) is None
    assert WIRE.correction(400, b'{"error":{"message":"too long"}}', body(said), body()) is None
    assert WIRE.correction(500, error, body(said), body()) is None

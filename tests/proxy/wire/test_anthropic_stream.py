"""Streamed replies of Anthropic's: what the client sees, when, and what is known of a round in the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.anthropic_replies import (
    OWN,
    Made,
    accumulate_message,
    call,
    event,
    make,
    own,
    play,
    replies,
    reply,
    text,
)
from tests.proxy.wire.cuts import cuts, pieces, single
from tests.strategies import times
from wane.prices import SEARCH_FEE, TokenUsage
from wane.proxy.wire.reply import Splitter
from wane.proxy.wire.wire import BrokenReplyError, OwnCall, Round


def events_of(stream: bytes) -> list[dict[str, Any]]:
    splitter = Splitter()
    events = [json.loads(one.data) for one in splitter.feed(stream) if one.data]
    assert not splitter.unfinished
    return events


def sum_usage(made: Sequence[Made], *path: str) -> int:
    total = 0
    for one in made:
        value: Any = one.usage
        for key in path:
            value = value.get(key) if value else None
        total += value or 0
    return total


def is_own(block: dict[str, Any]) -> bool:
    return block["type"] == "tool_use" and block["name"] in OWN


# The client's side


@times(2)
@given(replies())
def test_the_official_client_reads_all_rounds_as_one_message(made: list[Made]) -> None:
    out, rounds = play(made)
    message = accumulate_message(out)
    assert message.id == "msg_0"
    content = [block.to_dict(mode="json", exclude_unset=True) for block in message.content]
    assert content == [block for one in made for block in one.content if not is_own(block)]
    calls = any(block["type"] == "tool_use" for block in content)
    assert message.stop_reason == ("tool_use" if calls else "end_turn")
    assert [round_.alone for round_ in rounds] == [True] * (len(made) - 1) + [rounds[-1].alone]


@times(2)
@given(replies())
def test_the_official_client_is_told_the_sum_of_what_was_used(made: list[Made]) -> None:
    usage = accumulate_message(play(made)[0]).usage
    for key in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
        assert (getattr(usage, key) or 0) == sum_usage(made, key), key
    searches = usage.server_tool_use.web_search_requests if usage.server_tool_use else 0
    assert searches == sum_usage(made, "server_tool_use", "web_search_requests")


@given(replies())
def test_the_order_of_events_and_their_indexes_are_those_of_one_stream(made: list[Made]) -> None:
    kinds = []
    expected = 0
    opened = None
    for said in events_of(play(made)[0]):
        if said["type"] == "ping":
            continue
        kinds.append(said["type"])
        if said["type"] == "content_block_start":
            assert opened is None
            assert said["index"] == expected
            opened, expected = expected, expected + 1
        elif said["type"] in ("content_block_delta", "content_block_stop"):
            assert said["index"] == opened
            opened = None if said["type"] == "content_block_stop" else opened
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert all(kind.startswith("content_block") for kind in kinds[1:-2])


@times(2)
@given(replies(), cuts())
def test_it_does_not_matter_where_the_stream_is_cut(made: list[Made], places: list[int]) -> None:
    whole = play(made)
    for cut in (lambda stream: pieces(stream, places), single):
        client = reply()
        out, rounds = b"", []
        for one in made:
            out += b"".join(client.feed(piece) for piece in cut(one.stream))
            rounds.append(client.end())
        assert (out + client.finish(), rounds) == whole


@given(replies())
def test_a_reply_without_own_calls_comes_byte_for_byte(made: list[Made]) -> None:
    (last,) = made[-1:]
    plain = make(*(block for block in last.content if not is_own(block)), text("."), usage=last.usage)
    for end in ("\n", "\r\n"):
        stream = plain.stream.replace(b"\n", end.encode())
        client = reply()
        out = client.feed(stream)
        assert client.end().own == ()
        assert out + client.finish() == stream


@given(replies())
def test_what_the_client_may_see_is_given_out_at_once(made: list[Made]) -> None:
    client = reply()
    for number, one in enumerate(made):
        hidden = {index for index, block in enumerate(one.content) if is_own(block)}
        for each in one.events:
            said = json.loads(each.split(b"data: ")[1])
            seen = said["type"].startswith("content_block") and said["index"] not in hidden
            out = client.feed(each)
            assert bool(out) == (seen or (said["type"] == "ping" and client.started)), (number, said)
        client.end()


# The proxy's side


@times(2)
@given(replies())
def test_a_round_is_the_message_that_the_provider_takes_back(made: list[Made]) -> None:
    _, rounds = play(made)
    for one, round_ in zip(made, rounds, strict=True):
        assert round_.message == {"role": "assistant", "content": one.content}
        assert [(each.id, each.tool) for each in round_.own] == [(b["id"], b["name"]) for b in one.content if is_own(b)]
        assert [json.loads(each.arguments) for each in round_.own] == [b["input"] for b in one.content if is_own(b)]
        assert round_.calls == sum(block["type"] == "tool_use" and not is_own(block) for block in one.content)
        assert round_.complete
        cached = [sum_usage([one], f"cache_{name}_input_tokens") for name in ("read", "creation")]
        total = sum_usage([one], "input_tokens") + sum(cached)
        hour = min(sum_usage([one], "cache_creation", "ephemeral_1h_input_tokens"), cached[1])
        assert round_.usage is not None
        fees = sum_usage([one], "server_tool_use", "web_search_requests") * SEARCH_FEE
        used = replace(round_.usage, first=None)
        assert used == TokenUsage(total, one.usage["output_tokens"], *cached, hour, fees=fees)


@times(2)
@given(replies())
def test_whole_replies_say_the_same(made: list[Made]) -> None:
    streamed, rounds = play(made)
    whole, whole_rounds = play(made, stream=False)
    for streamed_round, whole_round in zip(rounds, whole_rounds, strict=True):
        assert streamed_round.usage is not None
        assert whole_round.usage is not None
        # Of several passes only a stream tells the first, at its beginning.
        first = whole_round.usage.first
        assert whole_round == replace(streamed_round, usage=replace(streamed_round.usage, first=first))
    message = json.loads(whole)
    parsed = accumulate_message(streamed)
    assert message["content"] == [block.to_dict(mode="json", exclude_unset=True) for block in parsed.content]
    assert (message["id"], message["stop_reason"]) == (parsed.id, parsed.stop_reason)
    for key in ("input_tokens", "output_tokens", "cache_read_input_tokens"):
        assert message["usage"].get(key, 0) == sum_usage(made, key)
    created = message["usage"].get("cache_creation", {})
    assert created.get("ephemeral_1h_input_tokens", 0) == sum_usage(made, "cache_creation", "ephemeral_1h_input_tokens")


def join_events(*events: bytes) -> bytes:
    return b"".join(events)


def opening(**usage: int) -> bytes:
    return event("message_start", message={"id": "m", "role": "assistant", "content": [], "usage": usage})


def test_the_speed_that_served_a_request_belongs_to_its_usage() -> None:
    begun = {"input_tokens": 5, "output_tokens": 1, "speed": "fast"}
    message = {"id": "m", "role": "assistant", "content": [], "usage": begun}
    round_, _ = take_stream(join_events(event("message_start", message=message), ending("end_turn", output_tokens=9)))
    assert round_.usage == TokenUsage(5, 9, tier="fast")


def block(index: int, begin: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    middle = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    begun = event("content_block_start", index=index, content_block=begin)
    return join_events(begun, *middle, event("content_block_stop", index=index))


def arguments(*parts: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def ending(stop: str | None, **usage: int) -> bytes:
    return join_events(event("message_delta", delta={"stop_reason": stop}, usage=usage), event("message_stop"))


def take_stream(stream: bytes) -> tuple[Round, bytes]:
    client = reply()
    out = client.feed(stream)
    return client.end(), out + client.finish()


@pytest.mark.parametrize(
    ("parts", "raw", "given"),
    [
        ([], "{}", {}),
        ([""], "{}", {}),
        ([" "], "{}", {}),
        (["", '{"action"', ': "end"}'], '{"action": "end"}', {"action": "end"}),
        (['{"action": '], '{"action": ', {"INVALID_JSON": '{"action": '}),
        (["[1]"], "[1]", {"INVALID_JSON": "[1]"}),
        (['{"n": 123456789012345678901234567890}'], None, {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_as_the_model_wrote_them_and_an_object_for_the_provider(
    parts: list[str], raw: str | None, given: dict[str, Any]
) -> None:
    empty = {"type": "tool_use", "id": "o", "name": "delimiter", "input": {}}
    round_, _ = take_stream(join_events(opening(), block(0, empty, *arguments(*parts)), ending("tool_use")))
    assert round_.own == (OwnCall("o", "delimiter", "".join(parts) if raw is None else raw),)
    assert round_.message["content"] == [{**empty, "input": given}]
    assert round_.alone


def test_arguments_may_come_with_the_block() -> None:
    round_, _ = take_stream(join_events(opening(), block(0, own("o", action="end")), ending("tool_use")))
    assert round_.own == (OwnCall("o", "delimiter", '{"action":"end"}'),)
    assert round_.message["content"] == [own("o", action="end")]


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded", "refusal", "pause_turn"])
@pytest.mark.parametrize("parts", [[], ['{"action": "e']])
def test_an_own_call_that_was_cut_off_is_none(stop: str, parts: list[str]) -> None:
    empty = {"type": "tool_use", "id": "o", "name": "delimiter", "input": {}}
    seen = block(0, text("Hm"))
    round_, out = take_stream(join_events(opening(), seen, block(1, empty, *arguments(*parts)), ending(stop)))
    assert round_.own == ()
    assert not round_.complete
    assert not round_.alone
    assert round_.message["content"] == [text("Hm")]
    assert out == join_events(opening(), seen, ending(stop))


def test_an_own_call_of_which_the_end_never_came_is_none() -> None:
    begun = event("content_block_start", index=0, content_block=own("o"))
    round_, out = take_stream(join_events(opening(), begun, ending("tool_use")))
    assert (round_.own, round_.alone) == ((), False)
    assert accumulate_message(out).stop_reason == "end_turn"


def test_a_block_may_begin_with_a_part_of_its_text() -> None:
    round_, _ = take_stream(
        join_events(opening(), block(0, text("He"), {"type": "text_delta", "text": "llo"}), ending("end_turn"))
    )
    assert round_.message["content"] == [text("Hello")]


def test_an_own_call_ahead_of_what_was_cut_off_is_whole() -> None:
    first = block(0, {**own("o1"), "input": {}}, *arguments(""))
    cut = block(1, {"type": "tool_use", "id": "c", "name": "read", "input": {}}, *arguments('{"p'))
    round_, _ = take_stream(join_events(opening(), first, cut, ending("max_tokens")))
    assert [one.id for one in round_.own] == ["o1"]
    assert (round_.calls, round_.complete, round_.alone) == (1, False, False)


def test_a_reply_in_which_the_model_only_ever_calls_the_proxy_ends_the_turn() -> None:
    for stream in (True, False):
        out, rounds = play([make(own(f"o{number}")) for number in range(3)], stream=stream)
        assert all(round_.alone for round_ in rounds)
        if stream:
            kinds = [one["type"] for one in events_of(out) if one["type"] != "ping"]
            assert kinds == ["message_start", "message_delta", "message_stop"]
            assert accumulate_message(out).stop_reason == "end_turn"
        else:
            assert json.loads(out)["stop_reason"] == "end_turn"
            assert json.loads(out)["content"] == []


def test_nothing_is_given_out_before_there_is_something_to_see() -> None:
    client = reply()
    first = make(own("o1"), number=1)
    assert client.feed(first.stream) == b""
    assert not client.started
    assert client.end().alone
    assert not client.started
    second = make(text("Hi"), number=2)
    events = second.events
    assert client.feed(join_events(*events[:2])) == b""
    out = client.feed(events[2])
    assert client.started
    assert [one["type"] for one in events_of(out)] == ["message_start", "ping", "ping", "content_block_start"]
    assert events_of(out)[0]["message"]["id"] == "msg_1"


def test_a_stream_without_names_of_events_is_read_by_its_data() -> None:
    def nameless(stream: bytes) -> bytes:
        return b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event:"))

    client = reply()
    out = client.feed(nameless(make(own("o"), text("a"), own("p")).stream))
    round_ = client.end()
    out += client.finish()
    assert [one.id for one in round_.own] == ["o", "p"]
    assert b"event:" not in out
    assert b"delimiter" not in out
    again = client.feed(b"")
    assert again == b""


def test_what_is_not_understood_is_passed_on_as_it_is() -> None:
    odd = join_events(
        b": a comment\n\n",
        event("message_note", note=1),
        b"id: 7\nretry: 10\n\n",
        event("content_block_start", index=0, content_block={"type": "hologram", "x": 1}),
        event("content_block_delta", index=0, delta={"type": "hologram_delta", "x": 2}),
        event("content_block_stop", index=0),
        event("content_block_delta", index=9, delta={"type": "text_delta", "text": "?"}),
        event("content_block_start", index="x", content_block=None),
        b'data: {"type": 7}\n\n',
    )
    stream = join_events(opening(), odd, ending("end_turn"))
    round_, out = take_stream(stream)
    assert out == stream
    assert round_.message["content"] == [{"type": "hologram", "x": 1}]


def test_citations_signatures_and_compactions_are_put_together() -> None:
    stream = join_events(
        opening(),
        block(
            0,
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "So"},
            {"type": "citations_delta", "citation": {"n": 1}},
            {"type": "citations_delta", "citation": {"n": 2}},
        ),
        block(1, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "All"}),
        ending("end_turn"),
    )
    round_, _ = take_stream(stream)
    assert round_.message["content"] == [
        {"type": "text", "text": "So", "citations": [{"n": 1}, {"n": 2}]},
        {"type": "compaction", "content": "All"},
    ]


def test_text_without_anything_in_it_is_shown_but_not_taken_back() -> None:
    round_, out = take_stream(make(text(""), text(" \n"), text("a")).stream)
    assert len(accumulate_message(out).content) == 3
    assert round_.message["content"] == [text("a")]


def test_usage_that_comes_late_or_never() -> None:
    stream = join_events(opening(input_tokens=7, cache_read_input_tokens=2), block(0, text("a")), ending("end_turn"))
    assert take_stream(stream)[0].usage == TokenUsage(9, 0, cache_read=2)
    late = join_events(opening(), block(0, text("a")), ending("end_turn", input_tokens=5, output_tokens=4))
    assert take_stream(late)[0].usage == TokenUsage(5, 4)
    assert take_stream(join_events(opening(), block(0, text("a")), ending("end_turn")))[0].usage is None


# Faults


OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


def test_an_error_in_mid_stream_is_passed_on_and_breaks_the_reply() -> None:
    client = reply()
    begun = make(text("Hi")).events[:4]
    assert client.feed(join_events(*begun, OVERLOADED)) == join_events(*begun, OVERLOADED)
    with pytest.raises(BrokenReplyError, match="Overloaded"):
        client.end()
    assert client.held_back() == b""


def test_an_error_in_a_later_round_follows_what_the_client_has() -> None:
    client = reply()
    out = client.feed(make(text("Hi"), own("o")).stream)
    assert client.end().alone
    assert client.feed(join_events(opening(), OVERLOADED)) == OVERLOADED
    with pytest.raises(BrokenReplyError):
        client.end()
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        accumulate_message(out + OVERLOADED)


def test_a_later_round_that_is_refused_is_told_as_an_error_event() -> None:
    client = reply()
    out = client.feed(make(text("Hi"), own("o")).stream)
    assert client.end().alone
    error = b'{"type": "error",\n "error": {"type": "rate_limit_error", "message": "Slow down"}}'
    with pytest.raises(anthropic.APIStatusError, match="Slow down"):
        accumulate_message(out + client.fail(429, error))
    assert events_of(client.fail(502, b"<html>\nBad</html>")) == [
        {"type": "error", "error": {"type": "api_error", "message": "<html>\nBad</html>"}}
    ]
    assert events_of(client.fail(504, b""))[0]["error"]["type"] == "timeout_error"


@pytest.mark.parametrize(
    "broken", [b"event: content_block_delta\ndata: {oops\n\n", b"data: [1]\n\n", b"data: \xff\n\n"]
)
def test_an_event_that_is_no_json_is_passed_on_and_breaks_the_reply(broken: bytes) -> None:
    begun, rest = join_events(*make(text("Hi")).events[:4]), join_events(*make(text("Hi")).events[4:])
    client = reply()
    out = client.feed(begun + broken + rest)
    with pytest.raises(BrokenReplyError, match="not a JSON object"):
        client.end()
    assert out + client.held_back() == begun + broken + rest


@given(replies(), st.integers(0, 10_000), cuts())
def test_a_stream_that_stops_early_breaks_the_reply_and_loses_nothing(
    made: list[Made], place: int, places: list[int]
) -> None:
    stream = b"".join(make(*(block for block in made[-1].content if not is_own(block)), text("a")).events)
    stop = place % (len(stream) - 2)
    client = reply()
    out = b"".join(client.feed(piece) for piece in pieces(stream[:stop], places))
    with pytest.raises(BrokenReplyError, match="without message_"):
        client.end()
    out += client.held_back()
    assert stream[:stop].startswith(out)
    # What was cut off could have become an own call.
    assert not (lost := stream[len(out) : stop]) or (b"tool_use" in lost and b"\n\n" not in lost)


@given(st.booleans(), st.integers(0, 10_000), cuts())
def test_nothing_of_an_own_call_is_given_wherever_a_stream_stops(says: bool, place: int, places: list[int]) -> None:
    stream = make(*([text("a")] if says else []), own("o1"), call("c1"), own("o2")).stream
    stream = stream.partition(b"event: message_delta")[0]
    client = reply()
    out = b"".join(client.feed(piece) for piece in pieces(stream[: place % len(stream)], places))
    if place % 2:
        with pytest.raises(BrokenReplyError):
            client.end()
    out += client.held_back()
    assert b"delim" not in out
    assert b"o1" not in out
    assert b"action" not in out


def test_before_there_is_something_to_see_a_broken_round_is_given_as_it_came() -> None:
    first, second = make(own("o1"), number=1), make(own("o2"), text("a"), number=2).events
    client = reply()
    client.feed(first.stream[:-20])
    with pytest.raises(BrokenReplyError):
        client.end()
    assert client.held_back() == join_events(*(it for it in first.events if b"content_block" not in it))[:-20]
    client = reply()
    client.feed(first.stream)
    client.end()
    assert client.feed(join_events(*second[:4])) == b""
    with pytest.raises(BrokenReplyError):
        client.end()
    # The head is the reply's, which is that of its first round.
    assert client.held_back() == join_events(*first.events[:2], second[1])


def test_a_reply_that_is_no_stream_is_given_as_it_came() -> None:
    client = reply()
    answer = make(text("Hi")).whole
    assert client.feed(answer) == b""
    assert not client.started
    with pytest.raises(BrokenReplyError):
        client.end()
    assert client.held_back() == answer


def test_the_last_blank_line_may_be_missing() -> None:
    stream = make(text("a"), own("o")).stream
    for cut in (1, 2):
        client = reply()
        out = client.feed(stream[:-cut])
        assert client.end().alone
        assert accumulate_message(out + client.finish()).stop_reason == "end_turn"


def test_a_gateways_done_comes_last() -> None:
    made = make(text("a"))
    client = reply()
    out = client.feed(made.stream + b"data: [DONE]\n\n")
    client.end()
    assert out + client.finish() == made.stream + b"data: [DONE]\n\n"


def test_several_endings_are_joined() -> None:
    client = reply()
    client.feed(join_events(opening(input_tokens=1), block(0, own("o"))))
    client.feed(event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 2}))
    client.feed(join_events(event("message_delta", delta={}, usage={"output_tokens": 3}), event("message_stop")))
    assert client.end().usage == TokenUsage(1, 3)
    assert [one["type"] for one in events_of(client.finish())][1:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize("data", [b"", b"oops", b"[]", b'{"type": "error"}', b'{"content": 1}', b'{"content": [1]}'])
def test_a_whole_reply_that_is_no_message_is_broken(data: bytes) -> None:
    client = reply(stream=False)
    assert client.feed(data) == b""
    with pytest.raises(BrokenReplyError):
        client.end()
    assert client.held_back() == data
    assert not client.started


def test_a_whole_reply_without_own_calls_comes_byte_for_byte() -> None:
    made = make(text("a"), call("c"))
    client = reply(stream=False)
    for piece in single(made.whole):
        assert client.feed(piece) == b""
    assert client.end().calls == 1
    assert client.finish() == made.whole


def test_arguments_of_whole_replies_that_are_no_object() -> None:
    client = reply(stream=False)
    client.feed(make({**own("o"), "input": "{oops"}).whole)
    round_ = client.end()
    assert round_.own == (OwnCall("o", "delimiter", "{oops"),)
    assert round_.message["content"][0]["input"] == {"INVALID_JSON": "{oops"}

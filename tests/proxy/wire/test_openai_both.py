"""What both of OpenAI's wires do alike: what has nothing of Wane's passes as it is, wherever it is cut or stops."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.cuts import cuts
from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, Upstream, both_wires, mark, run
from wane.proxy.wire.wire import Body, BrokenReplyError, Wire
from wane.testing import Call
from wane.testing import Reply as Scripted
from wane.testing.wire import Provider

READ = Call("read", {"path": "a.py"})
ALONE = Scripted("Looking.", reasoning="Hm.", calls=(mark(),))
BESIDE = Scripted("Reading.", reasoning="So.", calls=(mark("end"), READ, mark(), READ))


def streams(wire: Wire, provider: Provider, body: Body, *replies: Scripted) -> list[bytes]:
    upstream = Upstream(provider, replies)
    return [upstream.ask(wire.equip({**body, "stream": True}, [DELIMITER], GUIDANCE).body) for _ in replies]


@both_wires
def test_a_wire_has_the_name_of_its_format(wire: Wire, provider: Provider, body: Body) -> None:
    assert wire.name == wire.format.name


@both_wires
@given(places=cuts())
def test_a_reply_without_own_calls_passes_byte_for_byte(
    wire: Wire, provider: Provider, body: Body, places: list[int]
) -> None:
    asked = {**body, "stream": True}
    if "messages" in body:
        asked["stream_options"] = {"include_usage": True}
    raw = Upstream(provider).ask(asked, Scripted("Hello, world.", reasoning="Think.", calls=(READ, READ)))
    assert run(wire.reply(asked, OWN), [raw], places).bytes == raw


@both_wires
@given(places=cuts(), usage=st.booleans())
def test_cuts_change_nothing(wire: Wire, provider: Provider, body: Body, places: list[int], usage: bool) -> None:
    asked = {**body, "stream": True, "stream_options": {"include_usage": usage}}
    rounds = streams(wire, provider, body, ALONE, ALONE, BESIDE)
    expected = run(wire.reply(asked, OWN), rounds)
    assert run(wire.reply(asked, OWN), rounds, places).bytes == expected.bytes
    assert b"delimiter" not in expected.bytes


@both_wires
def test_a_whole_reply_passes_as_it_is(wire: Wire, provider: Provider, body: Body) -> None:
    raw = Upstream(provider, [Scripted("A", calls=(READ,))]).ask(body)
    reply = wire.reply(body, OWN)
    assert (reply.feed(raw[:9]), reply.feed(raw[9:]), reply.started) == (b"", b"", False)
    assert reply.end().calls == 1
    assert reply.finish() == raw


@both_wires
@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"error": {"message": "x"}}'])
def test_a_broken_whole_reply_passes_as_it_is(wire: Wire, provider: Provider, body: Body, raw: bytes) -> None:
    reply = wire.reply(body, OWN)
    reply.feed(raw)
    with pytest.raises(BrokenReplyError):
        reply.end()
    assert reply.held_back() == raw


@both_wires
@pytest.mark.parametrize(("status", "kind"), [(400, "invalid_request_error"), (503, "server_error")])
def test_errors_have_openais_shape(wire: Wire, provider: Provider, body: Body, status: int, kind: str) -> None:
    error = json.loads(wire.error(status, "why"))["error"]
    assert error == {"message": "why", "type": kind, "param": None, "code": None}


# Streams that stop before their end: a client gets nothing of own calls, and each round counts once


@pytest.mark.quick(3)
@both_wires
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("text", ["", "Looking."])
def test_nothing_of_own_calls_is_given_wherever_a_stream_stops(
    wire: Wire, provider: Provider, body: Body, text: str, breaks: bool
) -> None:
    """Whether the connection breaks off or comes to an end."""
    asked = wire.equip({**body, "stream": True}, [DELIMITER], GUIDANCE).body
    scripted = Scripted(text, calls=(mark(), Call("read", {"path": "a"}), mark("end")))
    stream = Upstream(provider).ask(asked, scripted)
    for stop in range(0, len(stream), 7):
        reply = wire.reply({**body, "stream": True}, OWN)
        out = reply.feed(stream[:stop])
        if not breaks:
            try:
                reply.end()
            except BrokenReplyError:
                out += reply.held_back()
        else:
            out += reply.held_back()
        assert not [word for word in (b"delim", b"action", GUIDANCE.encode()) if word in out], (stop, out[-300:])


@both_wires
@pytest.mark.parametrize("streamed", [False, True])
def test_a_later_round_without_a_body_is_broken_and_not_the_one_before_again(
    wire: Wire, provider: Provider, body: Body, streamed: bool
) -> None:
    asked = {**body, "stream": streamed}
    reply = wire.reply(asked, OWN)
    reply.feed(Upstream(provider).ask(wire.equip(asked, [DELIMITER], GUIDANCE).body, Scripted("", calls=(mark(),))))
    assert reply.end().alone
    with pytest.raises(BrokenReplyError):
        reply.end()


@both_wires
def test_the_end_of_an_answered_round_is_not_given_if_the_next_one_breaks_at_once(
    wire: Wire, provider: Provider, body: Body
) -> None:
    asked = {**body, "stream": True}
    reply = wire.reply(asked, OWN)
    scripted = Scripted("Looking.", calls=(mark(),))
    reply.feed(Upstream(provider).ask(wire.equip(asked, [DELIMITER], GUIDANCE).body, scripted))
    assert reply.started
    assert reply.end().alone
    assert reply.held_back() == b""

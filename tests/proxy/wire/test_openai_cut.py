"""Streams of OpenAI's that stop before their end: a client gets nothing of own calls, and each round counts once."""

from __future__ import annotations

import pytest

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE, OWN, Upstream, both_wires, mark
from wane.proxy.wire.base import Body, BrokenReplyError, Wire
from wane.testing import Call
from wane.testing import Reply as Scripted
from wane.testing.wire import Provider


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
@pytest.mark.parametrize("streams", [False, True])
def test_a_later_round_without_a_body_is_broken_and_not_the_one_before_again(
    wire: Wire, provider: Provider, body: Body, streams: bool
) -> None:
    asked = {**body, "stream": streams}
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

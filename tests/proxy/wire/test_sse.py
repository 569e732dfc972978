"""Server-sent events: cut anywhere, with every line end, and never a byte lost."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from anthropic._streaming import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.cuts import cuts, pieces, single
from tests.strategies import times
from wane.proxy.wire.reply import ServerSentEvent, Splitter, encode
from wane.proxy.wire.wire import BrokenReplyError

LINES = (
    "data: a",
    "data:b",
    "data",
    "data:",
    "data:  c",
    "event: ping",
    "event:x",
    "event",
    ": note",
    "id: 7",
    "x",
    "",
)


def split(stream: Iterable[bytes]) -> tuple[list[ServerSentEvent], bytes]:
    splitter = Splitter()
    events = [event for piece in stream for event in splitter.feed(piece)]
    return events, splitter.unfinished


@st.composite
def streams(draw: st.DrawFn, ends: tuple[str, ...]) -> bytes:
    lines = draw(st.lists(st.sampled_from(LINES), max_size=12))
    return "".join(line + draw(st.sampled_from(ends)) for line in lines).encode()


def parse_events(stream: bytes) -> list[tuple[str, bytes]]:
    """What the events of a stream say, line by line, as the standard has it; mere comments say nothing."""
    found: list[tuple[str, bytes]] = []
    name, data = b"", []
    for line in re.split(rb"\r\n|\n|\r", stream)[:-1]:
        field, _, value = line.partition(b":")
        if not line:
            if name or data:
                found.append((name.decode(), b"\n".join(data)))
            name, data = b"", []
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif field == b"data":
            data.append(value.removeprefix(b" "))
    return found


@times(5)
@given(st.one_of(*(streams(ends) for ends in (("\n",), ("\r\n",), ("\r",), ("\n", "\r\n", "\r")))), cuts())
def test_events_are_the_same_wherever_the_stream_is_cut(stream: bytes, places: list[int]) -> None:
    whole, rest = split([stream])
    assert split(pieces(stream, places)) == (whole, rest)
    assert split(single(stream)) == (whole, rest)
    assert b"".join(event.raw for event in whole) + rest == stream


@times(5)
@given(st.one_of(*(streams(ends) for ends in (("\n",), ("\r\n",), ("\r",), ("\n", "\r\n", "\r")))))
def test_events_say_what_the_standard_says(stream: bytes) -> None:
    splitter = Splitter()
    events = splitter.feed(stream)
    # An end that might go on (`\r`, perhaps `\r\n`) is known when the stream is over.
    if re.search(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)\Z", splitter.unfinished) and (last := splitter.end()) is not None:
        events.append(last)
    ours = [(event.name, event.data) for event in events if event.name or event.data]
    assert ours == [one for one in parse_events(stream) if any(one)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_official_decoder_reads_the_same(end: str) -> None:
    stream = end.join(
        ["event: a", "data: 1", "data: 2", "", ": ping", "", "data: é", "", "event: b", "data: 3", "", ""]
    )
    theirs = [(sse.event or "", sse.data.encode()) for sse in SSEDecoder().iter_bytes(iter([stream.encode()]))]
    events, rest = split([stream.encode()])
    assert rest == b""
    assert [(event.name, event.data) for event in events if event.name or event.data] == theirs


def test_an_event_is_given_out_with_its_last_byte() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        splitter = Splitter()
        for _ in range(2):
            event = b"event: x%bdata: 1%b%b" % (end, end, end)
            for byte in single(event[:-1]):
                assert splitter.feed(byte) == []
            assert [one.data for one in splitter.feed(event[-1:])] == [b"1"]
            assert splitter.unfinished == b""


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    events, _ = split(single(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"))
    assert [event.data for event in events] == [b"1", b""]
    assert events[0].raw.startswith(b"\xef\xbb\xbf")


def test_what_is_left_is_an_event_if_the_last_blank_line_is_missing() -> None:
    splitter = Splitter()
    assert len(splitter.feed(b"data: 1\n\ndata: [DONE]\n")) == 1
    assert splitter.unfinished == b"data: [DONE]\n"
    assert splitter.end() == ServerSentEvent(b"data: [DONE]\n", "", b"[DONE]")
    assert splitter.end() is None
    assert splitter.unfinished == b""
    assert [event.data for event in splitter.feed(b"data: 2\n\n")] == [b"2"]


def test_an_event_without_end_does_not_fill_the_memory() -> None:
    splitter = Splitter(limit=100)
    assert splitter.feed(b"data: " + b"x" * 200) == []
    with pytest.raises(BrokenReplyError, match="more than 100 bytes"):
        splitter.feed(b"y")
    assert splitter.unfinished == b"data: " + b"x" * 200 + b"y"


def test_many_events_in_one_piece_are_not_one_long_event() -> None:
    events, rest = split([b"data: 1\n\n" * 1_000])
    assert (len(events), rest) == (1_000, b"")
    splitter = Splitter(limit=10)
    assert sum(len(splitter.feed(b"data: 1\n\n" * 100)) for _ in range(10)) == 1_000


def test_an_event_is_written_as_it_is_read() -> None:
    for event in (encode(b'{"a":1}', "message_start"), encode(b'{"a":1}')):
        (read,) = Splitter().feed(event)
        assert read.with_data({"a": 1}) == read
        assert read.raw == event

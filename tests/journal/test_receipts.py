"""Requests as receipts: rebuilt to the byte, whatever was sent, and no change that is not noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import eq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.core.errors import JournalError
from wane.journal import MessageRecord, Receipts, Record, RequestRecord, sent_requests
from wane.journal.lines import read_record, write_line
from wane.journal.receipts import count_same, count_same_at_end

PHRASES = st.sampled_from(
    ["yes", 'a "quoted" back\\slash', "ünï🙂", "\ud83d", "\x1b[0m\x00", "The same long paragraph, said again. " * 4]
)
TEXTS = st.one_of(PHRASES, st.text(max_size=9), st.builds("{} {}".format, PHRASES, st.text(max_size=90)))
MESSAGES = st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), TEXTS)
WRITERS = st.sampled_from([{"ensure_ascii": True}, {"ensure_ascii": False, "separators": (",", ":")}, {"indent": 1}])
"""A view takes from the history and marks its last message, as requests with cache breakpoints do."""


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Record], list[bytes]]:
    """A journal with its messages and requests, and the bodies that were sent."""
    records, bodies, receipts = list[Record](), list[bytes](), Receipts()
    history, view = list[Any](), list[int]()

    def append(record: Record) -> None:
        records.append(record)
        receipts.follow([record])

    for _ in range(draw(st.integers(1, 6))):
        for message in draw(st.lists(MESSAGES, max_size=4)):
            history.append(message)
            view.append(len(history) - 1)
            append(MessageRecord(message))
        if draw(st.booleans()):
            view = [number for number in view if draw(st.integers(0, 3))]
        shown = [history[number] for number in view]
        if shown:
            shown[-1] = {**shown[-1], "cache_control": {"type": "ephemeral"}}
        body = {"model": "m", "messages": shown, "system": draw(TEXTS), "tools": ["long " * 30]}
        bodies.append(json.dumps(body, **draw(WRITERS)).encode("utf-8", "replace"))
        append(receipts.of(bodies[-1], "https://x/v1"))
    return records, bodies


def as_read(records: Sequence[Record]) -> list[Record]:
    """The records as a journal gives them back."""
    return [read_record(write_line(record, 7), 7) for record in records]


@given(sessions())
def test_every_request_is_rebuilt_to_the_byte(session: tuple[list[Record], list[bytes]]) -> None:
    records, bodies = session
    rebuilt = list(sent_requests(as_read(records)))
    assert [request.body for request in rebuilt] == bodies
    assert {request.state for request in rebuilt} == {"identical"}


@given(st.lists(st.binary(max_size=400), max_size=5))
def test_bytes_that_are_no_json_are_rebuilt_or_not_kept(bodies: list[bytes]) -> None:
    receipts, records = Receipts(), list[Record]()
    for body in bodies:
        records.append(receipts.of(body, ""))
        receipts.follow(records[-1:])
    for request, body in zip(sent_requests(as_read(records)), bodies, strict=True):
        assert request.body == body or (request.body is None and request.state == "not kept")


@given(sessions(), st.data())
def test_a_journal_continued_by_another_process_names_the_same_pieces(
    session: tuple[list[Record], list[bytes]], data: st.DataObject
) -> None:
    records, bodies = session
    at = data.draw(st.integers(0, len(records)))
    receipts = Receipts()
    receipts.follow(as_read(records[:at]))
    receipts.follow(as_read(records[at:]))
    again = receipts.of(bodies[-1], "")
    assert again.pieces == ([0, len(receipts._base)],)
    assert [*sent_requests(as_read([*records, again]))][-1].body == bodies[-1]


def changed_values(value: Any) -> Iterator[Any]:
    """Each JSON value that differs from this one in one place."""
    match value:
        case str():
            yield value + "x"
        case int():
            yield value + 1
        case list() | tuple():
            for number, entry in enumerate(value):
                yield from ([*value[:number], other, *value[number + 1 :]] for other in changed_values(entry))


@given(sessions())
def test_any_change_of_a_request_is_noticed_though_all_checksums_are_made_anew(
    session: tuple[list[Record], list[bytes]],
) -> None:
    records, _ = session
    for number, record in enumerate(records):
        if not isinstance(record, RequestRecord):
            continue
        spoilt = [replace(record, pieces=tuple(pieces)) for pieces in changed_values(record.pieces)]
        spoilt += [replace(record, **{name: f"{getattr(record, name)}0"}) for name in ("digest", "salt", "chain")]
        for other in spoilt:
            states = [request.state for request in sent_requests([*records[:number], other, *records[number + 1 :]])]
            assert "wrong" in states
        rest = records[number + 1 :]
        if any(isinstance(later, RequestRecord) for later in rest):  # else nothing tells that there was another one
            assert "wrong" in [request.state for request in sent_requests([*records[:number], *rest])]


def test_each_flipped_bit_of_a_request_is_noticed() -> None:
    receipts = Receipts()
    line = write_line(receipts.of(json.dumps(["What was said. " * 9, "tools"]).encode(), "https://x/v1"), 7)
    for at in range(len(line)):
        for bit in range(8):
            with pytest.raises(JournalError):
                read_record(line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :], 7)


def test_what_is_not_kept_has_a_digest_and_breaks_no_chain() -> None:
    receipts = Receipts()
    records: list[Record] = []
    for keep in (True, False, True):
        records.append(receipts.of(b'{"messages":[]}', "", keep=keep))
        receipts.follow(records[-1:])
    assert [request.state for request in sent_requests(records)] == ["identical", "not kept", "identical"]
    assert [len(record.digest) for record in records if isinstance(record, RequestRecord)] == [64] * 3


def naive_count(one: str, other: str) -> int:
    return len([*takewhile(bool, map(eq, one, other))])


@given(st.text("ab"), st.text("ab"), st.integers(0, 3), st.integers(0, 3))
def test_what_two_texts_share_is_counted_from_either_end(one: str, other: str, start: int, other_start: int) -> None:
    count = naive_count(one[start:], other[other_start:])
    assert count_same(one.encode(), start, other.encode(), other_start) == count
    count = naive_count(one[::-1], other[::-1])
    assert count_same_at_end(one.encode(), other.encode(), min(len(one), len(other))) == count


@given(st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 2))
def test_what_long_texts_share_is_counted_to_the_byte(length: int, more: int, changed: int) -> None:
    one, other = b"a" * length + b"b" * more, b"a" * length + b"c" * changed
    assert count_same(one, 0, other, 0) == length
    assert count_same_at_end(one[::-1], other[::-1], min(len(one), len(other))) == length

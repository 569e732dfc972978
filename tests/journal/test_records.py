"""One record, one line: what is written is what is read, and nothing else passes for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.support import NOON, headers, records
from wane.core import EpisodeType, EvictedIndex, Level, Mark, Policy, Room, Step
from wane.core.errors import CorruptJournalError, JournalVersionError
from wane.journal import (
    ChoiceRecord,
    ConfigRecord,
    Header,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PersonsRecord,
    PlacedMark,
    Record,
    StateRecord,
    StrategyRecord,
    UsageRecord,
)
from wane.journal.lines import (
    MESSAGE_PREFIX,
    checksum_of,
    follow,
    read_header,
    read_record,
    write_line,
)
from wane.journal.records import RECORDS, VERSION, ReminderRecord, RequestRecord


def chain_lines(records: Iterable[Header | Record]) -> list[bytes]:
    """The lines of a file."""
    lines: list[bytes] = []
    for record in records:
        lines.append(write_line(record, checksum_of(lines[-1]) if lines else 0))
    return lines


def seal_line(data: object, after: int = 0) -> bytes:
    """A line with a checksum that holds, whatever it says."""
    body = json.dumps(data, separators=(",", ":"))[:-1].encode()
    return body + b',"crc":"%08x"}\n' % crc32(body, after)


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    line = write_line(record, 7)
    assert read_record(line, 7) == record
    assert follow(line, 7) == checksum_of(line)
    assert follow(line, 8) is None
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line)["kind"] == record.kind
    assert line.startswith(MESSAGE_PREFIX) == isinstance(record, MessageRecord)


@given(headers)
def test_a_header_comes_back_as_it_was(header: Header) -> None:
    assert read_header(write_line(header), "a file") == header


def test_numbers_that_json_lacks_come_back() -> None:
    record = MessageRecord(message={"a": float("inf"), "b": float("nan"), "c": 10**300})
    back = read_record(write_line(record), 0)
    assert isinstance(back, MessageRecord)
    assert repr(back.message) == repr(record.message)


INDEX = EvictedIndex("<system-reminder>\nNames: a.py\n</system-reminder>", 12, 8)
ROOM = Room(80, 40, 20, window=90, min_room=0.4)
FORMAT = [
    Header(VERSION, "abc", NOON, "/home/me/project", "openai", "0.1.0"),
    ConfigRecord(80_000, Policy.paper(), {"peek": "bulk"}, 900, 70, "paper", "infer", at=NOON),
    MessageRecord(message={"role": "user", "content": "hi \ud800"}, at=NOON),
    PassRecord(9, 100, 120, 90, True, False, (Step("look", 0, Level.BULK, 120, 90, (4, 5)),), at=NOON),
    PassRecord(9, 80, 90, 85, False, True, (Step("fix", 1, Level.OVERFLOW, 90, 85, (6, 7)),), INDEX, ROOM, at=NOON),
    UsageRecord(9, 1000, 50, 800, 100, 0.0125, "provider:model", True, 60, at=NOON),
    NoteRecord("title", {"text": "x"}, at=NOON),
    MessageRecord(
        {"role": "user", "content": "go on"},
        (
            PlacedMark(9, Mark("end", "explore-1:a.py", description="(inferred) looked at: a.py")),
            PlacedMark(9, Mark("start", "act-2", EpisodeType.ACT, ("explore-1:a.py",))),
        ),
        at=NOON,
    ),
    StrategyRecord(9, "truncate", {"from": 4}, at=NOON),
    ReminderRecord(9, "[Start an episode.]", at=NOON),
    RequestRecord("https://x/v1", "http", 9, "4a", "b7", "c0", ('{"a":', ["b"], 3, [0, 2]), at=NOON),
    ChoiceRecord(3, "keep", at=NOON),
    PersonsRecord(("c1", "c2"), at=NOON),
    StateRecord("cwl", {"engine": {"budget": 9}}, at=NOON),
]


def test_the_format_on_disk_stays_as_it_is() -> None:
    # Files of earlier days hold these lines: change one only together with VERSION, but for a field with a default.
    lines = Path(__file__).with_name("session_v6.jsonl").read_bytes().splitlines(keepends=True)
    assert chain_lines(FORMAT) == lines
    assert {record.kind for record in FORMAT} == {"session", *RECORDS}


def test_a_field_that_was_added_later_may_be_missing() -> None:
    usage = UsageRecord(9, 1000, 50, 800, 100, at=NOON)
    written = json.loads(write_line(usage))
    del written["cache_write_hour_tokens"], written["crc"]
    assert read_record(seal_line(written), 0) == usage


@given(records, st.data())
def test_no_single_damaged_byte_goes_unnoticed(record: Record, data: st.DataObject) -> None:
    line = bytearray(write_line(record))
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    assert follow(bytes(line), 0) is None
    with pytest.raises((CorruptJournalError, JournalVersionError)):
        read_record(bytes(line), 0)


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_no_record(line: bytes) -> None:
    with pytest.raises((CorruptJournalError, JournalVersionError)):
        read_record(line, 0)
    with pytest.raises((CorruptJournalError, JournalVersionError)):
        read_header(line, "a file")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "hologram"}, "unknown kind 'hologram'"),
        ({"kind": "note", "topic": "x", "mood": 1}, "unknown field 'mood'"),
        ({"kind": "note"}, "the field 'topic' is missing"),
        ({"kind": "note", "topic": 7}, "topic: 7 is not of type str"),
        ({"kind": "note", "topic": "x", "data": []}, r"data: \[\] is not an object"),
        ({"kind": "note", "topic": "x", "at": "noon"}, "at: 'noon' is not a time"),
        ({"kind": "note", "topic": "x", "at": "2026-11-20T12:00:00"}, "has no time zone"),
        ({"kind": "config", "budget": True, "policy": {}}, "budget: True is not of type int"),
        (
            {"kind": "config", "budget": 1, "policy": {"order": "stripes"}},
            "policy: order: 'stripes' is not one of 'paper'",
        ),
        ({"kind": "config", "budget": 1, "policy": {"low_water": 3}}, "policy: low_water is 3.0"),
        ({"kind": "config", "budget": 1, "policy": []}, "policy: an object is needed"),
    ],
)
def test_a_whole_line_that_is_not_understood_is_from_another_version(data: object, message: str) -> None:
    with pytest.raises(JournalVersionError, match=message):
        read_record(seal_line(data), 0)


def test_an_unknown_kind_is_named_even_without_a_checksum() -> None:
    with pytest.raises(JournalVersionError, match="hologram"):
        read_record(b'{"kind":"hologram"}\n', 0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            b'{"kind":"session","version":7,"shape":"other"}\n',
            r"version 7 of .* reads version 6\. .*update with: .*",
        ),
        (b'{"kind":"session","version":1}\n', r"version 1 of .* An earlier Wane wrote it; begin a new session"),
    ],
)
def test_a_header_of_another_version_is_refused_whatever_else_it_holds(line: bytes, words: str) -> None:
    with pytest.raises(JournalVersionError, match=words):
        read_header(line, "a file")


@pytest.mark.parametrize(
    "line", [b'{"kind":"session"}\n', b'{"kind":"session","version":"1"}\n', b'{"kind":"note","version":1}\n']
)
def test_a_line_that_is_no_header_is_no_session(line: bytes) -> None:
    with pytest.raises(CorruptJournalError, match="header of a session"):
        read_header(line, "a file")


def test_what_json_cannot_hold_is_refused_when_written() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ({1, 2}, object(), b"bytes", deep):
        with pytest.raises(ValueError, match=r"."):
            write_line(MessageRecord(message={"value": value}))

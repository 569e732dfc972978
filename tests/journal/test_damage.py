"""Damage in the middle, files that are no sessions, and files of a newer Wane: refused, and left as they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.support import Clock, begin, user_record
from tests.journal.test_records import FORMAT, seal_line
from wane.core.errors import CorruptJournalError, JournalError, JournalVersionError
from wane.journal import Header, Journal, read
from wane.journal.lines import checksum_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session with every kind of record in it, and one more at the end."""
    return begin(tmp_path, [*(record for record in FORMAT if not isinstance(record, Header)), user_record("end")])


def check_refusal(path: Path, content: bytes, error: type[JournalError]) -> str:
    """Write the content, check that it is refused and left alone, and return what is said."""
    path.write_bytes(content)
    with pytest.raises(error) as reading:
        read(path)
    with pytest.raises(error) as opening:
        Journal.open(path, clock=Clock())
    assert str(reading.value) == str(opening.value)
    assert str(path) in str(reading.value)
    assert path.read_bytes() == content
    assert not path.with_name(f"{path.name}.torn").exists()
    return str(reading.value)


def test_a_damaged_byte_anywhere_but_in_the_last_line_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    middle = len(whole) - len(lines[-1])
    rng = random.Random(2)
    newlines = [place for place in range(middle) if whole[place : place + 1] == b"\n"]
    for place in [*range(0, middle, 7), *newlines]:
        spoilt = bytearray(whole)
        spoilt[place] ^= rng.randrange(1, 256)
        number = whole[:place].count(b"\n") + 1
        # A spoilt kind may read as one that is not known: refused as newer, and no less refused.
        said = check_refusal(path, bytes(spoilt), JournalError)
        assert f"line {number}" in said or number == 1


SPOILS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line is missing": lambda lines: lines[:2] + lines[3:],
    "a line stands twice": lambda lines: lines[:3] + lines[2:],
    "two lines are swapped": lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
    "a line is cut short": lambda lines: [*lines[:2], lines[2][:20] + b"\n", *lines[3:]],
    "two lines run together": lambda lines: [*lines[:2], lines[2][:-1], *lines[3:]],
    "a line is blank": lambda lines: [*lines[:2], b"\n", *lines[2:]],
    "a line is of zeros": lambda lines: [*lines[:2], b"\0" * len(lines[2]), *lines[3:]],
    "a line is not UTF-8": lambda lines: [*lines[:2], lines[2].replace(b"hi", b"\xff\xfe"), *lines[3:]],
    "a word was changed": lambda lines: [*lines[:2], lines[2].replace(b"hi", b"ho"), *lines[3:]],
    "a line is of other JSON": lambda lines: [*lines[:2], b"[1, 2]\n", *lines[3:]],
    "a line came from elsewhere": lambda lines: [*lines[:2], seal_line({"kind": "note", "topic": "x"}), *lines[3:]],
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_damage_in_the_middle_is_named(path: Path, spoil: str) -> None:
    spoilt = b"".join(SPOILS[spoil](path.read_bytes().splitlines(keepends=True)))
    said = check_refusal(path, spoilt, CorruptJournalError)
    # Where a whole line stands out of place, the checksum breaks at the line after.
    assert f"{path}, line 3 is damaged: " in said or f"{path}, line 4 is damaged: " in said
    assert "The file was not changed" in said


def test_what_the_error_advises_brings_the_beginning_back(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    said = check_refusal(path, b"".join([*lines[:3], b"junk\n", *lines[4:]]), CorruptJournalError)
    assert "head -n 3" in said
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with Journal.open(path) as journal:
        assert len(journal.contents.records) == 2


def test_a_damaged_newline_at_the_end_is_not_taken_for_a_record_cut_short(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for content in (b"".join(lines)[:-1] + b"\x1a", b"".join([*lines[:-2], lines[-2][:-1] + b"x", lines[-1]])):
        check_refusal(path, content, CorruptJournalError)
    # Without its newline alone, the last record may well have been cut there.
    path.write_bytes(b"".join(lines)[:-1])
    assert read(path).torn_bytes == len(lines[-1]) - 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is not a session of Wane"),
        (b"hello\n", "is not a session of Wane"),
        (b'{"role": "user", "content": "hi"}\n', "is not a session of Wane"),
        (b"[]\n", "is not a session of Wane"),
        (b"\xff\xfe\x00\n", "is not a session of Wane"),
        (b'{"kind":"session","version":1,"id":"a"', "its first line is damaged: it is cut off"),
        (seal_line({"kind": "note", "topic": "no header"}), "it does not begin with the header"),
    ],
)
def test_what_is_no_session_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.jsonl"
    assert message in check_refusal(path, content, CorruptJournalError)
    assert list(tmp_path.iterdir()) == [path], "no lock beside what is no session"


OTHERS = {
    "version 7 of the session format": lambda lines: [lines[0].replace(b'"version":6', b'"version":7'), *lines[1:]],
    "unknown kind 'hologram'": lambda lines: [
        *lines[:4],
        seal_line({"kind": "hologram"}, checksum_of(lines[3])),
        *lines[4:],
    ],
    "unknown field 'mood'": lambda lines: [
        *lines,
        seal_line({"kind": "note", "topic": "x", "mood": "good"}, checksum_of(lines[-1])),
    ],
}


@pytest.mark.parametrize("words", OTHERS)
def test_a_session_of_another_version_is_refused(path: Path, words: str) -> None:
    content = b"".join(OTHERS[words](path.read_bytes().splitlines(keepends=True)))
    assert words in check_refusal(path, content, JournalVersionError)

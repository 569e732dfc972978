"""Beginning, going on with and repairing a session; what cannot be written is said."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.support import NOON, Clock, begin, in_a_child, records, user_record
from tests.strategies import times
from wane.core.errors import JournalError, SessionLockedError, SessionNotFoundError
from wane.journal import Journal, MessageRecord, NoteRecord, Record, read

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions and fork")


def words(path: Path) -> list[str]:
    return [record.message["content"] for record in read(path).records if isinstance(record, MessageRecord)]


@given(st.lists(records, max_size=6))
@times(0.7)
def test_a_session_comes_back_as_it_was(written: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = begin(Path(directory), written)
        session = read(path)
        assert [record.at for record in session.records if record.at is None] == []
        for before, after in zip(written, session.records, strict=True):
            assert before.at is None or before == after
        assert not session.torn
        assert session.size == path.stat().st_size
        with Journal.open(path) as journal:
            assert journal.contents == session
            assert journal.repaired is None


def test_a_new_session_is_named_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "sessions"
    with Journal.create(directory, cwd=tmp_path, message_format="openai", clock=Clock()) as journal:
        assert journal.path.name == f"20261120T120001Z-{journal.header.id}.jsonl"
        assert journal.header.created == NOON + timedelta(seconds=1)
        assert journal.header.cwd == str(tmp_path)
        assert journal.header.format == "openai"
    assert read(journal.path).header == journal.header
    if os.name != "nt":
        assert journal.path.stat().st_mode & 0o777 == 0o600
        assert directory.stat().st_mode & 0o077 == 0


def test_records_are_stamped_in_utc_to_the_millisecond(tmp_path: Path) -> None:
    elsewhere = datetime(2026, 11, 20, 14, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=2)))
    path = begin(tmp_path, [user_record("hi"), NoteRecord("x", at=NOON)], clock=lambda: elsewhere)
    stamped, given_ = read(path).records
    assert stamped.at == datetime(2026, 11, 20, 12, 0, 0, 123_000, tzinfo=UTC)
    assert given_.at == NOON


def test_a_session_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = begin(tmp_path, [user_record("one")])
    for text in ("two", "three"):
        with Journal.open(path) as journal:
            journal.append(user_record(text))
            journal.commit()
            assert words(path)[-1] == text, "it can be read while it is written"
    assert words(path) == ["one", "two", "three"]


def test_ids_are_checked(tmp_path: Path) -> None:
    begin(tmp_path, session_id="mine")
    with pytest.raises(JournalError, match="already a session 'mine'"):
        begin(tmp_path, session_id="mine", clock=lambda: NOON + timedelta(days=1))
    for bad in ("", "a/b", "..", "x" * 65, "a b", "a\n"):
        with pytest.raises(JournalError, match="session id"):
            begin(tmp_path, session_id=bad)


def test_a_second_journal_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with Journal.create(tmp_path, cwd=tmp_path, message_format="openai") as journal:
        with pytest.raises(SessionLockedError, match="another process"):
            Journal.open(journal.path)
        journal.append(user_record("still here"))
    Journal.open(journal.path).close()
    assert len(read(journal.path).records) == 1


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, cwd=tmp_path, message_format="openai")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.append(user_record("x"))
    with pytest.raises(JournalError, match="is closed"):
        journal.commit()


def test_several_records_are_written_all_or_none(tmp_path: Path) -> None:
    with Journal.open(begin(tmp_path)) as journal:
        journal.extend((user_record("a"), user_record("b")))
        before = journal.path.read_bytes()
        odd = NoteRecord(topic="odd", data={"value": object()})
        with pytest.raises(JournalError, match="a record of kind 'note' cannot be written as JSON"):
            journal.extend((user_record("c"), odd, user_record("d")))
        journal.extend(())
        assert journal.path.read_bytes() == before
        journal.append(user_record("e"))
    texts = [record.message["content"] for record in read(journal.path).records if isinstance(record, MessageRecord)]
    assert texts == ["a", "b", "e"]


def test_others_append_while_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    with Journal.create(tmp_path, cwd=tmp_path, message_format="openai", committed=False) as journal:
        done = threading.Event()

        def commit() -> None:
            while not done.is_set():
                journal.commit()

        committer = threading.Thread(target=commit)
        committer.start()
        for number in range(300):
            journal.append(user_record(str(number)))
        done.set()
        committer.join()
        journal.commit()
    assert len(read(journal.path).records) == 300


@pytest.mark.full
def test_a_result_of_50_mb_is_a_line_like_any_other(tmp_path: Path) -> None:
    huge = MessageRecord(message={"role": "tool", "content": "0123456789abcde\n" * (50 * 2**20 // 16)})
    path = begin(tmp_path, [user_record("before"), huge, user_record("after")])
    with Journal.open(path) as journal:
        _, back, _ = journal.contents.records
        assert isinstance(back, MessageRecord)
        assert back.message == huge.message


# A record cut short


def test_a_record_cut_at_any_byte_is_repaired_and_said(tmp_path: Path) -> None:
    path = begin(tmp_path, [user_record("one"), user_record("two \ud800")])
    whole, kept = path.read_bytes(), read(path).records[:1]
    last = whole.splitlines(keepends=True)[-1]
    size = len(whole) - len(last)
    aside = path.with_name(f"{path.name}.torn")
    for cut in range(1, len(last)):
        path.write_bytes(whole[: size + cut])
        session = read(path)
        assert (session.records, session.torn_bytes, session.size) == (kept, cut, size)
        assert path.stat().st_size == size + cut, "reading changes nothing"
        with Journal.open(path, clock=Clock(), fsync=False) as journal:
            assert journal.contents.records == kept
            assert journal.repaired is not None
            assert f"{cut:,} bytes, kept in {aside.name}" in journal.repaired
            assert path.stat().st_size == size
            journal.append(user_record("next"))
        assert aside.read_bytes() == last[:cut] + b"\n"
        aside.unlink()
        assert len(read(path).records) == 2
        assert not read(path).torn


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b"\0" * 10 + b"\n", b"\xff\n", b"junk\n", b"{}\n", b"\n", b'{"kind":"note"']
)
def test_a_last_line_that_makes_no_sense_is_taken_for_cut_short(tmp_path: Path, tail: bytes) -> None:
    # After a loss of power, a file may end in what the disk happened to hold.
    path = begin(tmp_path, [user_record("one")])
    whole = path.read_bytes()
    for times_torn in (1, 2):  # what was torn earlier is kept too
        path.write_bytes(whole + tail)
        assert read(path).torn_bytes == len(tail)
        with Journal.open(path) as journal:
            assert journal.repaired
        assert path.read_bytes() == whole
        assert path.with_name(f"{path.name}.torn").read_bytes() == (tail.rstrip(b"\n") + b"\n") * times_torn


# Where nothing can be written


@pytest.mark.parametrize("opener", [read, Journal.open])
def test_a_missing_session_is_not_found_and_a_directory_is_none(
    tmp_path: Path, opener: Callable[[Path], object]
) -> None:
    with pytest.raises(SessionNotFoundError, match=r"no session file .*nowhere\.jsonl"):
        opener(tmp_path / "nowhere.jsonl")
    with pytest.raises(JournalError, match="is not a file"):
        opener(tmp_path)


def test_a_file_where_the_directory_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    for directory in (tmp_path / "sessions", tmp_path / "sessions" / "deeper"):
        with pytest.raises(JournalError, match=r"cannot write sessions to .*WANE_SESSION_DIR"):
            begin(directory)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_nobody(act: Callable[[], object]) -> Callable[[], object]:
    """`act` without root's rights, which no permission stops."""

    def acting() -> object:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return act()

    return acting


@posix_only
def test_a_directory_without_write_permission_is_said(open_directory: Path) -> None:
    directory = open_directory / "sessions"
    path = begin(directory)
    path.chmod(0o666)
    before = path.read_bytes()
    directory.chmod(0o555)
    for act in (lambda: begin(directory), lambda: begin(directory / "deeper")):
        said = in_a_child(as_nobody(act))
        assert said.startswith(f"JournalError: cannot write sessions to {directory}")
        assert "Permission denied" in said
    path.with_name(f"{path.name}.lock").unlink()
    assert in_a_child(as_nobody(lambda: Journal.open(path))).startswith(
        f"JournalError: cannot write sessions to {path}: Permission"
    )
    assert in_a_child(as_nobody(lambda: read(path))) == ""
    assert path.read_bytes() == before


@posix_only
def test_a_session_without_read_permission_is_said(open_directory: Path) -> None:
    path = begin(open_directory)
    path.chmod(0)
    for opener in (read, Journal.open):
        said = in_a_child(as_nobody(partial(opener, path)))
        assert said == f"JournalError: cannot read the session {path}: Permission denied"


@posix_only
def test_a_full_disk_loses_nothing_but_the_record(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def fill() -> None:
        # A file that may not grow takes a part of a write, as a full disk does.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with Journal.open(path) as journal:
            journal.append(user_record("a" * 60_000))
            size = path.stat().st_size
            with pytest.raises(JournalError, match=r"cannot write to the session .*: File too large"):
                journal.append(user_record("b" * 60_000))
            assert path.stat().st_size == size
            journal.append(user_record("c"))

    path = begin(tmp_path)
    assert in_a_child(fill) == ""
    assert [text[0] for text in words(path)] == ["a", "c"]

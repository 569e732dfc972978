"""A list of sessions opens only the files that have changed, and what it remembers goes with what is deleted."""

from __future__ import annotations

import json
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from tests.journal.support import user_record
from wane.core.errors import JournalError
from wane.journal import Journal, SessionInfo, SessionStore, read, utc_now
from wane.journal.redaction import rewrite, without_messages

CACHE = ".heads.json"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def begin(store: SessionStore, cwd: Path, *texts: str) -> Path:
    with store.create(cwd, message_format="openai", fsync=False) as journal:
        journal.extend([user_record(text) for text in texts])
    return journal.path


def hide_content(path: Path) -> None:
    """Have a file hold nothing, but look unchanged."""
    status = path.stat()
    path.write_bytes(b"\0" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def titles(infos: list[SessionInfo]) -> list[str | None]:
    return [info.title for info in infos]


def test_a_list_reads_only_what_has_changed(store: SessionStore, cwd: Path) -> None:
    paths = [begin(store, cwd, text) for text in ("one", "two", "three")]
    first = store.sessions(cwd)
    for path in paths:
        hide_content(path)
    assert store.sessions(cwd) == first
    new = begin(store, cwd, "four", "more")
    assert {(info.title, info.messages) for info in store.sessions(cwd)} == {
        *(("one", 1), ("two", 1), ("three", 1), ("four", 2))
    }
    with Journal.open(new, fsync=False) as journal:
        journal.append(user_record("still more"))
    assert next(info.messages for info in store.sessions() if info.path == new) == 3


def test_what_a_list_shows_is_the_same_with_and_without_a_cache(store: SessionStore, cwd: Path) -> None:
    begin(store, cwd, "one")
    begin(store, cwd / ".." / "other", "two")
    begin(store, cwd)
    first = store.sessions()
    assert store.sessions() == first
    for cache in store.root.glob(f"*/{CACHE}"):
        cache.write_text("[]")
    assert store.sessions() == first


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"of": [0, "0"], "heads": {}}', b'{"heads": []}'],
)
def test_a_cache_that_cannot_be_read_is_made_again(store: SessionStore, cwd: Path, content: bytes) -> None:
    begin(store, cwd, "one")
    expected = store.sessions()
    cache = store.directory(cwd) / CACHE
    cache.write_bytes(content)
    assert store.sessions() == expected
    kept = json.loads(cache.read_bytes())
    for entry in kept["heads"].values():
        entry[4] = "no time"
    cache.write_text(json.dumps(kept))
    assert store.sessions() == expected


def test_what_is_deleted_is_forgotten(store: SessionStore, cwd: Path) -> None:
    secret, other = begin(store, cwd, "the secret words"), begin(store, cwd, "other words")
    cache = store.directory(cwd) / CACHE
    store.sessions()
    assert b"secret" in cache.read_bytes()
    store.delete(secret)
    assert not cache.exists()
    assert titles(store.sessions()) == ["other words"]
    with Journal.open(other, fsync=False) as journal:
        rewrite(journal, without_messages(read(other).records, [0], utc_now()))
    assert not cache.exists()
    # Another program may delete a session too.
    gone = begin(store, cwd, "the secret words")
    store.sessions()
    gone.unlink()
    store.sessions()
    assert b"secret" not in cache.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_the_cache_is_private(store: SessionStore, cwd: Path) -> None:
    begin(store, cwd, "one")
    store.sessions()
    assert stat.S_IMODE((store.directory(cwd) / CACHE).stat().st_mode) == 0o600


def test_a_session_that_cannot_be_read_is_read_again(store: SessionStore, cwd: Path) -> None:
    path = begin(store, cwd, "one")
    content = path.read_bytes()
    hide_content(path)
    (info,) = store.sessions()
    assert info.problem is not None
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert titles(store.sessions()) == ["one"]


def test_going_on_reads_the_newest_alone(store: SessionStore, cwd: Path) -> None:
    names = []
    for age, text in enumerate(("newest", "older", "oldest")):
        path = begin(store, cwd, text)
        at = (utc_now() - timedelta(hours=age)).timestamp()
        os.utime(path, (at, at))
        if age:
            path.write_bytes(b"\0")
            os.utime(path, (at, at))
            names.append(path)
    assert store.latest(cwd).path not in names
    assert not (store.directory(cwd) / CACHE).exists()


def test_going_on_passes_over_many_that_are_another_programs(store: SessionStore, cwd: Path) -> None:
    mine = begin(store, cwd, "mine")
    os.utime(mine, (1_000_000, 1_000_000))
    for _ in range(30):
        store.create(cwd, message_format="anthropic", fsync=False).close()
    for _ in range(2):  # without a cache, and with one
        assert store.latest(cwd, "openai").path == mine
    assert (store.directory(cwd) / CACHE).exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_a_session_is_named_and_never_read(store: SessionStore, cwd: Path) -> None:
    begin(store, cwd, "one")
    pipe = store.directory(cwd) / "20990101T000000Z-abc.jsonl"
    os.mkfifo(pipe)
    infos = {info.path: info.problem for info in store.sessions()}
    assert "it is not a file" in (infos[pipe] or "")
    assert store.latest(cwd).path != pipe
    for work in (read, Journal.open):
        with pytest.raises(JournalError, match="it is not a file"):
            work(pipe)
    store.delete(pipe)
    assert not pipe.exists()

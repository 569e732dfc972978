"""Sessions examined file by file, in several processes or from what was kept, have the figures of whole ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lab.readers.promises import SESSIONS, needs_sessions
from tests.lab.readers.test_recordings import RECORDINGS
from tests.lab.readers.writing import write_lines
from wane.core.errors import WaneError
from wane.lab.cache import examining
from wane.lab.cache.examining import ExaminedSession, Examiner
from wane.lab.cache.paid_again import examine
from wane.lab.file_store import FileStore, Source, stamp_of_agents
from wane.lab.processes import WorkerLostError
from wane.lab.readers import Gathered, gather

EVERY_FOLDER = [
    folder
    for folder in (RECORDINGS, SESSIONS.parent / "failing", *sorted(SESSIONS.glob("*")))
    if folder.is_dir() and folder.name != "terminal-bench-2"
]


def gathered_by(store: FileStore, *paths: Path, workers: int = 1) -> Gathered:
    with Examiner(store, workers=workers) as examiner:
        return gather(paths, sidechains=True, reader=examiner)


def list_findings(gathered: Gathered) -> list[Any]:
    """All that `wane doctor` says of sessions."""
    said: list[Any] = []
    for entry in gathered.recordings:
        session = entry.session
        examination = session.examination if isinstance(session, ExaminedSession) else examine(session)
        usages = [call.usage and (call.usage.total_input, call.usage.cache_read) for call in session.own_calls]
        about = session.title, session.id, session.parent, entry.parent, entry.path, entry.number, entry.of
        said.append((examination.to_dict(), usages, session.problems, about))
    idle = [(entry.session.name, entry.path, bool(entry.session.calls)) for entry in gathered.idle]
    return [said, idle, gathered.unread, gathered.repeated]


@pytest.mark.parametrize("folder", EVERY_FOLDER, ids=lambda folder: folder.name)
def test_examined_alone_and_kept_sessions_have_the_figures_of_whole_ones(folder: Path, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "kept.sqlite")
    whole = list_findings(gather([folder], sidechains=True))
    assert list_findings(gathered_by(store, folder)) == whole
    assert list_findings(gathered_by(store, folder)) == whole, "from what was kept"
    assert list_findings(gathered_by(FileStore(None), folder)) == whole


@needs_sessions
def test_several_processes_tell_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "_ALONE", 0)
    folders = [SESSIONS / "pi", SESSIONS / "copilot-cli"]
    assert list_findings(gathered_by(FileStore(None), *folders, workers=2)) == list_findings(
        gather(folders, sidechains=True)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process would not have the reader that fails")
def test_a_process_that_was_killed_is_said_once_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_process(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for name in ("a", "b", "c"):
        write_lines(tmp_path / f"{name}.jsonl", *lines_of(("m1", 0, 9_000, 5)))
    monkeypatch.setattr(examining, "_ALONE", 0)
    monkeypatch.setattr(examining, "read_file", end_process)
    with pytest.raises(WorkerLostError, match="try fewer --workers"):
        gathered_by(FileStore(None), tmp_path, workers=2)
    assert not multiprocessing.active_children()


def lines_of(*answers: tuple[str, int, int, int], words: str = "Go on.") -> list[dict[str, Any]]:
    """Return lines of Claude Code: by answer, its id, and the tokens read, written and neither."""
    lines: list[dict[str, Any]] = []
    for number, (name, read, written, fresh) in enumerate(answers):
        usage = {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        message = {"id": name, "role": "assistant", "model": "claude-sonnet-4-6", "stop_reason": "end_turn"}
        texts = [{"type": "text", "text": "Done."}]
        answer = {**message, "usage": {**usage, "output_tokens": 9}, "content": texts}
        said: Sequence[tuple[str, dict[str, Any]]] = (
            ("user", {"role": "user", "content": words}),
            ("assistant", answer),
        )
        for kind, content in said:
            parent = lines[-1]["uuid"] if lines else None
            about = {"uuid": f"{name}-{kind}", "parentUuid": parent, "sessionId": "s"}
            stamp = f"2026-01-01T00:{number % 60:02}:00.000Z"
            lines.append({"type": kind, "timestamp": stamp, "message": content, **about})
    return lines


TOKENS = st.integers(0, 60_000)
ANSWERS = st.lists(st.tuples(st.integers(0, 30), TOKENS, TOKENS, TOKENS), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sessions=st.lists(ANSWERS, min_size=1, max_size=4))
def test_of_random_sessions_that_copy_each_others_calls_it_tells_the_same(
    sessions: list[list[tuple[int, int, int, int]]], tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    for number, answers in enumerate(sessions):
        named = {f"m{name}": (f"m{name}", *tokens) for name, *tokens in answers}
        path = folder / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_lines(path, *lines_of(*named.values()))
    for more in folder.glob("*.jsonl"):
        if int(more.stem) >= len(sessions):
            more.unlink()
    store = FileStore(tmp_path / "kept.sqlite")
    whole = list_findings(gather([folder], sidechains=True))
    for _ in range(2):
        assert list_findings(gathered_by(store, folder)) == whole


def test_a_file_that_changed_is_read_again_and_one_that_did_not_is_not(tmp_path: Path) -> None:
    path, store = tmp_path / "a.jsonl", FileStore(tmp_path / "kept.sqlite")
    write_lines(path, *lines_of(("m1", 0, 9_000, 5), ("m2", 0, 9_500, 5)))
    before = gathered_by(store, path)
    status, content = path.stat(), path.read_bytes()
    path.write_bytes(b" " * len(content))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert list_findings(gathered_by(store, path)) == list_findings(before)
    write_lines(path, *lines_of(("m1", 0, 9_000, 5), ("m2", 0, 9_500, 5), ("m3", 0, 9_900, 5)))
    (entry,) = gathered_by(store, path).recordings
    assert len(entry.session.calls) == 3


def test_nothing_that_was_said_is_kept_but_the_title(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.jsonl", tmp_path / "kept.sqlite"
    lines = lines_of(("m1", 0, 9_000, 5), ("m2", 0, 9_500, 5))
    lines[2]["message"]["content"] = "The password is swordfish."
    lines[3]["message"]["content"][0]["text"] = "Your swordfish is safe."
    write_lines(path, *lines)
    gathered_by(FileStore(kept), path)
    (row,) = rows_in(kept)
    assert b"swordfish" not in row
    assert b"Go on." in row, "the title"
    # A line that cannot be read is quoted in the problem that names it, so the file is read each time.
    path.write_text(f"{path.read_text().rstrip()}\nswordfish\n")
    for _ in range(2):
        (entry,) = gathered_by(FileStore(kept), path).recordings
        assert "swordfish" in entry.session.problems[0].what
    assert not any(b"swordfish" in row for row in rows_in(kept))


def rows_in(kept: Path) -> list[bytes]:
    with closing(sqlite3.connect(kept)) as database:
        return [zlib.decompress(data) for (data,) in database.execute("SELECT figures FROM kept")]


@pytest.mark.parametrize("beside", ["meta.json", "agent-1.jsonl", "s/subagents/agent-2.jsonl"])
def test_a_file_that_is_read_with_another_changes_its_stamp(beside: str, tmp_path: Path) -> None:
    path, other = tmp_path / "s.jsonl", tmp_path / beside
    other.parent.mkdir(parents=True, exist_ok=True)
    for file in (path, other):
        file.write_text("{}")
    before = Source.of(path, 1.0, 1)
    other.write_text('{"more": 1}')
    stamp_of_agents.cache_clear()  # as in the next run
    assert Source.of(path, 1.0, 1).stamp != before.stamp


def test_what_sqlite_has_not_yet_moved_into_a_database_changes_its_stamp(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_text("")
    before = Source.of(path, 1.0, 1)
    path.with_name("opencode.db-wal").write_text("more")
    assert Source.of(path, 1.0, 1).stamp != before.stamp


def test_a_file_that_is_named_and_of_no_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"some": "thing"}\n')
    with pytest.raises(WaneError, match="known format"):
        gathered_by(FileStore(None), path)


def test_what_was_kept_in_another_form_is_read_again(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.jsonl", tmp_path / "kept.sqlite"
    write_lines(path, *lines_of(("m1", 0, 9_000, 5), ("m2", 0, 9_500, 5)))
    whole = list_findings(gathered_by(FileStore(kept), path))
    for damaged in ([{"name": "a"}], [7], {"a": 1}, [{**json.loads(rows_in(kept)[0])[0], "calls": [[1]]}]):
        with closing(sqlite3.connect(kept)) as database, database:
            database.execute("UPDATE kept SET figures = ?", (zlib.compress(json.dumps(damaged).encode()),))
        assert list_findings(gathered_by(FileStore(kept), path)) == whole


def test_calls_that_count_for_another_session_are_left_out_of_what_was_kept(tmp_path: Path) -> None:
    answers = ("m1", 0, 9_000, 5), ("m2", 0, 9_500, 5), ("m3", 0, 9_900, 5)
    write_lines(tmp_path / "a.jsonl", *lines_of(*answers[:2]))
    write_lines(tmp_path / "b.jsonl", *lines_of(*answers))
    store = FileStore(tmp_path / "kept.sqlite")
    gathered_by(store, tmp_path / "b.jsonl")
    alone, both = (
        list_findings(gathered_by(store, tmp_path / "b.jsonl"))[0],
        list_findings(gathered_by(store, tmp_path))[0],
    )
    assert [(entry[0]["compared"], len(entry[0]["rewrites"])) for entry in alone] == [(2, 2)]
    assert [(entry[0]["compared"], len(entry[0]["rewrites"])) for entry in both] == [(1, 1), (1, 1)]

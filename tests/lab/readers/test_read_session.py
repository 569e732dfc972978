"""What `read_session` takes: formats by name or by look, folders, patterns, standard input, gzip."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.lab.readers.promises import SESSIONS, check, needs_sessions
from wane import FormatError, JournalError, SessionNotFoundError, chars
from wane.lab.readers import READER_NAMES, find_files, gather, head, join, read_file, read_session
from wane.lab.readers.building.json_lines import open_unpacked
from wane.lab.readers.kin import first_record

CHAT = json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b.json", "a.json", "sub/c.jsonl", ".hidden/d.json", "notes.txt"):
        (tmp_path / name).write_text(CHAT)
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(CHAT.encode()))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "damaged.jsonl").write_text('{"kind":"session","version":6}\n')
    return tmp_path


def test_a_folder_gives_the_sessions_of_its_files_sorted_and_passes_over_others(folder: Path) -> None:
    assert [session.name for session in read_session(folder)] == ["a", "b", "e", "c"]
    assert [file.name for file in find_files(folder)] == [
        *("a.json", "b.json", "damaged.jsonl", "e.json.gz", "package.json", "c.jsonl")
    ]


def test_a_session_that_cannot_be_read_is_refused_if_it_is_the_one_that_was_asked_for(folder: Path) -> None:
    with pytest.raises(JournalError, match="first line is damaged"):
        read_session(folder / "damaged.jsonl")


def test_a_pattern_gives_the_sessions_of_its_files_sorted(folder: Path) -> None:
    assert [session.name for session in read_session(f"{folder}/?.json")] == ["a", "b"]
    assert [session.name for session in read_session(f"{folder}/**/*.jsonl")] == ["c"]


def test_a_name_that_looks_like_a_pattern_is_a_name_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_text(CHAT)
    assert [session.name for session in read_session(tmp_path / "a[1].json")] == ["a[1]"]


def test_messages_that_break_off_are_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    whole = "\n".join(json.dumps(message, indent=2) for message in json.loads(CHAT))
    path.write_text(f'{whole}\n{{\n  "role": "us')
    (session,) = read_session(path)
    assert len(session.calls) == 1
    (problem,) = session.problems
    assert (problem.line, problem.what) == (
        9,
        "broken JSON (it breaks off) after 2 complete entries; the rest was left out",
    )


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (CHAT.encode(), gzip.compress(CHAT.encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        (session,) = read_session("-")
        assert (session.name, len(session.calls)) == ("stdin", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(CHAT.encode())[:-9])))
    with pytest.raises(FormatError, match=r"^standard input is damaged and cannot be decompressed"):
        read_session("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x")))
    with pytest.raises(FormatError, match="standard input: it is not JSON"):
        read_session("-")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.json", tmp_path, tmp_path / "*.json"):
        with pytest.raises(SessionNotFoundError):
            read_session(path)
    with pytest.raises(JournalError):
        read_file(tmp_path)


def test_a_folder_without_a_session_says_what_the_first_file_is(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    with pytest.raises(FormatError, match=r"none of the 1 files .* of no known format"):
        read_session(tmp_path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_compressed_files_are_read_and_damaged_ones_refused(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.json").write_text(CHAT)
    (tmp_path / f"a.json{suffix}").write_bytes(pack(CHAT.encode()))
    (plain,) = read_session(tmp_path)  # a file and its compressed copy are one
    path = tmp_path / f"b.json{suffix}"
    half = CHAT.encode()[: len(CHAT) // 2]
    path.write_bytes(pack(half) + pack(CHAT.encode()[len(half) :]))
    assert read_session(path)[0].parts == plain.parts
    for damaged in (path.read_bytes()[:-9], path.read_bytes()[:4] + b"....", pack(half) + b"...."):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="is damaged and cannot be decompressed"):
            read_session(path)


def test_a_format_can_be_named_and_must_then_fit(folder: Path) -> None:
    assert read_session(folder / "a.json", "openai")[0].source == "openai"
    # Plain turns of text are the same in all APIs.
    for name in set(READER_NAMES) - {"openai", "anthropic", "openai_responses"}:
        with pytest.raises((FormatError, JournalError)):
            read_session(folder / "a.json", name)
    with pytest.raises(FormatError, match=r"'word' is unknown; known: auto, claude-code, codex"):
        read_session(folder / "a.json", "word")
    for name in ("pydantic-ai", "claude_code"):  # with either dash
        with pytest.raises(FormatError, match=r"a\.json"):
            read_session(folder / "a.json", name)


@pytest.mark.full
@needs_sessions
def test_all_89_runs_of_terminal_bench_load_and_join() -> None:
    runs = [check(session) for session in read_session(SESSIONS / "terminal-bench-2")]
    assert len(runs) == 89
    assert not any(run.problems for run in runs)
    whole = check(join(runs, "terminal-bench-2"))
    assert len(whole.calls) == sum(len(run.calls) for run in runs) == 2_612
    assert len(whole.user_turns) == sum(len(run.user_turns) for run in runs) == 119
    assert len(whole.starts) == 89
    assert [part.kind.value for part in whole.parts].count("system") == 1
    assert sum(part.item(chars, 0).tokens for part in whole.parts) == 2_560_613


@pytest.mark.full
@needs_sessions
def test_every_recorded_session_is_recognised_by_its_folder() -> None:
    for source in ("claude-code", "codex", "pi"):
        files = find_files(SESSIONS / source)
        assert [read_file(file)[0].source for file in files] == [source] * len(files)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_a_compressed_file_holds_no_more_than_is_allowed(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.json{suffix}"
    path.write_bytes(pack(CHAT.encode() + b"\n" * 3_000_000))
    assert len(read_session(path)) == 1
    with pytest.raises(FormatError, match=r"a\.json.*: it holds more than 2,000,000 bytes, decompressed; .*unpacked"):
        read_session(path, max_unpacked=2_000_000)
    # Sessions of Codex are decompressed by their reader.
    codex = tmp_path / f"rollout-1.jsonl{suffix}"
    codex.write_bytes(pack(b'{"type":"session_meta","payload":{"id":"1"}}\n' + b"\n" * 3_000_000))
    with pytest.raises(FormatError, match="it holds more than 2,000,000 bytes, decompressed"):
        read_session(codex, max_unpacked=2_000_000)


def test_what_zstd_holds_is_taken_in_steps_and_not_copied(tmp_path: Path) -> None:
    """It was decompressed whole, and for each piece that was read the rest was copied: quadratic in the content."""
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(bytes(64_000_000)))
    tracemalloc.start()
    try:
        with open_unpacked(path) as file:
            assert [len(file.read(10_000)) for _ in range(20)] == [10_000] * 20
            _, peak = tracemalloc.get_traced_memory()
            assert sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b"")) == 63_800_000
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_a_pipe_or_device_is_refused_and_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    for target in (path, Path("/dev/zero")):
        for read in (read_session, read_file, lambda path: gather([path])):
            with pytest.raises(JournalError, match="a pipe or a device, not a file"):
                read(target)
        with pytest.raises(OSError, match="a pipe or a device, not a file"):
            head(target)
    (tmp_path / "b.json").write_text(CHAT)
    assert len(read_session(tmp_path)) == 1
    assert first_record(path) == {}

"""Where sessions live, how they are listed and found."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.journal.support import NOON, begin, user_record
from wane.core.errors import JournalError, SessionNotFoundError
from wane.journal import Journal, MessageRecord, NoteRecord, Record, SessionStore, default_root
from wane.journal.titles import TITLE_LENGTH, title_of


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def session(store: SessionStore, cwd: Path, session_id: str, *records: Record, age: int = 0) -> Path:
    """Write a session, last written `age` seconds before noon."""
    path = begin(store.directory(cwd), records, cwd=cwd, session_id=session_id)
    moment = (NOON - timedelta(seconds=age)).timestamp()
    os.utime(path, (moment, moment))
    return path


def test_the_root_is_the_environments_or_the_platforms() -> None:
    assert default_root({"WANE_SESSION_DIR": "/somewhere"}) == Path("/somewhere")
    assert default_root({"WANE_SESSION_DIR": "~/s"}) == Path.home() / "s"
    assert default_root({}).parts[-2:] == ("wane", "sessions")
    assert default_root({"WANE_SESSION_DIR": ""}) == default_root({})
    with pytest.raises(JournalError, match="WANE_SESSION_DIR is '~no-such-user/x'"):
        default_root({"WANE_SESSION_DIR": "~no-such-user/x"})


def test_each_working_directory_has_its_own(store: SessionStore, tmp_path: Path) -> None:
    names = {store.directory(tmp_path / name).name for name in ("a/b", "a-b", "a/b/c", "Ü", "\udcff")}
    assert len(names) == 5
    assert all(name.isascii() and len(name) <= 60 for name in names)
    assert store.directory(tmp_path / "a" / ".." / "b") == store.directory(tmp_path / "b")
    assert store.directory(Path("/")).parent == store.root


def test_nothing_is_there_before_the_first_session(store: SessionStore, tmp_path: Path) -> None:
    assert store.sessions() == store.sessions(tmp_path) == []
    with pytest.raises(SessionNotFoundError, match="no session to go on with"):
        store.latest(tmp_path)
    assert not store.root.exists()
    with store.create(tmp_path, message_format="openai", fsync=False) as journal:
        assert journal.path.parent == store.directory(tmp_path)
    assert [info.id for info in store.sessions()] == [journal.header.id]


def test_a_list_tells_what_a_session_was_about(store: SessionStore, tmp_path: Path) -> None:
    records = [
        NoteRecord("x"),
        MessageRecord(message={"role": "system", "content": "be good"}),
        user_record(" fix\n the bug "),
        user_record("b"),
    ]
    path = session(store, tmp_path, "abc", *records, age=60)
    (info,) = store.sessions(tmp_path)
    assert (info.id, info.path, info.cwd) == ("abc", path, tmp_path)
    assert (info.created, info.modified) == (NOON + timedelta(seconds=1), NOON - timedelta(seconds=60))
    assert (info.messages, info.title, info.problem) == (3, "fix the bug", None)
    assert info.size == path.stat().st_size


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["/mode", "/mode plan", "fix it", "more"], "fix it"),
        (["/init"], "/init"),
        (["/init", "/model opus"], "/init"),
        (["/tmp/x is full", "more"], "/tmp/x is full"),
        (["/review the parser of dates", "more"], "/review the parser of dates"),
    ],
)
def test_a_command_of_the_client_is_no_title_where_there_are_words(
    store: SessionStore, tmp_path: Path, words: list[str], title: str
) -> None:
    session(store, tmp_path, "abc", *map(user_record, words))
    (info,) = store.sessions(tmp_path)
    assert info.title == title


def test_the_last_written_comes_first(store: SessionStore, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    session(store, here, "old", user_record("x"), age=20)
    session(store, here, "new", user_record("x"), age=10)
    session(store, there, "other", user_record("x"))
    session(store, here, "unused")
    assert [info.id for info in store.sessions(here)] == ["unused", "new", "old"]
    assert {info.id for info in store.sessions()} == {"unused", "new", "old", "other"}
    assert store.latest(here).id == "new", "a session without a message is nothing to go on with"


def test_files_that_cannot_be_read_are_listed_with_their_problem(store: SessionStore, tmp_path: Path) -> None:
    good = session(store, tmp_path, "good", user_record("hi"))
    lines = (
        session(store, tmp_path, "damaged", user_record("hi"), user_record("a"), user_record("b"))
        .read_bytes()
        .splitlines(keepends=True)
    )
    directory = good.parent
    contents = {
        "20260101T000000Z-damaged.jsonl": b"".join([*lines[:2], b"junk\n", *lines[3:]]),
        "20260101T000000Z-empty.jsonl": b"",
        "20260101T000000Z-newer.jsonl": b'{"kind":"session","version":9}\n',
        "20260101T000000Z-torn.jsonl": b"".join(lines)[:-5],
        "notes.jsonl": b"hello\n",
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    (directory / "directory.jsonl").mkdir()
    (directory / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    problems = {info.path.name: info.problem for info in store.sessions(tmp_path)}
    assert "line 3 is damaged" in str(problems["20260101T000000Z-damaged.jsonl"])
    assert "is empty" in str(problems["20260101T000000Z-empty.jsonl"])
    assert "version 9" in str(problems["20260101T000000Z-newer.jsonl"])
    assert "not a session" in str(problems["notes.jsonl"])
    assert "is not a file" in str(problems["directory.jsonl"])
    assert problems["20260101T000000Z-torn.jsonl"] is None, "opening repairs it"
    assert problems[good.name] is None
    assert "dangling.jsonl" not in problems
    assert {info.id for info in store.sessions()} >= {"good", "damaged", "empty", "newer", "notes", "directory"}


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [(b'"x"', b'"z"', "is damaged"), (b'"version":6', b'"version":9', "version 9")],
    ids=["damaged", "newer"],
)
def test_a_session_with_a_problem_is_not_passed_over_in_silence(
    store: SessionStore, tmp_path: Path, before: bytes, after: bytes, problem: str
) -> None:
    session(store, tmp_path, "good", user_record("hi"), age=60)
    path = session(store, tmp_path, "bad", user_record("hi"), user_record("x"), user_record("y"))
    path.write_bytes(path.read_bytes().replace(before, after))
    info = store.latest(tmp_path)
    assert info.id == "bad"
    assert problem in str(info.problem)
    with pytest.raises(JournalError, match=problem):
        Journal.open(info.path)


@pytest.mark.parametrize("content", [b"", b'{"kind":"session","vers', b"a note\n"], ids=["empty", "torn", "foreign"])
def test_what_holds_no_session_yet_is_passed_over(store: SessionStore, tmp_path: Path, content: bytes) -> None:
    good = session(store, tmp_path, "good", user_record("hi"), age=60)
    (good.parent / "20990101T000000Z-none.jsonl").write_bytes(content)
    (good.parent / "20990101T000000Z-directory.jsonl").mkdir()
    assert store.latest(tmp_path).id == "good"


def test_the_latest_may_be_asked_for_by_format(store: SessionStore, tmp_path: Path) -> None:
    session(store, tmp_path, "mine", user_record("hi"), age=60)
    with store.create(tmp_path, message_format="anthropic", session_id="theirs", fsync=False) as journal:
        journal.append(user_record("hi"))
    assert store.latest(tmp_path).id == "theirs"
    assert store.latest(tmp_path, "openai").id == "mine"
    assert store.latest(tmp_path, "anthropic").format == "anthropic"
    with pytest.raises(SessionNotFoundError):
        store.latest(tmp_path, "pydantic_ai")


def test_a_session_of_a_proxy_is_found_by_either_half_of_its_id(store: SessionStore, tmp_path: Path) -> None:
    one, other, short = (session(store, tmp_path, name) for name in ("aa11-bb1", "aa11-cc1", "bb1"))
    assert store.find("aa11-b") == one
    assert store.find("cc") == other
    assert store.find("bb1") == short, "the beginning of an id comes first"
    with pytest.raises(SessionNotFoundError, match="2 sessions"):
        store.find("aa11")


def test_a_session_is_found_by_the_beginning_of_its_id(store: SessionStore, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    paths = {name: session(store, here, name) for name in ("abc1", "abd2", "ab")}
    elsewhere = session(store, there, "xyz")
    assert store.find("abc") == store.find("abc1", here) == paths["abc1"]
    assert store.find("ab") == paths["ab"], "a whole id wins over longer ones"
    assert store.find("x") == elsewhere
    with pytest.raises(SessionNotFoundError, match=r"begins with 'x' in .*here"):
        store.find("x", here)
    several = "3 sessions have an id that begins with 'a'; give more: ab, abc1, abd2"
    with pytest.raises(SessionNotFoundError, match=several):
        store.find("a")
    for nothing in ("", "*", "zzz"):
        with pytest.raises(SessionNotFoundError):
            store.find(nothing)


def test_a_root_that_is_no_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = SessionStore(tmp_path / "file")
    for ask in (store.sessions, lambda: store.find("x"), lambda: store.latest(tmp_path)):
        with pytest.raises(JournalError, match="cannot list the sessions"):
            ask()


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ({"role": "user", "content": "hi\tthere\n\nyou"}, "hi there you"),
        ({"role": "user", "content": "Do this:\n\n# Plan\n## Context\n#5 is #1"}, "Do this: Plan Context #5 is #1"),
        ({"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "look"}]}, "look"),
        ({"role": "user", "content": "  "}, None),
        ({"role": "user", "content": None}, None),
        ({"role": "user"}, None),
        ({"role": "assistant", "content": "hi"}, None),
        ({"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "be"}]}, None),
        ({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}, "hi"),
        ({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": [{"kind": "binary"}, "hi"]}]}, "hi"),
        ({"kind": "response", "parts": [{"part_kind": "text", "content": "hi"}]}, None),
        ({"parts": [7, None]}, None),
        ({"items": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}, "hi"),
        ({"items": [{"type": "message", "role": "user", "content": "hi"}]}, "hi"),
        ({"items": [{"type": "message", "role": "developer", "content": "hi"}, 7]}, None),
        ({"items": [{"type": "function_call_output", "call_id": "c", "output": "hi"}]}, None),
        ({}, None),
    ],
)
def test_a_title_is_the_users_first_words(message: dict[str, Any], title: str | None) -> None:
    assert title_of(message) == title


REMINDER = "<system-reminder>\nBe good, <b>always</b>.\n</system-reminder>"
RULES = "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\nBe good.\n</INSTRUCTIONS>"
PLACE = "<environment_context>\n  <cwd>/repo</cwd>\n</environment_context>"
INIT = "<command-message>init</command-message>\n<command-name>/init</command-name>"


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        ([REMINDER, REMINDER, "fix it"], "fix it"),
        ([f"{REMINDER}\n\n{REMINDER} fix it\n{REMINDER}"], "fix it"),
        ([REMINDER], None),
        ([RULES, PLACE], None),
        ([f"{RULES}\n{PLACE}\nfix it"], "fix it"),
        (["<permissions instructions>ask</permissions instructions>", "fix it"], "fix it"),
        (["# AGENTS.md instructions are missing"], "AGENTS.md instructions are missing"),
        (["<task>\nfix it\n</task>", "<environment_details>\nfiles\n</environment_details>"], "fix it"),
        (["<user_query>fix it"], "fix it"),
        (["<div> is not closed"], "<div> is not closed"),
        (["<b>all</b> of it"], "<b>all</b> of it"),
        (["<open-tag> and the rest"], "<open-tag> and the rest"),
        ([INIT, "Look at the project"], "Look at the project"),
        ([INIT], "/init"),
        (["[Request interrupted by user]", "Base directory for this skill: /s\n\n# Tidy", "fix it"], "fix it"),
        (["This session is being continued from a previous conversation that ran out of context. It was long."], None),
        ([f"{INIT}\n<command-args>the docs</command-args>"], "/init the docs"),
    ],
)
def test_what_agents_put_around_the_users_words_is_left_out(texts: list[str], title: str | None) -> None:
    assert title_of({"role": "user", "content": [{"type": "text", "text": text} for text in texts]}) == title
    assert title_of({"items": [{"role": "user", "content": [{"text": text} for text in texts]}]}) == title


def test_a_title_is_found_behind_a_long_reminder() -> None:
    reminder = f"<system-reminder>{'<' * 1_000_000}</system-reminder>"
    assert title_of({"role": "user", "content": f"{reminder * 3}fix it"}) == "fix it"
    assert title_of({"role": "user", "content": "<a-b>" * 100_000}) is not None


def test_a_long_title_is_cut() -> None:
    title = title_of({"role": "user", "content": "word " * 1_000_000})
    assert title is not None
    assert title.startswith("word word")
    assert title.endswith("…")
    assert len(title) == TITLE_LENGTH

"""`wane show --at` and `wane verify`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Run
from wane.journal import Journal, MessageRecord, Receipts, RequestRecord, SessionStore, read

BODIES = [
    b'{"model":"m","messages":[{"role":"user","content":"fix\\nit"}],"tools":[]}',
    b'{"model":"m","messages":[{"role":"user","content":"fix\\nit"},{"role":"assistant","content":"\\u001b[2J"}],"tools":[]}',
    b'{"model":"m","messages":[]}',
]


@pytest.fixture
def session_path(store: SessionStore, tmp_path: Path) -> Path:
    """A session with three requests; the content of the last one was not kept."""
    receipts = Receipts()
    with Journal.create(store.directory(tmp_path), cwd=tmp_path, message_format="openai", session_id="5a3e") as journal:
        journal.append(MessageRecord({"role": "user", "content": "fix\nit"}))
        for body in BODIES:
            record = receipts.of(body, "https://api.example/v1", keep=body != BODIES[-1])
            receipts.follow([record])
            journal.append(record)
    return journal.path


def check_code(outcome: Outcome, code: int) -> Outcome:
    assert outcome.code == code
    return outcome


def test_a_request_is_shown_whole_and_safe_for_a_terminal(run: Run, session_path: Path) -> None:
    head, *lines = run("show", "5a3e", "--at", "2").out.splitlines()
    assert "request 2 of 3" in head
    assert "to the byte what was sent" in head
    assert lines == [
        "model: m",
        "messages:",
        "  -",
        "    role: user",
        "    content: |",
        "      fix",
        "      it",
        "  -",
        "    role: assistant",
        "    content: \\x1b[2J",
        "tools: []",
    ]
    assert json.loads(run("show", "5a3e", "--at", "2", "--json").out)["body"].encode() == BODIES[1]


def test_two_requests_are_compared(run: Run, session_path: Path) -> None:
    out = run("show", "5a3e", "--at", "2", "--diff", "1").out
    changes = [line for line in out.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changes == ["+  -", "+    role: assistant", "+    content: \\x1b[2J"]
    assert "# no difference" in run("show", "5a3e", "--at", "1", "--diff", "1").out


def test_a_body_that_is_no_object_is_shown(run: Run, store: SessionStore, tmp_path: Path) -> None:
    with Journal.create(store.directory(tmp_path), cwd=tmp_path, message_format="openai", session_id="5a3e") as journal:
        journal.append(Receipts().of(b"5", ""))
    assert run("show", "5a3e", "--at", "1").out.splitlines()[1:] == ["- 5"]


def test_what_is_not_there_is_said_and_not_guessed(run: Run, session_path: Path) -> None:
    shown = run("show", "5a3e", "--at", "3")
    assert "was not kept" in shown.out
    assert len(shown.out.splitlines()) == 1
    assert "the session has 3" in check_code(run("show", "5a3e", "--at", "4"), 2).err
    assert "1 or more" in check_code(run("show", "5a3e", "--at", "0"), 2).err
    assert "need --at" in check_code(run("show", "5a3e", "--diff", "1"), 2).err


def test_a_session_is_verified(run: Run, session_path: Path) -> None:
    out = run("verify", "5a3e").out
    assert "2  rebuilt, to the byte what was sent" in out
    assert "1  content was not kept" in out
    verified = json.loads(run("verify", "5a3e", "--json").out)
    assert verified["states"] == {"identical": 2, "not kept": 1}
    assert verified["chain"] in out
    run("verify", "5a3e", "--chain", verified["chain"])
    assert "is not in it" in check_code(run("verify", "5a3e", "--chain", "0" * 64), 1).out
    assert "64 hexadecimal digits" in check_code(run("verify", "5a3e", "--chain", verified["chain"][:8]), 2).err


def test_damage_and_a_cut_are_named(run: Run, session_path: Path) -> None:
    whole = session_path.read_bytes()
    session_path.write_bytes(whole.replace(b"api.example", b"api.exbmple", 1))
    assert "line 3 is damaged" in check_code(run("verify", "5a3e"), 1).err
    session_path.write_bytes(whole[:-9])
    assert "The last record was cut short" in run("verify", "5a3e").out
    assert json.loads(run("verify", "5a3e", "--json").out)["end"] == "cut short"
    for cut in (9, 30, 200):
        session_path.write_bytes(whole[:-cut] + b"\n")
        out = check_code(run("verify", "5a3e"), 1).out
        assert "The last line is CUT OFF: the end of its record is missing" in out
        assert "DAMAGED" not in out
        assert json.loads(check_code(run("verify", "5a3e", "--json"), 1).out)["end"] == "cut off"
    session_path.write_bytes(whole[:-30] + b'"' + b"#" * 28 + b"\n")
    assert "The last line is DAMAGED" in check_code(run("verify", "5a3e"), 1).out
    verified = json.loads(check_code(run("verify", "5a3e", "--json"), 1).out)
    assert (verified["valid"], verified["end"]) == (False, "damaged")
    session_path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert "Nothing can be verified" in check_code(run("verify", "5a3e"), 1).out


def test_a_changed_request_is_named_though_its_checksums_are_right(
    run: Run, session_path: Path, tmp_path: Path
) -> None:
    message, request, *others = read(session_path).records
    assert isinstance(request, RequestRecord)
    records = [message, replace(request, pieces=('{"model":"other"}',)), *others]
    session_path.unlink()
    with Journal.create(session_path.parent, cwd=tmp_path, message_format="openai", session_id="5a3e") as journal:
        journal.extend(records)
    assert "request 1 (line 3): what is rebuilt does not have the digest" in check_code(run("verify", "5a3e"), 1).out
    assert "request 1 of 3" in check_code(run("show", "5a3e", "--at", "1"), 1).out


def test_a_deleted_session_is_remembered_without_content(run: Run, session_path: Path, store: SessionStore) -> None:
    chain = json.loads(run("verify", "5a3e", "--json").out)["chain"]
    run("sessions", "delete", "5a3e")
    out = run("verify", "5a3e").out
    assert "was deleted at" in out
    assert "3 requests" in out
    assert chain in out
    run("verify", "5a3e", "--chain", chain)
    assert "is not known" in check_code(run("verify", "5a3e", "--chain", "0" * 64), 1).out
    assert b"fix" not in (store.root / "deleted.jsonl").read_bytes()
    assert "no session has an id" in check_code(run("verify", "5b"), 2).err

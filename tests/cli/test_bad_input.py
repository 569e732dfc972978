"""Whatever is wrong with what `wane plan` is given, one line says so, nothing else is printed, and it exits with 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Run

USER = '{"role": "user", "content": "hi"}'
ORPHAN = '{"role": "tool", "tool_call_id": "c9", "content": "?"}'
CALLS = '{"role": "assistant", "tool_calls": %s}'

BODY = '{"function": {"name": "x", "arguments": ""}}'

CONTENTS = {
    "empty": (b"", "it is empty\n"),
    "blank": (b" \n\t\n", "is empty"),
    "not JSON": (b"hello", "is not JSON: 'hello' was not expected at line 1, column 1"),
    "cut short": (b'[{"role": "user",\n "content": "h', "is not JSON: it breaks off at line 2, column 13"),
    "all lines cut short": (f"{USER[:-3]}\n{USER[:-3]}".encode(), "is not JSON: a string holds a line break"),
    "lines of no messages, the last cut short": (
        b'{"level": "info"}\n{"level":',
        "of no known format: an object with the keys 'level'",
    ),
    "a line break in a string": (
        b'[{"role": "us\ner"}]',
        "a string holds a line break or another control character at line 1",
    ),
    "UTF-16": ('[{"role"'.encode("utf-16"), "it is not text in UTF-8"),
    "too deep": (b"[" * 200_000, "it is nested too deeply"),
    "a number of thousands of digits": (
        b'[{"role": "user", "content": "hi"},\n{"n": ' + b"9" * 5_000 + b"}]",
        "it holds a number of too many digits",
    ),
    "a table of numbers": (b"1,2\n3,4\n", "is not JSON: ',2' was not expected at line 1, column 2"),
    "commas": (b",,,", "is not JSON: ',,,' was not expected at line 1, column 1"),
    "a number": (b"7", "it is JSON, but of no known format: a number; --format list names the formats that Wane reads"),
    "an object": (b'{"a": 1}', "of no known format: an object with the keys 'a'; --format list names the formats"),
    "lines of Claude Code without their messages": (
        b'{"parentUuid": null, "uuid": "u1", "sessionId": "s1", "type": "note", "note": "x"}\n',
        "'note'. Its keys come closest to Claude Code or Qwen Code, but no message in it reads as one of that format",
    ),
    "an export of OpenCode without its messages": (
        b'{"info": {"id": "ses_1"}, "messages": {"role": "x"}}',
        "'messages'. Its keys come closest to OpenCode, but no message in it reads as one",
    ),
    "a string": (b'"hello"', "of no known format: a string"),
    "null": (b"null", "of no known format: null"),
    "messages that are no list": (b'{"messages": 3}', "of no known format: an object with the keys 'messages'"),
    "lists": (b"[[], []]", "of no known format: a list that begins with an empty list"),
    "objects of another type": (b'[{"type": "foo"}]', "a list that begins with an object of type 'foo'"),
    "a role that is unknown": (b'[{"role": "robot", "content": "x"}]', "message 0: role 'robot' is unknown"),
    "a message without a role": (f'[{USER}, {{"content": "x"}}]'.encode(), "message 1: role None is unknown"),
    "a message that is none": (
        f"[{USER}, null]".encode(),
        "message 1: a chat message must be an object, found NoneType",
    ),
    "a message of another format": (
        b'[{"kind": "request", "parts": []}, {"role": "user", "content": "x"}]',
        "message 1: expected an object with kind and parts",
    ),
    "a content of another type": (b'[{"role": "user", "content": 3}]', "message 0: content must be"),
    "calls that are no list": (f"[{USER}, {CALLS % BODY}]".encode(), "message 1: tool_calls must be a list"),
    "a call without an id": (f"[{CALLS % f'[{BODY}]'}]".encode(), "message 0: id must be a string"),
    "an orphan result": (f"[{USER}, {ORPHAN}]".encode(), "message 1: item 1 is a result for the call 'c9'"),
}

OPTIONS = {
    "a budget of zero": (["--budget", "0"], "budget is 0; it must be at least 1 token"),
    "a budget that lost its unit": (
        ["--budget", "80"],
        "budget '80' has no unit; did you mean 80k? For that few tokens write 0.08k",
    ),
    "a window that lost its unit": (["--budget", "50%", "--window", "200"], "--window is '200'; it must be"),
    "a budget in digits of another script": (["--budget", "\u0669\u0660k"], "is not understood; write tokens"),
    "a share in digits of another script": (["--low-water", "\u0661"], "it must be a share above 0 and at most 1"),
    "a way to annotate that is unknown": (["--annotate", "never"], "--annotate is 'never'; it must be "),
    "a budget below zero": (["--budget", "-5"], "budget is -5; it must be at least 1 token"),
    "a budget of thousands of digits": (["--budget", "9" * 5_000], "budget '9999"),
    "a budget above all windows": (["--budget", "1" + "0" * 20], "it must be at most 1,000,000,000,000,000 tokens"),
    "a budget in words": (
        ["--budget", "much"],
        "budget 'much' is not understood; write tokens (80000, 80k) or a share (50%) of a known window, or auto",
    ),
    "a budget that is almost auto": (["--budget", "auot"], "of a known window; did you mean auto?"),
    "a budget above the window": (["--budget", "150%"], "budget '150%' is more than the whole window"),
    "a window of zero": (["--budget", "50%", "--window", "0"], "--window is '0'; it must be"),
    "a policy that is unknown": (["--policy", "best"], "--policy is 'best'; it must be "),
    "low water in words": (["--low-water", "x"], "--low-water is 'x'; it must be a share above 0"),
    "low water above one": (["--low-water", "3"], "--low-water is '3'; it must be a share above 0 and at most 1"),
    "low water that is no number": (["--low-water", "nan"], "--low-water is 'nan'"),
    "a share in words": (
        ["--description-share", "x"],
        "--description-share is 'x'; it must be a share from 0 to 1, or none",
    ),
    "a share above one": (
        ["--description-share", "2"],
        "--description-share is '2'; it must be a share from 0 to 1, or none for no limit",
    ),
    "a counter that is unknown": (["--counter", "words"], "counter 'words' is unknown; known: chars, tiktoken"),
    "a format that is unknown": (["--format", "list"], "--format is 'list'; it must be auto, claude-code"),
    "a tool class without a class": (["--tool-class", "read"], "--tool-class is 'read'; write NAME=CLASS"),
    "a tool class without a tool": (["--tool-class", "=bulk"], "--tool-class is '=bulk'; write"),
    "two classes for one tool": (
        ["--tool-class", "read=bulk", "--tool-class", "read=durable"],
        "--tool-class gives 'read' two classes, bulk and durable",
    ),
    "two tool classes in one": (["--tool-class", "read=bulk=bulk"], "'read=bulk=bulk'; write NAME=CLASS"),
    "a tool class that is unknown": (["--tool-class", "read=huge"], "a class is one of: bulk, artifact, durable"),
    "an option that is unknown": (["--fast"], "unknown option --fast. See wane"),
    "an option cut short": (["--bud", "3k"], "unknown option --bud; did you mean --budget?"),
}


def check_refusal(done: Outcome, why: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("wane: ")
    assert why in done.err


@pytest.mark.quick(20)
@pytest.mark.parametrize(("content", "why"), CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("as_json", [False, True], ids=["picture", "json"])
def test_a_file(run: Run, tmp_path: Path, content: bytes, why: str, as_json: bool) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(content)
    check_refusal(run("plan", path, *(["--json"] if as_json else [])), why)


@pytest.mark.parametrize(("options", "why"), OPTIONS.values(), ids=OPTIONS)
def test_options(run: Run, tmp_path: Path, options: list[str], why: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(f"[{USER}]")
    check_refusal(run("plan", path, *options), why)


def test_what_is_no_file(run: Run, tmp_path: Path) -> None:
    check_refusal(run("plan", "-", stdin=b"\xff"), "standard input: it is not text in UTF-8")
    check_refusal(run("plan", tmp_path / "no.json"), f"there is no file or folder {tmp_path}/no.json")
    check_refusal(run("plan", tmp_path), f"the folder {tmp_path} holds no .json, .jsonl, .ndjson, .db file")
    check_refusal(run("plan", "a\0b"), r"there is no file or folder a\x00b, and no session has an id")
    check_refusal(run("plan"), "FILE is missing: messages as JSON or JSONL, ")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_file_that_may_not_be_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.touch(mode=0o000)
    check_refusal(run("plan", path), "Permission denied")


def test_a_damaged_session(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text('{"kind":"session","version":6}\n')
    done = run("plan", path)
    assert (done.code, done.out) == (1, "")
    assert "is not a session of Wane, or its first line is damaged" in done.err

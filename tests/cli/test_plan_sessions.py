"""`wane plan` on sessions that agents recorded: the same work, as each of them writes it down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import sample
from tests.cli.conftest import Run
from tests.lab.readers import test_codex, test_pi
from tests.lab.readers.promises import SESSIONS, needs_sessions
from tests.lab.readers.test_claude_code import Transcript, tool
from tests.lab.readers.writing import write_lines
from wane.core import Policy
from wane.journal import ConfigRecord, MessageRecord, SessionStore

Line = dict[str, Any]

ROUNDS = 6
OUTPUT = "a line of the file\n" * 60
TASK = "Please see to the files."
STAMP = "2026-01-02T03:04:00.000Z"


def chat() -> Iterator[Line]:
    yield {"role": "user", "content": TASK}
    for number in range(ROUNDS):
        call = {"name": "read", "arguments": json.dumps({"path": f"{number}.py"})}
        yield {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}]}
        yield {"role": "tool", "tool_call_id": f"c{number}", "content": OUTPUT}
    yield {"role": "assistant", "content": "Done."}


def claude_code() -> list[Line | str | bytes]:
    script = Transcript(TASK)
    for number in range(ROUNDS):
        script.answer(f"m{number}", tool(f"c{number}", file_path=f"{number}.py"))
        script.result(f"c{number}", OUTPUT)
    script.answer("end", {"type": "text", "text": "Done."})
    return [{"type": "summary", "summary": "Files", "leafUuid": "x"}, *script.lines]


def codex() -> Iterator[Line | str | bytes]:
    yield {"timestamp": STAMP, "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}
    yield test_codex.message("user", TASK)
    for number in range(ROUNDS):
        arguments = json.dumps({"cmd": f"cat {number}.py"})
        called = {"name": "exec_command", "arguments": arguments, "call_id": f"c{number}"}
        yield test_codex.item(type="function_call", **called)
        yield test_codex.output(f"c{number}", OUTPUT)
    yield test_codex.message("assistant", "Done.")


def pi() -> list[Line | str | bytes]:
    messages = [test_pi.user(TASK)]
    for number in range(ROUNDS):
        call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": f"{number}.py"}}
        messages += [test_pi.answer(call), test_pi.result(f"c{number}", OUTPUT)]
    return [test_pi.HEADER, *test_pi.chain(*messages, test_pi.answer(test_pi.text_block("Done.")))]


def trajectory() -> Line:
    steps: list[Line] = [{"step_id": 1, "source": "user", "message": TASK}]
    for number in range(ROUNDS):
        call = {"tool_call_id": f"c{number}", "function_name": "read", "arguments": {"path": f"{number}.py"}}
        result = {"source_call_id": f"c{number}", "content": OUTPUT}
        steps.append({"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}})
    steps.append({"source": "agent", "message": "Done."})
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": steps}


def run_plan(run: Run, *args: str | Path, **options: Any) -> dict[str, Any]:
    done = run("plan", *args, "--budget", "1000", "--json", **options)
    assert (done.code, done.err) == (0, ""), done.err
    data: dict[str, Any] = json.loads(done.out)
    return data


LINES = {"claude-code": claude_code, "codex": codex, "pi": pi}


@pytest.fixture(params=[*LINES, "atif"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A session of each agent: its format, and its file."""
    if request.param == "atif":
        path = tmp_path / "trajectory.json"
        path.write_text(json.dumps(trajectory()), encoding="utf-8")
        return "atif", path
    return request.param, write_lines(tmp_path / "session.jsonl", *LINES[request.param]())


def test_a_session_of_any_agent_is_planned_like_its_messages(
    run: Run, session: tuple[str, Path], tmp_path: Path
) -> None:
    source, path = session
    data = run_plan(run, path)
    (tmp_path / "chat.json").write_text(json.dumps(list(chat())), encoding="utf-8")
    messages = run_plan(run, tmp_path / "chat.json")
    assert data["session"]["source"] == source
    assert messages["session"] is None
    assert data["annotation"] == messages["annotation"] == "inferred"
    assert data["satisfied"]
    assert data["tokens"]["after"] <= 1_000 < data["tokens"]["before"]
    assert [step["level"] for step in data["steps"]] == [step["level"] for step in messages["steps"]]
    assert data["visible"] == messages["visible"]
    assert data["messages"] is None
    assert len(messages["messages"]) < len(list(chat()))


def test_its_format_can_be_named(run: Run, session: tuple[str, Path]) -> None:
    source, path = session
    assert run_plan(run, path, "--format", source) == run_plan(run, path)
    done = run("plan", path, "--format", "openai")
    assert (done.code, done.out) == (2, "")


def test_what_was_read_and_why_is_said(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", *claude_code(), b'{"cut')
    out = " ".join(run("plan", path, "--budget", "1000").out.split())
    assert f"Session mine (claude-code): {ROUNDS + 1} model calls, " in out
    assert "1 turn of the user." in out
    assert "Episodes are inferred from tool calls: the agent marked none." in out
    assert "1 thing could not be read and left out: mine, line 16: not JSON" in out
    assert "over the budget of 1,000. A pass evicts down to low water (300)" in out
    assert " of reads, commands, other calls and notices" in out


def test_who_marks_episodes_can_be_said(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", *codex())
    assert run_plan(run, path, "--annotate", "infer") == run_plan(run, path)
    told = run_plan(run, path, "--annotate", "model")
    assert told["annotation"] == "agent"
    assert not [episode for episode in told["episodes"] if not episode["implicit"]]


def test_a_session_of_wane_is_found_by_its_id(run: Run, tmp_path: Path) -> None:
    path = sample.save(SessionStore(tmp_path / "sessions").directory(tmp_path), cwd=tmp_path)
    (tmp_path / "chat.json").write_text(json.dumps(sample.messages()), encoding="utf-8")
    by_id = run("plan", "5a3", "--json")
    assert by_id.code == 0, by_id.err
    assert by_id.out == run("plan", path, "--json").out == run("plan", tmp_path / "chat.json", "--json").out
    assert json.loads(by_id.out)["annotation"] == "agent"
    refused = run("plan", "77")
    assert (refused.code, refused.out) == (2, "")
    assert "there is no file or folder 77, and no session has an id that begins with '77'" in refused.err


def test_what_every_request_of_a_session_of_wane_carried_counts(run: Run, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    with store.create(tmp_path, message_format="openai", session_id="0b5e", fsync=False) as journal:
        journal.append(ConfigRecord(budget=80_000, policy=Policy(), overhead=2_000))
        for message in chat():
            journal.append(MessageRecord(message=message))
    data = json.loads(run("plan", "0b5e", "--json").out)
    messages = tmp_path / "chat.json"
    messages.write_text(json.dumps(list(chat())), encoding="utf-8")
    bare = json.loads(run("plan", messages, "--json").out)["tokens"]
    assert data["tokens"]["before"] == bare["before"] + 2_000
    assert data["tokens"]["pinned"] == bare["pinned"] + 2_000
    out = " ".join(run("plan", "0b5e", "--budget", "1k", "--min-room", "0").out.split())
    assert "nothing more may be evicted: system prompt and tools 2,000, " in out


@pytest.mark.full
@needs_sessions
def test_what_every_request_of_a_session_carried_is_said(run: Run) -> None:
    path = next((SESSIONS / "claude-code").glob("ohmyposh-*"))
    out = " ".join(run("plan", path).out.split())
    # The harness added 131,000 tokens in the user's place, and the person typed 1,826: docs/notices.md.
    assert ": 307 model calls, 616k tokens (131k of them notices) and 35k of system prompt and tools, 13 turns" in out
    assert "U (user turns) 1,826 1,826 never evicted" in out


def test_a_damaged_session_of_wane_is_read_as_far_as_it_is_whole(run: Run, tmp_path: Path) -> None:
    path = sample.save(tmp_path / "sessions", cwd=tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:20], b"{broken\n", *lines[21:]]))
    done = run("plan", path, "--budget", "4k", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["session"]["source"] == "journal"
    assert data["session"]["problems"][0]["line"] == 21
    assert data["tokens"]["before"] > 3_000


@pytest.mark.parametrize("format_", ["auto", "openai"])
def test_messages_are_read_without_the_lines_that_are_damaged(run: Run, tmp_path: Path, format_: str) -> None:
    lines = [json.dumps(message).encode() for message in chat()]
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"\n".join([*lines, lines[0][:-5]]))
    told = " ".join(run("plan", path, "--format", format_).out.split())
    warning = f"1 thing could not be read and left out: mine, line {len(lines) + 1}: not JSON (it breaks off)"
    assert warning in told
    assert warning in " ".join(run("replay", path).out.split())
    data = run_plan(run, path, "--format", format_)
    assert data["session"]["problems"][0]["line"] == len(lines) + 1
    path.write_bytes(b"\n".join(lines))
    assert data["visible"] == run_plan(run, path)["visible"]


def test_a_folder_or_a_pattern_may_stand_for_one_session(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "runs" / "one.jsonl", *pi())
    for name in (path.parent, f"{tmp_path}/runs/o*.jsonl"):
        assert run_plan(run, name) == run_plan(run, path)
    write_lines(tmp_path / "runs" / "two.jsonl", *pi())
    refused = run("plan", path.parent)
    assert (refused.code, refused.out) == (2, "")
    assert f"{path.parent} holds 2 sessions (one, two); give one of them" in refused.err


def test_a_file_of_several_chats_is_refused(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chats.jsonl", *({"messages": list(chat())} for _ in range(5)))
    refused = run("plan", path)
    assert (refused.code, refused.out) == (2, "")
    assert "holds 5 sessions; give one, such as " in refused.err


@pytest.mark.full
@needs_sessions
@pytest.mark.parametrize(
    "pattern", ["claude-code/ohmyposh-*.jsonl", "codex/agentv-79*.jsonl", "terminal-bench-2/regex-log.json"]
)
def test_real_sessions_are_planned(run: Run, pattern: str) -> None:
    (path,) = SESSIONS.glob(pattern)
    done = run("plan", path, "--budget", "10k", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["annotation"] == "inferred"
    assert len(data["steps"]) > 3
    assert data["tokens"]["after"] < 0.7 * data["tokens"]["before"]

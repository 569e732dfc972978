"""What is found of the sessions of other agents, and what their first lines tell."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.lab.readers import test_kindred
from tests.lab.readers.promises import SESSIONS, needs_sessions
from tests.lab.readers.test_recordings import RECORDINGS, goose_database, load_recording, opencode_database
from tests.lab.readers.writing import Line, write_lines
from wane.lab.discover import LOOKED_AT, FoundSession, find_sessions, look_into, matching, short_ids


def claude(text: str, **data: Any) -> Line:
    return {
        "type": "user",
        "uuid": text,
        "sessionId": "s",
        "cwd": "/w",
        "message": {"role": "user", "content": text},
        **data,
    }


AGENTS_MD = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
CODEX: tuple[Line, ...] = (
    {"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": AGENTS_MD}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "do it in Codex"}},
)
PI: tuple[Line, ...] = (
    {"type": "session", "id": "s", "cwd": "/w"},
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "do it\nin pi"}]}},
)


def fill(home: Path) -> None:
    projects = home / ".claude" / "projects" / "-w"
    write_lines(projects / "a.jsonl", claude("Caveat: x", isMeta=True), "broken", claude("do it in Claude"))
    write_lines(projects / "agent-b.jsonl", claude("look", isSidechain=True))
    write_lines(projects / "a" / "subagents" / "agent-c.jsonl", claude("look", isSidechain=True))
    write_lines(home / ".codex" / "sessions" / "2026" / "01" / "02" / "rollout-x.jsonl", *CODEX)
    write_lines(home / ".codex" / "archived_sessions" / "rollout-y.jsonl", *CODEX)
    write_lines(home / ".codex" / "history.jsonl", {})
    write_lines(home / ".pi" / "agent" / "sessions" / "--w--" / "z.jsonl", *PI)


def test_the_usual_places_are_looked_at(tmp_path: Path) -> None:
    fill(tmp_path)
    found = find_sessions({}, tmp_path)
    assert [(file.agent, file.path.name) for file in found] == [
        ("claude-code", "a.jsonl"),
        ("codex", "rollout-y.jsonl"),
        ("codex", "rollout-x.jsonl"),
        ("pi", "z.jsonl"),
    ]
    heads = [look_into(file) for file in found]
    assert [head.title for head in heads] == ["do it in Claude", "do it in Codex", "do it in Codex", "do it in pi"]
    assert {head.cwd for head in heads} == {"/w"}
    assert all(file.size == file.path.stat().st_size for file in found)


def test_variables_say_where_else(tmp_path: Path) -> None:
    fill(tmp_path)
    variables = {"CLAUDE_CONFIG_DIR": str(tmp_path / "none"), "CODEX_HOME": "~/.codex", "PI_CODING_AGENT_DIR": ""}
    assert [file.agent for file in find_sessions(variables, tmp_path)] == ["codex", "codex", "pi"]
    elsewhere = {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}
    assert [file.agent for file in find_sessions(elsewhere, tmp_path / "nobody")] == ["claude-code"]


def test_sessions_of_kindred_agents_are_found_with_their_titles(tmp_path: Path) -> None:
    chat = tmp_path / ".qwen" / "projects" / "w" / "chats" / "449e0c54-775d-4e09-b7b1-c899993bdb08.jsonl"
    write_lines(chat, test_kindred.qwen(0, "user", [{"text": "do it in Qwen"}]))
    name = "session_2029ffe9-b9cc-41df-a868-98a317c4f3bf"
    wire = tmp_path / ".kimi-code" / "sessions" / "w" / name / "agents" / "main" / "wire.jsonl"
    write_lines(wire, *test_kindred.kimi_lines())
    messages = tmp_path / ".cline" / "data" / "sessions" / "1795_27cpc" / "1795_27cpc.messages.json"
    write_lines(messages, json.dumps(test_kindred.CLINE, indent=2))
    vibe = tmp_path / ".vibe" / "logs" / "session" / "session_20261120_120000_ab12cd34" / "messages.jsonl"
    write_lines(vibe, *test_kindred.vibe_lines())
    found = find_sessions({}, tmp_path)
    assert [(file.agent, file.id) for file in found] == [
        ("qwen-code", "449e0c54-775d-4e09-b7b1-c899993bdb08"),
        ("kimi-code", "2029ffe9-b9cc-41df-a868-98a317c4f3bf"),
        ("cline", "1795_27cpc"),
        ("mistral-vibe", "ab12cd34"),
    ]
    assert [look_into(file).title for file in found] == ["do it in Qwen", "Fix it.", "Fix calc.py.", "Fix calc.py."]


def test_sessions_in_databases_and_of_newer_agents_are_found_and_have_short_ids(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "adder" / "chats"
    chats.mkdir(parents=True)
    shutil.copy(RECORDINGS / "gemini-cli.jsonl", chats / "session-2026-11-22T08-44-e3fa7d24.jsonl")
    state = tmp_path / ".copilot" / "session-state" / "10fb4666-56f0-4352-90fc-715caf95b418"
    write_lines(
        state / "events.jsonl",
        {"type": "session.start", "data": {"context": {"cwd": "/w"}}},
        {"type": "user.message", "data": {"content": "do it in Copilot"}},
    )
    data = tmp_path / ".local" / "share"
    for folder in ("opencode", "goose/sessions"):
        (data / folder).mkdir(parents=True)
    opencode_database(data / "opencode" / "opencode.db", load_recording("opencode.json"))
    goose = goose_database(data / "goose" / "sessions" / "sessions.db", load_recording("goose.json"))

    found = find_sessions({}, tmp_path)
    assert [(file.agent, short) for file, short in zip(found, short_ids(found), strict=True)] == [
        ("copilot-cli", "10fb4666"),
        ("gemini-cli", "e3fa7d24"),
        ("opencode", "dfd953d5"),
        ("goose", "20261122_1"),
    ]
    heads = [look_into(file) for file in found]
    assert [head.title for head in heads] == ["do it in Copilot", "Fix calc.py: add subtracts.", "Fix add", "Fix add"]
    assert [head.cwd for head in heads] == ["/w", None, "/home/dev/adder", "/home/dev/adder"]
    assert [file.path for file in matching("dfd9", found)] == [data / "opencode" / "opencode.db" / found[2].id]
    assert matching("ses_dfd9", found) == [found[2]]
    assert matching("2026", found) == [found[3]]
    assert matching("", found) == []

    goose.write_bytes(goose.read_bytes()[:3_000])
    broken = find_sessions({}, tmp_path)[3]
    assert broken.path == goose
    assert "the database cannot be read" in (look_into(broken).problem or "")


def test_short_ids_tell_sessions_apart(tmp_path: Path) -> None:
    for name in ("019af3c1-0a0b-7c1d-8e2f-001122334455", "019af3c1-0a0c-7c1d-8e2f-001122334455", "5a3e"):
        write_lines(tmp_path / ".pi" / "agent" / "sessions" / "p" / f"2026-01-01_{name}.jsonl", *PI)
    found = find_sessions({}, tmp_path)
    assert sorted(short_ids(found)) == ["019af3c1-0a0b", "019af3c1-0a0c", "2026-01-01_5a3e"]
    for file, short in zip(found, short_ids(found), strict=True):
        assert matching(short, found) == [file]
    assert matching(found[0].id, found) == [found[0]]


def test_the_last_written_comes_first(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "new", "older")):
        path = write_lines(tmp_path / ".pi" / "agent" / "sessions" / "p" / f"{name}.jsonl", *PI)
        moment = 1_700_000_000 + (0, 500, -500)[number]
        os.utime(path, (moment, moment))
    assert [file.path.stem for file in find_sessions({}, tmp_path)] == ["new", "old", "older"]


def test_a_beginning_without_a_title_is_no_error_and_no_more_of_a_file_is_read(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-w"
    command = claude("<command-name>/init</command-name><command-args></command-args>")
    write_lines(folder / "command.jsonl", command)
    write_lines(folder / "empty.jsonl")
    write_lines(folder / "garbage.jsonl", b"\x00\xff" * 100)
    write_lines(folder / "huge.jsonl", {"type": "summary", "summary": "x" * LOOKED_AT}, claude("far away"))
    (folder / "gone.jsonl").symlink_to(folder / "nothing")
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    heads = {file.path.stem: look_into(file) for file in find_sessions({}, tmp_path)}
    assert heads["command"].title == "/init"
    assert [heads[name].title for name in ("empty", "garbage", "huge")] == ["", "", ""]
    assert heads["folder"].problem == "cannot be read: Is a directory"
    assert heads["pipe"].problem == "cannot be read: it is a pipe or a device, not a file"
    assert "gone" not in heads


@needs_sessions
def test_titles_of_the_shared_sessions_are_those_of_the_sessions_read_whole() -> None:
    from wane.lab.readers import read_file

    for agent in ("claude-code", "codex", "pi", "copilot-cli"):
        path = min((SESSIONS / agent).glob("*.jsonl"))
        (file,) = [FoundSession(agent, path, None, 0, path.stem)]  # type: ignore[arg-type]
        (session,) = read_file(path)
        assert (look_into(file).title, look_into(file).cwd) == (session.title, session.cwd)


def test_a_sub_agent_in_a_file_of_its_own_names_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / ".codex" / "sessions" / "2026" / "01" / "02"
    meta = {"type": "session_meta", "payload": {"id": "sub", "parent_thread_id": "main"}}
    write_lines(folder / "rollout-sub.jsonl", meta, *CODEX)
    write_lines(folder / "rollout-main.jsonl", *CODEX)
    heads = {file.path.stem: look_into(file) for file in find_sessions({}, tmp_path)}
    assert {name: head.parent for name, head in heads.items()} == {"rollout-sub": "main", "rollout-main": ""}
    assert heads["rollout-sub"].title == heads["rollout-main"].title != ""


@pytest.mark.parametrize("agent", ["codex", "pi", "copilot"])
def test_a_command_of_the_client_is_no_title_where_there_are_words(tmp_path: Path, agent: str) -> None:
    folder, said = {
        "codex": (
            ".codex/sessions/2026/01/02/rollout-a.jsonl",
            [{"type": "session_meta", "payload": {"id": "a"}}]
            + [
                {"type": "event_msg", "payload": {"type": "user_message", "message": text}} for text in ("/mode", "fix")
            ],
        ),
        "pi": (
            ".pi/agent/sessions/--w--/a.jsonl",
            [{"type": "session", "version": 3, "id": "a", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}]
            + [
                {"type": "message", "id": text, "message": {"role": "user", "content": text}}
                for text in ("/mode plan", "fix")
            ],
        ),
        "copilot": (
            ".copilot/session-state/a/events.jsonl",
            [{"type": "session.start", "data": {"context": {"cwd": "/w"}}}]
            + [{"type": "user.message", "data": {"content": text}} for text in ("/mode", "fix")],
        ),
    }[agent]
    (tmp_path / folder).parent.mkdir(parents=True)
    write_lines(tmp_path / folder, *said)
    (file,) = find_sessions({}, tmp_path)
    assert look_into(file).title == "fix"


def test_sessions_that_codex_has_compressed_are_found_once(tmp_path: Path) -> None:
    folder = tmp_path / ".codex" / "sessions" / "2026" / "01" / "02"
    uuid = "019f03e0-321f-7eb2-83cc-b54ecd71be23"
    for name in (f"rollout-a-{uuid}.jsonl", "rollout-b.jsonl"):
        plain = write_lines(folder / name, *CODEX)
        plain.with_name(f"{name}.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    (folder / f"rollout-a-{uuid}.jsonl").unlink()
    files = {file.path.name: file for file in find_sessions({}, tmp_path)}
    assert {name: file.id for name, file in files.items()} == {
        f"rollout-a-{uuid}.jsonl.zst": uuid,
        "rollout-b.jsonl": "rollout-b",
    }
    assert [look_into(file).title for file in files.values()] == ["do it in Codex"] * 2
    (folder / "rollout-c.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    (damaged,) = (file for file in find_sessions({}, tmp_path) if file.path.name not in files)
    assert (look_into(damaged).problem or "").startswith("cannot be read: ")

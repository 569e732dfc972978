"""Sessions that other agents recorded: each did the same small task with a scripted model.

The recordings are what Gemini CLI 0.61, OpenCode 1.18, Goose 1.52 and aider 0.86 wrote, with directories renamed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers.promises import check, kinds, texts
from tests.lab.readers.writing import write_lines
from wane import Kind
from wane.core.errors import FormatError
from wane.lab.readers import databases, read_session
from wane.lab.readers.gathering import gather
from wane.lab.recorded_session import CallUsage, Problem, RecordedSession

RECORDINGS = Path(__file__).parent / "recordings"
TASK = ["reasoning", "text", "call", "result", "call", "call", "result", "result", "text"]
"""It looks at a file, edits it and looks again in one answer, and says so."""


def load_recording(name: str) -> Any:
    return json.loads((RECORDINGS / name).read_text(encoding="utf-8"))


def opencode_database(path: Path, *exports: Any) -> Path:
    """Write exports into the tables of OpenCode that its reader uses."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE session (id text, parent_id text, directory text, title text, revert text,"
            " time_created int, time_updated int)"
        )
        database.execute("CREATE TABLE message (id text, session_id text, time_created int, data text)")
        database.execute("CREATE TABLE part (id text, message_id text, session_id text, data text)")
        for number, export in enumerate(exports):
            info = export["info"]
            values = (info["id"], info.get("parentID"), info["directory"], info["title"])
            values = (*values, json.dumps(info.get("revert")))
            times = (info["time"]["created"] + number, info["time"]["updated"] + number)
            database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, *times))
            for message in export["messages"]:
                about = message["info"]
                row = (about["id"], info["id"], about["time"]["created"], json.dumps(about))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for part in message["parts"]:
                    row = (part["id"], about["id"], info["id"], json.dumps(part))
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    return path


def goose_database(path: Path, *exports: Any) -> Path:
    """Write exports into the tables of Goose that its reader uses."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE sessions (id text, name text, working_dir text, created_at text, updated_at text,"
            " model_config_json text, parent_session_id text)"
        )
        database.execute(
            "CREATE TABLE messages (id integer PRIMARY KEY, session_id text, role text, content_json text,"
            " created_timestamp int, metadata_json text)"
        )
        for export in exports:
            values = (export["id"], export["name"], export["working_dir"], "2026-11-22 08:43:22", "2026-11-22 08:47:31")
            about = (json.dumps(export["model_config"]), export["parent_session_id"])
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, *about))
            for it in export["conversation"]:
                row = (export["id"], it["role"], json.dumps(it["content"]), it["created"], json.dumps(it["metadata"]))
                database.execute("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?)", row)
    return path


def test_gemini_cli() -> None:
    (session,) = map(check, read_session(RECORDINGS / "gemini-cli.jsonl"))
    assert (session.source, session.title) == ("gemini-cli", "Fix calc.py: add subtracts.")
    assert kinds(session) == ["notice", "user", *TASK]
    assert [call.usage for call in session.calls] == [
        CallUsage(12_311, 0, 0, 27),  # the output, with seven tokens of thoughts
        CallUsage(6_205, 6_204, 0, 27),
        CallUsage(6_303, 6_302, 0, 27),
    ]
    assert {call.model for call in session.calls} == {"gemini-2.5-pro"}
    assert session.reasoning_cleared == [5]  # no thought is sent back
    assert session.problems == []


def test_gemini_cli_wrote_one_object_before(tmp_path: Path) -> None:
    new = [json.loads(line) for line in (RECORDINGS / "gemini-cli.jsonl").read_text(encoding="utf-8").splitlines()]
    messages = {record["id"]: record for record in new if "id" in record}
    # Results stood only with their calls.
    kept = [it for it in messages.values() if not (it["type"] == "user" and "functionResponse" in it["content"][0])]
    path = tmp_path / "session.json"
    path.write_text(json.dumps({**new[0], "messages": [*new[1]["$set"]["messages"], *kept]}, indent=2))
    (old,) = map(check, read_session(path))
    (today,) = read_session(RECORDINGS / "gemini-cli.jsonl")
    assert texts(old) == texts(today)
    assert old.calls == today.calls


def test_gemini_cli_rewinds_and_compresses(tmp_path: Path) -> None:
    lines = (RECORDINGS / "gemini-cli.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    last = records[-2]
    again = {"id": "u2", "timestamp": "2026-11-22T09:00:00Z", "type": "user", "content": [{"text": "And multiply?"}]}
    done = {"id": "a2", "timestamp": "2026-11-22T09:00:01Z", "type": "gemini", "content": "Done."}
    path = write_lines(tmp_path / "rewound.jsonl", *lines, {"$rewindTo": last["id"]}, again, done)
    (session,) = map(check, read_session(path))
    assert texts(session)[-2:] == ["And multiply?", "Done."]
    assert "It adds now." not in texts(session)
    assert [problem.what for problem in session.problems] == [
        "1 message on an abandoned branch (a turn that was edited or tried again)"
    ]
    assert len(session.abandoned) == 1

    summary = {"id": "s", "timestamp": "2026-11-22T08:59:00Z", "type": "user", "content": [{"text": "So far: add."}]}
    checkpoint = {"$set": {"messages": [summary, last]}}
    (session,) = map(check, read_session(write_lines(tmp_path / "compressed.jsonl", *lines, checkpoint, again, done)))
    (compaction,) = session.compactions
    assert (compaction.position, compaction.first_kept, compaction.summary) == (11, 10, "So far: add.")
    assert texts(session)[9:] == ["def add(a, b):\n    return a + b\n", "It adds now.", "And multiply?", "Done."]


def check_compacted(session: RecordedSession, before: int, first: list[str], coming: list[str]) -> None:
    assert kinds(session) == [*first, *TASK, *coming, *TASK]
    (compaction,) = session.compactions
    assert (compaction.position, compaction.summary, compaction.tokens_before) == (len(first) + 9, "Fix add", before)
    assert compaction.first_kept == compaction.position
    assert [call.stop - call.first for call in session.calls] == [3, 2, 1] * 2
    assert {call.model for call in session.calls} == {"claude-sonnet-4-5"}
    assert session.cwd == "/home/dev/adder"
    assert session.problems == []


def test_opencode() -> None:
    (session,) = map(check, read_session(RECORDINGS / "opencode.json"))
    check_compacted(session, 7_737, ["user"], ["user"])
    assert session.source == "opencode"
    assert session.calls[0].usage == CallUsage(7_606, 0, 0, 19)
    # The signed thinking stays with what follows it (R12).
    assert session.parts[1].needs == (1,)
    assert "must match exactly" in session.parts[-3].text  # the edit that failed


def test_goose() -> None:
    (session,) = map(check, read_session(RECORDINGS / "goose.json"))
    check_compacted(session, 4_440, ["user", "notice"], ["user", "notice"])
    assert session.source == "goose"
    assert session.calls[1].usage == CallUsage(4_390, 0, 0, 26)  # of two calls in one answer, which Goose writes apart


def test_the_words_of_goose_may_be_a_string(tmp_path: Path) -> None:
    told = load_recording("goose.json")
    for message in told["conversation"]:
        if [block["type"] for block in message["content"]] == ["text"]:
            message["content"] = message["content"][0]["text"]
    assert any(isinstance(message["content"], str) for message in told["conversation"])
    path = tmp_path / "goose.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    ((session,), (recorded,)) = read_session(path), read_session(RECORDINGS / "goose.json")
    assert session.parts == recorded.parts


def test_goose_counts_cached_tokens_in_its_input(tmp_path: Path) -> None:
    export = load_recording("goose.json")
    usage = {"inputTokens": 5_000, "outputTokens": 20, "cacheReadTokens": 4_000, "cacheWriteTokens": 300}
    export["conversation"][2]["metadata"]["usage"] = usage  # as Goose wrote it for 700 other tokens
    (tmp_path / "s.json").write_text(json.dumps(export))
    (session,) = read_session(tmp_path / "s.json")
    assert session.calls[0].usage == CallUsage(700, 4_000, 300, 20)


def test_aider() -> None:
    first, second = map(check, read_session(RECORDINGS / "aider.chat.history.md"))
    assert (first.source, first.title) == ("aider", "Fix calc.py: add subtracts.")
    assert kinds(first) == ["user", "text"]
    assert first.parts[1].text.endswith("```\n\n# Not a heading of aider")
    assert first.calls[0].usage == CallUsage(2_600, 0, 0, 39)
    assert first.calls[0].model == "claude-sonnet-4-5"
    # An edit that fails is told to the model, in lines of which only the first looks printed.
    assert second.parts[0].text == "Thanks.\nNow say what you did."
    assert kinds(second) == ["user", *["text", "notice"] * 4]
    assert second.parts[2].text.startswith("# 1 SEARCH/REPLACE block failed to match!")
    assert second.parts[2].text.endswith("comments, indentation, docstrings, etc")
    assert [call.usage.total_input for call in second.calls if call.usage] == [2_600, 2_800, 2_900, 3_100]


def test_commands_of_aider_are_no_turns_unless_they_ask_the_model(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text(
        "\n# aider chat started at 2026-01-01 10:00:00\n\n> Main model: openai/gpt-x with architect edit format  \n\n"
        "#### /add calc.py  \n> Added calc.py to the chat  \n\n#### /ask What is it?  \n\nA calculator.\n\n"
        "> Tokens: 12k sent, 2.0k cache write, 8.5k cache hit, 3 received.  \n"
    )
    (session,) = map(check, read_session(path))
    assert texts(session) == ["What is it?", "A calculator."]
    assert session.calls[0].usage == CallUsage(1_500, 8_500, 2_000, 3)
    assert session.calls[0].model == "gpt-x"


def aider_history(tmp_path: Path, *passages: str) -> Path:
    path = tmp_path / "history.md"
    start = "# aider chat started at 2026-01-01 10:00:00"
    path.write_text("\n\n".join(["", start, "> Main model: openai/gpt-x with diff edit format  ", *passages]))
    return path


def test_what_aider_says_that_a_call_cost_counts(tmp_path: Path) -> None:
    tokens = "> Tokens: 1.5k sent, 9 received."
    path = aider_history(
        tmp_path,
        *("#### One  ", "Yes.", f"{tokens} Cost: $1,234.56 message, $1,234.56 session.  "),
        *("#### Two  ", "Yes.", f"{tokens} Cost: $0.0042 message, $1,234.56 session.  "),
        *("#### Three  ", "Yes.", f"{tokens}  "),
    )
    (session,) = map(check, read_session(path))
    assert [call.cost for call in session.calls] == [1_234.56, 0.0042, None]


@pytest.mark.parametrize("command", ["/clear", "/reset"])
def test_a_history_that_aider_has_cleared_is_another_session(tmp_path: Path, command: str) -> None:
    path = aider_history(
        tmp_path,
        *("#### One  ", "First.", f"#### {command}  \n> All chat history cleared.  "),
        *("#### /clearly not a command  ", "#### Two  ", "Second."),
    )
    first, second = map(check, read_session(path))
    assert [texts(first), texts(second)] == [["One", "First."], ["Two", "Second."]]
    assert (first.name, second.name) == ("aider 2026-01-01 10:00:00", "aider 2026-01-01 10:00:00, 2")
    assert second.calls[0].model == "gpt-x"


def test_a_line_that_aider_printed_may_end_with_spaces_within(tmp_path: Path) -> None:
    path = aider_history(
        tmp_path,
        *("#### Go  ", "Run this.", "> export A=1\nexport B=2          \n./run.sh  \n>  \n> Run shell commands? n  "),
        *("#### On  ", "Done."),
    )
    (session,) = map(check, read_session(path))
    assert texts(session) == ["Go", "Run this.", "On", "Done."]


@pytest.mark.parametrize(
    ("name", "write", "child"),
    [("opencode.json", opencode_database, "ses_child"), ("goose.json", goose_database, "20261122_2")],
)
def test_a_database_holds_what_its_exports_hold(
    tmp_path: Path, name: str, write: Callable[..., Path], child: str
) -> None:
    export, sub = load_recording(name), load_recording(name)
    if "info" in sub:
        sub["info"] |= {"id": child, "parentID": export["info"]["id"]}
        for message in sub["messages"]:
            message["info"]["id"] += "b"
    else:
        sub |= {"id": child, "parent_session_id": export["id"]}
    path = write(tmp_path / "kept.db", export, sub)
    (session,) = map(check, read_session(path))
    (exported,) = read_session(RECORDINGS / name)
    assert replace(session, sidechains=[]) == exported
    assert [side.name for side in session.sidechains] == [child]  # a sub-agent's session
    (listed,) = databases.sessions(path)
    assert (listed.id, listed.title, listed.cwd) == (session.name, "Fix add", "/home/dev/adder")
    assert read_session(path / session.name) == [session]
    assert read_session(tmp_path) == [session]  # databases in folders are read too
    with pytest.raises(FormatError, match="it holds no session nothing"):
        read_session(path / "nothing")
    with pytest.raises(FormatError, match=r"no session of the format 'pi', but of (opencode|goose)"):
        read_session(path, "pi")


def second_version(message: Any) -> tuple[str, str, Any]:
    """A message of an export as the second version of OpenCode keeps it: its id, its type and the rest."""
    info, parts = message["info"], message["parts"]
    time = {"created": info["time"]["created"]}
    if info["role"] == "user":
        words = "".join(part["text"] for part in parts if part["type"] == "text")
        return info["id"], "user", {"time": time, "text": words}
    if info.get("summary"):
        (words,) = (part["text"] for part in parts if part["type"] == "text")
        return info["id"], "compaction", {"time": time, "status": "completed", "summary": words, "recent": ""}
    content: list[Any] = []
    for part in parts:
        if part["type"] == "tool":
            state = dict(part["state"])
            if state["status"] == "completed":
                state["content"] = [{"type": "text", "text": state.pop("output")}]
            else:
                state["error"] = {"type": "unknown", "message": state["error"]}
            content.append({"type": "tool", "id": part["callID"], "name": part["tool"], "state": state, "time": time})
        elif part["type"] in ("text", "reasoning"):
            content.append({"type": part["type"], "text": part["text"], "native": part.get("metadata")})
    about = {"model": {"id": info["modelID"], "providerID": info["providerID"]}, "tokens": info["tokens"]}
    return info["id"], "assistant", {"time": info["time"], "agent": "build", "content": content, **about}


def test_the_second_version_of_opencode_keeps_the_same_session_in_another_table(tmp_path: Path) -> None:
    export = load_recording("opencode.json")
    path = opencode_database(tmp_path / "opencode.db", {**export, "messages": []})
    spoken = [each for each in export["messages"] if each["parts"][0]["type"] != "compaction"]
    rows = [second_version(message) for message in spoken]
    rows.insert(0, ("msg_0", "model-switched", {"model": {"id": "x"}}))
    later = [
        ("msg_8", "shell", {"command": "ls", "status": "exited", "output": "calc.py"}),
        ("msg_9", "compaction", {"status": "completed", "summary": "It is fixed.", "recent": "Fix it."}),
        ("msg_x", "hologram", {}),
    ]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE session_message (id text, session_id text, type text, seq int, data text)")
        for number, (name, kind, data) in enumerate([*rows, *later]):
            row = (name, export["info"]["id"], kind, number, json.dumps(data))
            database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
    (session,) = map(check, read_session(path))
    (first,) = read_session(RECORDINGS / "opencode.json")
    assert session.parts[:-1] == first.parts
    assert [(call.usage, call.model, call.at) for call in session.calls] == [
        (call.usage, call.model, call.at) for call in first.calls
    ]
    assert (session.parts[-1].kind, session.parts[-1].text) == (Kind.NOTICE, "ls\ncalc.py")
    summaries = [compaction.summary for compaction in (*first.compactions, *session.compactions[-1:])]
    assert [compaction.summary for compaction in session.compactions] == summaries
    assert summaries[-1] == "It is fixed.\n\nFix it."
    assert [problem.what for problem in session.problems] == ["a message of the unknown role 'hologram'"]
    (listed,) = databases.sessions(path)
    assert listed.size > 1_000


def test_other_databases_are_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as database, database:
        database.execute("CREATE TABLE cookies (id text)")
    with pytest.raises(FormatError, match="of no known agent"):
        read_session(tmp_path / "other.db")
    path = opencode_database(tmp_path / "cut.db", load_recording("opencode.json"))
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(FormatError, match="cannot be read"):
        read_session(path)


def test_turns_that_were_taken_back_in_opencode_are_left_out(tmp_path: Path) -> None:
    export = load_recording("opencode.json")
    export["info"]["revert"] = {"messageID": export["messages"][-4]["info"]["id"]}
    (tmp_path / "s.json").write_text(json.dumps(export))
    (session,) = map(check, read_session(tmp_path / "s.json"))
    assert kinds(session) == ["user", *TASK]
    left = "4 messages on an abandoned branch (a turn that was edited or tried again)"
    assert session.problems == [Problem(None, left)]
    assert len(session.abandoned) == 3, "one is the user's"


def test_calls_that_a_fork_of_opencode_copied_count_once(tmp_path: Path) -> None:
    export = load_recording("opencode.json")
    fork = load_recording("opencode.json")
    fork["info"]["id"] += "-fork"
    for message in fork["messages"]:
        message["info"]["id"] += "-fork"
        for part in message["parts"]:
            part["id"] += "-fork"
    path = opencode_database(tmp_path / "opencode.db", export, fork)
    own = [len(recording.session.own_calls) for recording in gather([path]).recordings]
    assert sorted(own) == [0, len(read_session(RECORDINGS / "opencode.json")[0].calls)]


def test_a_call_that_opencode_did_not_finish_gets_what_opencode_sends(tmp_path: Path) -> None:
    export = load_recording("opencode.json")
    parts = export["messages"][1]["parts"]
    parts[3]["state"] = {"status": "running", "input": {}, "time": {"start": 1}}
    (tmp_path / "s.json").write_text(json.dumps(export))
    (session,) = map(check, read_session(tmp_path / "s.json"))
    assert session.parts[4].text == "[Tool execution was interrupted]"


def test_a_history_of_aider_without_the_time_of_its_start_holds_no_session(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text("# aider chat started at noon\n\n#### One  \n\nYes.\n")
    with pytest.raises(FormatError, match="it holds no session"):
        read_session(path)


@given(st.lists(st.sampled_from((RECORDINGS / "aider.chat.history.md").read_text(encoding="utf-8").split("\n"))))
def test_lines_of_aider_in_any_order_are_sessions(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "history.md"
        file.write_text("\n".join(["# aider chat started at 2026-01-01 10:00:00", *lines]), encoding="utf-8")
        for session in read_session(file):
            check(session)
            assert all(part.kind in (Kind.USER, Kind.NOTICE, Kind.TEXT) for part in session.parts)


def test_gemini_cli_takes_back_a_turn_that_failed_and_copies_results_when_it_resumes(tmp_path: Path) -> None:
    lines = (RECORDINGS / "gemini-cli.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    messages = {record["id"]: record for record in records if "id" in record}
    history: list[Any] = list(records[1]["$set"]["messages"])
    for name, message in messages.items():
        history.append({"id": name, "type": message["type"], "content": [{"text": "in another form"}]})
        if message.get("toolCalls"):
            results = [result for call in message["toolCalls"] for result in call["result"]]
            history.append({"id": f"{name}-results", "type": "user", "content": results})
    again = {"id": "u9", "timestamp": "2026-11-22T09:00:00Z", "type": "user", "content": [{"text": "And multiply?"}]}
    resumed = [records[0], {"$set": {"messages": history[:1]}}, {"$set": {"messages": history}}]
    failed = [*resumed, again, {"$set": {"messages": history}}]
    path = write_lines(tmp_path / "resumed.jsonl", *lines, *failed, *failed)
    (session,) = map(check, read_session(path))
    (first,) = read_session(RECORDINGS / "gemini-cli.jsonl")
    assert (session.parts, session.calls, session.compactions) == (first.parts, first.calls, [])
    taken_back = "1 message on an abandoned branch (a turn that was edited or tried again)"
    assert [problem.what for problem in session.problems] == [taken_back] * 2

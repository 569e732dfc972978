"""Sessions of pi: its tree, its compactions, answers that broke off, what it tells the model besides messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import SESSIONS, check, kinds, needs_sessions, problems, texts, title_of
from tests.lab.readers.writing import Line, write_lines
from wane import Kind
from wane.lab.readers import pi, read_session
from wane.lab.readers.gathering import gather
from wane.lab.recorded_session import CallUsage, RecordedSession

HEADER: Line = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
USAGE = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 20}


def entry(name: str, parent: str | None, /, **data: Any) -> Line:
    return {"type": "message", "id": name, "parentId": parent, "timestamp": "2026-01-01T00:00:01Z", **data}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def answer(*blocks: dict[str, Any], **data: Any) -> dict[str, Any]:
    shared = {"api": "anthropic-messages", "model": "claude-x", "usage": USAGE, "stopReason": "stop"}
    return {"role": "assistant", "content": list(blocks), **shared, **data}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": arguments}


def result(call_id: str, text: str) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "bash",
        "content": [text_block(text)],
        "details": {"x": 1},
    }


def chain(*messages: dict[str, Any]) -> list[Line]:
    names = [None, *(f"e{number}" for number in range(len(messages)))]
    return [entry(f"e{number}", names[number], message=message) for number, message in enumerate(messages)]


def read(folder: Path, *lines: Line) -> RecordedSession:
    path = write_lines(folder / "s.jsonl", *lines)
    assert title_of(path) == "pi"
    (session,) = pi.read(path)
    return check(session)


def test_messages_become_parts_and_each_answer_a_call(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        HEADER,
        *chain(user("fix it"), answer(text_block("on it"), tool("c", command="ls")), result("c", "a b")),
    )
    assert kinds(session) == ["user", "text", "call", "result"]
    assert texts(session)[2:] == ['bash{"command":"ls"}', "a b"]
    (call,) = session.calls
    assert (call.first, call.stop, call.usage, call.model) == (1, 3, CallUsage(10, 100, 20, 5), "claude-x")
    assert call.at == 1_767_225_601.0
    assert (session.title, session.cwd, session.source, session.problems) == ("fix it", "/w", "pi", [])


def test_the_path_to_the_last_entry_is_read_and_the_other_branches_are_named(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        HEADER,
        entry("a", None, message=user("one")),
        entry("b", "a", message=answer(text_block("wrong way"))),
        entry("c", "b", message=user("no")),
        entry("d", "a", message=answer(text_block("right way"))),
        entry("e", "d", type="branch_summary", fromId="c", summary="tried the wrong way"),
        entry("f", "e", type="label", targetId="d", label="here"),
    )
    assert texts(session)[:2] == ["one", "right way"]
    assert "tried the wrong way" in texts(session)[2]
    assert problems(session) == ["3: lines 3 to 4: on an abandoned branch (a turn that was edited or tried again)"]
    assert (len(session.abandoned), session.unread) == (1, 0)


def test_a_compaction_on_an_abandoned_branch_was_paid_all_the_same(tmp_path: Path) -> None:
    wrote = {"input": 9, "output": 4, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.25}}
    session = read(
        tmp_path,
        HEADER,
        entry("a", None, message=user("one")),
        entry("k", "a", type="compaction", summary="all so far", tokensBefore=5, firstKeptEntryId="a", usage=wrote),
        entry("b", "a", message=answer(text_block("another way"))),
    )
    assert problems(session) == ["3: on an abandoned branch (a turn that was edited or tried again)"]
    (paid,) = session.abandoned
    assert (paid.usage, paid.cost) == (CallUsage(9, 0, 0, 4), 0.25)


def test_a_parent_that_was_lost_does_not_take_all_before_it_along(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        HEADER,
        entry("a", None, message=user("one")),
        '{"type":"message","id":"b","parentId":"a","message":{"ro',
        entry("c", "b", message=answer(text_block("two"))),
    )
    assert texts(session) == ["one", "two"]
    assert problems(session)[0].startswith("3: not JSON")


def test_a_compaction_says_what_it_kept_by_id_or_by_line(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "summary": "all done so far", "tokensBefore": 9000}
    old = {**HEADER, "version": None}
    messages = [user("one"), answer(text_block("two")), user("three"), answer(text_block("four"))]
    bare: list[Line] = [{"type": "message", "timestamp": "2026-01-01T00:00:01Z", "message": m} for m in messages]
    by_line = read(tmp_path / "1", old, *bare, {**compaction, "firstKeptEntryIndex": 3})  # the header is 0
    by_id = read(tmp_path / "3", HEADER, *chain(*messages), entry("e4", "e3", **compaction, firstKeptEntryId="e2"))
    for session in (by_line, by_id):
        (found,) = session.compactions
        assert (found.position, found.first_kept, found.tokens_before) == (4, 2, 9000)
        assert "all done so far" in found.summary
        assert "all done so far" not in " ".join(texts(session))


def test_an_answer_that_broke_off_keeps_its_words_and_not_its_calls(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        HEADER,
        *chain(
            user("go"),
            answer(text_block("let me"), tool("c"), stopReason="aborted", usage={**USAGE, "output": 1}),
            user("stop"),
            answer(stopReason="error", usage={"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}),
            answer(text_block("yes")),
        ),
    )
    assert texts(session) == ["go", "let me", "stop", "yes"]
    assert [call.usage for call in session.calls] == [CallUsage(10, 100, 20, None), CallUsage(10, 100, 20, 5)]
    assert problems(session) == ["3: 1 call of an answer that broke off"]


def test_signed_thinking_of_an_answer_that_broke_off_needs_nothing_of_what_follows(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s" * 900}
    lines = chain(
        user("go"), answer(thinking, tool("c"), stopReason="aborted"), user("go on"), answer(text_block("done"))
    )
    session = read(tmp_path, HEADER, *lines)
    assert kinds(session) == ["user", "reasoning", "user", "text"]
    assert [part.needs for part in session.parts] == [()] * 4


def test_a_call_without_a_result_gets_the_one_that_pi_sends(tmp_path: Path) -> None:
    session = read(tmp_path, HEADER, *chain(user("go"), answer(tool("c"), tool("d")), result("d", "x"), user("on")))
    assert kinds(session) == ["user", "call", "call", "result", "result", "user"]
    assert texts(session)[3:5] == ["x", "No result provided"]


def test_what_the_user_ran_and_what_extensions_say_are_notices(tmp_path: Path) -> None:
    run = {
        "role": "bashExecution",
        "command": "ls",
        "output": "a\n",
        "exitCode": 1,
        "truncated": False,
        "cancelled": False,
    }
    session = read(
        tmp_path,
        HEADER,
        *chain({**run}, {**run, "excludeFromContext": True}, {"role": "hookMessage", "content": "from a hook"}),
        entry("x", "e2", type="custom_message", customType="t", content="from an extension", display=True),
        entry("y", "x", type="custom", customType="t", data={"big": "state"}),
        entry("z", "y", type="session_info", name="mine"),
        entry("q", "z", type="strange"),
        entry("r", "z", message={"role": "alien"}),
    )
    assert texts(session) == [
        "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 1",
        "from a hook",
        "from an extension",
    ]
    assert kinds(session) == ["notice"] * 3
    assert problems(session) == [
        "8: a line of the unknown type 'strange'",
        "9: a message of the unknown role 'alien'",
    ]


def test_reasoning_that_is_signed_is_coupled_as_its_provider_wants_it(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    sealed = {"type": "thinking", "thinking": "", "thinkingSignature": "x" * 1835}
    anthropic = read(tmp_path / "a", HEADER, *chain(answer(thinking, text_block("so"), tool("c"))))
    assert [part.needs for part in anthropic.parts] == [(1,), (), (-2,)]
    openai = read(tmp_path / "o", HEADER, *chain(answer(sealed, tool("c"), api="openai-responses")))
    assert [part.needs for part in openai.parts] == [(1,), (-1,)]
    assert openai.parts[0].extra_tokens == 300
    plain = {"type": "thinking", "thinking": "hm"}
    other = read(tmp_path / "p", HEADER, *chain(answer({"type": "thinking", "thinking": ""}, plain, text_block("so"))))
    assert [(part.kind, part.needs) for part in other.parts] == [(Kind.REASONING, ()), (Kind.TEXT, (-1,))]


def test_a_header_alone_is_an_empty_session(tmp_path: Path) -> None:
    session = read(tmp_path, HEADER)
    assert (session.parts, session.calls, session.cwd) == ([], [], "/w")


@needs_sessions
def test_the_shared_sessions() -> None:
    (long,) = read_session(SESSIONS / "pi" / "before-compaction.jsonl")
    check(long)
    assert (len(long.calls), len(long.parts), len(long.user_turns)) == (471, 1258, 55)
    assert [(c.position, c.first_kept, c.tokens_before) for c in long.compactions] == [
        (448, 360, 175004),
        (796, 699, 185014),
    ]
    assert sum(call.usage.total_input for call in long.calls if call.usage) == 56_382_684
    (large,) = read_session(SESSIONS / "pi" / "large-session.jsonl")
    check(large)
    assert (len(large.calls), len(large.parts), len(large.user_turns), large.compactions) == (439, 1079, 88, [])
    for session in (long, large):
        assert all(call.usage and call.at for call in session.calls)
        assert all("broke off" in problem.what for problem in session.problems)


@pytest.mark.parametrize(
    "joined",
    [
        lambda records: "\n".join(json.dumps(record, indent=2) for record in records),
        lambda records: ",\n".join(map(json.dumps, records)),
        lambda records: " ".join(map(json.dumps, records)),
        json.dumps,
    ],
    ids=["jq", "commas", "one line", "jq -s"],
)
def test_records_are_read_however_they_follow_each_other(
    joined: Callable[[Sequence[Line]], str], tmp_path: Path
) -> None:
    turns = [message for number in range(40) for message in (user(f"turn {number}"), answer(text_block("yes")))]
    records = [HEADER, *chain(*turns)]
    (tmp_path / "copy.jsonl").write_text(joined(records))
    (as_lines,) = read_session(write_lines(tmp_path / "lines.jsonl", *records))
    (again,) = read_session(tmp_path / "copy.jsonl")
    assert (again.source, len(again.calls), again.problems) == ("pi", 40, [])
    assert again.calls == as_lines.calls


def test_calls_that_a_fork_copied_count_once(tmp_path: Path) -> None:
    history = chain(user("Fix it."), answer(text_block("Done.")))
    compaction = {**entry("c", "e1"), "type": "compaction", "summary": "So.", "firstKeptEntryId": "e1", "usage": USAGE}
    origin = [HEADER, *history, compaction]
    again = [entry("f0", "c", message=user("Again.")), entry("f1", "f0", message=answer(text_block("So be it.")))]
    fork = [{**HEADER, "id": "t", "parentSession": "a.jsonl"}, *origin[1:], *again]
    paths = [write_lines(tmp_path / name, *lines) for name, lines in (("a.jsonl", origin), ("b.jsonl", fork))]
    sessions = [recording.session for recording in gather(paths).recordings]
    assert [(len(session.calls), len(session.own_calls)) for session in sessions] == [(1, 1), (2, 1)]
    assert [(len(session.asides), len(session.own_asides)) for session in sessions] == [(1, 1), (1, 0)]

"""OpenAI chats: every wrapping, and what is broken in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import check, kinds, problems, texts
from wane import FormatError
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "list the files"},
    {"role": "assistant", "reasoning_content": "hm", "content": "I look", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "one: a.py"},
]
KINDS = ["system", "user", "reasoning", "text", "call", "result", "text"]


def read_text(folder: Path, text: str, name: str = "chat.json", format: str = "auto") -> list[RecordedSession]:  # noqa: A002
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return [check(session) for session in read_session(file, format)]


def test_a_list_is_a_session_with_a_call_for_each_answer(tmp_path: Path) -> None:
    (session,) = read_text(tmp_path, json.dumps(CHAT))
    assert (session.name, session.source, session.title) == ("chat", "openai", "list the files")
    assert kinds(session) == KINDS
    assert [(call.first, call.stop, call.usage, call.at) for call in session.calls] == [
        (2, 5, None, None),
        (6, 7, None, None),
    ]
    assert not session.problems


@pytest.mark.parametrize("wrap", [lambda chat: chat, lambda chat: {"messages": chat}])
@pytest.mark.parametrize("lines", [True, False])
def test_a_file_of_several_chats_gives_several_sessions(tmp_path: Path, wrap: Any, lines: bool) -> None:
    several = [wrap(CHAT), wrap(CHAT[:2])]
    text = "\n".join(map(json.dumps, several)) if lines else json.dumps(several)
    one, two = read_text(tmp_path, text, "both.jsonl")
    assert (one.name, two.name) == ("both-1", "both-2")
    assert (kinds(one), kinds(two)) == (KINDS, KINDS[:2])


def test_an_empty_answer_is_a_call_too(tmp_path: Path) -> None:
    (session,) = read_text(tmp_path, json.dumps([*CHAT, {"role": "assistant", "content": ""}]))
    assert (session.calls[-1].first, session.calls[-1].stop) == (7, 7)


def test_broken_messages_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    broken = [*CHAT[:2], {"role": "wizard"}, {"role": "user", "content": 7}, *CHAT[2:]]
    (session,) = read_text(tmp_path, json.dumps(broken))
    assert kinds(session) == KINDS
    assert problems(session) == [
        "None: message 2: role 'wizard' is unknown; known: system, developer, user, assistant, tool",
        "None: message 3: content must be a string, a list of parts or null, found int",
    ]


def test_broken_lines_are_named_by_their_number(tmp_path: Path) -> None:
    lines = [json.dumps(message) for message in CHAT]
    lines[3:3] = ["{broken", '{"role": "wizard"}']
    (session,) = read_text(tmp_path, "\n".join(lines), "chat.jsonl")
    assert kinds(session) == KINDS
    assert [problem.line for problem in session.problems] == [4, 5]
    assert "{broken" in session.problems[0].what


def test_a_list_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    text = json.dumps(CHAT)
    (session,) = read_text(tmp_path, text[: text.index("one: a.py")])
    assert kinds(session) == KINDS[:6]
    assert "after 4 complete entries" in session.problems[0].what
    (session,) = read_text(tmp_path, json.dumps({"model": "m", "messages": CHAT})[:-30])
    assert kinds(session) == KINDS[:6]


def test_a_call_that_was_not_answered_gets_an_empty_result_before_the_next_turn(tmp_path: Path) -> None:
    (session,) = read_text(tmp_path, json.dumps([*CHAT[:3], {"role": "user", "content": "stop"}, CHAT[4]]))
    assert kinds(session) == ["system", "user", "reasoning", "text", "call", "result", "user", "text"]
    assert texts(session)[5] == ""
    assert "no result of the call 'c1'" in session.problems[0].what
    (session,) = read_text(tmp_path, json.dumps(CHAT[:3]))
    assert kinds(session)[-1] == "call", "at the end it may still come"
    assert not session.problems


def test_messages_may_follow_each_other_over_several_lines(tmp_path: Path) -> None:
    messages = [*CHAT, {"role": "robot"}]
    (session,) = read_text(tmp_path, "\n".join(json.dumps(message, indent=1) for message in messages))
    assert kinds(session) == KINDS
    line = 1 + sum(json.dumps(message, indent=1).count("\n") + 1 for message in CHAT)
    assert [(problem.line, problem.what[:23]) for problem in session.problems] == [(line, "role 'robot' is unknown")]


def test_bytes_that_are_no_utf_8_are_named(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(json.dumps(CHAT).replace("a.py", "a?py").encode().replace(b"?", b"\xff"))
    (session,) = read_session(file)
    assert "a\ufffdpy" in texts(check(session))
    assert "U+FFFD" in session.problems[0].what


def test_anthropic_messages_are_refused_where_openai_s_were_named(tmp_path: Path) -> None:
    block = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    text = json.dumps([*CHAT[:2], {"role": "assistant", "content": [block]}])
    (session,) = read_text(tmp_path, text, format="openai")
    assert "name the format anthropic" in session.problems[0].what


@pytest.mark.parametrize("text", ["", "   \n", "{", "hello", "[1, 2]", '{"a": 1}', "[" * 100_000, "[]"])
def test_what_is_no_chat_is_refused_with_what_was_expected(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match=r"chat\.json"):
        read_text(tmp_path, text)
    with pytest.raises(FormatError, match=r"chat\.json"):
        read_text(tmp_path, text, format="openai")

"""Anthropic Messages and OpenAI Responses as files: told apart by themselves, in every wrapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import check, kinds, problems, texts
from tests.lab.readers.test_openai import CHAT
from tests.lab.readers.test_openai import KINDS as CHAT_KINDS
from wane import chars
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession

ANTHROPIC: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "<system-reminder>be good</system-reminder>"},
            {"type": "text", "text": "list the files"},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "t2", "name": "bash", "input": {"command": "ls -a"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"},
            {"type": "tool_result", "tool_use_id": "t2", "content": ". .. a.py"},
            {"type": "text", "text": "and hurry"},
        ],
    },
    {"role": "assistant", "content": "one: a.py"},
]
RESPONSES: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list the files"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": "{}"},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "bash", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    {"type": "function_call_output", "call_id": "c2", "output": ". .. a.py"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one: a.py"}]},
]
MESSAGES_OF_ITEMS = [RESPONSES[:1], RESPONSES[1:4], *([item] for item in RESPONSES[4:])]
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "list the files"}]},
    {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"functionCall": {"id": "c1", "name": "bash", "args": {}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c2", "name": "bash", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "bash", "response": {"output": "a.py"}}},
            {"functionResponse": {"name": "bash", "response": {"output": ". .. a.py"}}},
        ],
    },
    {"role": "model", "parts": [{"text": "one: a.py"}]},
]
TURN = ["reasoning", "call", "call", "result", "result"]
KINDS = {
    "anthropic": ["notice", "user", *TURN, "user", "text"],
    "openai_responses": ["user", *TURN, "text"],
    "gemini": ["user", *TURN, "text"],
    "openai": CHAT_KINDS,
}
TOOLS = [{"name": "bash", "description": "runs a command"}]


def read_text(folder: Path, text: str, format: str = "auto") -> list[RecordedSession]:  # noqa: A002 - the field's word
    file = folder / "chat.json"
    file.write_text(text, encoding="utf-8")
    return [check(session) for session in read_session(file, format)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic", json.dumps(ANTHROPIC)),
        ("anthropic", json.dumps({"model": "claude-x", "messages": ANTHROPIC, "max_tokens": 1})),
        ("anthropic", "\n".join(map(json.dumps, ANTHROPIC))),
        ("openai_responses", json.dumps(RESPONSES, indent=1)),
        ("openai_responses", json.dumps({"model": "gpt-x", "input": RESPONSES})),
        ("openai_responses", "\n".join(map(json.dumps, RESPONSES))),
        ("openai_responses", json.dumps([{"items": items} for items in MESSAGES_OF_ITEMS])),
        ("gemini", json.dumps(GEMINI)),
        ("gemini", json.dumps({"contents": GEMINI})),
        ("gemini", "\n".join(map(json.dumps, GEMINI))),
        ("openai", json.dumps(CHAT, indent=2)),
        ("openai", json.dumps({"messages": CHAT})),
        ("openai", "\n".join(map(json.dumps, CHAT))),
        ("openai", f"\ufeff{json.dumps(CHAT)}\n"),
    ],
    ids=[
        *("list", "body", "lines", "items", "items-in-a-body", "items-by-line", "messages-of-items"),
        *("contents", "contents-in-a-body", "contents-by-line"),
        *("chat", "chat-in-a-body", "chat-by-line", "chat-with-byte-order-mark"),
    ],
)
def test_every_wrapping_gives_the_same(tmp_path: Path, name: str, text: str) -> None:
    for format_ in ("auto", name):
        (session,) = read_text(tmp_path, text, format_)
        assert (session.source, session.title) == (name, "list the files")
        assert kinds(session) == KINDS[name]
        assert texts(session)[-1] == "one: a.py"
        assert len(session.calls) == 2
        assert not session.problems


def test_files_of_several_formats_are_read_each_as_its_own(tmp_path: Path) -> None:
    bodies = [{"messages": ANTHROPIC}, {"input": RESPONSES}, {"messages": [{"role": "user", "content": "hi"}]}]
    sessions = read_text(tmp_path, "\n".join(map(json.dumps, bodies)))
    assert [session.source for session in sessions] == ["anthropic", "openai_responses", "openai"]


@pytest.mark.parametrize(
    ("body", "besides"),
    [
        ({"messages": CHAT}, ""),
        ({"system": "You code well.", "messages": ANTHROPIC}, "You code well."),
        ({"system": [{"type": "text", "text": "You code well."}], "messages": ANTHROPIC}, "You code well."),
        ({"instructions": "You code.", "input": RESPONSES}, "You code."),
        ({"input": "list the files", "instructions": "You code."}, "You code."),
        ({"systemInstruction": "You code.", "contents": GEMINI}, '"You code."'),
    ],
)
def test_a_body_tells_the_model_and_what_is_in_every_request(
    tmp_path: Path, body: dict[str, Any], besides: str
) -> None:
    (session,) = read_text(tmp_path, json.dumps({**body, "model": "m", "tools": TOOLS}))
    assert session.system_tokens == chars(json.dumps(TOOLS, separators=(",", ":"))) + chars(besides)
    assert {call.model for call in session.calls} == ({"m"} if body.get("input") != "list the files" else set())
    assert session.title == "list the files"


@pytest.mark.parametrize(
    ("name", "messages"), [("anthropic", ANTHROPIC), ("openai_responses", RESPONSES), ("gemini", GEMINI)]
)
def test_broken_messages_are_named_and_the_rest_is_read(tmp_path: Path, name: str, messages: list[Any]) -> None:
    broken = [*messages[:1], {"role": "wizard"}, 7, *messages[1:]]
    (session,) = read_text(tmp_path, json.dumps(broken), name)
    assert kinds(session) == KINDS[name]
    assert [problem.split(": ")[1] for problem in problems(session)] == ["message 1", "message 2"]
    (session,) = read_text(tmp_path, "\n".join(map(json.dumps, broken)), name)
    assert [problem.line for problem in session.problems] == [2, 3]

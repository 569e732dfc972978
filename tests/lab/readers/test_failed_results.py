"""A result that shows nothing, by what each client records of it: the call failed, or the file had not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ToolReturnPart

from tests.lab.readers import test_claude_code, test_copilot, test_kindred, test_pi
from tests.lab.readers.test_no_word_lost import GEMINI
from tests.lab.readers.test_recordings import load_recording
from tests.lab.readers.writing import write_lines
from wane.core import Kind
from wane.formats.anthropic import AnthropicFormat
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession

READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "a.py"}}


def claude_code() -> list[Any]:
    script = test_claude_code.Transcript("go")
    for number, (text, failed) in enumerate([("no such file", True), ("x = 1", False), (UNCHANGED, False)]):
        script.answer(f"m{number}", {**READ, "id": f"c{number}"})
        block = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text, "is_error": failed}
        script.user([block])
    return script.lines


UNCHANGED = (
    "File unchanged since last read. The content from the earlier Read tool_result in this conversation is still "
    "current — refer to that instead of re-reading."
)


def pi() -> list[Any]:
    results = [{**test_pi.result("a", "no"), "isError": True}, {**test_pi.result("b", "yes"), "isError": False}]
    return test_pi.chain(test_pi.user("go"), test_pi.answer(test_pi.tool("a"), test_pi.tool("b")), *results)


def copilot() -> list[Any]:
    refused = test_copilot.result("e2", "a", success=False, error={"message": "no such file"}, result=None)
    asked = test_copilot.START, test_copilot.user("e0u", "go"), test_copilot.answer("e1", "a", "b")
    return [*asked, refused, test_copilot.result("e3", "b")]


def qwen() -> list[Any]:
    refused = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"error": "no such file"}}}
    again = {**test_kindred.READ, "functionCall": {**test_kindred.READ["functionCall"], "id": "c2"}}
    seen = {"functionResponse": {**test_kindred.SEEN["functionResponse"], "id": "c2"}}
    return [
        test_kindred.qwen(0, "user", [{"text": "Go."}]),
        test_kindred.qwen(1, "assistant", [test_kindred.READ]),
        test_kindred.qwen(2, "tool_result", [refused]),
        test_kindred.qwen(3, "assistant", [again]),
        test_kindred.qwen(4, "tool_result", [seen]),
    ]


def gemini_cli() -> list[Any]:
    """The recording, in which the first call fails."""
    name = next(line["toolCalls"][0]["id"] for line in GEMINI if line.get("toolCalls"))
    return [refuse(line, name) for line in GEMINI]


def refuse(value: Any, name: str) -> Any:
    if isinstance(value, dict) and value.get("id") == name and "response" in value:
        return {**value, "response": {"error": "no such file"}}
    if isinstance(value, dict):
        return {key: refuse(child, name) for key, child in value.items()}
    return [refuse(child, name) for child in value] if isinstance(value, list) else value


def kimi_code() -> list[Any]:
    refused = []
    for line in test_kindred.kimi_lines():
        if line.get("event", {}).get("type") == "tool.result":
            line["event"]["result"] = {"output": "no such file", "isError": True}
        refused.append(line)
    return refused


def flags_of(session: RecordedSession) -> list[bool]:
    return [part.shows_nothing for part in session.parts if part.kind is Kind.RESULT]


@pytest.mark.parametrize(
    ("lines", "nothing"),
    [
        (claude_code(), [True, False, True]),
        (pi(), [True, False]),
        (copilot(), [True, False]),
        (qwen(), [True, False]),
        (gemini_cli(), [True, False, False]),
        (kimi_code(), [True]),
        ([load_recording("opencode.json")], [False, False, False, False, True, False]),
        ([load_recording("goose.json")], [False, False, False, False, True, False]),
    ],
    ids=["claude-code", "pi", "copilot-cli", "qwen-code", "gemini-cli", "kimi-code", "opencode", "goose"],
)
def test_a_result_shows_nothing_where_the_client_recorded_so(
    tmp_path: Path, lines: list[Any], nothing: list[bool]
) -> None:
    (session,) = read_session(write_lines(tmp_path / "s.jsonl", *lines))
    assert flags_of(session) == nothing


def test_messages_and_pydantic_ai_say_that_a_call_failed() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "x", "is_error": n == 0} for n in range(2)]
    parts = AnthropicFormat().parts({"role": "user", "content": blocks})
    assert [part.shows_nothing for part in parts] == [True, False]
    outcomes = "failed", "retried", "denied", "success"
    returned = [ToolReturnPart("read", "x", f"c{n}", outcome=outcome) for n, outcome in enumerate(outcomes)]
    parts = PydanticAIFormat().parts(ModelRequest(returned))
    assert [part.shows_nothing for part in parts] == [True, True, True, False]

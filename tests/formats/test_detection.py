"""Telling formats apart by what only one of them has."""

from __future__ import annotations

from typing import Any

import pytest

from wane import FormatError
from wane.formats import FORMAT_NAMES, detect_format, get_format

TURN = {"role": "user", "content": "Go."}
BLOCKS = {"role": "user", "content": [{"type": "text", "text": "Go."}]}


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_format_can_be_had_by_name(name: str) -> None:
    assert get_format(name).name == name


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ([], "openai"),
        ([TURN], "openai"),
        ([BLOCKS], "openai"),
        ({"model": "m", "messages": [TURN]}, "openai"),
        ([TURN, {"role": "tool", "tool_call_id": "c1", "content": "x"}], "openai"),
        ([answer({"type": "thinking", "thinking": "Hm."}) | {"tool_calls": []}], "openai"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "openai"),
        ([TURN, answer({"type": "tool_use", "id": "c1", "name": "x", "input": {}})], "anthropic"),
        ([answer({"type": "redacted_thinking", "data": "x"})], "anthropic"),
        ([answer({"type": "web_search_tool_result", "tool_use_id": "c1", "content": []})], "anthropic"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "anthropic"),
        ([{"type": "message", "model": "m"} | answer({"type": "tool_use"})], "anthropic"),
        ({"max_tokens": 9, "system": "Be brief.", "messages": [TURN]}, "anthropic"),
        ({"input": "Go."}, "openai_responses"),
        ({"input": [TURN], "instructions": "Be brief."}, "openai_responses"),
        ([TURN, {"type": "function_call", "call_id": "c1", "name": "x", "arguments": ""}], "openai_responses"),
        ([{"type": "message"} | TURN], "openai_responses"),
        ([TURN, {"role": "assistant", "content": "So.", "phase": "final_answer"}], "openai_responses"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "Go."}]}], "openai_responses"),
        ([{"items": [TURN]}], "openai_responses"),
        ([{"type": "reasoning", "id": "rs_1", "summary": []}], "openai_responses"),
        ([{"type": "local_shell_call", "call_id": "c1", "action": {}}], "openai_responses"),
        ([{"type": "a_newer_call", "call_id": "c1"}], "openai_responses"),
        ([{"type": "a_newer_call_output", "call_id": "c1", "output": "x"}], "openai_responses"),
        # One item that is known tells of the others, too.
        ([{"type": "of_tomorrow"}, {"type": "message"} | TURN], "openai_responses"),
        ([{"kind": "request", "parts": []}], "pydantic_ai"),
        ({"contents": [{"parts": [{"text": "Go."}]}]}, "gemini"),
        ([{"role": "user", "parts": [{"text": "Go."}]}], "gemini"),
        ([{"role": "model", "parts": [{"functionCall": {"name": "x"}}]}], "gemini"),
        # What is wrong in a list is for its format to say.
        ([TURN, 7], "openai"),
        ([7, answer({"type": "tool_use"})], "anthropic"),
    ],
)
def test_data_tells_its_format(data: Any, name: str) -> None:
    assert detect_format(data).name == name


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "null"),
        (7, "a number"),
        ("x", "a string"),
        ({}, "an empty object"),
        ({"messages": 3}, "an object with the keys 'messages'"),
        ({"input": 3}, "an object with the keys 'input'"),
        ([[], []], "a list that begins with an empty list"),
        ([{"content": "x"}], "a list that begins with an object with the keys 'content'"),
        ([{"type": "foo"}], "a list that begins with an object of type 'foo' with the keys 'type'"),
        ([{"type": "message", "content": "x"}], "of type 'message' with the keys 'type', 'content'"),
        ([{"type": ["message"], "role": 5}], "an object with the keys 'type', 'role'"),
        ([dict.fromkeys("abcdefg")], "the keys 'a', 'b', 'c', 'd', 'e', …"),
        ([{"type": "a_call"}], "of type 'a_call'"),
        ([{"parts": [{"type": "text", "text": "Go."}]}], "an object with the keys 'parts'"),
    ],
)
def test_what_is_of_no_format_is_refused_and_told_what_it_is(data: Any, told: str) -> None:
    with pytest.raises(FormatError, match="no known message format") as caught:
        detect_format(data)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "user", "message": TURN, "uuid": "u1", "sessionId": "s"},
        {"type": "assistant", "message": answer({"type": "text", "text": "So."}), "uuid": "u2"},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
        {"type": "summary", "summary": "x", "leafUuid": "u"},
        {"timestamp": "t", "type": "session_meta", "payload": {"id": "x"}},
        {"timestamp": "t", "type": "response_item", "payload": {"type": "message"} | TURN},
        {"id": "x", "timestamp": "t", "instructions": None},
        {"type": "session", "version": 3, "id": "x", "cwd": "/"},
        {"type": "message", "id": "b", "parentId": "a", "message": {"role": "toolResult"}},
        {"kind": "session", "version": 1, "id": "x"},
    ],
)
def test_lines_of_a_session_file_are_refused_and_told_what_reads_them(line: dict[str, Any]) -> None:
    for data in ([line], [line, {"type": "message"} | TURN]):
        with pytest.raises(FormatError, match=r"lines of an agent's session file, not messages: .*; `wane plan FILE`"):
            detect_format(data)


def test_an_item_with_an_input_is_no_request_body() -> None:
    with pytest.raises(FormatError, match="no known message format"):
        detect_format({"type": "custom_tool_call", "call_id": "c1", "name": "x", "input": "y"})

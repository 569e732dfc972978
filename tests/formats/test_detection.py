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
        ([{"kind": "request", "parts": []}], "pydantic_ai"),
        # What is wrong in a list is for its format to say.
        ([TURN, 7], "openai"),
        ([7, answer({"type": "tool_use"})], "anthropic"),
    ],
)
def test_data_tells_its_format(data: Any, name: str) -> None:
    assert detect_format(data).name == name


@pytest.mark.parametrize("data", [None, 7, "x", {}, {"messages": 3}, {"input": 3}, [[], []], [{"content": "x"}]])
def test_what_is_of_no_format_is_refused(data: Any) -> None:
    with pytest.raises(FormatError, match="no known message format"):
        detect_format(data)


def test_an_item_with_an_input_is_no_request_body() -> None:
    with pytest.raises(FormatError, match="no known message format"):
        detect_format({"type": "custom_tool_call", "call_id": "c1", "name": "x", "input": "y"})

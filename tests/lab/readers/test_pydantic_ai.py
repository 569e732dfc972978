"""Pydantic AI messages: usage, times, models, and what is broken in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from tests.lab.readers.promises import check, kinds, problems
from wane import chars
from wane.lab.readers import read_session
from wane.lab.recorded_session import CallUsage, RecordedSession

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASKED = ModelRequest(parts=[SystemPromptPart("be brief"), UserPromptPart("list the files")], instructions="and kind")


def model_response(*parts: Any, **more: Any) -> ModelResponse:
    return ModelResponse(parts=list(parts), model_name="m", timestamp=NOON, **more)


def read(folder: Path, *messages: ModelMessage, edit: Any = None) -> RecordedSession:
    data = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    if edit:
        edit(data)
    file = folder / "messages.json"
    file.write_text(json.dumps(data))
    (session,) = read_session(file)
    return check(session)


def test_responses_are_calls_with_their_usage_time_and_model(tmp_path: Path) -> None:
    usage = RequestUsage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=7)
    looked = model_response(ThinkingPart("hm"), TextPart("I look"), ToolCallPart("ls", {"a": 1}, "c1"), usage=usage)
    told = ModelRequest(parts=[ToolReturnPart("ls", "a.py", "c1"), UserPromptPart("also hidden ones")])
    session = read(tmp_path, ASKED, looked, told, model_response(TextPart("none")))
    assert (session.source, session.title) == ("pydantic_ai", "list the files")
    assert kinds(session) == ["system", "user", "reasoning", "text", "call", "result", "user", "text"]
    one, two = session.calls
    assert (one.first, one.stop, one.usage) == (2, 5, CallUsage(10, 60, 30, 7))
    assert (one.at, one.model) == (NOON.timestamp(), "m")
    assert (two.first, two.stop, two.usage) == (7, 8, None)
    assert session.system_tokens == chars("and kind"), "instructions are in no part"


def test_a_time_that_was_not_recorded_is_not_made_up(tmp_path: Path) -> None:
    session = read(tmp_path, ASKED, model_response(TextPart("x")), edit=lambda data: data[1].pop("timestamp"))
    assert session.calls[0].at is None


def test_a_sum_over_several_requests_is_no_usage_of_one(tmp_path: Path) -> None:
    marks = {"__pydantic_ai__": {"context_input_tokens": 50}}
    session = read(tmp_path, ASKED, model_response(TextPart("x"), usage=RequestUsage(input_tokens=90), metadata=marks))
    assert session.calls[0].usage is None


def test_what_the_provider_ran_or_compacted_itself_belongs_to_its_answer(tmp_path: Path) -> None:
    ran = [NativeToolCallPart("web_search", {}, "n1"), NativeToolReturnPart("web_search", "found", "n1")]
    session = read(tmp_path, ASKED, model_response(CompactionPart("so far"), *ran, TextPart("done"), provider_name="p"))
    assert kinds(session) == ["system", "user", "system", "call", "result", "text"]
    assert (session.calls[0].first, session.calls[0].stop) == (2, 6)


def test_broken_messages_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    def damage(data: list[Any]) -> None:
        data[1]["parts"][0]["part_kind"] = "spell"
        data.insert(2, {"kind": "rumour", "parts": []})

    session = read(tmp_path, ASKED, model_response(TextPart("x")), model_response(TextPart("y")), edit=damage)
    assert kinds(session) == ["system", "user", "text"]
    one, two = problems(session)
    assert one.startswith("None: message 1: ")
    assert two.startswith("None: message 2: expected an object with kind and parts")


def test_one_message_a_line_is_read_too(tmp_path: Path) -> None:
    data = ModelMessagesTypeAdapter.dump_python([ASKED, model_response(TextPart("x"))], mode="json")
    (tmp_path / "messages.jsonl").write_text("\n".join(map(json.dumps, data)))
    (session,) = read_session(tmp_path / "messages.jsonl")
    assert kinds(session) == ["system", "user", "text"]

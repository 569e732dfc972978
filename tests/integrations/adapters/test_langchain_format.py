"""Messages of LangChain, part by part."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.langchain import LangChainFormat

FORMAT = LangChainFormat()
DATA = "A" * 400_000


def raw(call_id: str, path: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{path}"}}'}}


def call(call_id: str, path: str) -> Any:
    return {"name": "read", "args": {"path": path}, "id": call_id}


def block(call_id: str, path: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": path}}


@pytest.mark.parametrize("in_content", [False, True])
def test_calls_with_one_id_are_several_calls(*, in_content: bool) -> None:
    made = [("0", "a"), ("1", "b"), ("0", "c")]
    message = AIMessage(
        [block(*each) for each in made] if in_content else "",
        tool_calls=[call(*each) for each in made],
        invalid_tool_calls=[{"name": "read", "args": "d, please", "id": "0", "error": None}],
        additional_kwargs={} if in_content else {"tool_calls": [raw(*each) for each in made]},
    )
    parts = FORMAT.parts(message)
    assert [part.call_id for part in parts] == ["0", "1", "0", "0"]
    assert [part.arguments for part in parts] == ['{"path": "a"}', '{"path": "b"}', '{"path": "c"}', "d, please"]
    for place in range(4):
        kept = FORMAT.keep(message, [place])
        assert isinstance(kept, AIMessage)
        assert FORMAT.parts(kept) == [parts[place]]
        assert kept.content == ([block(*each) for each in made[place : place + 1]] if in_content else "")
        if not in_content:
            assert kept.additional_kwargs["tool_calls"] == [raw(*each) for each in made[place : place + 1]]


@pytest.mark.parametrize(
    "medium",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
        {"type": "video", "base64": DATA, "mime_type": "video/mp4"},
        {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "input_file", "filename": "a.pdf", "file_data": DATA},
        {"type": "text-plain", "base64": DATA, "mime_type": "text/plain"},
        {"type": "media", "mime_type": "video/mp4", "data": DATA},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    ],
)
def test_the_data_of_a_file_is_not_counted_as_text(medium: dict[str, Any]) -> None:
    for message in (HumanMessage([medium]), ToolMessage([medium], tool_call_id="1"), AIMessage([medium])):
        part = FORMAT.parts(message)[0]
        assert (part.text, part.extra_tokens) == ("", NON_TEXT_TOKENS)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "Mind it."},
        {"type": "content", "content": [{"type": "text", "text": "Mind it."}]},
    ],
)
def test_a_document_of_text_counts_as_its_text(source: dict[str, Any]) -> None:
    part = FORMAT.parts(HumanMessage([{"type": "document", "source": source}]))[0]
    assert (part.text, part.extra_tokens) == ("Mind it.", 0)

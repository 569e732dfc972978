"""The recorder against a journal that fails, and histories that were cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from wane.account import Account
from wane.agent.prompts import INTERRUPTED, answer_open_calls
from wane.agent.recorder import Recorder
from wane.core.errors import JournalError
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import new_conversation
from wane.journal import Journal, MessageRecord, Record, SessionStore, read
from wane.lab.readers.journal import session_of
from wane.rebuilding import rebuild


class Full(Journal):
    """A journal on a disk that is full for a while."""

    full = False

    def append(self, record: Record) -> None:
        if self.full:
            raise JournalError("no space left")
        super().append(record)


def user_request(text: str, instructions: str | None = None) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)], instructions=instructions)


def test_what_could_not_be_written_is_written_later_in_its_order(tmp_path: Path) -> None:
    journal = Full.create(tmp_path, cwd=tmp_path, message_format="pydantic_ai")
    assert isinstance(journal, Full)
    conversation = new_conversation()
    recorder = Recorder(journal, conversation)
    history: list[ModelMessage] = [user_request("one")]
    conversation.host.ingest(history)
    journal.full = True
    history += [ModelResponse([TextPart("two")]), user_request("three")]
    conversation.host.ingest(history)
    with pytest.raises(JournalError, match="no space left"):
        recorder.flush()
    journal.full = False
    history.append(ModelResponse([TextPart("four")]))
    conversation.host.ingest(history)
    recorder.flush()
    journal.close()
    texts = [
        record.message["parts"][0]["content"]
        for record in read(journal.path).records
        if isinstance(record, MessageRecord)
    ]
    assert texts == ["one", "two", "three", "four"]


def test_instructions_are_recorded_where_they_change(tmp_path: Path) -> None:
    journal = SessionStore(tmp_path).create(tmp_path, message_format="pydantic_ai")
    conversation = new_conversation()
    recorder = Recorder(journal, conversation)
    conversation.host.ingest(
        [
            user_request("a", "be brief"),
            user_request("b", "be brief"),
            user_request("c", "be long"),
            user_request("d", "be long"),
        ]
    )
    recorder.flush()
    journal.close()
    said = [
        record.message["instructions"] for record in read(journal.path).records if isinstance(record, MessageRecord)
    ]
    assert said == ["be brief", None, "be long", None]


def test_a_rewritten_history_is_not_recorded_over_the_old_one(tmp_path: Path) -> None:
    journal = SessionStore(tmp_path).create(tmp_path, message_format="pydantic_ai")
    conversation = new_conversation()
    recorder = Recorder(journal, conversation)
    conversation.host.ingest([user_request("a"), ModelResponse([TextPart("b")])])
    before = journal.path.read_bytes()
    conversation.host.ingest([user_request("other"), ModelResponse([TextPart("answer")])])
    with pytest.raises(JournalError, match="rewritten"):
        recorder.flush()
    assert journal.path.read_bytes() == before
    journal.close()


@pytest.mark.parametrize("tokens", [10, 0])
def test_a_report_that_is_not_believed_or_missing_counts_as_a_call_and_anchors_nothing(
    tmp_path: Path, tokens: int
) -> None:
    journal = SessionStore(tmp_path).create(tmp_path, message_format="pydantic_ai")
    conversation = new_conversation()
    recorder = Recorder(journal, conversation)
    # Some services leave out what they had cached.
    partial = RequestUsage(input_tokens=tokens, output_tokens=2)
    conversation.host.ingest([user_request("x" * 8_000), ModelResponse([TextPart("b")], usage=partial, model_name="m")])
    recorder.flush()
    journal.close()
    file = read(journal.path)
    assert Account.of(file.records) == recorder.account == Account(1, 0, 0, tokens, 2)
    assert conversation.tokens == rebuild(file.records, PydanticAIFormat()).engine.tokens > 2_000
    assert len(session_of(file.header, file.records).calls) == 1


def test_nothing_is_open() -> None:
    whole: list[ModelMessage] = [user_request("a"), ModelResponse([TextPart("b")])]
    assert answer_open_calls(whole) == whole
    assert answer_open_calls([]) == []


def test_open_calls_get_a_result_behind_those_that_have_one() -> None:
    calls = ModelResponse(
        [ToolCallPart("grep", {}, "1"), ToolCallPart("shell", {}, "2"), ToolCallPart("grep", {}, "1")]
    )
    some = ModelRequest([ToolReturnPart("grep", "found", "1")], state="interrupted")
    for after in ([], [some]):
        history = answer_open_calls([user_request("a"), calls, *after])
        last = history[-1]
        assert isinstance(last, ModelRequest)
        assert last.state == "complete"
        results = [(part.tool_call_id, part.content) for part in last.parts if isinstance(part, ToolReturnPart)]
        first = [("1", "found")] if after else [("1", INTERRUPTED)]
        assert results == [*first, ("2", INTERRUPTED), ("1", INTERRUPTED)]
        assert answer_open_calls(history) == history

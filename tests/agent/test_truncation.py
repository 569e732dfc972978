"""Recency truncation: what it keeps, and that its cut stays where it is. And that no note moves the cached prefix."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.profiles import ModelProfile

from tests.agent.conftest import config
from tests.agent.scripts import call, scripted
from wane.agent.session import AgentSession
from wane.core import chars
from wane.formats.pydantic_ai import PydanticAIFormat

BUDGET = 6_000


def run(directory: Path, model: FunctionModel, tasks: int = 1) -> None:
    session = AgentSession.create(config(directory, model, keep=False, budget=BUDGET, strategy="truncate"))
    for number in range(tasks):
        asyncio.run(session.run(f"task {number}"))
    session.close()


def tokens(messages: list[ModelMessage]) -> int:
    return sum(part.item(chars, 0).tokens for message in messages for part in PydanticAIFormat().parts(message))


@pytest.mark.full
def test_requests_keep_to_the_budget_by_cuts_that_stay_until_the_next_one(repository: Path) -> None:
    (repository / "long.txt").write_text("a line of some length\n" * 150)
    sent: list[list[ModelMessage]] = []
    reads = [[call("read_file", path="long.txt")] for _ in range(9)]
    run(repository, scripted(*(step for read in reads for step in (read, read, "done")), sent=sent), tasks=9)
    assert max(map(tokens, sent)) < BUDGET
    assert len(sent[-1]) < 18, "the history is longer"
    moved = [later[1] is not earlier[1] for earlier, later in pairwise(sent[1:])]
    assert 2 <= sum(moved) <= len(moved) // 2
    for messages in sent:
        calls = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolCallPart)}
        returned = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolReturnPart)}
        assert calls == returned
        first = messages[0].parts[0]
        assert isinstance(first, UserPromptPart)
        assert first.content == "task 0"


class Announcing(FunctionModel):
    """A model without a system role in the conversation, to which such notes are explained."""

    _announces_lookalike_notes = True


def test_a_git_status_that_comes_and_goes_leaves_the_beginning_of_a_request_as_it_is(repository: Path) -> None:
    sent: list[list[ModelMessage]] = []
    source = scripted(
        [call("read_file", path="app.py")],
        [call("write_file", path="new.py", content="x = 1\n")],
        [call("read_file", path="app.py")],
        [call("write_file", path="newer.py", content="x = 1\n")],
        "done",
        sent=sent,
    )
    profile = ModelProfile(supports_inline_system_prompts=False)
    model = Announcing(source.function, stream_function=source.stream_function, profile=profile)
    run(repository, model)
    noted = ["<git-status>" in str(messages[-1]) for messages in sent]
    assert noted.count(True) >= 2
    assert noted.count(False) >= 2
    firsts = [[part for part in messages[0].parts if "<git-status>" not in str(part)] for messages in sent]
    assert all(parts == firsts[0] for parts in firsts)

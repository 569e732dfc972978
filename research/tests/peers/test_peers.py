"""What peers' own code does to a view that breaks our rules: the evidence for docs/lab/strategies.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.context_strategies.support import Life, live, tail_of, work
from wane.core import Item, Kind
from wane.strategies.strategy import StrategySettings, Substitute

for _module in ("langchain", "agents", "pydantic_ai_harness"):
    pytest.importorskip(_module, reason="the peers extra is not installed")


def reads(*sizes: int, path: str = "{}.py") -> list[Item]:
    """A system item, a task, and messages each of a read with a result of so many tokens: 5 more each."""
    items = [Item(Kind.SYSTEM, 10, message=0), Item(Kind.USER, 10, message=1)]
    for number, size in enumerate(sizes):
        arguments = json.dumps({"path": path.format(number)})
        items.append(Item(Kind.CALL, 5, f"c{number}", "read", arguments, 2 * number + 2))
        items.append(Item(Kind.RESULT, size, f"c{number}", message=2 * number + 3))
    return items


def last(life: Life) -> list[Any]:
    return life.sights[-1].view


def test_langchain_trim_drops_the_task_and_keeps_the_budget() -> None:
    life = live("langchain-trim", work((50,), (50,), (50,)), StrategySettings(budget=130))
    assert last(life) == [0, 4, 5, 6, 7]


def test_langchain_trim_sends_nothing_but_the_system_prompt_when_the_latest_results_are_over_the_budget() -> None:
    life = live("langchain-trim", work((50,), (50, 500)), StrategySettings(budget=130))
    assert last(life) == [0]


def test_langchain_trim_as_its_documentation_has_it_trims_long_work_on_one_task_to_nothing() -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages

    call: Any = {"name": "read", "args": {}, "id": "c"}
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call]), ToolMessage("x", tool_call_id="c")]
    assert trim_messages(messages, max_tokens=2, token_counter=len, strategy="last", start_on="human") == []


@pytest.mark.parametrize("name", ["langchain-edit", "harness-clear"])
def test_results_that_the_model_has_not_seen_are_cleared_beyond_three(name: str) -> None:
    items = work((50, 50, 50, 50, 50))
    cleared = [
        slot.index for slot in last(live(name, items, StrategySettings(budget=130))) if isinstance(slot, Substitute)
    ]
    assert cleared == [7, 8]
    assert set(cleared) <= tail_of(items)


@pytest.mark.parametrize("name", ["langchain-edit", "harness-clear"])
def test_what_was_cleared_counts_as_whole_at_the_next_call_so_that_every_call_clears(name: str) -> None:
    life = live(name, work(*[(100,)] * 8), StrategySettings(budget=500))
    assert [sight.ran for sight in life.sights] == [*[False] * 6, *[True] * 4]
    # `clear-tools` counts what is cleared as cleared, so it acts once in a while.
    ours = live("clear-tools", work(*[(100,)] * 8), StrategySettings(budget=500))
    assert [sight.ran for sight in ours.sights] == [*[False] * 6, True, False, True, False]


def test_the_harness_window_keeps_forty_messages_whatever_they_hold() -> None:
    life = live("harness-window", work(*[(100,)] * 30), StrategySettings(budget=1_000))
    assert life.tokens(last(life)) > 2_000


def test_the_harness_window_with_a_low_water_keeps_that_share() -> None:
    life = live("harness-window", work(*[(100,)] * 30), StrategySettings(budget=1_000, low_water=0.5))
    assert life.tokens(last(life)) <= 500 + 20


def test_openai_agents_trims_nothing_within_the_latest_two_turns_of_the_user() -> None:
    items = work((400,), (400,))
    life = live("openai-agents-trim", items, StrategySettings(budget=100))
    assert last(life) == list(range(len(items)))
    later = [*items, Item(Kind.USER, 5, message=9), Item(Kind.TEXT, 5, message=10), Item(Kind.USER, 5, message=11)]
    view = last(live("openai-agents-trim", later, StrategySettings(budget=100)))
    assert [slot.index for slot in view if isinstance(slot, Substitute)] == [3, 5]
    assert all(slot.tokens < 400 for slot in view if isinstance(slot, Substitute))


def test_what_the_harness_takes_out_of_a_request_is_back_at_the_next_one() -> None:
    """Its README says that edits persist in the run's history; with this Pydantic AI they do not."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai_harness.compaction import SlidingWindowCompaction

    seen: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(len(messages))
        return ModelResponse([TextPart("done") if len(seen) == 10 else ToolCallPart("look", {})])

    agent = Agent(FunctionModel(answer), capabilities=[SlidingWindowCompaction(max_messages=8, keep_messages=4)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    result = agent.run_sync("go")
    assert seen == [1, 3, 5, 7, 5, 5, 5, 5, 5, 5]
    assert len(result.all_messages()) == 20


@pytest.mark.parametrize("name", ["langchain-trim", "harness-window"])
def test_a_later_system_message_goes_with_the_rest(name: str) -> None:
    items = work(*[(100,)] * 3)
    items.insert(4, Item(Kind.SYSTEM, 3, message=3))
    low_water = 0.5 if name == "harness-window" else None
    view = last(live(name, items, StrategySettings(budget=150, low_water=low_water)))
    assert 4 not in view
    assert 0 in view


class TestStrands:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("strands", reason="Strands is not installed")

    def test_it_drops_the_task_with_the_rest(self) -> None:
        assert last(live("strands-window", reads(50, 50, 50, 50), StrategySettings(budget=150))) == [0, 6, 7, 8, 9]

    def test_it_drops_two_messages_a_call_even_where_that_is_not_enough(self) -> None:
        life = live("strands-window", reads(*[50] * 8), StrategySettings(budget=250))
        assert [len(sight.view) for sight in life.sights] == [0, 2, 4, 6, 8, 10, 9, 9, 9, 9]
        life = live("strands-window", reads(*[50] * 4, 200, 50), StrategySettings(budget=250))
        assert life.tokens(life.sights[-1].view) > 250

    def test_what_was_dropped_does_not_come_back(self) -> None:
        life = live("strands-window", reads(*[50] * 8), StrategySettings(budget=250))
        for before, after in zip(life.sights, life.sights[1:], strict=False):
            assert not {slot for slot in after.view if isinstance(slot, int) and slot < before.known} - {*before.view}


class TestCtxKernel:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("ctxkernel", reason="ctxkernel is not installed")

    def test_what_a_later_read_supersedes_goes_with_its_call_even_within_the_budget(self) -> None:
        items = reads(50, 60, 70, path="same.py")
        assert last(live("ctxkernel", items, StrategySettings(budget=10_000))) == [0, 1, 6, 7]

    def test_the_same_bytes_are_kept_once(self) -> None:
        assert last(live("ctxkernel", reads(50, 60, 50), StrategySettings(budget=10_000))) == [0, 1, 4, 5, 6, 7]

    def test_long_results_become_extracts_before_the_model_has_seen_them(self) -> None:
        view = last(live("ctxkernel", reads(60, 1_500), StrategySettings(budget=10_000)))
        listed, extract = view[2], view[-1]
        assert isinstance(listed, Substitute)
        assert listed.text.startswith("Available via expand(handle_id)")
        assert isinstance(extract, Substitute)
        assert extract.index == 5
        assert extract.tokens < 100

    def test_the_turns_of_the_user_stand_ahead_of_everything_else(self) -> None:
        items: list[Any] = [*reads(50, 60), Item(Kind.USER, 5, message=9)]
        assert last(live("ctxkernel", items, StrategySettings(budget=10_000))) == [0, 1, 6, 2, 3, 4, 5]

    def test_past_the_budget_a_note_stands_for_what_is_older(self) -> None:
        view = last(live("ctxkernel", reads(50, 60, 55, 65), StrategySettings(budget=200)))
        assert isinstance(view[2], Substitute)
        assert view[2].text.startswith("[2 earlier exchanges elided")
        assert view[3:] == [6, 7, 8, 9]

"""What each of our strategies does, by example."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.context_strategies.support import items_in_view, live, part_of, work
from wane.core import Item, Kind, Standing, chars
from wane.core.errors import HistoryError
from wane.strategies.clear_tools import PLACEHOLDER
from wane.strategies.compact import INSTRUCTIONS, Compact
from wane.strategies.registry import STRATEGY_NAMES, get_strategy, traits
from wane.strategies.strategy import Fitted, Resumable, Slot, StrategySettings, Substitute, SummaryNeeded
from wane.strategies.summarised import PREFIX, Summarised


def last(name: str, items: list[Item], settings: StrategySettings) -> list[Slot]:
    return live(name, items, settings).sights[-1].view


def test_none_sends_everything() -> None:
    items = work((100,), (100,))
    assert last("none", items, StrategySettings(budget=1)) == list(range(len(items)))


def test_truncation_cuts_to_the_limit_and_keeps_the_task() -> None:
    items = work((50,), (50,), (50,), (50,))  # 20 tokens of system and task, 55 a message
    assert last("truncate", items, StrategySettings(budget=200)) == [0, 1, *range(4, 10)]
    assert last("truncate", items, StrategySettings(budget=190, overhead=10)) == [0, 1, *range(6, 10)]


def test_truncation_goes_down_to_low_water_where_one_is_set() -> None:
    items = work((50,), (50,), (50,), (50,))
    assert last("truncate", items, StrategySettings(budget=200, low_water=0.5)) == [0, 1, 8, 9]


def test_truncation_takes_later_turns_of_the_user_with_the_rest() -> None:
    items = [*work((50,)), Item(Kind.USER, 5, message=7), *work((50,), (50,))[2:]]
    renamed = [Item(i.kind, i.tokens, i.call_id, i.tool, i.arguments, n) for n, i in enumerate(items)]
    assert last("truncate", renamed, StrategySettings(budget=90)) == [0, 1, 7, 8]


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_what_protects_system_items_protects_standing_notices(name: str) -> None:
    """R15: the latest of a kind stays, an earlier one goes."""
    mode = (Standing("mode"),)
    items = [*work((50,), (50,)), Item(Kind.NOTICE, 20, message=90, standing=mode)]
    items += [
        replace(item, message=100 + n, call_id=item.call_id and f"b{item.call_id}")
        for n, item in enumerate(work(*[(50,)] * 4)[2:])
    ]
    on = items.index(Item(Kind.NOTICE, 20, message=90, standing=mode))
    life = live(name, items, StrategySettings(budget=250))
    assert all(on in sight.view for sight in life.sights if sight.known > on)
    items.append(Item(Kind.NOTICE, 21, message=190, standing=mode))
    off = len(items) - 1
    items += [
        replace(item, message=200 + n, call_id=item.call_id and f"c{item.call_id}")
        for n, item in enumerate(work(*[(50,)] * 8)[2:])
    ]
    life = live(name, items, StrategySettings(budget=250))
    last = life.sights[-1].view
    assert off in last
    if name not in ("none", "clear-tools", "mask", "fold", "paper"):  # the last keeps unmarked work (R7)
        assert on not in last


def test_compaction_keeps_a_tail_and_puts_the_summary_after_the_system_items() -> None:
    items = work(*[(50,)] * 8)  # 460 tokens
    strategy = Compact(StrategySettings(budget=440))
    for item in items:
        strategy.add(item, part_of(item))
    needed = strategy.fit()
    assert needed == SummaryNeeded(list(range(18)), INSTRUCTIONS)
    fitted = strategy.take_summary("all is well", 3)
    summary = Substitute(f"{PREFIX}all is well", 3 + chars(PREFIX))
    assert (list(fitted.view), fitted.ran) == ([0, summary, 14, 15, 16, 17], True)  # a quarter of the budget
    assert strategy.fit() == Fitted([0, summary, 14, 15, 16, 17])


def test_a_summary_that_could_not_be_had_is_asked_for_again() -> None:
    strategy = Compact(StrategySettings(budget=100))
    for item in work((50,), (50,)):
        strategy.add(item, part_of(item))
    assert isinstance(strategy.fit(), SummaryNeeded)
    assert isinstance(strategy.fit(), SummaryNeeded)


def test_an_earlier_summary_goes_into_the_next() -> None:
    life = live("compact", work(*[(60,)] * 12), StrategySettings(budget=300))
    assert sum(sight.asked is not None for sight in life.sights) >= 2
    assert all(sum(isinstance(slot, Substitute) for slot in sight.view) <= 1 for sight in life.sights)


@pytest.mark.parametrize("summary", [3, 20])
def test_the_tail_is_no_longer_than_there_is_room_for_beside_a_summary(summary: int) -> None:
    strategy = Compact(StrategySettings(budget=100, overhead=50))
    items = [
        Item(Kind.USER, 5, message=0),
        *(Item(Kind.TEXT, tokens, message=number) for number, tokens in enumerate((40, 12, 5), start=1)),
    ]
    for item in items:
        strategy.add(item, part_of(item))
    assert isinstance(strategy.fit(), SummaryNeeded)
    # A quarter of the budget would hold two messages; the one before the latest has no room beside a long summary.
    fitted = strategy.take_summary("all is well", summary)
    assert [slot for slot in fitted.view if isinstance(slot, int)] == ([2, 3] if summary == 3 else [3])
    tokens = sum(slot.tokens if isinstance(slot, Substitute) else items[slot].tokens for slot in fitted.view)
    assert 50 + tokens <= 100
    # What comes next goes into a summary as soon as the view is over the budget with it.
    later = Item(Kind.TEXT, 8, message=4)
    strategy.add(later, part_of(later))
    assert isinstance(strategy.fit(), SummaryNeeded) == (50 + tokens + 8 > 100) == (summary == 20)


def test_a_summary_that_cannot_help_is_not_asked_for() -> None:
    strategy = Compact(StrategySettings(budget=100, overhead=90))
    for item in work((5,), (5,), (5,), (5,), (5,)):
        strategy.add(item, part_of(item))
    assert isinstance(strategy.fit(), SummaryNeeded)
    strategy.take_summary("all is well", 3)
    late = Item(Kind.TEXT, 1, message=99)
    strategy.add(late, part_of(late))
    assert isinstance(strategy.fit(), Fitted)


def test_nobody_can_hand_in_a_summary_unasked() -> None:
    with pytest.raises(HistoryError, match="did not ask for a summary"):
        Compact(StrategySettings()).take_summary("x", 1)


def test_some_strategies_ask_for_summaries() -> None:
    asking = [name for name in STRATEGY_NAMES if isinstance(get_strategy(name), Summarised)]
    assert asking == [name for name in STRATEGY_NAMES if traits(name).summarises]


def test_clearing_keeps_the_latest_three_and_is_remembered() -> None:
    items = work(*[(100,)] * 6)
    view = last("clear-tools", items, StrategySettings(budget=500))
    cleared = Substitute(PLACEHOLDER, chars(PLACEHOLDER), 3)
    assert view[3] == cleared
    assert [slot.index for slot in view if isinstance(slot, Substitute)] == [3, 5]
    assert [slot for slot in view if isinstance(slot, int)] == [0, 1, 2, 4, *range(6, 14)]


def test_clearing_stops_at_low_water_where_one_is_set() -> None:
    view = last("clear-tools", work(*[(100,)] * 6), StrategySettings(budget=600, low_water=0.9))
    assert [slot.index for slot in view if isinstance(slot, Substitute)] == [3, 5]


def test_clearing_spares_the_latest_results_and_what_is_shorter_than_the_placeholder() -> None:
    view = last("clear-tools", work((2,), (100, 100, 100, 100, 100)), StrategySettings(budget=100))
    assert not [slot for slot in view if isinstance(slot, Substitute)]


def delimit(number: int, message: int, **fields: object) -> list[Item]:
    call = Item(Kind.CALL, 5, f"d{number}", "delimiter", json.dumps(fields), message)
    return [call, Item(Kind.RESULT, 5, f"d{number}", message=message + 1)]


def test_folding_leaves_the_branch_and_the_return_at_once() -> None:
    items = [
        Item(Kind.USER, 5, message=0),
        *delimit(1, 1, action="start", name="look", type="expl"),
        *(Item(Kind.CALL, 5, "a", "grep", message=3), Item(Kind.RESULT, 99, "a", message=4)),
        Item(Kind.USER, 5, message=5),
        *(Item(Kind.REASONING, 5, message=6), Item(Kind.TEXT, 5, message=6)),
        *delimit(2, 6, action="end", description="it is in a.py"),
    ]
    life = live("fold", items, StrategySettings(budget=10**6))
    assert life.sights[-1].view == [0, 1, 2, 5, 6, 7, 8, 9]
    assert life.sights[-1].ran


def test_folding_waits_for_answers() -> None:
    items = [
        Item(Kind.USER, 5, message=0),
        *delimit(1, 1, action="start", name="look", type="expl"),
        Item(Kind.CALL, 5, "a", "grep", message=3),
        *delimit(2, 4, action="end", description="none"),
    ]
    late = Item(Kind.RESULT, 9, "a", message=6)
    assert last("fold", items, StrategySettings()) == list(range(6))
    assert last("fold", [*items, late], StrategySettings()) == [0, 1, 2, 4, 5]


def test_folding_knows_inferred_episodes_by_their_last_text() -> None:
    def step(number: int, tool: str, path: str) -> list[Item]:
        arguments = json.dumps({"path": path, "pattern": "x"})
        return [
            Item(Kind.TEXT, 3, message=2 * number + 1),
            Item(Kind.CALL, 5, f"c{number}", tool, arguments, 2 * number + 1),
            Item(Kind.RESULT, 99, f"c{number}", message=2 * number + 2),
        ]

    items = [
        Item(Kind.USER, 5, message=0),
        *step(0, "grep", "a.py"),
        *step(1, "read", "a.py"),
        *step(2, "edit", "a.py"),
        *step(3, "edit", "a.py"),
    ]
    life = live("fold", items, StrategySettings(annotate="infer"))
    # The first text stands ahead of the first call and so of the episode; the last one ahead of the edit is in it.
    assert life.sights[-1].view == [0, 1, *range(7, 13)]
    assert last("fold", items, StrategySettings()) == list(range(13))


def test_clearing_spares_what_a_providers_own_tool_returned() -> None:
    items = [Item(Kind.USER, 1, message=0)]
    for number in range(1, 7):
        items += [Item(Kind.CALL, 5, f"c{number}", "web_search", None, number)]
        items += [Item(Kind.RESULT, 100, f"c{number}", message=number), Item(Kind.TEXT, 5, message=number)]
    assert last("clear-tools", items, StrategySettings(budget=100)) == list(range(len(items)))


@pytest.mark.parametrize("done", [{}, {"from": 1}, {"from": 99}, {"from": "0"}, {"cleared": [0]}, {"cleared": ["x"]}])
@pytest.mark.parametrize("name", ["truncate", "compact", "clear-tools"])
def test_what_was_done_to_another_history_is_refused(name: str, done: dict[str, object]) -> None:
    strategy = get_strategy(name)
    assert isinstance(strategy, Resumable)
    for item in [Item(Kind.TEXT, 5, message=0), Item(Kind.CALL, 5, "c", "read", message=0)]:
        strategy.add(item, part_of(item))
    if name == "clear-tools" and "cleared" not in done:
        strategy.redo(done)
        return
    with pytest.raises(HistoryError, match="recorded"):
        strategy.redo(done)


@pytest.mark.parametrize("name", ["truncate", "compact", "clear-tools", "fold"])
def test_an_orphan_result_is_refused(name: str) -> None:
    with pytest.raises(HistoryError):
        live(name, [Item(Kind.USER, 1), Item(Kind.RESULT, 1, "nobody")], StrategySettings())


KEEPING = ("clear-tools", "mask", "fold", "paper", "cwl", "none")
"""Strategies that keep the user's turns."""


def long_work(start: int) -> list[Item]:
    """Forty episodes of a search each, from a message on."""
    items: list[Item] = []
    for number in range(40):
        items += delimit(start + 6 * number, start + 6 * number, action="start", name=f"w{number}", type="expl")
        call = f"w{start}.{number}"
        items.append(Item(Kind.CALL, 5, call, "grep", "{}", start + 6 * number + 2))
        items.append(Item(Kind.RESULT, 200, call, message=start + 6 * number + 3))
        items += delimit(start + 6 * number + 4, start + 6 * number + 4, action="end", description="seen")
    return items


def pair(message: int, **fields: Any) -> list[Item]:
    """A call with its thinking, and its result."""
    thought = Item(Kind.REASONING, 30, message=message, needs=(1,))
    call = Item(Kind.CALL, 5, f"p{message}", "search", "{}", message, (-1,))
    return [thought, call, Item(Kind.RESULT, 90, f"p{message}", message=message + 1, **fields)]


@pytest.mark.parametrize("name", KEEPING)
def test_a_persons_answer_stays_with_its_call_as_it_was(name: str) -> None:
    """R21: nothing takes it, and nothing stands in its place."""
    start = delimit(1, 1, action="start", name="asked", type="expl")
    end = delimit(5, 5, action="end", description="asked")
    items = [Item(Kind.USER, 10, message=0), *start, *pair(3, person=True), *end, *long_work(10)]
    assert {4, 5} <= set(last(name, items, StrategySettings(budget=2_000)))


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_what_loaded_a_tool_stays_until_the_tool_is_withdrawn(name: str) -> None:
    """R15: the call and its result, and the reasoning that the call needs (R12)."""
    work_ahead = [Item(Kind.USER, 10, message=0), *long_work(10)]
    at = len(work_ahead)
    items = [*work_ahead, *pair(1_000, loads=("a", "b")), Item(Kind.USER, 5, message=1_010, withdraws=("a",))]
    items += long_work(1_100)
    life = live(name, items, StrategySettings(budget=2_500))
    loading = {at, at + 1, at + 2}
    assert all(loading <= set(sight.view) for sight in life.sights if sight.known > at + 2)
    items += [Item(Kind.USER, 5, message=3_000, withdraws=("b",)), *long_work(3_100)]
    if name not in ("none", "fold", "clear-tools", "mask", "acon"):
        assert not loading & set(last(name, items, StrategySettings(budget=2_500)))


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_an_answer_that_begins_with_a_result_goes_on_with_the_one_of_its_call(name: str) -> None:
    """The provider ran the tool between both; the text cites the result (R12)."""
    items = [Item(Kind.USER, 10, message=0)]
    for number in range(0, 300, 3):
        items += [
            Item(Kind.TEXT, 10, message=number + 1),
            Item(Kind.CALL, 5, f"s{number}", "web_search", "{}", number + 1),
            Item(Kind.RESULT, 50, f"s{number}", message=number + 2),
            Item(Kind.TEXT, 10, message=number + 2, needs=(-1,)),
            Item(Kind.USER, 5, message=number + 3),
        ]
    life = live(name, items, StrategySettings(budget=500, annotate="infer"))
    for sight in life.sights:
        there = set(items_in_view(sight.view))
        for call in range(2, min(sight.known, len(items)) - 2, 5):
            # The text stays as long as the result that it cites, and that as long as its call.
            assert (call in there) == (call + 1 in there)
            assert call + 1 in there or call + 2 not in there


@pytest.mark.parametrize("name", [name for name in STRATEGY_NAMES if traits(name).summarises])
def test_a_summary_stands_ahead_of_what_loaded_a_tool(name: str) -> None:
    """Some providers demand that the user speaks first."""
    items = [Item(Kind.SYSTEM, 5, message=0), Item(Kind.USER, 10, message=1), *pair(2, loads=("a",)), *long_work(10)]
    view = last(name, items, StrategySettings(budget=2_000))
    first = next(slot for slot in view if slot != 0)
    assert isinstance(first, Substitute) or items[first].kind is Kind.USER
    assert {2, 3, 4} <= set(view)

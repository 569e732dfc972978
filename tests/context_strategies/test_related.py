"""What the strategies of the paper's related work do, by example: StreamingLLM, masking, MemGPT, ReSum, ACON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from tests.context_strategies import support as rules
from tests.context_strategies.support import broken, live, look, part_of, unchanged_items, untruthful
from tests.context_strategies.test_contract import answered_histories, cases
from tests.strategies import histories, times
from wane.conversation import Conversation
from wane.core import Item, Kind, chars
from wane.core.errors import ConfigError, HistoryError
from wane.core.items import ASSISTANT
from wane.formats.message_format import Part
from wane.strategies.acon import GUIDELINE, OBSERVATION, Acon
from wane.strategies.clear_tools import ClearTools, write_mask
from wane.strategies.memgpt import INSTRUCTIONS as FLUSH
from wane.strategies.memgpt import WARN_AT, WARNING, MemGPT
from wane.strategies.registry import get_strategy
from wane.strategies.resum import INSTRUCTIONS as RESTART
from wane.strategies.resum import ReSum
from wane.strategies.strategy import Fitted, Resumable, Strategy, StrategySettings, Substitute, SummaryNeeded
from wane.strategies.summarised import PREFIX, SUMMARY_TOKENS, Summarised
from wane.strategies.truncate import Truncate


def work(*sizes: int, user: int = 10) -> list[Item]:
    """A system item, a task, and messages each of a call with a result of so many tokens: 5 more each."""
    items = [Item(Kind.SYSTEM, 10, message=0), Item(Kind.USER, user, message=1)]
    for number, size in enumerate(sizes):
        items.append(Item(Kind.CALL, 5, f"c{number}", "read", "{}", 2 * number + 2))
        items.append(Item(Kind.RESULT, size, f"c{number}", message=2 * number + 3))
    return items


def feed_items(strategy: Strategy, items: list[Item]) -> Strategy:
    for item in items:
        strategy.add(item, part_of(item))
    return strategy


def summary(text: str, tokens: int) -> Substitute:
    return Substitute(PREFIX + text, tokens + chars(PREFIX))


# StreamingLLM


def test_streaming_keeps_the_head_and_a_window_that_moves_on_at_each_call() -> None:
    items = work(*[50] * 8)
    life = live("streaming", items, StrategySettings(budget=300))
    assert life.sights[-1].view == [0, 1, 2, 3, 4, 5, *range(12, 18)]  # four messages, with their results
    assert [sight.ran for sight in life.sights] == [*[False] * 7, True, True, True]


def test_the_head_is_an_option_of_truncation() -> None:
    items = work(*[50] * 4)
    view = (
        live("truncate", items, StrategySettings(budget=200), Truncate(StrategySettings(budget=200), head=3))
        .sights[-1]
        .view
    )
    assert view == [0, 1, 2, 3, 6, 7, 8, 9]
    with pytest.raises(ConfigError, match="the head is -1 messages"):
        Truncate(StrategySettings(), head=-1)


def test_a_late_result_of_the_head_stays_with_its_call() -> None:
    items = work(*[50] * 4)
    late = items.pop(3)
    strategy = feed_items(Truncate(StrategySettings(budget=150), head=3), items)
    assert 4 not in unchanged_items(strategy.fit(cold=False).view)  # type: ignore[union-attr]
    strategy.add(late, part_of(late))
    assert {2, len(items)} <= unchanged_items(strategy.fit(cold=False).view)  # type: ignore[union-attr]


# Observation masking


def test_masking_leaves_the_latest_ten_observations_whatever_the_budget() -> None:
    life = live("mask", work(*[50] * 13), StrategySettings())
    placed = [[slot.index for slot in sight.view if isinstance(slot, Substitute)] for sight in life.sights]
    assert placed[:12] == [[]] * 12
    assert placed[12:] == [[3], [3, 5], [3, 5, 7]]
    assert [sight.ran for sight in life.sights] == [*[False] * 12, True, True, True]


def test_a_masked_observation_says_how_many_lines_it_had() -> None:
    strategy = ClearTools(StrategySettings(), keep=0, always=True)
    call = Item(Kind.CALL, 5, "c", "read", "{}", 1)
    strategy.add(call, part_of(call))
    strategy.add(Item(Kind.RESULT, 50, "c", message=2), Part(Kind.RESULT, "one\ntwo\nthree" * 20, "c"))
    said = Item(Kind.TEXT, 5, message=3)
    strategy.add(said, part_of(said))
    assert strategy.fit().view[1] == Substitute(write_mask(41), chars(write_mask(41)), 1)
    assert write_mask(41) == "[Old tool result: 41 lines omitted]"
    assert write_mask(1) == "[Old tool result: 1 line omitted]"


# MemGPT


def test_a_flush_leaves_half_of_the_window() -> None:
    budget = 10_000
    items = work(*[500] * 22)
    life = live("memgpt", items, StrategySettings(budget=budget))
    (flushed,) = [sight for sight in life.sights if sight.asked is not None]
    # Half of the budget is left, of which the summary may take SUMMARY_TOKENS; a message has 505 tokens.
    tokens = life.tokens(flushed.view) - summary(rules.SUMMARY, rules.SUMMARY_TOKENS).tokens
    assert budget / 2 - SUMMARY_TOKENS - 505 < tokens <= budget / 2 - SUMMARY_TOKENS
    assert life.tokens(flushed.asked or []) < budget


def test_a_flush_is_summarised_with_the_summary_before_it_and_without_what_stays() -> None:
    strategy = feed_items(MemGPT(StrategySettings(budget=100)), work(50, 50))
    asked = strategy.fit(cold=False)
    assert asked == SummaryNeeded([0, 1, 2, 3], FLUSH)
    first = summary("all is well", 3)
    assert strategy.take_summary("all is well", 3) == Fitted(
        [0, first, 4, 5], ran=True, done={"from": 4, "summary": "all is well", "tokens": 3}
    )
    for item in work(50)[2:]:
        later = replace(item, call_id="later", message=9)
        strategy.add(later, part_of(later))
    assert strategy.fit() == SummaryNeeded([0, first, 4, 5], FLUSH)


# ReSum


def test_everything_becomes_the_question_and_a_summary() -> None:
    items = work(50, 50)
    strategy = feed_items(ReSum(StrategySettings(budget=100)), items)
    assert strategy.fit(cold=False) == SummaryNeeded(list(range(6)), RESTART)
    fitted = strategy.take_summary("all is well", 3)
    assert isinstance(fitted, Fitted)
    assert (fitted.view, fitted.ran) == ([0, 1, summary("all is well", 3)], True)
    assert fitted.done == {"from": 6, "summary": "all is well", "tokens": 3, "question": [1]}
    # Work goes on from there.
    said = Item(Kind.TEXT, 5, message=9)
    strategy.add(said, part_of(said))
    assert look(strategy, 7).view == [0, 1, summary("all is well", 3), 6]


def test_the_question_is_all_of_the_latest_turn_of_the_user() -> None:
    items = [*work(50), Item(Kind.USER, 5, message=9), Item(Kind.USER, 5, message=10), Item(Kind.TEXT, 50, message=11)]
    view = live("resum", items, StrategySettings(budget=100)).sights[-1].view
    # Calls of the same turn may need the answer that nothing has followed yet (R12b).
    assert view == [0, 4, 5, summary(rules.SUMMARY, rules.SUMMARY_TOKENS), 6]


def test_a_late_result_does_not_come_back_after_a_restart() -> None:
    items = work(50, 50)
    late = items.pop(3)  # of the first answer: while a call of the latest waits, no summary is asked for
    strategy = feed_items(ReSum(StrategySettings(budget=60)), items)
    assert isinstance(strategy.fit(cold=False), SummaryNeeded)
    done = strategy.take_summary("all is well", 3)
    assert isinstance(done, Fitted)
    strategy.add(late, part_of(late))
    assert look(strategy, 6).view == done.view
    # The cut stands where that result came later.
    again = feed_items(ReSum(StrategySettings()), [*items, late])
    assert isinstance(again, Resumable)
    again.redo(json.loads(json.dumps(done.done)))
    assert again.current() == done.view


def test_a_question_that_is_not_the_users_is_refused() -> None:
    strategy = feed_items(ReSum(StrategySettings()), work(50))
    assert isinstance(strategy, Resumable)
    with pytest.raises(HistoryError, match=r"items \[2\] were recorded as the user's"):
        strategy.redo({"from": 4, "summary": "", "tokens": 0, "question": [2]})


# ACON


def test_a_long_observation_is_compressed_before_the_model_sees_it() -> None:
    items = work(20, 200, 20)
    strategy = Acon(StrategySettings(), long=100)
    for item in items[:6]:
        strategy.add(item, part_of(item))
    # What it reads is the task and the observation itself; half of it is assumed where nobody writes.
    assert strategy.fit() == SummaryNeeded([0, 1], OBSERVATION.replace("{output}", "x" * 800), expected=100)
    short = Substitute("it is short", 3, 5)
    assert strategy.take_summary("it is short", 3) == Fitted(
        [0, 1, 2, 3, 4, short], ran=True, done={"compressed": [[5, "it is short", 3]]}
    )
    for item in items[6:]:
        strategy.add(item, part_of(item))
    assert strategy.fit() == Fitted([0, 1, 2, 3, 4, short, 6, 7])


def test_what_the_model_has_seen_whole_is_not_compressed_later() -> None:
    strategy = feed_items(Acon(StrategySettings(), long=100), work(200, 20))
    assert strategy.fit(cold=False) == Fitted(list(range(6)))


def test_an_observation_that_would_become_no_shorter_stays() -> None:
    strategy = feed_items(Acon(StrategySettings(), long=100), work(200))
    assert isinstance(strategy.fit(cold=False), SummaryNeeded)
    assert strategy.take_summary("x" * 800, 200) == Fitted([0, 1, 2, 3])
    assert strategy.fit() == Fitted([0, 1, 2, 3])


def test_the_history_is_compressed_at_the_budget_with_the_latest_turn_left() -> None:
    strategy = feed_items(Acon(StrategySettings(budget=300), long=100), work(90, 90, 90, 200))
    outcome = strategy.fit(cold=False)
    assert isinstance(outcome, SummaryNeeded)
    assert outcome.instructions.startswith(OBSERVATION[:80])
    outcome = strategy.take_summary("y" * 100, 25)
    assert outcome == SummaryNeeded(list(range(8)), GUIDELINE)
    outcome = strategy.take_summary("so far so good", 4)
    assert isinstance(outcome, Fitted)
    short = Substitute("y" * 100, 25, 9)
    assert outcome.view == [0, 1, summary("so far so good", 4), 8, short]
    assert outcome.done == {
        "from": 8,
        "summary": "so far so good",
        "tokens": 4,
        "question": [1],
        "compressed": [[9, "y" * 100, 25]],
    }


@pytest.mark.parametrize("at", [0, 2, 99, "x", None])
def test_what_is_no_observation_is_refused_as_compressed(at: object) -> None:
    strategy = feed_items(Acon(StrategySettings()), work(20))
    assert isinstance(strategy, Resumable)
    with pytest.raises(HistoryError, match="recorded as compressed, but it is no tool result"):
        strategy.redo({"compressed": [[at, "", 0]]})


def test_a_threshold_below_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than -1 tokens"):
        Acon(StrategySettings(), long=-1)


@times(0.7)
@given(case=cases(histories()))
def test_compressed_observations_break_no_rule(case: tuple[list[Item], StrategySettings]) -> None:
    items, settings = case
    strategy = Acon(settings, long=10)
    life = live("acon", items, settings, strategy)
    for rule in (
        rules.in_order,
        rules.calls_paired,
        rules.system_stays,
        rules.question_stays,
        rules.one_summary_and_results,
    ):
        assert not broken(life, rule), rule.__name__
    assert not untruthful(life)
    for sight in life.sights:
        # Whatever the model sees first is short, unless a provider's own tool returned it, or it stays as it is: what a
        # person said, and what loaded tools.
        tail = rules.tail_of(items[: sight.known])
        own = {at for at in tail if items[at].kind is Kind.RESULT and items[at].message in answer_numbers(items, tail)}
        assert all(
            items[at].tokens <= 10 or items[at].arguments == "" or not part_of(items[at]).text
            for at in unchanged_items(sight.view) & tail - own
            if items[at].kind is Kind.RESULT and not (items[at].person or items[at].loads)
        )


def answer_numbers(items: list[Item], tail: set[int]) -> set[int | None]:
    return {items[at].message for at in tail if items[at].kind in ASSISTANT} - {None}


@times(0.7)
@given(case=cases(answered_histories()))
def test_compressed_observations_can_be_put_back(case: tuple[list[Item], StrategySettings]) -> None:
    items, settings = case
    life = live("acon", items, settings, Acon(settings, long=10))
    assert isinstance(life.strategy, Acon)
    revived = feed_items(Acon(replace(settings, budget=10**9), long=10), items)
    assert isinstance(revived, Resumable)
    for sight in life.sights:
        assert (sight.done is not None) == sight.ran
        if sight.done is not None:
            revived.redo(json.loads(json.dumps(sight.done)))
    assert list(revived.current()) == life.sights[-1].view
    standing = feed_items(Acon(settings, long=10), items)
    assert isinstance(standing, Resumable)
    if life.strategy.standing is not None:
        standing.redo(json.loads(json.dumps(life.strategy.standing)))
    assert list(standing.current()) == life.sights[-1].view
    assert standing.standing == life.strategy.standing


@pytest.mark.parametrize("name", ["memgpt", "resum", "acon"])
def test_they_ask_for_summaries(name: str) -> None:
    assert isinstance(get_strategy(name), Summarised)


def test_a_queue_warns_once_before_each_flush_and_offers_a_search() -> None:
    conversation = Conversation(budget=2_000, strategy="memgpt")
    assert [tool.name for tool in conversation.own_tools] == ["recall"]
    conversation.append({"role": "user", "content": "Go."})
    warned, flushed = [], []
    for number in range(24):
        request = conversation.request()
        if request.for_summary:
            flushed.append(number)
            request = conversation.summarised("What was done.")
        if request.reminder is not None:
            assert WARNING in request.reminder
            assert request.tokens > WARN_AT * 2_000
            warned.append(number)
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        text = f"note {number} " + "x" * 1_200
        (read,) = conversation.append({"role": "assistant", "content": text, "tool_calls": [call]})
        conversation.append(read.result("On."))
    # After a flush the window is not full, so the model is warned again ahead of the next one.
    assert len(flushed) >= 2
    assert len(warned) in (len(flushed), len(flushed) + 1)
    assert all(warned[place] < flushed[place] for place in range(len(flushed)))
    assert "note 0" not in str(conversation.request().messages)
    assert "note 0" in conversation.search("note 0 ")
    conversation.change(manage=False)
    assert conversation.own_tools == ()

"""The replay, reckoned by hand on tiny sessions, by properties, and on a real session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.tales import AUTOMATIC, WRITTEN, Scripted, Tale, tales, working
from wane.core import Item, Policy, chars
from wane.formats.message_format import Part
from wane.lab.counting import count
from wane.lab.readers import read_session
from wane.lab.recorded_session import CallUsage, Compaction
from wane.lab.replaying.over import DESCRIPTIONS, FIXED, KEPT, LATEST, NEEDED, NOTICES, PROLOGUE, UNFINISHED, USER
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import REREAD_OUTPUT, SUMMARY_TOKENS, Pricing, Replay, Subject, floor, replay
from wane.strategies.registry import STRATEGY_NAMES, get_strategy
from wane.strategies.strategy import Fitted, Strategy, StrategySettings, Substitute, SummaryNeeded

SESSION = Path(__file__).resolve().parents[3] / "shared" / "sessions" / "pi" / "before-compaction.jsonl"


def three_calls() -> Tale:
    """Requests of 140, 350 and 420 tokens with an overhead of 40."""
    return Tale().user(100).calls("c1", 10).result("c1", 200).says(20).user(50).says(30)


def run(tale: Tale, strategy: Strategy, pricing: Pricing = AUTOMATIC, budget: int = 10_000) -> Replay:
    return replay(tale.subject(overhead=40, summary_tokens=25), strategy, budget, pricing)


def make_strategy(name: str, budget: int, overhead: int = 40) -> Strategy:
    return get_strategy(name, StrategySettings(budget=budget, overhead=overhead, annotate="infer"))


# By hand


def test_with_an_automatic_cache_what_was_sent_is_read_and_the_rest_is_paid_in_full() -> None:
    done = run(three_calls(), Scripted())
    assert [(call.tokens, call.read, call.written) for call in done.calls] == [
        (140, 0, 0),
        (350, 140, 0),
        (420, 350, 0),
    ]
    assert [call.cost for call in done.calls] == pytest.approx([140 + 50, 14 + 210 + 100, 35 + 70 + 150])
    totals = done.totals
    assert (totals.read, totals.fresh, totals.written, totals.output) == (490, 420, 0, 60)
    assert totals.dollars == pytest.approx(49 + 420 + 300)
    assert (totals.viewed, totals.peak, totals.mean_view) == (910, 420, 910 / 3)
    assert totals.hit_rate == pytest.approx(490 / 910)


def test_with_breakpoints_what_is_new_is_written_at_the_price_of_writing() -> None:
    totals = run(three_calls(), Scripted(), WRITTEN).totals
    assert (totals.read, totals.fresh, totals.written) == (490, 0, 420)
    assert totals.dollars == pytest.approx(49 + 420 * 1.25 + 300)
    hour = run(three_calls(), Scripted(), replace(WRITTEN, hour=True)).totals
    assert hour.dollars == pytest.approx(49 + 420 * 2 + 300)


def test_the_cache_of_a_call_lives_as_long_as_the_recorded_call_asked_for() -> None:
    """Four calls, each half an hour after the one before; the last two write for an hour."""
    tale = Tale().user(9_000).says(20).user(9_000).says(20).user(9_000).says(20).user(9_000).says(20)
    subject = tale.subject()
    session = subject.material.session
    for number, call in enumerate(session.calls):
        usage = CallUsage(0, 0, 9_000, 20, 9_000 * (number > 1))
        session.calls[number] = replace(call, usage=usage, at=1_800.0 * number)
    pricing = Pricing.of("anthropic:claude-opus-4-6")
    done = replay(subject, Scripted(), 100_000, pricing)
    assert [bool(call.read) for call in done.calls] == [False, False, False, True]
    write, write_hour, read = 6.25e-6, 10e-6, 0.5e-6
    sizes = [(call.written, call.read) for call in done.calls]
    costs = [written * (write_hour if number > 1 else write) for number, (written, _) in enumerate(sizes)]
    expected = [cost + got * read + 20 * 25e-6 for cost, (_, got) in zip(costs, sizes, strict=True)]
    assert [call.cost for call in done.calls] == pytest.approx(expected)
    forced = replay(subject, Scripted(), 100_000, replace(pricing.cached_for(hour=True), forced=True))
    assert [bool(call.read) for call in forced.calls] == [False, True, True, True]


def test_the_floor_is_what_is_new_once_output_and_what_can_never_go() -> None:
    material = three_calls().material(overhead=40)
    assert floor(material, AUTOMATIC) == pytest.approx(420 + 0.1 * (140 + 140) + 300)
    assert floor(material, WRITTEN) == pytest.approx(420 * 1.25 + 0.1 * (140 + 140) + 300)
    assert run(three_calls(), Scripted()).totals.floor == floor(material, AUTOMATIC)


def test_the_floor_does_not_charge_for_writing_what_is_too_short_for_the_cache() -> None:
    tale = Tale().user(100).says(10)
    pricing = replace(WRITTEN, rules=replace(WRITTEN.rules, minimum=1024))
    spent = replay(tale.subject(), Scripted(), 10_000, pricing).totals.dollars
    assert floor(tale.material(), pricing) == spent == pytest.approx(100 + 50)


def test_time_lets_the_cache_expire_and_the_strategy_is_told() -> None:
    tale = Tale().user(100).says(10, at=0).user(50).says(10, at=200).user(20).says(10, at=501).user(5).says(10)
    told: list[bool] = []

    class Listening(Scripted):
        def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
            told.append(cold)
            return super().fit(cold=cold)

    done = run(tale, Listening())
    assert told == [False, False, True, False]
    assert [call.read for call in done.calls] == [0, 140, 0, 230]


def test_a_call_over_the_budget_says_what_fills_it() -> None:
    def why(budget: int) -> dict[str, int]:
        return dict(run(three_calls(), Scripted(), budget=budget).totals.over)

    # The requests hold an overhead of 40 and 100 of the user, then a call of 10 with its result of 200, then an answer
    # of 20 and 50 of the user.
    assert why(39) == {FIXED: 3}
    assert why(139) == {USER: 3}
    assert why(189) == {LATEST: 1, USER: 1}
    assert why(210) == {LATEST: 1, KEPT: 1}
    assert why(420) == {}


def test_opening_notices_are_told_from_what_the_agent_always_sends() -> None:
    opened = Tale().notice(30).user(100).says(20)
    assert run(opened, Scripted(), budget=39).totals.over == {FIXED: 1}
    assert run(opened, Scripted(), budget=69).totals.over == {NOTICES: 1}
    assert run(opened, Scripted(), budget=169).totals.over == {USER: 1}


def test_a_text_in_the_place_of_items_is_what_the_strategy_keeps() -> None:
    summary = Substitute("", 500)
    done = run(three_calls(), Scripted({2: [summary, 3, 4]}), budget=400)
    assert done.totals.over == {KEPT: 1}
    assert done.totals.to_dict()["over_reasons"] == {KEPT: 1}


def mark_tale(tale: Tale, call_id: str, **arguments: object) -> Tale:
    return tale.calls(call_id, 1, tool="delimiter", **arguments).result(call_id, 1)


def test_a_pass_says_what_else_fills_a_call_over_the_budget() -> None:
    def why(tale: Tale, policy: Policy, budget: int = 300) -> dict[str, int]:
        settings = StrategySettings(budget, 40, policy=policy)
        done = replay(tale.subject(overhead=40), get_strategy("cwl", settings), budget, AUTOMATIC)
        return dict(done.totals.over)

    # Texts of an episode that is not ended, and of an exploration that such an act builds on, stay only if the policy
    # says so (R16 d).
    surface = Policy(overflow="surface")
    looking = mark_tale(Tale().user(10), "s", action="start", name="look", type="expl").says(300)
    assert why(looking.says(20).says(20), surface) == {UNFINISHED: 1, LATEST: 1}
    assert why(looking.says(20).says(20), Policy()) == {LATEST: 1}
    looked = mark_tale(
        mark_tale(Tale().user(10), "s", action="start", name="look", type="expl").says(300),
        "e",
        action="end",
        description="It is there.",
    )
    building = mark_tale(looked, "a", action="start", name="build", type="act", dependencies=["look"])
    assert why(building.says(20).says(20), surface)[NEEDED] == 2
    assert NEEDED not in why(building.says(20).says(20), Policy())
    # So does what a policy protects.
    early = Tale().user(10).says(300)
    begun = mark_tale(early.says(20), "s", action="start", name="look", type="expl").says(20)
    assert why(begun, Policy.paper())[PROLOGUE] == 2
    ended = mark_tale(
        mark_tale(Tale().user(10), "s", action="start", name="look", type="expl"),
        "e",
        action="end",
        description="It is there.",
    )
    ended.tokens[3] = 300
    assert why(ended.says(20).user(10).says(20).says(20), Policy.paper())[DESCRIPTIONS] == 2


def test_a_changed_view_breaks_the_prefix_and_counts_as_a_pass() -> None:
    done = run(three_calls(), Scripted({2: [0, 3, 4]}))
    # What stands before the change is still read: the overhead, and the user's first turn.
    assert (done.calls[2].tokens, done.calls[2].read) == (210, 140)
    assert (done.totals.prefix_breaks, done.totals.passes) == (1, 1)
    assert [call.ran for call in done.calls] == [False, False, True]


class Asks(Scripted):
    """Asks for a summary before its third call."""

    name = "asks"

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        fitted = super().fit(cold=cold)
        assert isinstance(fitted, Fitted)
        return SummaryNeeded(fitted.view, "i" * 40) if self._calls == 3 else fitted

    def take_summary(self, text: str, tokens: int) -> Fitted:
        return Fitted([Substitute(text, tokens), 4], ran=True)


def test_a_summary_costs_a_model_call_that_reads_the_view() -> None:
    done = run(three_calls(), Asks())
    totals = done.totals
    # The view of 420 tokens and 10 of instructions, of which the last request's 350 are cached; 25 are written.
    own = 0.1 * 350 + 80 + 25 * 5
    assert (totals.own_calls, totals.own_cost.total) == (1, pytest.approx(own))
    # Then the overhead from the cache, the summary and the last turn.
    third = 0.1 * 40 + 75 + 30 * 5
    assert (done.calls[2].tokens, done.calls[2].summaries) == (115, 1)
    assert done.calls[2].cost == pytest.approx(own + third)
    assert totals.dollars == pytest.approx(190 + 324 + own + third)
    assert totals.output == 60 + 25
    assert (totals.calls, totals.viewed, totals.peak) == (3, 140 + 350 + 115, 350)


def test_a_summary_is_as_long_as_those_that_were_recorded() -> None:
    tale = three_calls()
    assert tale.subject().summary_tokens == SUMMARY_TOKENS
    tale.session.compactions += [Compaction(3, "x" * size, 3) for size in (40, 80, 4000)]
    assert tale.subject().summary_tokens == 20
    assert tale.subject(summary_tokens=7).summary_tokens == 7


def test_what_is_fetched_again_costs_a_call_and_what_it_brings() -> None:
    tale = Tale().user(100).calls("c1", 10).result("c1", 200, "holds find_me_again").says(20).user(50)
    tale.says(30, "use find_me_again")
    done = run(tale, Scripted({2: [0, 3, 4]}))
    assert done.calls[2].loss.reread.tokens == 200
    # A call over the view of 210 tokens, cached by then; its output; and the result, which is new.
    assert done.totals.reread_cost == pytest.approx(0.1 * 210 + 5 * REREAD_OUTPUT + 200)
    assert done.totals.loss.reference_recall == 0.0
    assert run(tale, Scripted()).totals.reread_cost == 0.0


def test_summaries_of_unknown_text_give_a_range() -> None:
    tale = Tale().user(10).calls("c1", 10).result("c1", 200, "holds find_me_again").says(10).user(10)
    tale.says(30, "use find_me_again")
    totals = replay(tale.subject(summary_tokens=50), make_strategy("compact", 100, 0), 100, AUTOMATIC).totals
    assert totals.own_calls > 0
    assert (totals.loss.reference_recall, totals.loss.reference_recall_at_best) == (0.0, 1.0)


def test_what_came_after_the_last_call_is_not_fed() -> None:
    fed: list[int] = []

    class Counting(Scripted):
        def add(self, item: Item, part: Part) -> None:
            fed.append(item.tokens)
            super().add(item, part)

    run(three_calls().user(999), Counting())
    assert fed == [100, 10, 200, 20, 50]


def test_the_trace_says_what_left_and_came_back() -> None:
    summary = Substitute("short", 5)
    tale = three_calls().user(10).says(10)
    done = replay(tale.subject(), Scripted({2: [0, summary, 4], 3: [0, 3, 4, 5, 6]}), 1000, AUTOMATIC, trace=True)
    assert done.trace is not None
    first, second = done.trace.changes
    assert (first.call, first.removed, first.back, first.placed) == (2, (1, 2, 3), (), (summary,))
    assert (second.call, second.removed, second.back, second.placed) == (3, (), (3,), ())
    assert run(tale, Scripted()).trace is None


def test_the_trace_of_a_strategy_with_episodes_has_their_bars_and_steps() -> None:
    tale = working()
    done = replay(tale.subject(), make_strategy("cwl", 1000, 0), 1000, AUTOMATIC, trace=True)
    assert done.trace is not None
    assert done.trace.stripped
    assert {step.episode for step in done.trace.stripped} <= set(done.trace.episodes)
    for bar in done.trace.episodes.values():
        assert bar.first <= bar.last
        assert bar.closed is None or bar.opened <= bar.closed
    left = {index for change in done.trace.changes for index in change.removed}
    assert left == {index for step in done.trace.stripped for index in step.removed}


# Figures


def test_the_figures_as_data_have_the_ratio_to_the_baseline() -> None:
    totals = run(three_calls(), Scripted()).totals
    data = totals.to_dict(totals + totals)
    assert (data["cost_usd"], data["ratio"]) == (pytest.approx(769), pytest.approx(0.5))
    assert sum(data["cost_parts_usd"].values()) == pytest.approx(769)
    assert totals.to_dict()["ratio"] is None
    assert Totals().to_dict(Totals())["ratio"] is None


# Properties


@given(tales(), st.sampled_from(STRATEGY_NAMES), st.integers(60, 900), st.sampled_from([AUTOMATIC, WRITTEN]))
def test_totals_are_the_sums_over_calls_and_the_same_each_time(
    tale: Tale, name: str, budget: int, pricing: Pricing
) -> None:
    done = replay(tale.subject(40), make_strategy(name, budget), budget, pricing)
    totals, calls = done.totals, done.calls
    assert totals.calls == len(calls) == len(tale.session.calls)
    assert totals.dollars == pytest.approx(sum(call.cost for call in calls))
    assert totals.viewed == sum(call.tokens for call in calls)
    assert totals.peak == max(call.tokens for call in calls)
    assert totals.over_budget == sum(call.tokens > budget for call in calls)
    assert totals.own_calls == sum(call.summaries for call in calls)
    assert totals.loss.uses == sum(call.loss.uses for call in calls)
    again = replay(tale.subject(40), make_strategy(name, budget), budget, pricing)
    assert replace(again.totals, seconds=0) == replace(totals, seconds=0)
    assert again.calls == calls


@given(tales(), st.integers(60, 900), st.sampled_from([AUTOMATIC, WRITTEN]), st.sampled_from([1, 200, 1024]))
def test_nothing_is_lost_without_eviction_and_nobody_is_below_the_floor(
    tale: Tale, budget: int, pricing: Pricing, minimum: int
) -> None:
    pricing = replace(pricing, rules=replace(pricing.rules, minimum=minimum))
    none = replay(tale.subject(40), make_strategy("none", budget), budget, pricing).totals
    assert (none.prefix_breaks, none.passes, none.own_calls, none.reread_cost) == (0, 0, 0, 0.0)
    loss = none.loss
    assert loss.reference_recall == loss.edit_grounding == loss.user_turns_intact == 1.0
    assert loss.invalid_pairs == 0
    for name in ("none", "paper", "cwl"):
        totals = replay(tale.subject(40), make_strategy(name, budget), budget, pricing).totals
        assert totals.floor == none.floor
        assert totals.dollars >= totals.floor - 1e-9
        assert totals.loss.user_turns_intact == 1.0


@pytest.mark.full
@pytest.mark.skipif(not SESSION.exists(), reason="../shared/sessions (relative to the repository) is not there")
def test_on_a_real_session() -> None:
    pytest.importorskip("genai_prices", reason="needs the lab extra")
    [session] = read_session(SESSION)
    subject = Subject.of(count(session, chars))
    pricing = Pricing.of("anthropic:claude-sonnet-4-5")
    found = {}
    for name in ("none", "truncate", "paper", "cwl"):
        strategy = make_strategy(name, 80_000, subject.material.overhead)
        found[name] = replay(subject, strategy, 80_000, pricing).totals
    none = found["none"]
    assert none.calls == len(session.calls)
    assert none.prefix_breaks == 0
    assert none.input == none.viewed
    assert none.loss.reference_recall == 1.0
    for name in ("paper", "cwl"):
        assert found[name].loss.user_turns_intact == 1.0
        assert found[name].floor < found[name].dollars < none.dollars
    assert found["cwl"].prefix_breaks < found["paper"].prefix_breaks
    assert found["cwl"].dollars < found["paper"].dollars
    assert found["truncate"].over_budget == found["cwl"].over_budget == 0
    assert found["truncate"].loss.user_turns_intact < 1.0
